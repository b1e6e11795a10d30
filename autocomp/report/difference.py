"""What another program of the same model would be: another chip's figures, or fewer rules. Which kernels change, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from autocomp.report.layers import model_text
from autocomp.report.matching import makes, matched
from autocomp.report.tables import plural, seconds_text
from autocomp.runtime.rounds import Rounds

SHOWN = 12  # groups of kernels that are told one by one
SAME = 5e-3  # times that differ by less are said to be the same


def ratio_text(before: float, after: float) -> str:
    """`1.25 times faster`, `1.10 times slower` or `no faster and no slower`."""
    if not before or not after or abs(before / after - 1) < SAME:
        return "no faster and no slower"
    return f"{max(before, after) / min(before, after):.2f} times {'faster' if after < before else 'slower'}"


def difference(now: Any, then: Any, what: Sequence[str], measured: Rounds | None = None) -> tuple[str, dict[str, Any]]:
    """(text, data). `now`, `then`: programs of one model; `what`: a line for each thing in which they differ; `measured`: times of both
    in turns, `now` as A, where they run here."""
    kernels = {p: {k.signature: k for k in p.kernels} for p in (now, then)}
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for g in matched(makes(now), makes(then)):
        a, b = (tuple(kernels[p][p.calls.calls[i].kernel.signature] for i in side) for p, side in ((now, g.a), (then, g.b)))
        groups.setdefault((tuple((k.signature, k.schedule) for k in a), tuple((k.signature, k.schedule) for k in b)), []).append((g, a, b))
    ratio = ratio_text(now.predicted, then.predicted)
    lines = [*what, f"predicted {seconds_text(then.predicted)} instead of {seconds_text(now.predicted)}: {ratio}"]
    if measured:
        before, after = (seconds_text(median(side)) for side in (measured.a, measured.b))
        lines.append(f"measured {after} instead of {before} in {len(measured.a)} rounds: {measured.verdict.replace('B is', 'it is', 1)}")
    rows: list[dict[str, Any]] = []
    for (left, right), alike in groups.items():
        g, a, b = alike[0]
        before, after = (sum(k.predicted for k in side) for side in (a, b))
        place = model_text(now, now.calls.calls[g.a[0]]) if g.a else model_text(then, then.calls.calls[g.b[0]])
        rows.append({"before": [k.name for k in a], "after": [k.name for k in b], "times": len(alike), "changed": left != right,
                     "at": place, "predicted": [before, after], "text": _text(a, b),
                     "bound": [bounds(side) for side in (a, b)]})  # fmt: skip
    moved = sorted((r for r in rows if r["changed"]), key=lambda r: -abs(r["predicted"][0] - r["predicted"][1]) * r["times"])
    same = sum(r["times"] for r in rows if not r["changed"])
    if not moved:
        lines.append(f"no kernel changes{_binding(rows)}")
    for r in moved[:SHOWN]:
        often = f" ({r['times']} times)" if r["times"] > 1 else ""
        place = f"{r['at']}: " if r["at"] else ""
        lines.append(f"  {place}{r['text']}{often}; {_moved(r)}")
    if len(moved) > SHOWN:
        lines.append(f"  and {plural(len(moved) - SHOWN, 'smaller change')}")
    if moved and same:
        lines.append(f"  {plural(same, 'kernel')} of the program stay{'s' if same == 1 else ''} as {'it is' if same == 1 else 'they are'}")
    return "\n".join(lines), {"what": list(what), "predicted": [now.predicted, then.predicted], "kernels": rows,
                              "measured": measured.data() if measured else None}  # fmt: skip


def _binding(rows: Sequence[dict[str, Any]]) -> str:
    """What binds the kernels, with its share of the predicted time, the largest first."""
    time: dict[str, float] = {}
    for r in rows:
        time[r["bound"][1]] = time.get(r["bound"][1], 0.0) + r["predicted"][1] * r["times"]
    total = sum(time.values())
    if not total:
        return ""
    return ": what binds is " + ", ".join(f"{what} ({t / total:.0%} of the time)" for what, t in sorted(time.items(), key=lambda x: -x[1]))


def bounds(kernels: Sequence[Any]) -> str:
    """What binds some kernels, each thing once."""
    return " and ".join(dict.fromkeys(k.bound for k in kernels))


def _text(a: Sequence[Any], b: Sequence[Any]) -> str:
    """One kernel with another schedule, or other kernels."""
    if [k.signature for k in a] == [k.signature for k in b]:
        changes = [f"{x.name}: {_clauses(y, x)} instead of {_clauses(x, y)}" for x, y in zip(a, b, strict=True) if x.schedule != y.schedule]
        return ", ".join(changes) or ", ".join(k.name for k in a)
    names = lambda ks: ", ".join(k.name for k in ks) or "nothing"
    return f"{names(b)} instead of {names(a)}"


def _clauses(k: Any, other: Any) -> str:
    """What a kernel's schedule says that the other one's does not."""
    theirs = set(other.schedule.split(" | "))
    return " | ".join(c for c in k.schedule.split(" | ") if c not in theirs) or "nothing"


def _moved(row: dict[str, Any]) -> str:
    """Its time and what binds it, before and after."""
    (s, t), (p, q) = row["predicted"], row["bound"]
    bound = f"bound by {p}" if p == q else f"bound by {q} instead of {p}"
    return f"{seconds_text(s)} -> {seconds_text(t)}, {bound}"
