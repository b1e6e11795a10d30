"""What `optimize` takes from the database: the fastest measured schedule of each kernel, where the whole program gains enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autocomp.cost.estimate import estimate
from autocomp.errors import AutocompError
from autocomp.ir.kernel import Kernel
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

    Kernels that were not tuned count with their predicted time. Every choice is an event `tuned` of the trace.
    """
    chosen: dict[str, tuple[Kernel, Schedule, Tuned]] = {}
    before = after = 0.0
    for c in calls.calls:
        k = c.kernel
        if k.signature not in untuned:
            continue
        t = known.searches.get(kernel_key(k))
        s = _admitted(k, t, target, options, trace) if t is not None else None
        if t is None or s is None or not t.untuned_seconds:
            before, after = before + untuned[k.signature][1].seconds, after + untuned[k.signature][1].seconds
            continue
        text = schedule_text(untuned[k.signature][0])
        before += next((x.seconds for x in t.kept if x.schedule == text), t.untuned_seconds)
        after += t.kept[0].seconds
        chosen[k.signature] = k, s, t
    if not any(schedule_text(s) != schedule_text(untuned[key][0]) for key, (_, s, _) in chosen.items()):
        return dict(untuned)
    gain = before / after
    if gain < options.min_speedup:
        trace.add("tuned", "program", used=False, gain=gain, text=f"the measured schedules make the program {gain:.2f} times faster, below "
                  f"min_speedup {options.min_speedup:g}: rolled back to the untuned ones")  # fmt: skip
        return dict(untuned)
    trace.add("tuned", "program", used=True, gain=gain, text=f"the measured schedules make the program {gain:.2f} times faster")
    out = dict(untuned)
    for key, (k, s, t) in chosen.items():
        out[key] = s, estimate(k, s, target.chip)
        trace.add("tuned", k.name, used=True, signature=key, seconds=t.kept[0].seconds, untuned_seconds=t.untuned_seconds, tried=t.tried,
                  text=f"measured {t.kept[0].seconds * 1e6:.2f} us, the fastest of {t.tried} schedules; the untuned choice took "
                  f"{t.untuned_seconds * 1e6:.2f} us")  # fmt: skip
    return out


def _admitted(k: Kernel, t: Tuned, target: Target, options: Options, trace: Trace) -> Schedule | None:
    """The kept schedule, if it is legal for the kernel and the target prints it: a database may come from anywhere."""
    try:
        s = schedule_of(t.kept[0].schedule)
        verdict = legal(k, s, options.exact)
        why = "" if verdict.ok else verdict.why
        if not why:
            target.admit(k, s)
    except (AutocompError, KeyError, TypeError, ValueError) as e:
        why = str(e)
    if why:
        trace.add("tuned", k.name, used=False, signature=k.signature, text=f"the stored schedule is not used: {why}")
        return None
    return s
