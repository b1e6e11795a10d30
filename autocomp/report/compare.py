"""A against B: two programs, or two saved folders, kernel by kernel."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, unified_diff
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.report.device_facts import resources
from autocomp.report.matching import matched
from autocomp.report.roofline import Point, Series, points, rate_text, roofline, types_of
from autocomp.report.sides import Given
from autocomp.report.tables import kernel_rows, seconds_text
from autocomp.report.templates import asset, render
from autocomp.report.trial import Trial
from autocomp.runtime.rounds import median_interval

FORMAT = "comparison 1"
COLOURS = ("#3f7fc4", "#d9730d")  # of A and B
CONTEXT = 3  # equal lines around what differs
NEEDS = ("kernel", "operations", "main memory", "bound by", "registers a thread", "spilled bytes a thread", "shared bytes a block",
         "threads resident")  # fmt: skip
MOST_LINES = 1500  # of a pair of sources that are shown


@dataclass(frozen=True)
class Side:
    """One side: `target` with its chip, as `--target` takes it; `rows` as in `tables.kernel_rows`, `sources` file name -> text."""

    name: str
    target: str
    predicted: float | None
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
        asked = resources(x) if timing else {}
        rows = tuple({**r, **asked.get(r["kernel"], {})} for r in kernel_rows(x, timing))
        return Side(x.name, _spec(x.target.name, x.target.chip.name), x.predicted, measured, rows, dict(x.sources))

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
    """Kernels stand beside each other by what they compute of the model (by name, where a saved program does not say that): one that is
    fused beside the three that it replaced. `pairs` keeps the order of A, then what only B has.

    `trial`: both run in turns, where they run here; else `unmeasured` says why not. Times of kernels are measured ones where both sides
    have them, else predicted ones: a measured time over a predicted one says nothing.
    """

    a: Side
    b: Side
    trial: Trial | None = None
    unmeasured: str = ""  # why there is no trial

    @property
    def kind(self) -> str:
        """What the times are."""
        return "measured" if self.a.measured and self.b.measured else "predicted"

    def seconds(self, x: Sequence[dict[str, Any]] | Side) -> float | None:
        """The time of a side, or of one call of each of some kernels."""
        if isinstance(x, Side):
            return getattr(x, self.kind)  # type: ignore[no-any-return]
        times = [r[self.kind] for r in x]
        return sum(times) if times and all(t is not None for t in times) else None

    @property
    def pairs(self) -> list[tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]]:
        """Rows of A and the rows of B that compute the same."""
        if "by hand" in (self.a.target, self.b.target):  # it makes all that the other side makes
            return [(self.a.rows, self.b.rows)]
        told = all(r.get("makes") for s in (self.a, self.b) for r in s.rows)
        key = lambda r: map(str, r["makes"]) if told else (r["kernel"],)
        groups = matched([key(r) for r in self.a.rows], [key(r) for r in self.b.rows])
        return [(tuple(self.a.rows[i] for i in g.a), tuple(self.b.rows[i] for i in g.b)) for g in groups]

    def data(self) -> dict[str, Any]:
        """For machines."""
        side = lambda s: {
            "name": s.name,
            "target": s.target,
            "predicted": s.predicted,
            "measured": s.measured,
            "kernels": list(s.rows),
        }
        return {"format": FORMAT, "a": side(self.a), "b": side(self.b), "bounds": self.moved(),
                "trial": self.trial.data() if self.trial else None}  # fmt: skip

    def moved(self) -> list[str]:
        """What binds the kernels that stand beside each other, where it is another thing or another prediction."""
        out = []
        for x, y in self.pairs:
            p, q = (" and ".join(dict.fromkeys(str(r.get("bound", "?")) for r in side)) for side in (x, y))
            if x and y and p != q and "?" not in (p, q):
                out.append(f"{' + '.join(r['kernel'] for r in x)}: bound by {p} in A, by {q} in B")
        return out

    def alike(self) -> list[str]:
        """That both sides are one program: whatever was to make them differ did nothing, and a ratio of their times is noise."""
        if not self.a.sources or self.a.sources != self.b.sources or self.a.target != self.b.target:
            return []
        return ["both sides are the same program: equal sources of all kernels; what only one side has took no part "
                "(of a rule: autocomp explain MODEL --rules FILE --why-not RULE)"]  # fmt: skip

    def summary(self) -> list[str]:
        """Lines below the table: predicted beside measured, the verdict, correctness, environment."""
        a, b = (seconds_text(s.predicted) or "not known" for s in (self.a, self.b))
        said = "kernels: timed each by itself, warm, and adjusted so that they sum up to the total"
        parts = [said] if self.trial and self.kind == "measured" else []
        return [f"predicted: A {a}, B {b}", *self.moved(), *self.alike(), *parts,
                *(self.trial.lines() if self.trial else [f"not measured: {self.unmeasured}"] if self.unmeasured else [])]

    def markdown(self) -> str:
        """The comparison as Markdown."""
        rows = [[c.replace("\n", "<br>").replace("|", "\\|") for c in self._cells(x, y, both=True)] for x, y in self.pairs]
        head = ["kernel", "calls A", "calls B", f"{self.kind} A", f"{self.kind} B", "A / B", "schedule A", "schedule B"]
        table = [f"| {' | '.join(r)} |" for r in (head, ["---"] * len(head), *rows)]
        title = f"# A: {self.a.name} on {self.a.target}, B: {self.b.name} on {self.b.target}"
        columns, needs = _without_empty(NEEDS, self.needs())
        asked = [f"| {' | '.join(r)} |" for r in (columns, ["---"] * len(columns), *needs)] if needs else []
        return "\n".join([title, "", *(f"- {x}" for x in self.summary()), "", *table, "", *asked, "",
                          *(f"## {n}\n```diff\n{d}\n```" for n, d in self.diffs())]) + "\n"  # fmt: skip

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
            t.add_row(*self._cells(x, y))
        ta, tb = self.seconds(self.a), self.seconds(self.b)
        t.add_section()
        t.add_row("total", "", "", seconds_text(ta), seconds_text(tb), f"{ta / tb:.2f}" if ta and tb else "", "", "", style="bold")
        return t

    def _cells(self, x: Sequence[dict[str, Any]], y: Sequence[dict[str, Any]], both: bool = False) -> tuple[str, ...]:
        """A line of the table: kernels of A beside those of B. `both`: what was predicted stands below what was measured."""
        a, b = (" + ".join(r["kernel"] for r in side) for side in (x, y))
        lines = lambda side, field: "\n".join(str(r[field]) for r in side)
        ta, tb = self.seconds(x), self.seconds(y)
        ratio = f"{ta / tb:.2f}" if ta and tb else ""
        said = [seconds_text(ta), seconds_text(tb)]
        if both and self.kind == "measured":
            told = [[r["predicted"] for r in side] for side in (x, y)]
            said = [f"{t}\n({seconds_text(sum(p))} predicted)" if p and all(p) else t for t, p in zip(said, told, strict=True)]
        return (a if a == b or not b else b if not a else f"{a}\nB: {b}", lines(x, "calls") or "-", lines(y, "calls") or "-",
                *said, ratio, lines(x, "schedule"), lines(y, "schedule"))  # fmt: skip

    def needs(self) -> list[tuple[str, ...]]:
        """What a launch of each kernel computes, moves and asks of a core (`NEEDS`); of a kernel by hand nothing is known."""
        rows = [(side, r) for side, s in (("A", self.a), ("B", self.b)) for r in s.rows if s.target != "by hand"]
        number = lambda r, k: f"{r[k]:.0f}" if r.get(k) is not None else ""
        return [(f"{side}: {r['kernel']}", rate_text(r["operations"]).strip() if r.get("operations") else "",
                 f"{rate_text(r['bytes'])}B" if r.get("bytes") else "", str(r.get("bound", "")), number(r, "registers"),
                 number(r, "local"), number(r, "shared"), f"{r['occupancy']:.0%}" if r.get("occupancy") is not None else "")
                for side, r in rows]  # fmt: skip

    def diffs(self) -> list[tuple[str, str]]:
        """(file, unified diff) of every source that differs."""
        out = []
        for f in sorted(self.a.sources.keys() | self.b.sources.keys()):
            x, y = self.a.sources.get(f, ""), self.b.sources.get(f, "")
            if x != y:
                out.append((f, "".join(unified_diff(x.splitlines(True), y.splitlines(True), f"A/{f}", f"B/{f}"))))
        return out

    def report(self, path: str | Path) -> Path:
        """The comparison as one file: .html, .md, or .json (which `history` reads)."""
        suffix = Path(path).suffix
        if suffix == ".json":
            write_atomic(Path(path), json.dumps({**self.data(), "when": time.time()}, indent=1) + "\n")
            return Path(path)
        if suffix == ".md":
            write_atomic(Path(path), self.markdown())
            return Path(path)
        rows = [self._cells(x, y, both=True) for x, y in self.pairs]
        write_atomic(Path(path), render("compare.html", c=self, rows=rows, seconds=seconds_text, style=asset("report.css"),
                                        needs=_without_empty(NEEDS, self.needs()), intervals=self._intervals(),
                                        roofline=self.roofline(), rules=self.rules(), beside=beside))  # fmt: skip
        return Path(path)

    def roofline(self) -> str:
        """Both sides in one plot, below the ceilings of A's chip, or B's where A has none; "" where neither has one here."""
        from autocomp.targets import load_target

        sides = [s for s in (self.a, self.b) if s.target != "by hand"]
        try:
            chip = load_target(sides[0].target).chip if sides else None
        except AutocompError:
            chip = None
        if chip is None:
            return ""
        series = []
        for side, letter, colour in ((self.a, "A", COLOURS[0]), (self.b, "B", COLOURS[1])):
            found = points(side.rows if self.kind == "measured" else [{**r, "measured": None} for r in side.rows])
            whole = self._whole(side)
            series.append(Series(letter, colour, (*found, *([whole] if whole else []))))
        ceilings = self.trial.ceilings if self.trial and self.trial.comparable else None
        return roofline(chip, series, types_of([*self.a.rows, *self.b.rows]), ceilings)

    def _whole(self, side: Side) -> Point | None:
        """A side as one dot, at the time of the rounds: what it computes, over all that its kernels move; a kernel by hand as the other
        side does it."""
        if self.trial is None or not self.trial.comparable:
            return None
        rows = side.rows if side.target != "by hand" else (self.b if side is self.a else self.a).rows
        ops, moved = (sum((r.get(k) or 0.0) * r["calls"] for r in rows) for k in ("operations", "bytes"))
        seconds = median(self.trial.rounds.a if side is self.a else self.trial.rounds.b)
        return Point("all of it", ops / moved, None, ops / seconds, seconds) if ops and moved else None

    def rules(self) -> list[tuple[str, str, str]]:
        """Of kernels beside each other, the rules that made those of A alone, and of B alone."""
        out = []
        for x, y in self.pairs:
            a, b = ({str(r).split(":")[0] for row in side for r in row.get("rules") or ()} for side in (x, y))
            if a != b:
                out.append((" + ".join(r["kernel"] for r in x or y), ", ".join(sorted(a - b)), ", ".join(sorted(b - a))))
        return out

    def _intervals(self) -> list[tuple[str, str, float, float, float]]:
        """Of A and B: (name, median as text, and lowest, median and highest of the interval as shares of the longest)."""
        if self.trial is None or not self.trial.comparable:
            return []
        found = [median_interval(s) for s in (self.trial.rounds.a, self.trial.rounds.b)]
        most = max(i.high for i in found)
        text = lambda i: f"{seconds_text(i.median)} ({seconds_text(i.low)} to {seconds_text(i.high)})"
        return [(f"{letter}: {side.name}", text(i), i.low / most, i.median / most, i.high / most)
                for letter, side, i in zip("AB", (self.a, self.b), found, strict=True)]  # fmt: skip


def _without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """A table without its columns in which no row says anything."""
    kept = [i for i in range(len(head)) if any(r[i] for r in rows)]
    return [head[i] for i in kept], [[r[i] for i in kept] for r in rows]


def beside(x: str, y: str) -> list[tuple[str, str, str]]:
    """Lines of two texts beside each other: (kind, left, right), kind same, changed or gap (equal lines that were left out)."""
    a, b, out = x.splitlines(), y.splitlines(), list[tuple[str, str, str]]()
    for tag, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            head, tail = (a[i : i + CONTEXT] if out else []), a[max(i + (CONTEXT if out else 0), j - CONTEXT) : j]
            out += [("same", t, t) for t in head]
            if j - i > len(head) + len(tail):
                out.append(("gap", f"{j - i - len(head) - len(tail)} equal lines", ""))
            out += [("same", t, t) for t in tail]
            continue
        out += [("changed", p, q) for p, q in zip_longest(a[i:j], b[k:n], fillvalue="")]
    return out[:MOST_LINES]


def of_given(given: Given, feed: Any = None, seconds: float | None = None) -> Side:
    """A side that was resolved. `feed`: time each kernel of a program on it; `seconds`: of all of it, as the rounds say. A kernel by hand
    has one row, of which nothing is predicted."""
    if given.program is not None:
        side = Side.of(given.program, feed)
        if side.measured is None or seconds is None:
            return replace(side, name=given.name)
        return replace(side, name=given.name, measured=seconds, rows=parts_of(side.rows, seconds))
    if given.folder is not None:
        return replace(Side.of(given.folder), name=given.name)
    row = {"kernel": given.name, "calls": 1, "schedule": "by hand", "predicted": None, "measured": seconds, "bound": "?"}
    return Side(given.name, "by hand", None, seconds, (row,), given.sources)


def parts_of(rows: Sequence[dict[str, Any]], seconds: float) -> tuple[dict[str, Any], ...]:
    """Kernels timed each by itself, as parts of `seconds`, what all calls together took. A launch on its own takes longer than within the
    program (events around it, the wait until it starts), each by the same time, which is taken off; where that would leave little of one,
    and where the whole took longer, all are scaled alike."""
    apart = [(r, float(r["measured"] or 0.0), int(r["calls"])) for r in rows]
    whole, launches = sum(t * n for _, t, n in apart), sum(n for _, _, n in apart)
    if not whole:
        return tuple(rows)
    over = (whole - seconds) / launches
    share = seconds / whole
    alike = over < 0 or any(t - over < 0.5 * share * t for _, t, _ in apart)
    times = [t * share if alike else t - over for _, t, _ in apart]
    return tuple({**r, "measured": new, "roofline": r["roofline"] * t / new if r.get("roofline") else r.get("roofline")}
                 for (r, t, _), new in zip(apart, times, strict=True))  # fmt: skip


def history(folder: Path) -> list[dict[str, Any]]:
    """The runs that `--report FOLDER/NAME.json` saved, oldest first. Raises AutocompError where there is none."""
    runs = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] == FORMAT and data["trial"]:
                ratio = data["trial"]["a_over_b"]
                runs.append({"when": float(data["when"]), "run": path.name, "sides": f"{data['a']['name']} / {data['b']['name']}",
                             "a": float(data["trial"]["a"]["median"]), "b": float(data["trial"]["b"]["median"]),
                             "a_over_b": [float(ratio[k]) for k in ("low", "median", "high")],
                             "verdict": str(data["trial"]["verdict"])})  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            continue  # another file
    if not runs:
        raise AutocompError("holds no measured comparison", where=str(folder),
                            hint="save some: autocomp compare A B --report DIR/NAME.json")  # fmt: skip
    return sorted(runs, key=lambda r: r["when"])


def compare(a: Any, b: Any, inputs: Any = None) -> Comparison:
    """A against B. `inputs`: time both programs on them where they can run here."""
    return Comparison(Side.of(a, inputs), Side.of(b, inputs))
