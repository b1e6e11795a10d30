"""The coverage of chips: drawn single kernels and whole models, printed or refused, kernels by form, predicted time.

    python -m benchmarks.chips [--chips ascend:910b1,ascend:310p] [--seed 1] [--only conv,gemm] [--models] [--run] [--kept FILE]

A chip's row counts kernels: of its matrix unit, of vector units, of the fall-back (element after element on scalar units), with the
part of the predicted time that the fall-back has. --run runs Ascend's on the model of the machine, compares with float64, and has the
price beside the model's time, both without the launch. --kept FILE keeps each row as it is done (JSON, a line a row), so that a run
that was interrupted goes on. Chips that differ in rates alone have the same forms, but tiles, and so prices, of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import models

import autocomp
from autocomp.cost.roles import roles_of
from autocomp.cost.scalar import SCALAR
from autocomp.errors import AutocompError
from autocomp.ir.schedule_text import parse
from autocomp.runtime.program import Program
from autocomp.simulate.program import simulated
from benchmarks.chip_draws import drawn
from benchmarks.onnx_light import LIGHT

CHIPS = ("ascend:910b1", "ascend:910b2", "ascend:910b3", "ascend:910b4", "ascend:910c", "ascend:310p", "ascend:950pr",
         "maca:c500", "maca:c550", "maca:c600")  # fmt: skip
PRODUCTS = ("contract", "chain", "online")  # of kernels, by their roles
APART = 1.5  # price over model, or the other way, beyond which a kernel is named


@dataclass(frozen=True)
class Row:
    """A graph on a chip. outcome: printed, opaque (an operator through its reference), refused, wrong (on the model).

    matrix, vector, scalar: kernels by form; us: predicted, of which scalar_us the fall-back's; ratios: price over model, a kernel each.
    """

    chip: str
    graph: str
    outcome: str
    reason: str = ""
    matrix: int = 0
    vector: int = 0
    scalar: int = 0
    us: float = 0.0
    scalar_us: float = 0.0
    ratios: tuple[float, ...] = ()


def whole_models() -> dict[str, Callable[[str], Program]]:
    """name -> what compiles it for a chip."""

    def of_graph(make: Callable[[], Any]) -> Callable[[str], Program]:
        return lambda chip: autocomp.optimize(make(), target=chip)

    def of_torch(make: Callable[[Any], tuple[Any, tuple[Any, ...]]]) -> Callable[[str], Program]:
        def compiled(chip: str) -> Program:
            import torch

            torch.manual_seed(0)
            module, inputs = make(torch)
            return autocomp.optimize(module.eval(), example_inputs=inputs, target=chip)

        return compiled

    from benchmarks.cpu_networks import vit

    return {
        "bert, 2 layers, f16": of_graph(lambda: models.bert(2, dtype="f16")),
        "llama block": of_graph(models.llama_block),
        "vit, 2 layers": of_torch(lambda t: vit(t, layers=2)),
        "mamba block": of_torch(mamba),
        **{f"light {n}": of_graph(partial(models.light_model, f"light_{n}")) for n in LIGHT},
    }  # fmt: skip


def mamba(t: Any, s: int = 64, width: int = 256, heads: int = 8, state: int = 32) -> tuple[Any, tuple[Any, ...]]:
    """A block of Mamba-2: a causal depthwise convolution, steps that depend on the input, and the recurrence as products under a mask of
    decays, gated and normed."""
    inner = 2 * width
    d = inner // heads

    class Block(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.enter = t.nn.Linear(width, 2 * inner + 2 * state + heads, bias=False)
            self.conv = t.nn.Conv1d(inner + 2 * state, inner + 2 * state, 4, padding=3, groups=inner + 2 * state)
            self.leave = t.nn.Linear(inner, width, bias=False)
            self.rate, self.skip = t.nn.Parameter(t.rand(heads)), t.nn.Parameter(t.ones(heads))
            self.scale = t.nn.Parameter(t.ones(inner))

        def forward(self, x: Any) -> Any:
            gate, mixed, step = self.enter(x).split([inner, inner + 2 * state, heads], -1)
            mixed = t.nn.functional.silu(self.conv(mixed.transpose(1, 2))[..., :s].transpose(1, 2))
            v, b, c = mixed.split([inner, state, state], -1)
            step = t.nn.functional.softplus(step)  # [1, s, heads]
            past = t.cumsum(-step * t.exp(self.rate), 1).transpose(1, 2)  # [1, heads, s]
            decay = t.exp(t.where(t.ones(s, s, dtype=t.bool).tril(), past[..., :, None] - past[..., None, :], -1e9))
            v = v.view(1, s, heads, d)
            mixed = (c @ b.transpose(1, 2))[:, None] * decay @ (v * step[..., None]).transpose(1, 2)
            y = (mixed.transpose(1, 2) + v * self.skip[:, None]).reshape(1, s, inner) * t.nn.functional.silu(gate)
            return self.leave(y * t.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5) * self.scale)

    return Block(), (t.randn(1, s, width),)


def row(chip: str, name: str, compiled: Callable[[str], Program], run: bool) -> Row:
    """One graph on one chip; a refusal is a row, any other error is raised."""
    try:
        program = compiled(chip)
    except AutocompError as e:
        return Row(chip, name, "refused", f"{e.what} | {e.hint or ''}")
    kernels = {c.kernel.name: c.kernel for c in program.calls.calls}
    opaque = sorted({k.opaque for k in kernels.values() if k.opaque})
    forms: Counter[str] = Counter()
    slow = 0.0
    for k in program.kernels:
        if k.name not in program.printed:
            continue
        schedule = parse(k.schedule)
        fall_back = schedule.instruction == SCALAR
        slow += k.predicted * k.calls * fall_back
        product = roles_of(kernels[k.name]).form in PRODUCTS
        if program.target.name != "ascend":
            product &= "ac_mma_" in program.printed[k.name].text  # calls of the builtin; the comment has the tile program's word
        forms["scalar" if fall_back else "matrix" if product else "vector"] += 1
    counted = Row(chip, name, "opaque" if opaque else "printed", ", ".join(opaque), forms["matrix"], forms["vector"], forms["scalar"],
                  program.predicted * 1e6, slow * 1e6)  # fmt: skip
    return checked(counted, program) if run and not opaque else counted


def checked(of: Row, program: Program) -> Row:
    """The row with what a run on the model said."""
    with simulated(program) as seen:
        try:
            program.verify()
        except AutocompError as e:
            return replace(of, outcome="wrong", reason=str(e))
        if program.target.name != "ascend":
            return of
        own = {k.name: k.predicted - dict(k.terms).get("launch", 0.0) for k in program.kernels if SCALAR not in k.schedule}
        ratios = tuple(round(own[p.kernel] / p.seconds, 3) for p in seen.pictures() if p.kernel in own and p.seconds)
    return replace(of, ratios=ratios)


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """Every graph on every chip; those of the file are taken from it."""
    known: dict[tuple[str, str], Row] = {}
    if args.kept and args.kept.exists():
        for line in args.kept.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            known[found["chip"], found["graph"]] = Row(**{**found, "ratios": tuple(found["ratios"])})
    of_text = lambda g: lambda chip: autocomp.optimize(g, target=chip)
    tried = whole_models() if args.models else {n: of_text(g) for n, g in drawn(args.seed).items()}
    for chip in args.chips.split(","):
        for name, compiled in tried.items():
            if not any(part in name for part in args.only.split(",")):
                continue
            one = known.get((chip, name)) or row(chip, name, compiled, args.run)
            if args.kept and (chip, name) not in known:
                with args.kept.open("a", encoding="utf-8") as f:
                    f.write(json.dumps(asdict(one)) + "\n")
            yield one


def summary(of: Sequence[Row]) -> list[str]:
    """The table of chips; the mean is the geometric one of predicted times."""
    heads = ("chip", "printed", "by reference", "refused", "with fall-back", "kernels: matrix, vector, fall-back", "mean us", "fall-back")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for chip in dict.fromkeys(r.chip for r in of):
        mine = [r for r in of if r.chip == chip]
        printed = [r for r in mine if r.outcome in ("printed", "opaque")]
        total, opaque = sum(r.us for r in printed), sum(r.outcome == "opaque" for r in mine)
        forms = ", ".join(str(sum(f)) for f in zip(*((r.matrix, r.vector, r.scalar) for r in mine)))
        times = [r.us for r in printed if r.us]
        mean, slow = geometric_mean(times) if times else 0.0, sum(r.scalar_us for r in printed) / (total or 1)
        lines.append(f"| {chip} | {len(printed) - opaque} | {opaque} | {len(mine) - len(printed)} | {sum(r.scalar > 0 for r in mine)} | "
                     f"{forms} | {mean:.1f} | {slow:.0%} |")  # fmt: skip
    return lines


def text(r: Row) -> str:
    """A row as a line."""
    forms = f"{r.matrix} matrix, {r.vector} vector, {r.scalar} fall-back"
    slow = f" ({r.scalar_us:.1f} in the fall-back)" if r.scalar else ""
    ratios = f"  price/model {' '.join(f'{x:.2f}' for x in r.ratios)}" if r.ratios else ""
    return f"{r.chip:13} {r.graph:18} {r.outcome:8} {forms:34} {r.us:10.1f} us{slow}{ratios}  {r.reason[:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", default=",".join(CHIPS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="graphs whose name contains one of these")
    parser.add_argument("--models", action="store_true", help="whole models in place of drawn kernels")
    parser.add_argument("--run", action="store_true", help="on the model of the machine, too")
    parser.add_argument("--kept", type=Path, help="a file that keeps rows")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    done = []
    for r in rows(args):
        print(text(r), flush=True)
        done.append(r)
    print("\n".join(summary(done)))
    if ratios := [x for r in done for x in r.ratios]:
        off = sum(not 1 / APART <= x <= APART for x in ratios)
        print(f"price over model: {median(ratios):.2f} at the median, {min(ratios):.2f} to {max(ratios):.2f}; {off} of {len(ratios)} "
              f"more than {APART} apart")  # fmt: skip
    return int(any(r.outcome == "wrong" for r in done))


if __name__ == "__main__":
    sys.exit(main())
