"""Whole models as torch modules, with random weights, and one step of a layer as a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bert(torch: Any, layers: int = 12, width: int = 768, heads: int = 12) -> Any:
    """BERT-base's encoder: embeddings, post-norm layers with fused attention, no pooler."""
    nn, nf = torch.nn, torch.nn.functional

    class Layer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            b, s, h = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, heads, h // heads).permute(2, 0, 3, 1, 4).unbind(0)
            a = nf.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h)
            x = self.n1(x + self.o(a))
            return self.n2(x + self.down(nf.gelu(self.up(x))))

    class Bert(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place, self.norm = nn.Embedding(30522, width), nn.Embedding(512, width), nn.LayerNorm(width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.token(ids) + self.place.weight[: ids.shape[1]])
            for layer in self.layers:
                x = layer(x)
            return x

    return Bert()


def resnet50(torch: Any, width: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000) -> Any:
    """ResNet-50 v1.5 as torchvision builds it (the stride of a stage is in its first 3 x 3 convolution), [N, C, H, W] in and out."""
    nn, nf = torch.nn, torch.nn.functional

    class Unit(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, i: int, o: int, k: int, stride: int = 1) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o)

        def forward(self, x: Any) -> Any:
            return self.norm(self.conv(x))

    class Bottleneck(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, i: int, w: int, stride: int) -> None:
            super().__init__()
            self.a, self.b, self.c = Unit(i, w, 1), Unit(w, w, 3, stride), Unit(w, 4 * w, 1)
            self.side = Unit(i, 4 * w, 1, stride) if stride > 1 or i != 4 * w else nn.Identity()

        def forward(self, x: Any) -> Any:
            return nf.relu(self.c(nf.relu(self.b(nf.relu(self.a(x))))) + self.side(x))

    class ResNet(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem, stages, i = Unit(3, width, 7, 2), [], width
            for s, n in enumerate(blocks):
                for b in range(n):
                    stages.append(Bottleneck(i, width << s, 2 if s and not b else 1))
                    i = 4 * (width << s)
            self.stages, self.head = nn.Sequential(*stages), nn.Linear(i, classes)

        def forward(self, x: Any) -> Any:
            x = nf.max_pool2d(nf.relu(self.stem(x)), 3, 2, 1)
            return self.head(self.stages(x).mean((2, 3)))

    return ResNet()


def llama_step(torch: Any, heads: int, four_bits: bool = False) -> Callable[..., Any]:
    """One token of each sequence through a Llama-style layer: (x [b, width], keys and values [b, own, s, d], cos, sin [1, 1, 1, d], two
    gains, weights of q, k, v, o, gate, up, down [depth, columns]) -> (x, the token's key, its value: what the caller puts into the cache).

    four_bits: each weight is two tensors, [columns, depth / 2] of two numbers a byte and [columns, depth / 128] of their scales.
    """
    nf = torch.nn.functional

    def rms(x: Any, g: Any) -> Any:
        v = x.float()
        return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).half() * g

    def unpacked(q: Any, scale: Any) -> Any:
        pairs = torch.stack(((q & 15).to(torch.float16) - 8, (q >> 4).to(torch.float16) - 8), -1)
        return (pairs.reshape(q.shape[0], -1) * scale.repeat_interleave(128, 1)).t()

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        a, c = x.chunk(2, -1)
        return x * cos + torch.cat((-c, a), -1) * sin

    def f(x: Any, keys: Any, values: Any, cos: Any, sin: Any, g1: Any, g2: Any, *ws: Any) -> Any:
        wq, wk, wv, wo, wg, wu, wd = map(unpacked, ws[::2], ws[1::2]) if four_bits else ws
        b, own, s, d = keys.shape
        repeated = lambda a: a[:, :, None].expand(b, own, heads // own, s, d).reshape(b, heads, s, d)
        y = rms(x, g1)
        q, k, v = (y @ wq).view(b, heads, 1, d), (y @ wk).view(b, own, 1, d), (y @ wv).view(b, own, 1, d)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        p = torch.softmax((q @ repeated(keys).transpose(-1, -2)) * d**-0.5, -1, dtype=torch.float32).half()
        x = x + (p @ repeated(values)).reshape(b, heads * d) @ wo
        y = rms(x, g2)
        return x + (nf.silu(y @ wg) * (y @ wu)) @ wd, k, v

    return f
