"""The record of a run as a file: JSON lines, a header with the format, then an event a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.trace import FORMAT, KINDS, Event, Trace


def save_trace(trace: Trace, path: str | Path) -> Path:
    """Write the events (`schema`)."""
    lines = [{"format": FORMAT}, *({"kind": e.kind, "name": e.name, "seconds": e.seconds, "data": e.data} for e in trace.events)]
    write_atomic(Path(path), "".join(f"{json.dumps(x, allow_nan=False)}\n" for x in lines))
    return Path(path)


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
