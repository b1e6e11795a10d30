"""Problems of textbooks in strict f32, at sizes of 0.1 to 2 GB, drawn by a seed: `python -m benchmarks.families --problems textbook`.

Products of all shapes, activations, norms, reductions, pooling, scans, losses, convolutions of 1 to 3 dimensions and transposed ones,
layers with a chain behind, and small networks. A family is one function that draws a `Case`; what has weights is a module, so that they
are constants of the program, as a user has them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random
from typing import Any

from benchmarks.family_draws import Case, _act, _some, rand

F32 = "float32"


def _f(kind: str, name: str, f: Callable[..., Any], shapes: Callable[[Any], tuple[Any, ...]], flops: float = 0.0) -> Case:
    """A case of a function of (torch, *operands)."""
    return Case(f"textbook_{kind}", f"f32 {name}", lambda t: (lambda *xs: f(t, *xs), shapes(t)), flops)


def _module(kind: str, name: str, module: Callable[[Any], Any], shape: tuple[int, ...], flops: float = 0.0) -> Case:
    """A case of a module with one input."""
    return Case(f"textbook_{kind}", f"f32 {name}", lambda t: (module(t).eval(), (rand(t, *shape, dtype=F32),)), flops)


def products(r: Random) -> Case:
    kind = r.choice(("square", "deep", "shallow", "tall", "odd", "batch", "thick"))
    m, n, k = {
        "square": lambda: (_some(r, 1024, 6144, 64),) * 3,
        "deep": lambda: (_some(r, 128, 512, 64), _some(r, 128, 512, 64), _some(r, 65536, 524288, 1024)),
        "shallow": lambda: (_some(r, 8192, 20000, 64), _some(r, 8192, 20000, 64), _some(r, 32, 64, 16)),
        "tall": lambda: (_some(r, 16384, 32768, 64), _some(r, 16, 64, 16), _some(r, 4096, 16384, 64)),
        "odd": lambda: tuple(_some(r, 2000, 8000) for _ in range(3)),
        "batch": lambda: tuple(_some(r, 256, 1024, 64) for _ in range(3)),
        "thick": lambda: (_some(r, 512, 1024, 64), _some(r, 512, 1024, 64), _some(r, 1024, 2048, 64)),
    }[kind]()
    batch = {"batch": _some(r, 32, 128), "thick": _some(r, 8, 32)}.get(kind, 1)
    ta, tb = (r.random() < 0.3, r.random() < 0.4) if batch == 1 else (False, False)
    a = lambda t: rand(t, *((batch,) if batch > 1 else ()), *((k, m) if ta else (m, k)), dtype=F32)
    b = lambda t: rand(t, *((batch,) if kind == "batch" else ()), *((n, k) if tb else (k, n)), dtype=F32)
    return _f(
        "products",
        f"{kind} {f'{batch}x' if batch > 1 else ''}{m}x{n}x{k} {'t' if ta else 'n'}{'t' if tb else 'n'}",
        lambda t, x, y: (x.mT if ta else x) @ (y.mT if tb else y),
        lambda t: (a(t), b(t)),
        2.0 * batch * m * n * k,
    )


def special_products(r: Random) -> Case:
    n, kind = (
        _some(r, 2048, 4096, 64),
        r.choice(("diagonal", "upper", "lower", "matrix x vector", "vector x matrix", "matrix x scalar", "outer")),
    )
    wide = _some(r, 65536, 262144, 64)
    ways: dict[str, Callable[..., Any]] = {
        "diagonal": lambda t, a, b: t.diag(a) @ b,
        "upper": lambda t, a, b: t.triu(a @ b),
        "lower": lambda t, a, b: t.tril(a @ b),
        "matrix x vector": lambda t, a, b: a @ b,
        "vector x matrix": lambda t, a, b: b @ a,
        "matrix x scalar": lambda t, a: a * 3.25,
        "outer": lambda t, a, b: t.outer(a, b),
    }
    f = ways[kind]
    shapes: tuple[tuple[int, ...], ...] = {
        "diagonal": ((n,), (n, n)),
        "upper": ((n, n), (n, n)),
        "lower": ((n, n), (n, n)),
        "matrix x vector": ((1024, wide), (wide, 1)),
        "vector x matrix": ((wide, 1024), (1, wide)),
        "matrix x scalar": ((n, wide),),
        "outer": ((8 * n,), (8 * n,)),
    }[kind]
    return _f(
        "special_products",
        f"{kind} {'; '.join('x'.join(map(str, s)) for s in shapes)}",
        f,
        lambda t: tuple(rand(t, *s, dtype=F32) for s in shapes),
        2.0 * n**3 if kind in ("upper", "lower") else 0.0,
    )


def activations(r: Random) -> Case:
    names = (
        "relu",
        "leaky_relu",
        "sigmoid",
        "tanh",
        "silu",
        "gelu",
        "selu",
        "hardsigmoid",
        "softplus",
        "softsign",
        "elu",
        "hardtanh",
        "mish",
        "softmax",
        "log_softmax",
        "logsigmoid",
        "hardswish",
    )
    name, rows, wide = r.choice(names), _some(r, 512, 4096), _some(r, 16384, 131072)
    over = {"dim": -1} if "softmax" in name else {}
    f = lambda t, x: getattr(t if name in ("sigmoid", "tanh") else t.nn.functional, name)(x, **over)
    return _f("activations", f"{name} {rows}x{wide}", f, lambda t: (rand(t, rows, wide, dtype=F32, scale=2.0),))


def norms(r: Random) -> Case:
    kind = r.choice(("batch", "instance", "group", "layer", "rms", "frobenius", "l1", "l2"))
    n, c, side = _some(r, 16, 64), _some(r, 32, 96, 8), _some(r, 128, 320, r.choice((1, 8, 32)))
    image, rows = (n, c, side, side), (_some(r, 2048, 16384), _some(r, 16384, 65535))
    shape = rows if kind in ("l1", "l2", "frobenius") else image
    nf: dict[str, Callable[..., Any]] = {
        "batch": lambda t, x: t.nn.functional.batch_norm(x, x.new_full((c,), 0.1), x.new_full((c,), 1.5)),
        "instance": lambda t, x: t.nn.functional.instance_norm(x),
        "group": lambda t, x: t.nn.functional.group_norm(x, 8),
        "layer": lambda t, x: t.nn.functional.layer_norm(x, x.shape[1:]),
        "rms": lambda t, x: x * t.rsqrt((x * x).mean(dim=1, keepdim=True) + 1e-5),
        "frobenius": lambda t, x: x / t.norm(x),
        "l1": lambda t, x: x / x.abs().mean(dim=1, keepdim=True),
        "l2": lambda t, x: x / t.norm(x, p=2, dim=1, keepdim=True),
    }
    return _f("norms", f"{kind} {'x'.join(map(str, shape))}", nf[kind], lambda t: (rand(t, *shape, dtype=F32),))


def reductions(r: Random) -> Case:
    name, axis = r.choice(("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "std")), r.choice((1, 1, 2, 0))
    shape = (_some(r, 32, 128), _some(r, 1024, 4096), _some(r, 1000, 4096))
    f = lambda t, x: getattr(t, name)(1 + x * 1e-3 if name == "prod" else x, dim=axis)
    return _f("reductions", f"{name}({axis}) {'x'.join(map(str, shape))}", f, lambda t: (rand(t, *shape, dtype=F32),))


def pools(r: Random) -> Case:
    dims, kind = r.choice((1, 2, 3)), r.choice(("max", "avg"))
    k, step = r.choice((2, 3, 4, 5)), r.choice((1, 2, 3))
    n, c = _some(r, 16, 64), _some(r, 32, 128)
    side = {1: _some(r, 16384, 65536), 2: _some(r, 128, 320), 3: _some(r, 32, 64)}[dims]
    f = lambda t, x: getattr(t.nn.functional, f"{kind}_pool{dims}d")(x, k, step, k // 2)
    return _f("pools", f"{kind} {n}x{c}x{side}^{dims} {k}/{step}", f, lambda t: (rand(t, n, c, *[side] * dims, dtype=F32),))


def scans(r: Random) -> Case:
    rows, wide = _some(r, 4096, 32768), _some(r, 4096, 32768)
    kind = r.choice(("cumsum", "cumprod", "reversed", "exclusive", "masked"))
    ways: dict[str, Callable[..., Any]] = {
        "cumsum": lambda t, x: t.cumsum(x, 1),
        "cumprod": lambda t, x: t.cumprod(1 + x * 1e-3, 1),
        "reversed": lambda t, x: t.cumsum(x.flip(1), 1).flip(1),
        "exclusive": lambda t, x: t.cumsum(x, 1) - x,
        "masked": lambda t, x, m: t.cumsum(x * m, 1),
    }
    f = ways[kind]
    more = lambda t: ((t.rand(rows, wide) < 0.5),) if kind == "masked" else ()
    return _f("scans", f"{kind} {rows}x{wide}", f, lambda t: (rand(t, rows, wide, dtype=F32), *more(t)))


def losses(r: Random) -> Case:
    rows, wide = _some(r, 4096, 32768), _some(r, 4096, 32768)
    kind = r.choice(("mse", "cross entropy", "huber", "kl_div", "triplet", "hinge", "cosine"))
    near = lambda t: rand(t, rows, wide, dtype=F32)
    ways: dict[str, Callable[..., Any]] = {
        "mse": lambda t, x, y: t.nn.functional.mse_loss(x, y),
        "huber": lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y),
        "kl_div": lambda t, x, y: t.nn.functional.kl_div(t.log_softmax(x, -1), t.softmax(y, -1), reduction="batchmean"),
        "triplet": lambda t, x, y, z: t.nn.functional.triplet_margin_loss(x, y, z),
        "hinge": lambda t, x, y: t.clamp(1 - x * y, min=0).mean(),
        "cosine": lambda t, x, y: (1 - t.nn.functional.cosine_similarity(x, y, dim=1)).mean(),
        "cross entropy": lambda t, x, y: t.nn.functional.cross_entropy(x, y),
    }
    f = ways[kind]
    more = lambda t: (t.randint(0, wide, (rows,)),) if kind == "cross entropy" else (near(t),) * (2 if kind == "triplet" else 1)
    return _f(
        "losses", f"{kind} {rows}x{wide}", f, lambda t: (near(t), *(x.clone() * 0.9 if x.is_floating_point() else x for x in more(t)))
    )


def _window(r: Random, transposed: bool) -> tuple[str, Callable[[Any], Any], tuple[int, ...], float]:
    """Name, module, input and operations of a convolution."""
    dims = r.choice((1, 2, 2, 3))
    n, (i, o) = _some(r, 8, 32), (r.choice((3, 16, 32, 64)), r.choice((16, 32, 64, 128)))
    side = tuple({1: _some(r, 16384, 65536), 2: _some(r, 96, 256), 3: _some(r, 16, 40)}[dims] for _ in range(dims))
    kernel = (
        tuple(r.choice((3, 3, 5, 7) if dims < 3 else (3, 3, 5)) for _ in range(dims)) if r.random() < 0.4 else (r.choice((3, 3, 5)),) * dims
    )
    stride, pad, dilation = r.choice((1, 1, 2)), r.choice((0, 1, 2)), r.choice((1, 1, 1, 2))
    groups = r.choice((1, 1, 1, 4)) if i % 4 == 0 else 1
    name = f"{'transposed ' if transposed else ''}{n}x{i}x{'x'.join(map(str, side))} -> {o}, {'x'.join(map(str, kernel))}"
    name += "".join(f" {k}{v}" for k, v, d in (("s", stride, 1), ("p", pad, 0), ("d", dilation, 1), ("g", groups, 1)) if v != d)
    out = side if transposed else [(s + 2 * pad - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(side, kernel)]
    make = lambda t: getattr(t.nn, f"Conv{'Transpose' if transposed else ''}{dims}d")(
        i, o, kernel, stride=stride, padding=pad, dilation=dilation, groups=groups
    )
    return name, make, (n, i, *side), 2.0 * n * prod(out) * i * o // groups * prod(kernel)


def convolutions(r: Random) -> Case:
    name, module, shape, flops = _window(r, False)
    return _module("convolutions", name, module, shape, flops)


def transposed(r: Random) -> Case:
    name, module, shape, flops = _window(r, True)
    return _module("transposed", name, module, shape, flops)


def depthwise(r: Random) -> Case:
    n, c, side, k = _some(r, 16, 64), _some(r, 32, 128), _some(r, 128, 320), r.choice((3, 3, 5, 7))
    apart = r.random() < 0.4
    layers = lambda t: [t.nn.Conv2d(c, c, k, padding=k // 2, groups=c), *([t.nn.Conv2d(c, 2 * c, 1)] if apart else [])]
    return _module(
        "depthwise",
        f"{n}x{c}x{side}^2, {k}{' then 1' if apart else ''}",
        lambda t: t.nn.Sequential(*layers(t)),
        (n, c, side, side),
        2.0 * n * c * side**2 * (k * k + 2 * c * apart),
    )


def linear_chains(r: Random) -> Case:
    m, k, n = _some(r, 512, 2048, 64), _some(r, 2048, 8192, 64), _some(r, 2048, 8192, 64)
    (a, act), tail = _act(r), r.choice(("", "softmax", "sum", "group norm", "max", "logsumexp", "residual"))
    mish = r.random() < 0.2

    def f(t: Any, x: Any, layer: Any) -> Any:
        y = layer(x)
        y = t.nn.functional.mish(y) if mish else act(t, y)
        ends: dict[str, Callable[[], Any]] = {
            "": lambda: y * 0.5,
            "softmax": lambda: t.softmax(y, 1),
            "sum": lambda: y.sum(1, keepdim=True),
            "group norm": lambda: t.nn.functional.group_norm(y, 32),
            "max": lambda: y.amax(1),
            "logsumexp": lambda: t.logsumexp(y, 1),
            "residual": lambda: y + layer(x).clamp(-1, 1),
        }
        return ends[tail]()

    return _module(
        "linear_chains", f"{m}x{k}x{n} {'mish' if mish else a} {tail}", lambda t: _layer(t, t.nn.Linear(k, n), f), (m, k), 2.0 * m * n * k
    )


def window_chains(r: Random) -> Case:
    name, module, shape, flops = _window(r, r.random() < 0.4)
    dims, (a, act) = len(shape) - 2, _act(r)
    tail = r.choice(("", "batch norm", "group norm", "max pool", "mean", "softmax", "min", "scale"))
    mish = r.random() < 0.2

    def f(t: Any, x: Any, layer: Any) -> Any:
        nf = t.nn.functional
        y = layer(x)
        y = nf.mish(y) if mish else act(t, y)
        c = y.shape[1]
        ends: dict[str, Callable[[], Any]] = {
            "": lambda: y,
            "batch norm": lambda: nf.batch_norm(y, y.new_full((c,), 0.1), y.new_full((c,), 1.5)),
            "group norm": lambda: nf.group_norm(y, 8),
            "max pool": lambda: getattr(nf, f"max_pool{dims}d")(y, 2),
            "mean": lambda: y.mean(tuple(range(2, 2 + dims))),
            "softmax": lambda: t.softmax(y, 1),
            "min": lambda: y.amin(1, keepdim=True),
            "scale": lambda: t.clamp(y * 2 - 0.5, 0, 1),
        }
        return ends[tail]()

    return _module("window_chains", f"{name} {'mish' if mish else a} {tail}", lambda t: _layer(t, module(t), f), shape, flops)


def _layer(t: Any, layer: Any, f: Callable[..., Any]) -> Any:
    """A module of a layer and what a function does with it."""

    class Chain(t.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return f(t, x, self.layer)

    return Chain()


def networks(r: Random) -> Case:
    n = _some(r, 8, 32)
    name, shape, make = r.choice(
        (
            (
                "multi-layer perceptron",
                (8 * n, 4096),
                lambda t: t.nn.Sequential(t.nn.Linear(4096, 8192), t.nn.ReLU(), t.nn.Linear(8192, 2048)),
            ),
            ("five layers on digits", (32 * n, 1, 32, 32), _digits),
            ("fire block", (n, 96, 112, 112), _fire),
            ("dense block", (n, 64, 56, 56), _dense),
            ("residual block", (n, 64, 112, 112), _residual),
            ("inverted residual", (n, 32, 112, 112), _inverted),
            ("transformer block", (n, 512, 768), _transformer),
            ("recurrent", (n, 64, 128), lambda t: _first(t, t.nn.LSTM(128, 256, 2, batch_first=True))),
            ("gated recurrent", (n, 64, 128), lambda t: _first(t, t.nn.GRU(128, 256, batch_first=True))),
        )
    )
    return _module("networks", f"{name} {'x'.join(map(str, shape))}", make, shape)


def _digits(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def _fire(t: Any) -> Any:
    nn = t.nn
    both = lambda t, x, layer: t.cat([t.relu(layer[1](y := t.relu(layer[0](x)))), t.relu(layer[2](y))], 1)
    return _layer(t, nn.ModuleList((nn.Conv2d(96, 16, 1), nn.Conv2d(16, 64, 1), nn.Conv2d(16, 64, 3, padding=1))), both)


def _dense(t: Any) -> Any:
    nn = t.nn

    def f(t: Any, x: Any, layer: Any) -> Any:
        for one in layer:
            x = t.cat([x, one(x)], 1)
        return x

    return _layer(
        t,
        nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(64 + 32 * i), nn.ReLU(), nn.Conv2d(64 + 32 * i, 32, 3, padding=1, bias=False)) for i in range(4)
        ),
        f,
    )


def _residual(t: Any) -> Any:
    nn = t.nn
    body = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
    )
    return _layer(t, body, lambda t, x, layer: t.relu(layer(x) + x))


def _inverted(t: Any) -> Any:
    nn = t.nn
    body = nn.Sequential(
        nn.Conv2d(32, 192, 1, bias=False),
        nn.BatchNorm2d(192),
        nn.ReLU6(),
        nn.Conv2d(192, 192, 3, padding=1, groups=192, bias=False),
        nn.BatchNorm2d(192),
        nn.ReLU6(),
        nn.Conv2d(192, 32, 1, bias=False),
        nn.BatchNorm2d(32),
    )
    return _layer(t, body, lambda t, x, layer: layer(x) + x)


def _transformer(t: Any) -> Any:
    nn, nf = t.nn, t.nn.functional
    parts = nn.ModuleDict(
        {
            "qkv": nn.Linear(768, 2304),
            "out": nn.Linear(768, 768),
            "up": nn.Linear(768, 3072),
            "down": nn.Linear(3072, 768),
            "first": nn.LayerNorm(768),
            "second": nn.LayerNorm(768),
        }
    )

    def f(t: Any, x: Any, p: Any) -> Any:
        b, s, w = x.shape
        q, k, v = p["qkv"](p["first"](x)).view(b, s, 3, 12, w // 12).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + p["out"](nf.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, w))
        return x + p["down"](nf.gelu(p["up"](p["second"](x))))

    return _layer(t, parts, f)


def _first(t: Any, layer: Any) -> Any:
    return _layer(t, layer, lambda t, x, layer: layer(x)[0])


PROBLEMS: dict[str, Callable[[Random], Case]] = {
    f"textbook_{f.__name__}": f
    for f in (
        products,
        special_products,
        activations,
        norms,
        reductions,
        pools,
        scans,
        losses,
        convolutions,
        transposed,
        depthwise,
        linear_chains,
        window_chains,
        networks,
    )
}
