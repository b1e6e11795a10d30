"""CPU functions that nobody tuned for: ours against torch's eager mode, family by family, shapes drawn by seed.

    python -m benchmarks.cpu_families                          two functions of every family, seed 1
    python -m benchmarks.cpu_families --seed 7 --count 4
    python -m benchmarks.cpu_families --only scans,norms --json out.json
    python -m benchmarks.cpu_families --threads 2              of both; one thread by default

Each result is compared with torch's first. Times are the least processor time of a call over up to half a second, so that work beside it
counts little, of several threads the least time that passes (each waits for the others, so a busy machine shows its scheduler instead);
data are as warm as the calls before leave them. `ratio`: torch's over ours, above 1 ours is faster. What one call of the smallest program
takes is in every figure of ours, and printed first. Functions are of 5 us to 20 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from math import exp, log
from random import Random
from typing import Any

Drawn = tuple[Callable[..., Any], tuple[Any, ...], str]  # function, operands, what was drawn
SHORT = 0.85  # of the peer, below which a function is listed with its schedules


def some(r: Random, low: float, high: float, step: int = 1) -> int:
    """A multiple of `step` between two numbers, evenly on a logarithmic scale."""
    return max(step, int(low * (high / low) ** r.random()) // step * step)


def products(t: Any, r: Random) -> Drawn:
    m, n, k = (some(r, 16, 800, r.choice((1, 8))) for _ in range(3))
    return lambda a, b: t.relu(a @ b), (t.randn(m, k), t.randn(k, n)), f"{m}x{n}x{k}"


def few_rows(t: Any, r: Random) -> Drawn:
    m, n, k = r.choice((1, 2, 5, 16)), some(r, 256, 3000), some(r, 256, 3000)
    w = t.randn(n, k)
    return lambda a: t.nn.functional.linear(a, w), (t.randn(m, k),), f"{m}x{n}x{k}"


def batched(t: Any, r: Random) -> Drawn:
    b, (m, n, k) = some(r, 2, 32), (some(r, 16, 200) for _ in range(3))
    return lambda a, c: a @ c.transpose(1, 2), (t.randn(b, m, k), t.randn(b, n, k)), f"{b}x{m}x{n}x{k}"


def convolutions(t: Any, r: Random) -> Drawn:
    c, o, h = some(r, 16, 256, 8), some(r, 16, 256, 8), r.choice((7, 14, 28, 56))
    k, s = r.choice((1, 3, 3, 5)), r.choice((1, 2))
    w = t.randn(o, c, k, k)
    return lambda x: t.nn.functional.conv2d(x, w, stride=s, padding=k // 2), (t.randn(1, c, h, h),), f"{c}>{o} {h} k{k}s{s}"


def depthwise(t: Any, r: Random) -> Drawn:
    c, h, k, s = some(r, 16, 600, 8), r.choice((7, 14, 28, 56, 112)), r.choice((3, 5, 7)), r.choice((1, 2))
    w, act = t.randn(c, 1, k, k), r.choice((t.relu, t.nn.functional.silu))
    return lambda x: act(t.nn.functional.conv2d(x, w, stride=s, padding=k // 2, groups=c)), (t.randn(1, c, h, h),), f"{c} {h} k{k}s{s}"


def grouped(t: Any, r: Random) -> Drawn:
    g, per, h = r.choice((4, 8, 32)), r.choice((2, 4, 8)), r.choice((14, 28, 56))
    w = t.randn(g * per, per, 3, 3)
    return lambda x: t.nn.functional.conv2d(x, w, padding=1, groups=g), (t.randn(1, g * per, h, h),), f"{g * per}/{g} {h}"


def convolutions_1d3d(t: Any, r: Random) -> Drawn:
    if r.random() < 0.5:
        c, o, n, k, d = some(r, 16, 256, 8), some(r, 16, 256, 8), some(r, 100, 4000), r.choice((3, 5, 9)), r.choice((1, 2))
        w = t.randn(o, c, k)
        return lambda x: t.nn.functional.conv1d(x, w, padding=k // 2 * d, dilation=d), (t.randn(1, c, n),), f"1d {c}>{o} {n} k{k}d{d}"
    c, o, h = some(r, 4, 48, 4), some(r, 8, 48, 8), r.choice((8, 14, 20))
    w = t.randn(o, c, 3, 3, 3)
    return lambda x: t.nn.functional.conv3d(x, w, padding=1), (t.randn(1, c, h, h, h),), f"3d {c}>{o} {h}"


def transposed(t: Any, r: Random) -> Drawn:
    c, o, h, k = some(r, 16, 128, 8), some(r, 16, 128, 8), r.choice((7, 14, 28)), r.choice((2, 4))
    w = t.randn(c, o, k, k)
    return lambda x: t.nn.functional.conv_transpose2d(x, w, stride=2, padding=k // 2 - 1), (t.randn(1, c, h, h),), f"{c}>{o} {h} k{k}"


def pooling(t: Any, r: Random) -> Drawn:
    c, h, (k, s) = some(r, 16, 256), r.choice((14, 28, 56, 112)), r.choice(((2, 2), (3, 2), (3, 1)))
    name = r.choice(("max_pool2d", "avg_pool2d"))
    pool = getattr(t.nn.functional, name)
    return lambda x: pool(x, k, s, k // 2 if k > 2 else 0), (t.randn(1, c, h, h),), f"{name} {c} {h} {k}/{s}"


def norms(t: Any, r: Random) -> Drawn:
    m, n, f = some(r, 64, 4000), some(r, 32, 2000), r.choice(("layer", "rms", "group", "softmax"))
    if f == "group":
        c, h = 32 * r.choice((2, 4, 8)), r.choice((14, 28))
        return lambda x: t.nn.functional.group_norm(x, 32), (t.randn(2, c, h, h),), f"group {c} {h}"
    w, x = t.randn(n), t.randn(m, n)
    if f == "softmax":
        return lambda x: x.softmax(-1), (x,), f"softmax {m}x{n}"
    if f == "layer":
        return lambda x: t.nn.functional.layer_norm(x, (n,), w, w), (x,), f"layer {m}x{n}"
    return lambda x: t.nn.functional.rms_norm(x, (n,), w), (x,), f"rms {m}x{n}"


def columns(t: Any, r: Random) -> Drawn:
    m, n, f = some(r, 64, 4000), some(r, 32, 2000), r.choice(("sum", "amax", "var", "mean", "softmax"))
    return lambda x: getattr(x, f)(0), (t.randn(m, n),), f"{f} {m}x{n}"


def middle(t: Any, r: Random) -> Drawn:
    a, b, c, f = some(r, 4, 64), some(r, 8, 300), some(r, 8, 300), r.choice(("sum", "amax", "softmax"))
    return lambda x: getattr(x, f)(1), (t.randn(a, b, c),), f"{f} {a}x{b}x{c}"


def scans(t: Any, r: Random) -> Drawn:
    m, n, f, d = some(r, 16, 2000), some(r, 32, 2000), r.choice(("cumsum", "cumprod", "cummax")), r.choice((0, 1))
    of = (lambda x: x.cummax(d)[0]) if f == "cummax" else lambda x: getattr(x, f)(d)
    return of, (t.randn(m, n) * 0.1 + (1 if f == "cumprod" else 0),), f"{f} {m}x{n} axis {d}"


def picks(t: Any, r: Random) -> Drawn:
    m, n = some(r, 16, 1000), some(r, 64, 3000)
    if r.random() < 0.5:
        d = r.choice((0, 1))
        return lambda x: x.argmax(d), (t.randn(m, n),), f"argmax {m}x{n} axis {d}"
    k = r.choice((1, 5, 10))
    return lambda x: x.topk(k, -1)[0], (t.randn(m, n),), f"top {k} of {m}x{n}"


def losses(t: Any, r: Random) -> Drawn:
    m, n = some(r, 64, 2000), some(r, 32, 3000)
    return lambda x, y: t.nn.functional.cross_entropy(x, y), (t.randn(m, n), t.randint(0, n, (m,))), f"cross entropy {m}x{n}"


def lookups(t: Any, r: Random) -> Drawn:
    v, n, m = some(r, 1000, 30000), some(r, 32, 800), some(r, 64, 2000)
    if r.random() < 0.5:
        w = t.randn(v, n)
        return lambda i: t.nn.functional.embedding(i, w), (t.randint(0, v, (m,)),), f"rows {v}x{n} {m}"
    return lambda x, i: x.gather(1, i), (t.randn(m, n), t.randint(0, n, (m, some(r, 8, 200)))), f"elements {m}x{n}"


def moves(t: Any, r: Random) -> Drawn:
    a, b, c, f = some(r, 4, 100), some(r, 16, 300), some(r, 16, 300), r.choice(("permute", "cat", "pad", "roll"))
    x, y = t.randn(a, b, c), t.randn(a, b, some(r, 16, 300))
    if f == "permute":
        p = r.choice(((0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)))
        return lambda x: x.permute(p).contiguous() * 2, (x,), f"permute {a}x{b}x{c} {p}"
    if f == "cat":
        return lambda x, y: t.cat([x, y, t.relu(x)], 2), (x, y), f"cat {a}x{b}x{c}+{y.shape[2]}"
    if f == "pad":
        return lambda x: t.nn.functional.pad(x, (1, 2, 3, 1)), (x,), f"pad {a}x{b}x{c}"
    return lambda x: x.roll(3, 2) + x.flip(2), (x,), f"roll {a}x{b}x{c}"


def pointwise(t: Any, r: Random) -> Drawn:
    n, (name, f) = some(r, 1e5, 3e6), r.choice((
        ("gelu", lambda x, y: t.nn.functional.gelu(x) * y), ("silu", lambda x, y: t.nn.functional.silu(x) + y),
        ("erf", lambda x, y: t.erf(x) - y),
        ("sin cos", lambda x, y: t.sin(x) * t.cos(y)),
        ("pow", lambda x, y: x.abs().pow(1.7) + y), ("log1p", lambda x, y: t.log1p(x.abs()) * y),
        ("tanh", lambda x, y: t.tanh(x + y)), ("where", lambda x, y: t.where(x > y, x, y * 2)), ("div", lambda x, y: x / (y.abs() + 1)),
    ))  # fmt: skip
    return f, (t.randn(n), t.randn(n)), f"{name} {n}"


def attention(t: Any, r: Random) -> Drawn:
    h, s, d, causal = some(r, 2, 12), some(r, 64, 600), r.choice((32, 40, 64, 80, 96, 128)), r.random() < 0.5
    q, k, v = (t.randn(1, h, s, d) for _ in range(3))
    f = lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return f, (q, k, v), f"{h}x{s}x{d}{' causal' if causal else ''}"


def quantise(t: Any, r: Random) -> Drawn:
    m, n = some(r, 64, 2000), some(r, 64, 2000)
    return lambda x: t.clamp(t.round(x / (x.abs().amax(1, keepdim=True) / 127)), -128, 127).to(t.int8), (t.randn(m, n),), f"{m}x{n}"


FAMILIES: tuple[Callable[[Any, Random], Drawn], ...] = (
    products, few_rows, batched, convolutions, depthwise, grouped, convolutions_1d3d, transposed, pooling, norms, columns, middle, scans,
    picks, losses, lookups, moves, pointwise, attention, quantise,
)  # fmt: skip


def least(f: Callable[[], Any], seconds: float = 0.5, clock: Callable[[], float] = time.process_time) -> float:
    """The least processor time of a call, or by another clock."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 5 or (time.perf_counter() < end and len(found) < 300):
        begin = clock()
        f()
        found.append(clock() - begin)
    return min(found)


def measured(t: Any, family: Callable[[Any, Random], Drawn], seed: int, number: int, threads: int = 1) -> dict[str, Any]:
    """One function: names, seconds, schedules, or the error's text."""
    import numpy as np

    import autocomp

    t.manual_seed(number)
    f, operands, what = family(t, Random(f"{family.__name__}/{seed}/{number}"))

    class Module(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *x: Any) -> Any:
            return f(*x)

    out: dict[str, Any] = {"family": family.__name__, "what": what}
    try:
        program = autocomp.optimize(Module().eval(), example_inputs=operands, target="cpu", threads=threads)
    except autocomp.AutocompError as e:
        return out | {"error": str(e).splitlines()[0]}
    with t.no_grad():
        want, got = f(*operands), program(*operands)
        wide = want.double().numpy()
        near = np.allclose(np.asarray(got, dtype="f8"), wide, rtol=2e-3, atol=2e-3 * max(1.0, float(np.abs(wide).max())))
        clock = time.process_time if threads == 1 else time.perf_counter
        ours, eager = least(lambda: program(*operands), clock=clock), least(lambda: f(*operands), clock=clock)
    return out | {"ours": ours, "torch": eager, "ratio": eager / ours, "predicted": program.predicted, "right": near,
                  "schedules": [f"{k.name}: {k.schedule}" for k in program.kernels]}  # fmt: skip


def mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--count", type=int, default=2, help="functions of each family")
    args.add_argument("--threads", type=int, default=1, help="of ours and of torch's")
    args.add_argument("--only", default="", help="families, separated by commas: " + ", ".join(f.__name__ for f in FAMILIES))
    args.add_argument("--json", default="", help="also every figure as JSON")
    given = args.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    import torch

    torch.set_num_threads(given.threads)
    wanted = [f for f in FAMILIES if not given.only or f.__name__ in given.only.split(",")]
    rows: list[dict[str, Any]] = []
    smallest = measured(torch, lambda t, r: (lambda x: x + 1, (t.randn(4),), "x + 1"), 0, 0, given.threads)
    print(f"a call of x + 1 of 4 elements: ours {smallest['ours'] * 1e6:.0f} us, torch {smallest['torch'] * 1e6:.0f} us")
    print(f"{'microseconds':18s}{'':30s}{'ours':>9s}{'torch':>9s}{'ratio':>8s}{'predicted':>11s}")
    for family in wanted:
        for number in range(given.count):
            row = measured(torch, family, given.seed, number, given.threads)
            rows.append(row)
            if "error" in row:
                print(f"{row['family']:18s}{row['what']:30s}  {row['error']}")
                continue
            figures = f"{row['ours'] * 1e6:9.0f}{row['torch'] * 1e6:9.0f}{row['ratio']:8.2f}{row['predicted'] * 1e6:11.0f}"
            said = "" if row["ratio"] >= SHORT else "  " + "; ".join(row["schedules"])[:120]
            print(f"{row['family']:18s}{row['what']:30s}{figures}{'' if row['right'] else '  WRONG'}{said}", flush=True)
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        by = {f.__name__: [r["ratio"] for r in rows if r["family"] == f.__name__ and "ratio" in r] for f in wanted}
        print("by family: " + ", ".join(f"{name} {mean(x):.2f}" for name, x in by.items() if x))
        few, wrong = sum(x < SHORT for x in ratios), sum(not r.get("right", True) for r in rows)
        print(f"geometric mean of {len(ratios)} functions: {mean(ratios):.2f}, {few} below {SHORT}, {wrong} wrong")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
