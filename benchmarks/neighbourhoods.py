"""Is a shape priced like its neighbours? The predicted share of the roofline along lines of shapes that a seed draws.

A line varies one number of a kernel (the head of an attention, the width of a row, the channels of a convolution) and keeps the others.
The share of a shape is the time that no program can go below (matrix operations at the unit's rate, or bytes at the rate of the memory
that holds them) over the predicted time of the program. Each shape is compared with the straight line, in logarithms of both, through
its two neighbours: `off` 1.5 means priced 1.5 times slower than that line says, 0.67 faster. The shape that is furthest off is taken
out of its line and the others are compared again, until none is off by more than 1.3 times: one bad shape is not three outliers.
Nothing is run, no device is needed.

    python benchmarks/neighbourhoods.py [--target cuda:h200] [--lines NAME..] [--seeds N] [--all] [--write]

`--all` prints every shape, else those off by more than 1.3 times, with the schedules of both sides. `--write` brings
tests/cost/neighbourhoods.yaml up to date: entries that hold keep their reasons, new ones get "?", which the test refuses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log, prod
from pathlib import Path
from random import Random

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import autocomp
from autocomp.cost.chip import Chip
from autocomp.cost.roofline import memory_time
from autocomp.ir.types import DTYPES
from tests.helpers.device_graphs import conv, graph

LIMIT = 1.3  # times off the line through both neighbours
LISTED = Path(__file__).resolve().parents[1] / "tests" / "cost" / "neighbourhoods.yaml"
HEADS = (40, 64, 72, 80, 96, 112, 128, 160, 192, 256)
WIDTHS = (768, 1024, 3000, 4096, 8192, 16384, 32000, 50304, 100352, 151936)
ELEMENTS = 1 << 26  # of a tensor whose rows or columns vary in length


@dataclass(frozen=True)
class Line:
    """Shapes that differ in one number, `axis`.

    text    value -> the graph
    flops   value -> multiplications and additions that no program can avoid, at the rate of `dtype`
    moved   value -> bytes (None: of all inputs and the output)
    """

    family: str
    axis: str
    values: tuple[int, ...]
    text: Callable[[int], str]
    out: Callable[[int], tuple[str, tuple[int, ...]]]
    flops: Callable[[int], float] = lambda _: 0.0
    dtype: str = "f16"
    moved: Callable[[int], float] | None = None

    @property
    def name(self) -> str:
        return f"{self.family}/{self.axis}"

    def bytes(self, value: int) -> float:
        """Bytes of the inputs and the output, each once."""
        if self.moved:
            return self.moved(value)
        tensors = [x.split(": ")[1] for x in self.text(value).splitlines() if x.startswith("input ")]
        shapes = [(t.partition("[")[0], tuple(int(n) for n in t.partition("[")[2][:-1].split(","))) for t in tensors]
        return sum(DTYPES[dtype].bytes * prod(shape) for dtype, shape in (*shapes, self.out(value)))

    def roofline(self, value: int, chip: Chip) -> float:
        """Seconds that no program goes below on this chip."""
        return max(self.flops(value) / chip.matrix_rate(self.dtype), memory_time(self.bytes(value), chip, chip.cores)[1])


@dataclass(frozen=True)
class Point:
    """A shape of a line: seconds, how they were reached, and (0.0 at the line's ends) how far they are off."""

    line: str
    value: int
    predicted: float
    share: float
    how: str
    off: float = 0.0


def _between(r: Random, grid: Sequence[int], drawn: int, odd: bool = True) -> tuple[int, ...]:
    """`grid` and `drawn` numbers between its first and last, evenly on a logarithmic scale."""
    low, high = log(grid[0]), log(grid[-1])
    more = [int(exp(r.uniform(low, high))) for _ in range(drawn)]
    return tuple(sorted({*grid, *((x | 1) if odd else x // 8 * 8 for x in more)}))


def product(r: Random) -> Line:
    m, k = r.choice((1024, 4096, 8192)), r.choice((1024, 4096, 5120))
    return Line("products", "columns", _between(r, (768, 1024, 2304, 4096, 5120, 8192), 2),
                lambda n: graph({"a": f"f16[{m}, {k}]", "b": f"f16[{k}, {n}]"}, "%0 = matmul(a, b)"), lambda n: ("f16", (m, n)),
                lambda n: 2.0 * m * n * k)  # fmt: skip


def depth(r: Random) -> Line:
    m, n = r.choice((1024, 4096, 8192)), r.choice((1024, 3072, 4096))
    return Line("products", "depth", _between(r, (768, 1024, 4096, 8192, 14336), 2),
                lambda k: graph({"a": f"bf16[{m}, {k}]", "b": f"bf16[{k}, {n}]"}, "%0 = matmul(a, b)"), lambda k: ("bf16", (m, n)),
                lambda k: 2.0 * m * n * k, "bf16")  # fmt: skip


def few_rows(r: Random) -> Line:
    n, k = r.choice((4096, 11008, 14336)), r.choice((4096, 8192))
    return Line("few rows", "rows", _between(r, (1, 4, 8, 16, 32, 64), 3),
                lambda m: graph({"a": f"f16[{m}, {k}]", "b": f"f16[{k}, {n}]"}, "%0 = matmul(a, b)"), lambda m: ("f16", (m, n)),
                lambda m: 2.0 * m * n * k)  # fmt: skip


def attention(r: Random) -> Line:
    b, s = r.choice(((96, 512), (48, 1024), (32, 2048)))

    def text(d: int) -> str:
        return graph({x: f"f16[{b}, {s}, {d}]" for x in "qkv"},
                     "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, f16))\n%3 = softmax(%2, axes=[2])\n"
                     "%4 = matmul(%3, v)")  # fmt: skip

    return Line("attention", "head", HEADS, text, lambda d: ("f16", (b, s, d)), lambda d: 4.0 * b * s * s * d)


def _rows(family: str, op: str, dtype: str, r: Random, kept: bool) -> Line:
    rows = lambda n: ceil(ELEMENTS / n)
    return Line(family, "width", _between(r, WIDTHS[::2] if kept else WIDTHS[1::2], 3),
                lambda n: graph({"a": f"{dtype}[{rows(n)}, {n}]"}, op),
                lambda n: (dtype, (rows(n), n) if kept else (rows(n),)))  # fmt: skip


def softmax(r: Random) -> Line:
    return _rows("row softmax", "%0 = softmax(a, axes=[1])", "f16", r, True)


def row_sum(r: Random) -> Line:
    return _rows("row sums", "%0 = reduce_sum(a, axes=[1], keepdims=False)", "f32", r, False)


def scan(r: Random) -> Line:
    return _rows("scans", "%0 = cumsum(a, axis=1, exclusive=False, reverse=False)", "f32", r, True)


def column_max(r: Random) -> Line:
    rows = lambda n: ceil(ELEMENTS / n)
    return Line("column maxima", "columns", _between(r, (768, 1024, 4096, 8192, 32000), 3),
                lambda n: graph({"a": f"f32[{rows(n)}, {n}]"}, "%0 = reduce_max(a, axes=[0], keepdims=False)"),
                lambda n: ("f32", (n,)))  # fmt: skip


def column_variance(r: Random) -> Line:
    b = r.choice((16, 32, 64))
    rows = lambda n: ceil(ELEMENTS / b / n)
    return Line("column variance", "columns", _between(r, (64, 128, 512, 1024, 4096), 2),
                lambda n: graph({"a": f"f32[{b}, {rows(n)}, {n}]"}, "%0 = reduce_mean(a, axes=[1], keepdims=True)\n%1 = sub(a, %0)\n"
                                "%2 = mul(%1, %1)\n%3 = reduce_mean(%2, axes=[1], keepdims=False)"),
                lambda n: ("f32", (b, n)))  # fmt: skip


def pointwise(r: Random) -> Line:
    rows = lambda n: ceil(ELEMENTS / n)
    return Line("pointwise", "width", _between(r, (768, 1024, 4096, 8192), 3),
                lambda n: graph({"a": f"f16[{rows(n)}, {n}]", "b": f"f16[{n}]"}, "%0 = add(a, b)\n%1 = exp(%0)\n%2 = mul(%1, a)"),
                lambda n: ("f16", (rows(n), n)))  # fmt: skip


def transposed(r: Random) -> Line:
    rows = lambda n: ceil(ELEMENTS / n)
    return Line("transposes", "width", _between(r, (768, 1000, 4096, 8192), 3),
                lambda n: graph({"a": f"f16[{rows(n)}, {n}]"}, "%0 = transpose(a, perm=[1, 0])"),
                lambda n: ("f16", (n, rows(n))))  # fmt: skip


def lookup(r: Random) -> Line:
    rows = r.choice((16384, 50304))
    n = lambda wide: ceil(ELEMENTS / wide)
    return Line("gathers", "width", _between(r, (64, 256, 768, 1024, 4096), 2),
                lambda wide: graph({"t": f"f16[{rows}, {wide}]", "i": f"i64[{n(wide)}]"}, "%0 = gather(t, i, axis=0)"),
                lambda wide: ("f16", (n(wide), wide)),
                moved=lambda wide: 2.0 * min(rows, n(wide)) * wide + 2.0 * n(wide) * wide + 8.0 * n(wide))  # fmt: skip


def _conv(family: str, axis: str, values: Sequence[int], shape: Callable[[int], tuple[int, int, int, int, int, int, int, int]]) -> Line:
    """`shape`: value -> images, channels, kernels, side, window, stride, dilation, groups."""

    def side(value: int) -> int:
        _, _, _, size, w, stride, dilation, _ = shape(value)
        reach = (w - 1) * dilation
        return (size + 2 * (reach // 2) - reach - 1) // stride + 1

    def text(value: int) -> str:
        n, c, k, size, w, stride, dilation, groups = shape(value)
        pad = (w - 1) * dilation // 2
        return conv(f"f16[{n}, {c}, {size}, {size}]", f"f16[{k}, {c // groups}, {w}, {w}]", stride, pad, dilation, groups)

    def flops(value: int) -> float:
        n, c, k, _, w, _, _, groups = shape(value)
        return 2.0 * n * side(value) ** 2 * k * (c // groups) * w * w

    return Line(family, axis, tuple(values), text, lambda v: ("f16", (shape(v)[0], shape(v)[2], side(v), side(v))), flops,
                "f32" if family == "depthwise" else "f16")  # fmt: skip


def _images(channels: int, side: int) -> int:
    """How many make tensors that no L2 holds."""
    return ceil(ELEMENTS / (channels * side**2))


def channels(r: Random) -> Line:
    w, stride = r.choice((1, 3)), r.choice((1, 2))
    return _conv("convolutions", "channels", _between(r, (3, 8, 16, 64, 128, 256, 512, 1024), 2),
                 lambda c: (_images(c + 128, 56), c, 128, 56, w, stride, 1, 1))  # fmt: skip


def strides(r: Random) -> Line:
    c = r.choice((32, 64, 128, 256))
    return _conv("convolutions", "stride", (1, 2, 3, 4), lambda s: (64, c, 128, 56 * s, 3, s, 1, 1))


def dilations(r: Random) -> Line:
    c = r.choice((32, 64, 128, 256))
    return _conv("convolutions", "dilation", (1, 2, 3, 4, 6), lambda d: (_images(c + 128, 56), c, 128, 56, 3, 1, d, 1))


def groups(r: Random) -> Line:
    c = r.choice((256, 512))
    return _conv("convolutions", "groups", (1, 2, 4, 8, 32), lambda g: (_images(2 * c, 28), c, c, 28, 3, 1, 1, g))


def depthwise(r: Random) -> Line:
    side, w = r.choice((28, 56)), r.choice((3, 5))
    return _conv("depthwise", "channels", _between(r, (32, 96, 192, 384, 960), 2), lambda c: (_images(2 * c, side), c, c, side, w, 1, 1, c))


def taps(r: Random) -> Line:
    c, side = r.choice((96, 144, 384)), r.choice((28, 56))
    return _conv("depthwise", "window", (3, 5, 7, 9), lambda w: (_images(2 * c, side), c, c, side, w, 1, 1, c))


LINES: tuple[Callable[[Random], Line], ...] = (
    product, depth, few_rows, attention, softmax, row_sum, scan, column_max, column_variance, pointwise, transposed, lookup, channels,
    strides, dilations, groups, depthwise, taps,
)  # fmt: skip


def drawn(seeds: Sequence[int], names: Sequence[str] = ()) -> Iterator[tuple[int, Line]]:
    """(seed, line) of every kind of line, or of those whose name begins with one of `names`."""
    for make in LINES:
        for seed in seeds:
            line = make(Random(f"{make.__name__} {seed}"))
            if not names or any(line.name.startswith(n) for n in names):
                yield seed, line


def priced(line: Line, value: int, target: str) -> Point:
    """One shape: all kernels of its program as the compiler prices them."""
    program = autocomp.optimize(line.text(value), target=target, cache=False, tuned=False)
    seconds = sum(k.predicted * k.calls for k in program.kernels)
    how = " + ".join(f"{k.schedule} [{k.bound}]" for k in program.kernels)
    return Point(line.name, value, seconds, line.roofline(value, program.target.chip) / seconds, how)


def off_line(points: Sequence[Point]) -> list[Point]:
    """The same with `off` of those that have two neighbours."""
    out = list(points)
    for i, (a, x, b) in enumerate(zip(points, points[1:], points[2:]), 1):
        way = (log(x.value) - log(a.value)) / (log(b.value) - log(a.value))
        out[i] = replace(x, off=exp((1 - way) * log(a.share) + way * log(b.share)) / x.share)
    return out


def walked(line: Line, target: str) -> list[Point]:
    """The line's shapes; `off` of an outlier against the line without those that are further off, of the others against what is left."""
    left, out = [priced(line, v, target) for v in line.values], {}
    while (worst := max(left := off_line(left), key=lambda p: abs(log(p.off or 1.0)))) and outlying(worst):
        out[worst.value] = worst
        left.remove(worst)
        left = [replace(p, off=0.0) for p in left]
    return [out.get(p.value, p) for p in sorted([*left, *out.values()], key=lambda p: p.value)]


def outlying(p: Point, limit: float = LIMIT) -> bool:
    """Off the line by more than `limit` either way."""
    return bool(p.off) and not 1 / limit <= p.off <= limit


def table(points: Sequence[Point], everything: bool) -> str:
    """The line's shapes; under each that is off, what was chosen for it and for its neighbours."""
    out = []
    for i, p in enumerate(points):
        if everything or outlying(p):
            off = f"{p.off:5.2f}" if p.off else "  end"
            mark = " <" if outlying(p) else ""
            out.append(f"{p.line:24} {p.value:7} {1e6 * p.predicted:9.1f} us  {p.share:5.2f} of roofline  off {off}{mark}")
        if outlying(p):
            out += [f"{'':8}{x.value:7}: {x.how}" for x in points[i - 1 : i + 2]]
    return "\n".join(out)


def _scalar(text: str) -> str:
    return yaml.safe_dump(text, width=10000).removesuffix("\n...\n").strip()


def written(found: Sequence[Point], path: Path = LISTED) -> str:
    """The list's text for today's outliers; reasons of those that were there stay."""
    old = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {"reasons": {}, "shapes": []}
    why = {(e["line"], e["at"]): e["why"] for e in old["shapes"] or []}
    unknown = "'?'"
    entries = [f"  - {{line: {p.line}, at: {p.value}, times: {p.off:.2f}, why: {why.get((p.line, p.value), unknown)}}}" for p in found]
    used = {why.get((p.line, p.value)) for p in found}
    reasons = [f"  {k}: {_scalar(v)}" for k, v in (old["reasons"] or {}).items() if k in used]
    head = path.read_text(encoding="utf-8").partition("\nreasons:")[0] if path.exists() else ""
    return "\n".join([head, "reasons:" if reasons else "reasons: {}", *reasons, "shapes:" if entries else "shapes: []", *entries, ""])


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--target", default="cuda:h200")
    p.add_argument("--lines", nargs="*", default=[])
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--all", action="store_true")
    p.add_argument("--write", action="store_true", help="bring tests/cost/neighbourhoods.yaml up to date (all lines, seed 0, cuda:h200)")
    a = p.parse_args()
    if a.write:
        a.target, a.lines, a.seeds = "cuda:h200", [], 1
    seen, found = 0, list[Point]()
    for seed, line in drawn(range(a.seeds), a.lines):
        points = walked(line, a.target)
        seen, found = seen + len(points), found + [x for x in points if outlying(x)]
        if text := table(points, a.all):
            print(f"seed {seed}\n{text}" if a.seeds > 1 else text, flush=True)
    print(f"{a.target}: {len(found)} of {seen} shapes are off the line through their neighbours by more than {LIMIT} times")
    if a.write:
        LISTED.write_text(written(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
