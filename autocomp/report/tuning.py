"""What a measured search found, as a table and as data; and its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from autocomp.cost.estimate import estimate
from autocomp.report.tables import seconds_text
from autocomp.tune.key import schedule_of
from autocomp.tune.monitors import monitors_of
from autocomp.tune.ranks import Rank, pooled, spearman

if TYPE_CHECKING:
    from autocomp.cost.chip import Chip
    from autocomp.ir.kernel import KernelGraph
    from autocomp.options import Options
    from autocomp.targets import Target
    from autocomp.tune.database import Database, Tuned
    from autocomp.tune.kernel import KernelResult, Limits
    from autocomp.tune.tuner import Progress

WIDTH = 140  # columns of a table that goes to no terminal
EVERY = 5.0  # seconds between lines of progress where there is no terminal


class Searched(Protocol):
    """What a search asks of a program (`runtime.program.Program`)."""

    name: str
    calls: KernelGraph
    target: Target
    options: Options


class TuneProgress:
    """A bar on a terminal; elsewhere a line every few seconds and one when a kernel is finished."""

    def __init__(self, console: Console, enabled: bool = True) -> None:
        self.console, self.enabled = console, enabled
        self.bar: Bar | None = None
        self.task: Any = None
        self.last: Progress | None = None
        self.said = 0.0

    def __enter__(self) -> TuneProgress:
        if self.enabled and self.console.is_terminal:
            self.bar = Bar(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} {task.fields[text]}"),
                           console=self.console, transient=True)  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task("reading", total=1, text="")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()
        self._finished()

    def __call__(self, p: Progress) -> None:
        if not self.enabled:
            return
        if self.last is not None and self.last.kernel != p.kernel:
            self._finished()
        self.last = p
        if self.bar is not None:
            self.bar.update(self.task, description=f"{p.number}/{p.kernels} {p.kernel}", total=p.limit, completed=p.tried, text=_state(p))
        elif time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            self._say(f"{p.kernel} ({p.number} of {p.kernels}): {p.tried} of {p.limit} schedules, {_state(p)}")

    def _finished(self) -> None:
        if self.enabled and self.last is not None:
            p = self.last
            self._say(f"{p.kernel}: {p.tried} of {p.limit} schedules tried, {_state(p)}")
            self.last = None

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


def _state(p: Progress) -> str:
    parts = [f"best {seconds_text(p.best or None) or 'none'}", f"untuned {seconds_text(p.untuned or None) or 'failed'}"]
    return ", ".join([*parts, *([f"{p.failed} failed"] if p.failed else []), f"{p.elapsed:.0f} s"])


@dataclass(frozen=True)
class Tuning:
    """What a search over a program's kernels found: `rows` as `result_rows` gives them. As a text: the table and what is to be said."""

    title: str
    rows: list[dict[str, Any]]
    verdict: str

    @property
    def remarks(self) -> list[str]:
        """Lines below the table, the verdict last."""
        return [*remarks(self.rows), self.verdict]

    def table(self) -> Table:
        """For terminals."""
        fresh = sum(r["fresh"] for r in self.rows)
        known = sum(r["tried"] for r in self.rows) - fresh
        return result_table(self.rows, f"{self.title}: {fresh} schedules measured now, {known} known from before")

    def __str__(self) -> str:
        console = Console(file=StringIO(), width=WIDTH)
        console.print(self.table())
        return "\n".join([console.file.getvalue().rstrip(), *self.remarks])  # type: ignore[attr-defined]


def search_program(
    program: Searched, options: Options, database: Database, limits: Limits, console: Console, quiet: bool = False
) -> Tuning:
    """Measure schedules of a program's kernels, progress on `console`. Raises what `tune_program` raises."""
    from autocomp import rewrite
    from autocomp.tune.tuner import tune_program

    rules = rewrite.load_rules(options.rules, without=options.without, options=options)
    with TuneProgress(console, not quiet) as progress:
        results = tune_program(program.calls, program.target, rules, options, database, limits, progress)
    rows = result_rows(results, program.target.chip, options)
    return Tuning(f"{program.name} on {program.target.name} ({program.target.chip.name})", rows, verdict(rows, options.min_speedup))


def tune(program: Searched, seconds: float, configurations: int | None, quiet: bool) -> Tuning:
    """`Program.tune`: a search into the database that the program's options name."""
    from autocomp.tune.database import Database
    from autocomp.tune.kernel import Limits
    from autocomp.tune.use import database_path

    console = Console(stderr=True, markup=False)
    options = replace(program.options, tuned=False,
                      search_configurations=configurations or program.options.search_configurations)  # fmt: skip
    with Database(database_path(options), lambda text: console.print(text, highlight=False)) as db:
        return search_program(program, options, db, Limits(seconds=seconds), console, quiet)


def result_rows(results: Sequence[KernelResult], chip: Chip, options: Options) -> list[dict[str, Any]]:
    """One dict a kernel; times in seconds. `near`: tuned over untuned time, 1 where the choice without measuring was the best."""
    rows = []
    for r in results:
        near = r.tuned_seconds / r.untuned_seconds if r.untuned_seconds else None
        row = {
            "kernel": r.name, "calls": r.calls, "schedules": r.space, "tried": r.tried, "fresh": r.fresh, "failed": dict(r.failures),
            "untuned": r.untuned, "tuned": r.tuned, "predicted_seconds": r.predicted, "untuned_seconds": r.untuned_seconds,
            "tuned_seconds": r.tuned_seconds, "gain": 1 / near if near else None, "near": near, "rank_correlation": spearman(r.pairs),
            "note": r.note, "warnings": [],
        }  # fmt: skip
        if r.kernel is not None and r.tuned_seconds:
            m = monitors_of(r.kernel, chip, r.tuned_seconds, r.figures)
            bound = estimate(r.kernel, schedule_of(r.schedule), chip).bound
            row |= {"bandwidth": m.bandwidth, "level": m.level, "occupancy": m.occupancy, "spilled": m.spilled, "figures": dict(r.figures),
                    "warnings": [*m.warnings(bound, options), *_noise(r)]}  # fmt: skip
        rows.append(row)
    return rows


def _noise(r: KernelResult) -> list[str]:
    """Whether the kept time is to be doubted."""
    return ["other processes disturbed every run: measure on a quiet machine"] if r.figures.get("disturbed") == 1 else []


def program_gain(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Seconds of one call by its kernels: untuned and tuned."""
    known = [r for r in rows if r["near"]]
    return sum(r["untuned_seconds"] * r["calls"] for r in known), sum(r["tuned_seconds"] * r["calls"] for r in known)


def verdict(rows: Sequence[dict[str, Any]], min_speedup: float) -> str:
    """Whether `optimize` will use the measured schedules, in words."""
    before, after = program_gain(rows)
    if not after:
        return "nothing was tuned"
    gain = before / after
    head = f"program: {seconds_text(before)} untuned, {seconds_text(after)} tuned, {gain:.2f} times faster"
    if gain >= min_speedup:
        return f"{head}; `optimize` uses the measured schedules"
    return f"{head}, below min_speedup {min_speedup:g}: `optimize` rolls back to the untuned schedules (--set min_speedup=1 uses them)"


def result_table(rows: Sequence[dict[str, Any]], title: str) -> Table:
    """The rows for a terminal."""
    share = lambda x: "" if x is None else f"{x:.0%}"
    number = lambda x: "" if x is None else f"{x:.2f}"
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "calls": lambda r: str(r["calls"]),
        "tried": lambda r: f"{r['tried']}/{r['schedules']}",
        "predicted": lambda r: seconds_text(r["predicted_seconds"] or None),
        "untuned": lambda r: seconds_text(r["untuned_seconds"] or None),
        "tuned": lambda r: seconds_text(r["tuned_seconds"] or None),
        "gain": lambda r: number(r["gain"]),
        "near": lambda r: number(r["near"]),
        "rank": lambda r: number(r["rank_correlation"]),
        "bandwidth": lambda r: f"{share(r.get('bandwidth'))} {r.get('level', '')}".strip(),
    }
    if any(r.get("occupancy") is not None for r in rows):
        columns["occupancy"] = lambda r: share(r.get("occupancy"))
    if any(r.get("spilled") is not None for r in rows):
        columns["spills"] = lambda r: share(r.get("spilled"))
    t = Table(title=title)
    t.add_column("kernel", overflow="ellipsis", no_wrap=True, max_width=26)
    for name, cell in columns.items():
        t.add_column(name, justify="right", no_wrap=True, min_width=max(map(len, (name, *map(cell, rows)))))
    t.add_column("schedule", overflow="ellipsis", no_wrap=True, max_width=30)
    for r in rows:
        t.add_row(r["kernel"], *(cell(r) for cell in columns.values()), r["tuned"] or r["note"])
    return t


def remarks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines below the table: what failed and why, what the monitors point at, what is not finished."""
    out = []
    for r in rows:
        out += [f"{r['kernel']}: {n} schedule{'s' if n > 1 else ''} failed: {why}" for why, n in sorted(r["failed"].items())]
        out += [f"{r['kernel']}: {w}" for w in r["warnings"]]
        if r["note"]:
            out.append(f"{r['kernel']}: {r['note']}")
    return out


def stored_rows(found: Sequence[Tuned]) -> list[dict[str, Any]]:
    """What a database holds, one dict a kernel and place."""
    return [
        {
            "kernel": t.name, "key": t.kernel, "chip": t.place.chip, "rules": t.place.rules, "version": t.place.version,
            "schedules": t.space, "tried": t.tried, "done": t.done, "untuned_seconds": t.untuned_seconds,
            "kept": [{"schedule": k.schedule, "seconds": k.seconds} for k in t.kept],
        }
        for t in found
    ]  # fmt: skip


def stored_table(rows: Sequence[dict[str, Any]], title: str) -> Table:
    t = Table("kernel", "chip", "tried", "done", "untuned", "tuned", "schedule", title=title)
    for r in rows:
        best: dict[str, Any] = r["kept"][0] if r["kept"] else {"schedule": "none", "seconds": None}
        t.add_row(r["kernel"], r["chip"], f"{r['tried']}/{r['schedules']}", "yes" if r["done"] else "no",
                  seconds_text(r["untuned_seconds"] or None), seconds_text(best["seconds"]), best["schedule"])  # fmt: skip
    return t


def rank_rows(found: Sequence[Rank]) -> list[dict[str, Any]]:
    """One dict a kernel: how well the model orders its measured schedules."""
    return [
        {"kernel": r.kernel, "chip": r.chip, "schedules": len(r.pairs), "rank_correlation": r.correlation, "near": r.near}
        for r in found
    ]  # fmt: skip


def rank_table(found: Sequence[Rank]) -> Table:
    """The rows, and a last one over all schedules together."""
    number = lambda x: "" if x is None else f"{x:.2f}"
    t = Table("kernel", "chip", title="predicted and measured order")
    for name in ("schedules", "rank correlation", "near"):
        t.add_column(name, justify="right")
    for r in found:
        t.add_row(r.kernel, r.chip, str(len(r.pairs)), number(r.correlation), number(r.near))
    t.add_section()
    worst = min((r.near for r in found), default=None)
    t.add_row(f"{len(found)} kernels", "", str(sum(len(r.pairs) for r in found)), number(pooled(found)), number(worst), style="bold")
    return t
