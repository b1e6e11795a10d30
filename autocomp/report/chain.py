"""From the nodes of the model to a kernel: each rule instance with what it matched, its conditions with their values, its evidence and
what it saved.

    algebra/mul-one (proved): needs nothing new for f32[64, 96], at encoder/scale
      ?x = add f32[64, 96]
      shape(?root) == shape(?x): shape(?root) is [64, 96], shape(?x) is [64, 96]
    fusion/epilogue (assumed): took add f32[64, 96] into operand 0 of relu, saves 48 KB
"""

from __future__ import annotations

from typing import Any

from autocomp.files import digest
from autocomp.ir.places import short
from autocomp.report.tables import plural, seconds_text
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.vocabulary import KERNEL_PHASES
from autocomp.store import package_stamp, read_entry, write_entry

SAMPLES = 8  # drawn instances (times five) on which a rule of a chain is tested
KERNELS = 1  # the same for a rule about schedules, of which each draw is a kernel that is tiled and printed
FORMAT = "evidence 1"
LONG = 140  # characters of a condition's values


def chain(program: Any, kernel: Any) -> list[dict[str, Any]]:
    """The recorded steps of a kernel (`egraph.chains`), of the cover that was taken; steps of another form (a kernel that was split) or
    none where the trace has no more than the reasons."""
    stored = {c.args[a.name] for c in program.calls.calls if c.kernel.name == kernel.name for a in c.kernel.outputs}
    alike = [e for e in program.trace.of("chain") if tuple(e.data["reasons"]) == tuple(kernel.rules)]
    found = next((e for e in reversed(alike) if e.name in stored), alike[-1] if alike else None)
    if found is not None:
        return list(found.data["steps"])
    split = (r.partition(": ") for r in kernel.rules)
    return [{"rule": rule, "did": did, "at": "", "matched": {}, "guards": [], "seconds": None, "bytes": None} for rule, _, did in split]


def chain_lines(steps: list[dict[str, Any]], evidence: Evidence) -> list[str]:
    """A line a step, its matched values and its conditions below it; steps that are alike once."""
    lines: list[str] = []
    count: dict[str, int] = {}
    for s in steps:
        at = f", at {short(s['at'])}" if s["at"] else ""
        text = [f"    {s['rule']} ({evidence.of(s['rule'])}): {s['did']}{at}{_saved(s)}"]
        if s["matched"]:
            text.append("      " + ", ".join(f"?{k} = {v}" for k, v in s["matched"].items()))
        text += [f"      {condition}" + (f": {_cut(values)}" if values else "") for condition, values in s["guards"]]
        key = "\n".join(text)
        count[key] = count.get(key, 0) + 1
    for key, n in count.items():
        first, *rest = key.split("\n")
        lines += [first + (f" ({plural(n, 'time')})" if n > 1 else ""), *rest]
    return lines


def _saved(step: dict[str, Any]) -> str:
    """What a step saved; nothing where the model does not know it."""
    if step["bytes"]:
        return f", saves {size_text(step['bytes'])} of memory traffic"
    seconds = step["seconds"]
    if seconds is None or abs(seconds) < 1e-9:
        return ""
    return f", {'saves' if seconds > 0 else 'costs'} {seconds_text(abs(seconds))} by the model"


def size_text(n: float) -> str:
    """49152 -> '48 KB'."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n:g} bytes"


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


class Evidence:
    """What the checks of a program's rules say: `proved`, `tested-120`, `checked-14`, `assumed`; kept for the next question. A step that
    is no rule of a file (an associative op that was split) is `built in`."""

    def __init__(self, program: Any) -> None:
        from autocomp.rewrite import load_rules

        self.rules = load_rules(program.options.rules, options=program.options)
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        if name not in self._known:
            rule = next((r for r in self.rules if r.name == name), None)
            self._known[name] = self._status(rule) if rule is not None else "built in"
        return self._known[name]

    def _status(self, rule: Rule) -> str:
        from autocomp.report.rulecheck import check_rules

        flags = f"{rule.exact} {rule.finite} {SAMPLES} {KERNELS}"
        said = (package_stamp(), rule.name, rule.phase, rule.text, flags, str(rule.examples))
        kept = read_entry("evidence", FORMAT, digest(said))
        if kept is not None:
            return kept.decode("utf-8", "replace")
        ((_, result),) = check_rules([rule], self.rules, KERNELS if rule.phase in KERNEL_PHASES else SAMPLES).rows
        if not result.cut:
            write_entry("evidence", FORMAT, digest(said), result.status.encode())
        return result.status
