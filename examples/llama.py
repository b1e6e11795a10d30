"""A language model that generates: a Llama-3-shaped decoder with random weights, prefill and one step compiled, greedy decoding.

    python examples/llama.py                         # 100 M parameters in f32 on this machine's CPU, beside torch eager
    python examples/llama.py --size 8b --device cuda --dtype bfloat16 --batch 1 --context 512
    python examples/llama.py --size 8b --device cuda --weights 4     # two numbers a byte, a scale for each 128 of them

The caches of keys and values are inputs that the programs write in place (`donate`): a step needs no second cache. On a GPU a step is
captured once in a CUDA graph, ours and eager's alike: it reads its token and its place where the step before has left them.
Prints tokens a second of prefill and of decoding, and in f32 checks that all tokens are those of torch eager.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

import autocomp


@dataclass(frozen=True)
class Shape:
    """`heads` of queries read `groups` of keys and values; `hidden`: of the feed-forward layers."""

    layers: int
    width: int
    heads: int
    groups: int
    hidden: int
    words: int


SIZES = {
    "tiny": Shape(2, 64, 4, 2, 128, 256),
    "100m": Shape(12, 768, 12, 4, 2048, 32_000),
    "1b": Shape(16, 2048, 32, 8, 8192, 128_256),
    "8b": Shape(32, 4096, 32, 8, 14_336, 128_256),
}


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions: [batch, heads, length, size] turned by the angles of its places."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class FourBits(nn.Module):
    """A linear layer whose weights are two numbers of 4 bits a byte, [rows, columns / 2], with a scale for each `group` of a row's."""

    def __init__(self, of: nn.Linear, group: int = 128) -> None:
        super().__init__()
        rows, columns = of.weight.shape
        parts = of.weight.detach().reshape(rows, -1, min(group, columns))
        scales = parts.abs().amax(-1) / 7
        whole = (parts / scales[..., None]).round().clamp(-8, 7).to(torch.int8).reshape(rows, -1, 2) + 8
        self.pairs, self.scales = nn.Buffer((whole[..., 0] + whole[..., 1] * 16).to(torch.uint8)), nn.Buffer(scales)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.stack((self.pairs & 15, self.pairs >> 4), -1).to(x.dtype) - 8
        return x @ (both.reshape(*self.scales.shape, -1) * self.scales[..., None]).flatten(1).t()


def four_bits(module: nn.Module) -> None:
    """Every linear layer of a module in 4 bits, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, FourBits(child))
        else:
            four_bits(child)


class Layer(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.shape, size = s, s.width // s.heads
        self.before, self.behind = Norm(s.width), Norm(s.width)
        self.q = nn.Linear(s.width, s.heads * size, bias=False)
        self.k = nn.Linear(s.width, s.groups * size, bias=False)
        self.v = nn.Linear(s.width, s.groups * size, bias=False)
        self.o = nn.Linear(s.heads * size, s.width, bias=False)
        self.gate = nn.Linear(s.width, s.hidden, bias=False)
        self.up = nn.Linear(s.width, s.hidden, bias=False)
        self.down = nn.Linear(s.hidden, s.width, bias=False)

    def forward(self, x: torch.Tensor, at: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, keys: torch.Tensor, values: torch.Tensor,
                seen: torch.Tensor | None) -> torch.Tensor:  # fmt: skip
        """x: [batch, length, width] at places `at`; caches [batch, groups, context, size] are written there. `seen`: which places of the
        caches each of them attends to; None: they are the first ones, and attend to each other."""
        s, y = self.shape, self.before(x)
        heads = lambda t, n: t.unflatten(-1, (n, -1)).transpose(1, 2)
        q, k, v = turned(heads(self.q(y), s.heads), cos, sin), turned(heads(self.k(y), s.groups), cos, sin), heads(self.v(y), s.groups)
        if seen is None:
            keys[:, :, : k.shape[2]] = k
            values[:, :, : v.shape[2]] = v
            z = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            keys.index_copy_(2, at, k)
            values.index_copy_(2, at, v)
            z = scaled_dot_product_attention(q, keys, values, attn_mask=seen, enable_gqa=True)
        x = x + self.o(z.transpose(1, 2).flatten(2))
        y = self.behind(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """tokens [batch, length] at places `at` [length], and the caches: keys and values of each layer -> the next token [batch].
    `first`: the places are 0, 1, .., length - 1."""

    def __init__(self, s: Shape, context: int, first: bool = False) -> None:
        super().__init__()
        self.shape, self.context, self.first = s, context, first
        self.words = nn.Embedding(s.words, s.width)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.last = Norm(s.width)
        self.head = nn.Linear(s.width, s.words, bias=False)
        size = s.width // s.heads
        turns = torch.outer(torch.arange(context), 500_000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.cos, self.sin = nn.Buffer(turns.cos()), nn.Buffer(turns.sin())

    def forward(self, tokens: torch.Tensor, at: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        cos, sin = self.cos[at].to(x.dtype), self.sin[at].to(x.dtype)
        seen = None if self.first else torch.arange(self.context, device=at.device) <= at[:, None]
        for k, layer in enumerate(self.layers):
            x = layer(x, at, cos, sin, caches[2 * k], caches[2 * k + 1], seen)
        return self.head(self.last(x[:, -1])).argmax(-1)


def model(size: str, context: int, dtype: torch.dtype, device: str, seed: int = 0, bits: int = 0) -> tuple[Decoder, Decoder]:
    """(prefill, step) over the same random weights, in so many `bits` if they are 4."""
    torch.manual_seed(seed)
    with torch.device(device):
        step = Decoder(SIZES[size], context).to(dtype).eval()
        with torch.no_grad():
            for p in step.parameters():
                if p.dim() > 1:
                    p.normal_(0, p.shape[-1] ** -0.5)
        with torch.device("meta"):
            first = Decoder(SIZES[size], context, first=True).to(dtype).eval()
        if bits == 4:
            four_bits(step)
            four_bits(first)
        first.load_state_dict(step.state_dict(), assign=True)
    return first, step


def caches(s: Shape, batch: int, context: int, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    """Keys and values of each layer."""
    return [torch.zeros(batch, s.groups, context, s.width // s.heads, dtype=dtype, device=device) for _ in range(2 * s.layers)]


class Steps:
    """`step` for one token [batch, 1] after the other, each at the place [1] behind the last one's. On a GPU they are replays of a CUDA
    graph, whose inputs lie where the one before has written them."""

    def __init__(self, step, tokens: torch.Tensor, at: torch.Tensor, room: list[torch.Tensor]) -> None:  # type: ignore[no-untyped-def]
        self.step, self.room, self.tokens, self.at = step, room, tokens.clone(), at.clone()
        self.replay = self.run
        if tokens.is_cuda:
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # what is made once; its results are overwritten
                self.run()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run()
            self.replay = graph.replay

    def run(self) -> None:
        self.tokens.copy_(self.step(self.tokens, self.at, *self.room)[:, None])
        self.at.add_(1)

    def begin(self, tokens: torch.Tensor, at: torch.Tensor) -> None:
        """The next step reads these."""
        self.tokens.copy_(tokens)
        self.at.copy_(at)

    def next(self) -> torch.Tensor:
        """The next token [batch]."""
        self.replay()
        return self.tokens[:, 0].clone()


@torch.no_grad()
def generate(first, steps: Steps, tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, float, float]:  # type: ignore[no-untyped-def]
    """(`count` tokens behind the prompt [batch, length], seconds of prefill, seconds of the steps), greedily."""
    wait = torch.cuda.synchronize if tokens.is_cuda else lambda: None
    length = tokens.shape[1]
    places = torch.arange(length + count, device=tokens.device)
    begun = time.perf_counter()
    out = [first(tokens, places[:length], *steps.room)]
    steps.begin(out[0][:, None], places[length : length + 1])
    wait()
    filled = time.perf_counter()
    out += [steps.next() for _ in range(count - 1)]
    wait()
    return torch.stack(out, 1), filled - begun, time.perf_counter() - filled


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--size", choices=SIZES, default="")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="")
    p.add_argument("--weights", type=int, choices=(4, 16), default=16, help="bits of a weight; 16: those of --dtype")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--prompt", type=int, default=64)
    p.add_argument("--context", type=int, default=256, help="places of the caches")
    p.add_argument("--tokens", type=int, default=32, help="to generate")
    p.add_argument("--explain", action="store_true", help="print what the programs are made of")
    a = p.parse_args()
    size = a.size or ("8b" if a.device == "cuda" else "100m")
    dtype = getattr(torch, a.dtype or ("bfloat16" if a.device == "cuda" else "float32"))
    if a.prompt + a.tokens > a.context:
        p.error(f"{a.prompt} + {a.tokens} tokens do not fit into --context {a.context}")
    first, step = model(size, a.context, dtype, a.device, bits=a.weights)
    room = lambda: caches(SIZES[size], a.batch, a.context, dtype, a.device)
    tokens = torch.randint(SIZES[size].words, (a.batch, a.prompt), device=a.device)
    at = torch.arange(a.prompt, device=a.device)
    begun = time.perf_counter()
    fill = autocomp.optimize(first, target=a.device, example_inputs=(tokens, at, *room()), donate=["caches_*"])
    go = autocomp.optimize(step, target=a.device, example_inputs=(tokens[:, :1], at[:1], *room()), donate=["caches_*"])
    print(f"{size}, {dtype}, {a.device}: {sum(x.numel() for x in step.parameters()) / 1e6:,.0f} M parameters; prefill "
          f"{len(fill.calls.calls)} kernels, a step {len(go.calls.calls)}; compiled in {time.perf_counter() - begun:.1f} s")  # fmt: skip
    if a.explain:
        print(fill.explain(), go.explain(), sep="\n")
    found = {}
    for name, pair in {"autocomp": (fill, go), "torch eager": (first, step)}.items():
        with torch.no_grad():
            steps = Steps(pair[1], tokens[:, :1], at[:1], room())
        generate(pair[0], steps, tokens, 3)  # what is made once
        found[name], filled, went = generate(pair[0], steps, tokens, a.tokens)
        print(f"{name:12} prefill {tokens.numel() / filled:10,.1f} tokens/s   decode {a.batch * (a.tokens - 1) / went:8,.1f} tokens/s")
    same = torch.equal(*found.values())
    print("tokens are equal" if same else f"{int((found['autocomp'] != found['torch eager']).sum())} tokens differ")
    if dtype == torch.float32 and not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
