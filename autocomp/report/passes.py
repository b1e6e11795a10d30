"""The passes over a kernel's plan: its form in front of the first, and what each changed, as a diff."""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.schedule_text import parse
from autocomp.report.tables import near_hint, plural


def passes(program: Any, name: str) -> tuple[str, dict[str, Any]]:
    """(text, data) for a kernel of a program. Raises AutocompError where there is none of that name, with the nearest, and where its
    target has no passes."""
    call = next((c for c in program.calls.calls if c.kernel.name == name), None)
    row = next((k for k in program.kernels if k.name == name), None)
    if call is None or row is None:
        hint = near_hint(name, [k.name for k in program.kernels], "`autocomp explain MODEL` lists them")
        raise AutocompError(f"there is no kernel '{name}'", where="explain --passes", hint=hint)
    of = getattr(program.target, "passes", None)
    if of is None or call.kernel.opaque:
        raise AutocompError(f"{program.target.name} prints '{name}' without passes over a plan", where="explain --passes",
                            hint="targets cuda and maca have them, for kernels with generated code")  # fmt: skip
    forms: list[tuple[str, str]] = of(call.kernel, parse(row.schedule))
    out, before = [f"{name}: {row.schedule}"], ""
    for k, (by, text) in enumerate(forms):
        lines = text.splitlines()
        if k == 0 and by != "write":
            out += [f"-- {by}", *lines]
        elif by == "write":
            out.append(f"-- {by}: {plural(len(lines), 'line')} of text")
        else:
            out += [f"-- {by}", *list(unified_diff(before.splitlines(), lines, lineterm="", n=1))[2:]]
        before = text
    return "\n".join(out), {"kernel": name, "passes": [{"pass": by, "plan": text} for by, text in forms]}
