"""A against B: two programs, or two saved folders, kernel by kernel."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from rich.table import Table

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.report.tables import kernel_rows, seconds_text
from autocomp.report.templates import render


@dataclass(frozen=True)
class Side:
    """One side: `target` with its chip, as `--target` takes it; `rows` as in `tables.kernel_rows`, `sources` file name -> text."""

    name: str
    target: str
    predicted: float
    measured: float | None
    rows: tuple[dict[str, Any], ...]
    sources: dict[str, str]

    @staticmethod
    def of(x: Any, inputs: Any = None) -> Side:
        """From a Program (timed on `inputs` if it can run here) or from a folder written by `Program.save`."""
        if isinstance(x, (str, Path)):
            return Side._of_folder(Path(x))
        if not hasattr(x, "kernels"):
            raise AutocompError(f"compares programs and folders of saved programs, got {type(x).__name__}", where="compare")
        timing = x.profile(inputs) if inputs is not None and x.runnable else None
        measured = timing.total if timing else None
        return Side(x.name, _spec(x.target.name, x.target.chip.name), x.predicted, measured, tuple(kernel_rows(x, timing)), dict(x.sources))

    @staticmethod
    def _of_folder(folder: Path) -> Side:
        manifest = folder / "manifest.json"
        if not manifest.is_file():
            what = "no manifest.json in this folder" if folder.is_dir() else "is no folder of a saved program"
            raise AutocompError(what, where=str(folder), hint="write one with `autocomp optimize MODEL -o DIR`")
        try:
            m = json.loads(manifest.read_text(encoding="utf-8"))
            sources = {f: _source(folder, f) for f in m["sources"]}
            rows = tuple({k: _KINDS[k](r[k]) for k in _KINDS} | {k: v for k, v in r.items() if k not in _KINDS} for r in m["kernels"])
            measured = None if m.get("measured") is None else float(m["measured"])
            return Side(str(m["name"]), _spec(str(m["target"]), str(m.get("chip", ""))), float(m["predicted"]), measured, rows, sources)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as e:
            raise AutocompError(f"cannot read the saved program: {type(e).__name__} {e}", where=str(manifest),
                                hint="save it again") from None  # fmt: skip


def _seconds(x: Any) -> float | None:
    return None if x is None else float(x)


# what is read of a kernel's row
_KINDS: dict[str, Callable[[Any], Any]] = {"kernel": str, "calls": int, "schedule": str, "predicted": float, "measured": _seconds}


def _source(folder: Path, name: Any) -> str:
    """The text of a file of the folder itself: a manifest may come from anywhere, and what it names lands in a report."""
    path = folder / str(name)
    if Path(str(name)).name != name or path.is_symlink() or not path.is_file():
        raise ValueError(f"'{name}' is no file of this folder")
    return path.read_text(encoding="utf-8", errors="replace")


def _spec(target: str, chip: str) -> str:
    return f"{target}:{chip}" if chip not in ("", target) else target


@dataclass(frozen=True)
class Comparison:
    """Kernels are paired by name; `pairs` keeps the order of A, then what only B has.

    Times are measured ones where both sides have them, else predicted ones: a measured time over a predicted one says nothing.
    """

    a: Side
    b: Side

    @property
    def kind(self) -> str:
        """What the times are."""
        return "measured" if self.a.measured and self.b.measured else "predicted"

    def seconds(self, x: dict[str, Any] | Side | None) -> float | None:
        """The time of a row or of a side."""
        if x is None:
            return None
        return x[self.kind] if isinstance(x, dict) else getattr(x, self.kind)  # type: ignore[no-any-return]

    @property
    def pairs(self) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
        in_b = {r["kernel"]: r for r in self.b.rows}
        names = {r["kernel"] for r in self.a.rows}
        return [(r, in_b.get(r["kernel"])) for r in self.a.rows] + [(None, r) for r in self.b.rows if r["kernel"] not in names]

    def data(self) -> dict[str, Any]:
        """For machines."""
        side = lambda s: {
            "name": s.name,
            "target": s.target,
            "predicted": s.predicted,
            "measured": s.measured,
            "kernels": list(s.rows),
        }
        return {"a": side(self.a), "b": side(self.b)}

    def table(self) -> Table:
        """For terminals: time of one call in A and B and the ratio."""
        t = Table(
            "kernel",
            "calls A",
            "calls B",
            f"{self.kind} A",
            f"{self.kind} B",
            "A / B",
            "schedule A",
            "schedule B",
            title=f"A: {self.a.name} on {self.a.target}   B: {self.b.name} on {self.b.target}",
        )
        for x, y in self.pairs:
            ta, tb = self.seconds(x), self.seconds(y)
            r = x or y or {}
            t.add_row(
                r["kernel"],
                str(x["calls"]) if x else "-",
                str(y["calls"]) if y else "-",
                seconds_text(ta),
                seconds_text(tb),
                f"{ta / tb:.2f}" if ta and tb else "",
                x["schedule"] if x else "",
                y["schedule"] if y else "",
            )
        ta, tb = self.seconds(self.a), self.seconds(self.b)
        t.add_section()
        t.add_row("total", "", "", seconds_text(ta), seconds_text(tb), f"{ta / tb:.2f}" if ta and tb else "", "", "", style="bold")
        return t

    def diffs(self) -> list[tuple[str, str]]:
        """(file, unified diff) of every source that differs."""
        out = []
        for f in sorted(self.a.sources.keys() | self.b.sources.keys()):
            x, y = self.a.sources.get(f, ""), self.b.sources.get(f, "")
            if x != y:
                out.append((f, "".join(unified_diff(x.splitlines(True), y.splitlines(True), f"A/{f}", f"B/{f}"))))
        return out

    def report(self, path: str | Path) -> Path:
        """The comparison as one HTML file."""
        rows = [(x, y, self.seconds(x), self.seconds(y)) for x, y in self.pairs]
        write_atomic(Path(path), render("compare.html", c=self, rows=rows, seconds=seconds_text))
        return Path(path)


def compare(a: Any, b: Any, inputs: Any = None) -> Comparison:
    """A against B. `inputs`: time both programs on them where they can run here."""
    return Comparison(Side.of(a, inputs), Side.of(b, inputs))
