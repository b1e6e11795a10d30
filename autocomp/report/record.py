"""The record of a run as a file: JSON lines, a header with the format, then an event a line."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.trace import FORMAT, KINDS, Event, Trace
from autocomp.version import __version__


def save_trace(trace: Trace, path: str | Path, about: dict[str, str] | None = None) -> Path:
    """Write the events (`schema`). `about`: where they come from, for the header (`of_program`)."""
    head = {"format": FORMAT, **({"about": about} if about else {})}
    lines = [head, *({"kind": e.kind, "name": e.name, "seconds": e.seconds, "data": e.data} for e in trace.events)]
    write_atomic(Path(path), "".join(f"{json.dumps(x, allow_nan=False)}\n" for x in lines))
    return Path(path)


def recording(trace: Trace) -> str:
    """What the record itself cost, "" where the program came from a cache."""
    if any(e.name == "cache" and e.data.get("found") == "yes" for e in trace.of("stage")):
        return ""
    return f"{trace.share:.1%} of the compilation, {1e3 * trace.spent:.1f} ms"


def of_program(program: Any) -> dict[str, str]:
    """What a record says of its run: the program, its target, the version and the machine that compiled it, and what recording cost."""
    cost = {"recording": said} if (said := recording(program.trace)) else {}
    return {"program": program.name, "target": f"{program.target.name}:{program.target.chip.name}", "autocomp": __version__,
            "python": platform.python_version(), "system": platform.platform(), "cores": str(os.cpu_count()), **cost}  # fmt: skip


def about(path: str | Path) -> dict[str, str]:
    """What a file's header says of its run; nothing where it says nothing."""
    with Path(path).open(encoding="utf-8") as f:
        said = json.loads(f.readline()).get("about")
    return {str(k): str(v) for k, v in said.items()} if isinstance(said, dict) else {}


def load_trace(path: str | Path) -> Trace:
    """What `save_trace` wrote. Raises AutocompError where a file is no trace, or one of another format."""
    where = str(path)
    try:
        head, *lines = Path(path).read_text(encoding="utf-8").splitlines() or [""]
        form = json.loads(head)["format"]
        if form != FORMAT:
            raise AutocompError(f"is of the format '{form}'", where=where, hint=f"this version reads '{FORMAT}'")
        events = [json.loads(x) for x in lines]
        return Trace([Event(str(e["kind"]), str(e["name"]), dict(e["data"]), float(e["seconds"])) for e in events])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise AutocompError(f"is no trace: {type(e).__name__} {e}", where=where,
                            hint="save_trace(program.trace, path) makes one") from None


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of an event's line."""
    is_kind = lambda kind: {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
    of = lambda fields: {"properties": {"data": {"required": list(fields), "properties": {k: {"type": t} for k, t in fields.items()}}}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORMAT, "type": "object",
            "properties": {"kind": {"enum": list(KINDS)}, "name": {"type": "string"}, "seconds": {"type": "number"},
                           "data": {"type": "object"}},
            "required": ["kind", "name", "seconds", "data"], "additionalProperties": False,
            "allOf": [{"if": is_kind(kind), "then": of(fields)} for kind, fields in KINDS.items() if fields]}  # fmt: skip
