"""What `optimize` takes from the database: the fastest measured schedule of each kernel, where the whole program gains enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.cost.estimate import estimate
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.loops.schedules import legal
from autocomp.tune.key import kernel_key, schedule_of, schedule_text

if TYPE_CHECKING:
    from autocomp.cost.work import Cost
    from autocomp.ir.kernel import KernelGraph
    from autocomp.ir.schedule import Schedule
    from autocomp.options import Options
    from autocomp.targets import Target
    from autocomp.trace import Trace
    from autocomp.tune.database import Tuned
    from autocomp.tune.use import Measured


def tuned_schedules(calls: KernelGraph, untuned: Mapping[str, tuple[Schedule, Cost]], known: Measured, target: Target, options: Options,
                    trace: Trace) -> dict[str, tuple[Schedule, Cost]]:  # fmt: skip
    """The schedules by signature: measured ones where the program as a whole becomes `min_speedup` times faster, else all untuned.

    Kernels that were not tuned count with their predicted time. A kernel whose untuned choice gave no right result takes a measured one in
    any case. Every choice is an event `tuned` of the trace.
    """
    kernels = {c.kernel.signature: c.kernel for c in calls.calls if c.kernel.signature in untuned}
    found = {key: _found(k, untuned[key][0], known, target, options, trace) for key, k in kernels.items()}
    chosen = {key: f for key, f in found.items() if f is not None}
    if not any(schedule_text(f.schedule) != schedule_text(untuned[key][0]) for key, f in chosen.items()):
        if chosen:
            text = f"measured: the untuned schedules of {len(chosen)} of {len(kernels)} kernels are the fastest that are known"
            trace.add("tuned", "program", used=False, gain=1.0, text=text)
        return dict(untuned)
    times = [(chosen[key].before, chosen[key].after) if key in chosen else (untuned[key][1].seconds,) * 2
             for key in (c.kernel.signature for c in calls.calls) if key in untuned]  # fmt: skip
    gain = sum(before for before, _ in times) / sum(after for _, after in times)
    text = f"the measured schedules make the program {gain:.2f} times faster"
    if gain < options.min_speedup:
        text += f", below min_speedup {options.min_speedup:g}: rolled back to the untuned ones"
        chosen = {key: f for key, f in chosen.items() if f.needed}
    trace.add("tuned", "program", used=gain >= options.min_speedup, gain=gain, text=text)
    out = dict(untuned)
    for key, f in chosen.items():
        out[key] = f.schedule, estimate(kernels[key], f.schedule, target.chip)
        trace.add("tuned", kernels[key].name, used=True, signature=key, seconds=f.after, text=f.text)
    return out


@dataclass(frozen=True)
class _Found:
    """A measured schedule, the seconds of the untuned one and its own, what to say, and whether the untuned one cannot be used."""

    schedule: Schedule
    before: float
    after: float
    text: str
    needed: bool


def _found(k: Kernel, untuned: Schedule, known: Measured, target: Target, options: Options, trace: Trace) -> _Found | None:
    """What the database has for a kernel, if it can be used."""
    t = known.searches.get(kernel_key(k, options))
    s = _admitted(k, t, target, options, trace) if t is not None else None
    if t is None or s is None:
        return None
    text, after = schedule_text(untuned), t.kept[0].seconds
    needed = not t.untuned_seconds and t.untuned == text
    before = next((x.seconds for x in t.kept if x.schedule == text), t.untuned_seconds or after)
    said = "gave no right result" if needed else f"took {before * 1e6:.2f} us"
    return _Found(s, before, after, f"measured {after * 1e6:.2f} us, the fastest of {t.tried} schedules; the untuned choice {said}", needed)


def _admitted(k: Kernel, t: Tuned, target: Target, options: Options, trace: Trace) -> Schedule | None:
    """The kept schedule, if it is legal for the kernel and the target prints it: a database may come from anywhere."""
    try:
        s = schedule_of(t.kept[0].schedule)
        verdict = legal(k, s, options.exact)
        why = "" if verdict.ok else str(verdict)
        for piece, own in pieces(k, s) if not why else ():
            target.admit(piece, own)
    except (AutocompError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as e:
        why = str(e)
    if why:
        trace.add("tuned", k.name, used=False, signature=k.signature, text=f"the stored schedule is not used: {why}")
        return None
    return s
