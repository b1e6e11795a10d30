"""Networks of the CPU benchmark as torch modules with random weights: small convolution networks, decoders, a vision transformer."""

from __future__ import annotations

from typing import Any

MOBILE = (  # MobileNetV3-Large: kernel, inner channels, channels, squeeze-and-excite, hard swish, stride
    (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1),
    (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1),
    (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1),
)  # fmt: skip
EFFICIENT = (  # EfficientNet-B0: kernel, expansion, channels, blocks, stride
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2), (5, 6, 112, 3, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1),
)  # fmt: skip


def _unit(t: Any, i: int, o: int, k: int = 1, stride: int = 1, groups: int = 1, act: Any = None) -> Any:
    """Convolution, norm, activation."""
    parts = [t.nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), t.nn.BatchNorm2d(o, momentum=None)]
    return t.nn.Sequential(*parts, *([act()] if act else []))


def _module(t: Any, forward: Any, **parts: Any) -> Any:
    module = type("Net", (t.nn.Module,), {"forward": forward})()
    for name, part in parts.items():
        module.add_module(name, part)
    return module


def settled(net: Any, x: Any) -> Any:
    """The network with its norms' statistics taken on an input, so that values neither vanish nor grow from layer to layer."""
    net.train()(x)
    return net.eval()


def _residual(t: Any, body: Any, side: Any = None, relu: bool = False) -> Any:
    def forward(self: Any, x: Any) -> Any:
        y = self.body(x) + (self.side(x) if hasattr(self, "side") else x)
        return t.relu(y) if relu else y

    return _module(t, forward, body=body, **({"side": side} if side is not None else {}))


def _gated(t: Any, channels: int, inner: int, act: Any, gate: Any) -> Any:
    """Squeeze and excite."""
    nn = t.nn
    body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act(), nn.Conv2d(inner, channels, 1), gate())
    return _module(t, lambda self, x: x * self.body(x), body=body)


def image(t: Any, size: int = 224) -> tuple[Any, ...]:
    return (t.randn(1, 3, size, size),)


def resnet18(t: Any) -> Any:
    nn, layers, i = t.nn, [_unit(t, 3, 64, 7, 2, act=t.nn.ReLU), t.nn.MaxPool2d(3, 2, 1)], 64
    for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for s in (stride, 1):
            body = nn.Sequential(_unit(t, i, o, 3, s, act=nn.ReLU), _unit(t, o, o, 3))
            layers.append(_residual(t, body, _unit(t, i, o, 1, s) if s > 1 or i != o else None, relu=True))
            i = o
    args = image(t)
    return settled(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)), *args), args


def squeezenet(t: Any) -> Any:
    nn = t.nn

    def fire(i: int, s: int, e: int) -> Any:
        forward = lambda self, x: t.cat([t.relu(self.a(y := t.relu(self.s(x)))), t.relu(self.b(y))], 1)
        return _module(t, forward, s=nn.Conv2d(i, s, 1), a=nn.Conv2d(s, e, 1), b=nn.Conv2d(s, e, 3, padding=1))

    pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), fire(64, 16, 64), fire(128, 16, 64), pool(), fire(128, 32, 128), fire(256, 32, 128),
        pool(), fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256),
        nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ), image(t)  # fmt: skip


def mobilenet(t: Any) -> Any:
    nn, layers, i = t.nn, [_unit(t, 3, 16, 3, 2, act=t.nn.Hardswish)], 16
    for k, inner, o, gated, hard, stride in MOBILE:
        act = nn.Hardswish if hard else nn.ReLU
        parts = [_unit(t, i, inner, act=act)] if inner != i else []
        parts.append(_unit(t, inner, inner, k, stride, inner, act))
        parts += [_gated(t, inner, (inner // 4 + 7) // 8 * 8, nn.ReLU, nn.Hardsigmoid)] if gated else []
        body = nn.Sequential(*parts, _unit(t, inner, o))
        layers.append(_residual(t, body) if stride == 1 and i == o else body)
        i = o
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    args = image(t)
    return settled(nn.Sequential(*layers, _unit(t, i, 960, act=nn.Hardswish), *head), *args), args


def efficientnet(t: Any) -> Any:
    nn, layers, i = t.nn, [_unit(t, 3, 32, 3, 2, act=t.nn.SiLU)], 32
    for k, expand, o, blocks, first in EFFICIENT:
        for b in range(blocks):
            stride, inner = (1 if b else first), i * expand
            parts = [_unit(t, i, inner, act=nn.SiLU)] if expand > 1 else []
            parts += [_unit(t, inner, inner, k, stride, inner, nn.SiLU), _gated(t, inner, max(1, i // 4), nn.SiLU, nn.Sigmoid)]
            body = nn.Sequential(*parts, _unit(t, inner, o))
            layers.append(_residual(t, body) if stride == 1 and i == o else body)
            i = o
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    args = image(t)
    return settled(nn.Sequential(*layers, _unit(t, i, 1280, act=nn.SiLU), *head), *args), args


def _attention(t: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    b, h, s, d = q.shape
    scores = q @ k.transpose(-1, -2) * d**-0.5
    if causal:
        scores = scores + t.full((s, s), -1e9).triu(1)
    return (t.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, s, h * d)


def _transformer(t: Any, width: int, heads: int, layers: int, causal: bool) -> Any:
    """Pre-norm layers of GPT-2 and ViT."""
    nn = t.nn

    def forward(self: Any, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = (y.view(b, s, heads, width // heads).transpose(1, 2) for y in self.qkv(self.n1(x)).split(width, 2))
        x = x + self.o(_attention(t, q, k, v, causal))
        return x + self.down(nn.functional.gelu(self.up(self.n2(x)), approximate="tanh" if causal else "none"))

    sides = {"qkv": (width, 3 * width), "o": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    one = lambda: _module(
        t, forward, n1=nn.LayerNorm(width), n2=nn.LayerNorm(width), **{name: nn.Linear(i, o) for name, (i, o) in sides.items()}
    )
    return nn.Sequential(*(one() for _ in range(layers)))


def gpt2(t: Any, s: int = 64, width: int = 768, layers: int = 4) -> Any:
    """Four of GPT-2's layers and its head."""
    nn = t.nn
    forward = lambda self, ids: self.head(self.norm(self.layers(self.token(ids) + self.place.weight[: ids.shape[1]])))
    parts = {"token": nn.Embedding(8192, width), "place": nn.Embedding(1024, width), "norm": nn.LayerNorm(width)}
    head = nn.Linear(width, 8192, bias=False)
    net = _module(t, forward, **parts, layers=_transformer(t, width, 12, layers, True), head=head)
    return net, (t.randint(0, 8192, (1, s)),)


def vit(t: Any, width: int = 384, layers: int = 6) -> Any:
    """Half of ViT-S/16."""
    nn = t.nn
    forward = lambda self, x: self.head(self.norm(self.layers(self.patch(x).flatten(2).transpose(1, 2)))[:, 0])
    return _module(t, forward, patch=nn.Conv2d(3, width, 16, 16), layers=_transformer(t, width, 6, layers, False),
                   norm=nn.LayerNorm(width), head=nn.Linear(width, 1000)), image(t)  # fmt: skip


def gemma(t: Any, s: int = 32, width: int = 768, heads: int = 8, kv: int = 4, d: int = 64, inner: int = 2048, layers: int = 4) -> Any:
    """Gemma-2-like layers: norms around both halves, grouped queries, rotary positions, soft-capped scores, gated gelu."""
    nn = t.nn
    norm = lambda x, g: x * t.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * (1 + g)

    def forward(self: Any, x: Any) -> Any:
        split = lambda v, n: v.view(1, -1, n, d).transpose(1, 2)
        turn = lambda v: v * self.cos + t.cat((-v[..., d // 2 :], v[..., : d // 2]), -1) * self.sin
        y = norm(x, self.g[0])
        q, k, v = turn(split(self.q(y), heads)), turn(split(self.k(y), kv)), split(self.v(y), kv)
        k, v = (z[:, :, None].expand(1, kv, heads // kv, s, d).reshape(1, heads, s, d) for z in (k, v))
        scores = t.tanh(q @ k.transpose(-1, -2) * d**-0.5 / 50) * 50 + self.causal
        x = x + norm(self.o((t.softmax(scores, -1) @ v).transpose(1, 2).reshape(1, s, heads * d)), self.g[1])
        y = norm(x, self.g[2])
        return x + norm(self.down(nn.functional.gelu(self.gate(y), approximate="tanh") * self.up(y)), self.g[3])

    def layer() -> Any:
        sides = {"q": (width, heads * d), "k": (width, kv * d), "v": (width, kv * d), "o": (heads * d, width),
                 "gate": (width, inner), "up": (width, inner), "down": (inner, width)}  # fmt: skip
        net = _module(t, forward, **{name: nn.Linear(*io, bias=False) for name, io in sides.items()})
        net.g = nn.Parameter(t.randn(4, width) * 0.1)
        angle = t.outer(t.arange(s).float(), 10000.0 ** (-t.arange(0, d, 2) / d)).repeat(1, 2)
        for name, value in (("cos", angle.cos()), ("sin", angle.sin()), ("causal", t.full((s, s), -1e9).triu(1))):
            net.register_buffer(name, value)
        return net

    return nn.Sequential(*(layer() for _ in range(layers))), (t.randn(1, s, width),)


def mlp(t: Any, rows: int = 64, width: int = 1024) -> Any:
    nn = t.nn
    net = nn.Sequential(nn.Linear(width, 4096), nn.ReLU(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 1000))
    return net, (t.randn(rows, width),)
