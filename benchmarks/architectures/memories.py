"""Layers that keep something from step to step, or choose what to read, as their papers write them: one layer each, small."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.plain import module, nn_row
from benchmarks.architectures.table import Built


def _chunked_states(torch: Any, nn: Any) -> Built:
    """Mamba-2: within a chunk products that decay with distance, from chunk to chunk a state; decays are exponentials of sums."""
    chunk, heads, width, n = 4, 2, 4, 3

    def segments(x: Any) -> Any:
        size = x.shape[-1]
        below = torch.ones(size, size, dtype=torch.bool).tril(-1)
        sums = x[..., None].expand(*x.shape, size).masked_fill(~below, 0).cumsum(-2)
        return sums.masked_fill(~below & ~torch.eye(size, dtype=torch.bool), float("-inf")).exp()

    def forward(net: Any, u: Any) -> Any:
        length = u.shape[1]
        x, read, write, step = net.into(u).split([heads * width, n, n, heads], -1)
        step = nn.functional.softplus(step)
        x = x.unflatten(-1, (heads, width)) * step[..., None]
        x, read, write, decay = (v.unflatten(1, (length // chunk, chunk)) for v in (x, read, write, -net.rates.exp() * step))
        decay = decay.permute(0, 3, 1, 2)
        total = decay.cumsum(-1)
        near = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", read, write, segments(decay), x)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", write, (total[..., -1:] - total).exp(), x)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        states = torch.einsum("bhzc,bchpn->bzhpn", segments(nn.functional.pad(total[..., -1], (1, 0))), states)
        far = torch.einsum("bcln,bchpn,bhcl->bclhp", read, states[:, :-1], total.exp())
        return net.out((near + far).flatten(3).flatten(1, 2)), states[:, -1]

    net = module(forward, into=nn.Linear(6, heads * width + 2 * n + heads), out=nn.Linear(heads * width, 6))
    net.rates = nn.Parameter(torch.rand(heads))
    return Built(net, (torch.randn(2, 8, 6),))


def _removed_from_states(torch: Any, nn: Any) -> Built:
    """RWKV-7: each step decays the state, takes out what it holds along a key, and adds an outer product."""

    def forward(net: Any, x: Any, state: Any) -> Any:
        r, w, k, v, a = net.into(x + nn.functional.pad(x, (0, 0, 1, -1)) * net.mix).unflatten(-1, (5, 2, 4)).unbind(2)
        key, w, a = nn.functional.normalize(k, dim=-1), torch.exp(-0.6 * w.sigmoid()), a.sigmoid()
        out = []
        for t in range(x.shape[1]):
            held = state @ key[:, t, ..., None]
            state = state * w[:, t, :, None] - held * (key * a)[:, t, :, None] + v[:, t, ..., None] * k[:, t, :, None]
            out.append((state @ r[:, t, ..., None]).squeeze(-1))
        return net.out(net.norm(torch.stack(out, 1).flatten(0, 1).flatten(1)).view_as(x)), state

    net = module(forward, into=nn.Linear(8, 40), out=nn.Linear(8, 8), norm=nn.GroupNorm(2, 8))
    net.mix = nn.Parameter(torch.rand(8))
    return Built(net, (torch.randn(2, 5, 8), torch.randn(2, 2, 4, 4)))


def _learned_at_use(torch: Any, nn: Any) -> Built:
    """Titans: a net of two layers is the memory of each sample, and takes a step of descent on each chunk before it is asked."""
    from torch.func import grad, vmap

    ask = lambda held, x: nn.functional.silu(x @ held[0]) @ held[1]
    missed = lambda held, k, v: ((ask(held, k) - v) ** 2).mean()

    def forward(net: Any, x: Any) -> Any:
        q, k, v = net.into(x).chunk(3, -1)
        rate = net.rate(x).sigmoid()
        held, out = tuple(w.expand(len(x), -1, -1) for w in (net.first, net.second)), []
        for t in range(0, x.shape[1], 2):
            steps = vmap(grad(missed))(held, k[:, t : t + 2], v[:, t : t + 2])
            held = tuple(0.9 * w - rate[:, t, :, None] * s for w, s in zip(held, steps, strict=True))
            out.append(vmap(ask)(held, q[:, t : t + 2]))
        return torch.cat(out, 1)

    net = module(forward, into=nn.Linear(6, 18), rate=nn.Linear(6, 1))
    net.first, net.second = nn.Parameter(torch.randn(6, 8) * 0.3), nn.Parameter(torch.randn(8, 6) * 0.3)
    return Built(net, (torch.randn(2, 4, 6),))


def _chosen_blocks(torch: Any, nn: Any) -> Built:
    """Native sparse attention: queries read the mean of each block of keys, and in full the two blocks that these say matter most."""
    block = 4

    def forward(net: Any, x: Any) -> Any:
        b, n, width = x.shape
        q, k, v = net.qkv(x).chunk(3, -1)
        blocks = lambda y: y.unflatten(1, (n // block, block))
        place, first = torch.arange(n), torch.arange(n // block) * block
        scores = (q @ blocks(k).mean(2).mT / width**0.5).masked_fill(first + block - 1 > place[:, None], -1e9)
        coarse = scores.softmax(-1)
        at = coarse.masked_fill(first > place[:, None], -1).masked_fill(first // block == (place // block)[:, None], 2).topk(2, -1).indices
        chosen = lambda y: blocks(y)[torch.arange(b)[:, None, None], at].flatten(2, 3)
        seen = (at[..., None] * block + torch.arange(block)).flatten(-2) <= place[:, None]
        fine = (chosen(k) @ q[..., None]).squeeze(-1).masked_fill(~seen, float("-inf")).softmax(-1)
        gate = net.gate(x).sigmoid()
        return net.out(gate * (coarse @ blocks(v).mean(2)) + (1 - gate) * (fine[..., None, :] @ chosen(v)).squeeze(-2))

    return Built(module(forward, qkv=nn.Linear(8, 24), gate=nn.Linear(8, 1), out=nn.Linear(8, 8)), (torch.randn(2, 12, 8),))


nn_row("chunked_states", _chunked_states)
nn_row("removed_from_states", _removed_from_states)
nn_row("learned_at_use", _learned_at_use)
nn_row("chosen_blocks", _chosen_blocks)
