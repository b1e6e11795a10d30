"""Published steps of Ascend kernels beside what the cost model says of them.

    python -m benchmarks.ladders                    those that come with the project
    python -m benchmarks.ladders mine.yaml          those of other files of the same form

Coefficients of the chips' files were read off the ladders in FITTED; the others are checks. A ladder's order counts pairs of steps
that are more than a hundredth apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml

from benchmarks.ladder_readings import predicted

FOLDER = Path(__file__).parent / "ladders"
FITTED = {"add_f16_8192", "matmul_f16_8192_highlevel", "data_copy_f16", "bank_conflict_ub_a2", "quant_group_matmul_i8", "simt_hybrid_grid",
          "simt_floormod_i32_8192", "simt_atomic_add", "transpose_f32_1024_hybrid", "transpose_f32_1024_simt"}  # fmt: skip
APART = 1.01


class Row(NamedTuple):
    """A step: microseconds on silicon and by the model."""

    ladder: str
    step: str
    measured: float
    model: float | None

    @property
    def error(self) -> float:
        return 0.0 if self.model is None else self.model / self.measured - 1


def rows(files: Sequence[Path] = ()) -> list[Row]:
    """Every step with a time."""
    steps: list[dict[str, Any]] = []
    for f in files or sorted(FOLDER.glob("*.yaml")):
        steps += yaml.load(f.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["steps"]
    empty: dict[str, Any] = {"shapes": {}, "dtypes": {}, "config": {}, "cores": {}, "operator": ""}
    return [Row(s["ladder"], s["step"], s["duration_us"], predicted(empty | s)) for s in steps if s.get("duration_us")]


def order(ladder: Sequence[Row]) -> tuple[int, int]:
    """(pairs in the measured order, pairs) of steps that are apart."""
    pairs = [(a, b) for a, b in combinations(ladder, 2) if max(a.measured, b.measured) > APART * min(a.measured, b.measured)]
    return sum((a.measured < b.measured) == ((a.model or 0) < (b.model or 0)) for a, b in pairs), len(pairs)


def summary(some: Sequence[Row]) -> str:
    """Errors and order of some ladders."""
    if not some:
        return "none"
    errors = [abs(r.error) for r in some]
    by: dict[str, list[Row]] = {}
    for r in some:
        by.setdefault(r.ladder, []).append(r)
    right, pairs = map(sum, zip(*(order(x) for x in by.values())))
    return (f"{len(some)} steps of {len(by)} ladders: error {median(errors):.1%} at the median, {max(errors):.1%} at worst, "
            f"{sum(e > 0.3 for e in errors)} above 30 %; {right} of {pairs} pairs in order")  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Prints the table."""
    found = rows([Path(n) for n in names])
    last = ""
    for r in found:
        if r.ladder != last:
            print(f"{r.ladder}{' (fitted)' if r.ladder in FITTED else ''}")
        last = r.ladder
        print(f"  {r.measured:12.1f} {'  not modelled' if r.model is None else f'{r.model:12.1f} {r.error:+7.1%}'}  {r.step[:70]}")
    done = [r for r in found if r.model is not None]
    print("fitted: ", summary([r for r in done if r.ladder in FITTED]))
    print("checks: ", summary([r for r in done if r.ladder not in FITTED]))
    print(f"not modelled: {len(found) - len(done)} of {len(found)} steps")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", nargs="*", help="ladders in YAML (benchmarks/ladders/*.yaml show the form)")
    main(p.parse_args().file)
