"""Prices beside times of functions that nobody had tuned for: `python -m benchmarks.held_out_prices`, without a device.

MEASURED was taken on an H200 on 2026-11-22, each under the schedule that the roofline alone liked best. For each row: what was
measured, what the roofline says of that schedule, what it says once what is printed is counted, and the schedule that is chosen now with
its price. An argmax of 64 blocks (266 us) is not here: cores draw no more than their threads have under way, so that it is not liked any
more. Kernels whose parts have roles are not counted and not here, nor are two depthwise convolutions of halves (811 and 625 us): their
guarded loads came one after another then, which is no longer printed; nor four products of floats, whose threads read one factor element by
element then; nor an argmax of the middle axis (8,324 us), whose places took 64 bits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from autocomp import pipeline
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.cost.printed import corrected, time
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.parts import merged
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule_text import parse, show
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace


@dataclass(frozen=True)
class Row:
    """`group`: held out, or single kernels of f32 operators. `us`: measured, of the whole program, one kernel, under `schedule`."""

    group: str
    name: str
    us: float
    schedule: str
    inputs: str
    body: str


def _conv(pad: int, groups: int, after: str = "") -> str:
    return f"%0 = conv(x, w, lo=[{pad}, {pad}], hi=[{pad}, {pad}], strides=[1, 1], dilations=[1, 1], groups={groups}){after}"


_INT8 = """%0 = cast(x, to="f32")
%1 = div(%0, s)
%2 = round(%1)
%3 = max(%2, const(-128, f32))
%4 = min(%3, const(127, f32))
%5 = cast(%4, to="i8")"""
_VARIANCE = """%0 = reduce_mean(x, axes=[1], keepdims=True)
%1 = sub(x, %0)
%2 = mul(%1, %1)
%3 = reduce_mean(%2, axes=[1], keepdims=False)"""
_L2 = """%0 = mul(x, x)
%1 = reduce_sum(%0, axes=[1], keepdims=True)
%2 = sqrt(%1)
%3 = div(x, %2)"""

MEASURED = (
    Row("held out", "variance of the middle axis", 253.0, "tile i0 1, i1 32, r0 1024, r1 1024 | threads 1024 | pdl | thread_partials",
        "x: f16[64, 4096, 1024]", _VARIANCE),
    Row("held out", "quantised to 8 bits", 74.0, "tile i0 2048 | threads 128",
        "x: f16[8192, 8192]|s: f32[1]", _INT8),
    Row("held out", "softmax, 1000 floats", 66.7, "tile i0 1 | threads 128",
        "x: f32[32768, 1000]", "%0 = softmax(x, axes=[1])"),
    Row("held out", "layer norm of a sum", 42.0, "tile i0 1 | threads 128",
        "x: f16[16384, 1536]|r: f16[16384, 1536]|g: f16[1536]|b: f16[1536]",
        "%0 = add(x, r)\n%1 = layer_norm(%0, g, b, axes=[1])"),
    Row("f32", "scaled", 2016.0, "tile i0 1024 | threads 128",
        "x: f32[16384, 65536]", "%0 = mul(x, const(3.14, f32))"),
    Row("f32", "sigmoid", 3019.0, "tile i0 1024 | threads 128",
        "x: f32[4096, 393216]", "%0 = sigmoid(x)"),
    Row("f32", "l2 norm", 4962.0, "tile i0 1 | threads 128 | cluster 8",
        "x: f32[32768, 65535]", _L2),
    Row("f32", "max pool, one dimension", 2585.0, "tile i0 1, i1 1024, r0 8 | threads 128",
        "x: f32[64, 192, 1, 65536]",
        "%0 = maxpool(x, window=[1, 8], strides=[1, 1], lo=[0, 4], hi=[0, 4], dilations=[1, 3])"),
    Row("f32", "sum of the middle axis", 2333.0, "tile i0 1, i1 32, r0 1024 | threads 1024 | thread_partials",
        "x: f32[128, 4096, 4095]", "%0 = reduce_sum(x, axes=[1], keepdims=True)"),
    Row("f32", "depthwise 3 x 1", 262.4, "tile i0 1, i1 1, i2 16, i3 64, r0 3",
        "x: f32[64, 8, 512, 512]|w: f32[8, 1, 3, 1]", _conv(0, 8)),
    Row("f32", "depthwise 3 x 7", 827.2, "tile i0 1, i1 64, i2 1, i3 32, r0 1, r1 7 | threads 128 | thread_partials",
        "x: f32[32, 128, 128, 256]|w: f32[128, 1, 3, 7]", _conv(0, 128)),
)  # fmt: skip


@dataclass(frozen=True)
class Priced:
    """Microseconds of a row: of the schedule that was measured by the roofline, and counted; of the one that is chosen now."""

    row: Row
    before: float
    after: float
    bound: str
    chosen: float
    schedule: str


def text(row: Row) -> str:
    """The graph of a row."""
    lines = row.body.splitlines()
    return "\n".join(["graph g", *(f"input {x}" for x in row.inputs.split("|")), *lines, f"output out = {lines[-1].split(' ')[0]}", ""])


def kernels(row: Row, machine: Any) -> list[Kernel]:
    """Its kernels, before any reduction is done in parts."""
    trace = Trace()
    graph = decompose(pipeline.import_model(text(row), trace))
    calls = merged(pipeline.extract(graph, machine, load_rules(), Options(cache=False, tuned=False), trace)[0])
    return list({c.kernel.signature: c.kernel for c in calls.calls}.values())


def priced(rows: Sequence[Row], machine: Any) -> Iterator[Priced]:
    rules, options = load_rules(), Options(cache=False, tuned=False)
    for row in rows:
        (kernel,) = kernels(row, machine)
        measured = parse(row.schedule)
        cost = pricer(demand_of(kernel), machine.chip, kernel)(measured)
        work = machine.issued(kernel, measured)
        counted = corrected(cost, work, machine.chip) if work is not None else cost
        now, its = choose_schedule(kernel, rules, machine.chip, options, Trace(), machine.admit, issued=machine.issued)
        bound = time(work, machine.chip).bound if work is not None else cost.bound
        schedule = "the same" if now == measured else show(now)
        yield Priced(row, cost.seconds * 1e6, counted.seconds * 1e6, bound, its.seconds * 1e6, schedule)


def summary(found: Sequence[Priced]) -> Iterator[str]:
    """Mean of the logarithms' magnitudes, and the worst factor, of each group and of all."""
    for group in (*dict.fromkeys(p.row.group for p in found), ""):
        mine = [p for p in found if group in ("", p.row.group)]
        words = []
        for name in ("before", "after"):
            off = [abs(log(getattr(p, name) / p.row.us)) for p in mine]
            words.append(f"{name} {sum(off) / len(off):.3f} (worst factor {exp(max(off)):.1f})")
        yield f"{group or 'all':10} {len(mine):3} rows, mean |log|: {', '.join(words)}"


def main(argv: Sequence[str] | None = None) -> int:
    from autocomp.targets import load_target

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    arguments = parser.parse_args(argv)
    found = []
    print("| group | kernel | measured us | before | after | bound | chosen now, us | schedule |\n|---|---|---|---|---|---|---|---|")
    for p in priced([r for r in MEASURED if arguments.only in r.name], load_target("cuda:h200")):
        ratio = lambda x, us=p.row.us: f"{x:.1f} ({x / us:.2f})"
        prices = f"{ratio(p.before)} | {ratio(p.after)} | {p.bound} | {p.chosen:.1f} | {p.schedule}"
        print(f"| {p.row.group} | {p.row.name} | {p.row.us} | {prices} |", flush=True)
        found.append(p)
    print(*summary(found), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
