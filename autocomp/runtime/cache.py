"""Compiled programs on disk: the second run of a model skips everything between its import and its library.

The key is what the result depends on: the imported graph (not its weights, which no stage before the run reads), the
target with its chip's figures and toolchain, the options, the rules, and this package's own files. An entry carries a
checksum; what is damaged or from elsewhere is a miss, is noted in the trace, and is written anew. Entries are written
aside and renamed, so processes may share the folder.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.ir.builder import digest as node_digest
from autocomp.ir.node import Graph
from autocomp.options import Options
from autocomp.runtime.build import cache_root, digest
from autocomp.runtime.codec import CodecError, decode, encode
from autocomp.runtime.program import KernelInfo, Program, executor_of
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.rewrite import RuleSet
    from autocomp.targets import Target

FORMAT = "autocomp program 1"
OURS = ("autocomp", "autocomp.rules", "autocomp.targets", "autocomp.cost_models")
SUFFIXES = (".py", ".yaml", ".h")


@lru_cache(maxsize=1)
def package_stamp() -> str:
    """Changes with every edit of this package's code and data: names, sizes and times of its files."""
    h = hashlib.sha256()
    for package in OURS:
        root = Path(str(files(package)))
        for f in sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES):
            s = f.stat()
            h.update(f"{package}/{f.relative_to(root)} {s.st_size} {s.st_mtime_ns}\n".encode())
    return h.hexdigest()


def program_key(graph: Graph, target: Target, rules: RuleSet, options: Options) -> str:
    """The key of a compilation. Equal graphs have equal keys in every process."""
    tools = target.toolchain
    parts = [FORMAT, package_stamp(), graph.name, repr([(n.attrs["name"], str(n.type)) for n in graph.inputs])]
    parts += [f"{name} {node_digest(n)}" for name, n in graph.outputs]
    parts += [target.name, repr(target.chip), target.why_not_runnable(), tools.missing() or tools.key()]
    parts += [f"{k}={v!r}" for k, v in sorted(asdict(replace(options, rules=(), without=(), cache=True)).items())]
    parts += [f"{r.name} {r.phase} {r.text} {r.exact} {r.commutes} {r.targets} {r.requires}" for r in rules]
    return digest(parts)


def load_program(key: str, graph: Graph, target: Target, options: Options, rule_names: tuple[str, ...],
                 trace: Trace) -> Program | None:  # fmt: skip
    """The stored program over this graph's weights, or None. The trace gets the events of the compilation that made it."""
    path = _path(key)
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    try:
        calls, infos, sources, printed, events = decode(_checked(raw, key), graph.params)
    except CodecError as e:
        trace.add("note", "program cache", text=f"{path} is damaged ({e}); compiled again")
        return None
    calls = replace(calls, source=graph)
    trace.events += events
    trace.add("note", "program cache", text=f"found {key}")
    executor = executor_of(calls, printed, sources, target, options, trace)
    kernels = [KernelInfo(*row) for row in infos]
    return Program(calls, kernels, sources, target, trace, options, rule_names, executor, printed)


def store_program(key: str, program: Program) -> None:
    """Keep a program for the next run. A cache that cannot be written costs a note in the trace and nothing else."""
    path = _path(key)
    infos = [tuple(vars(k).values()) for k in program.kernels]
    events = [e for e in program.trace.events if e.kind != "stage" and e.name not in ("build cache", "program cache", "cache")]
    try:
        text = encode((replace(program.calls, source=_EMPTY), infos, program.sources, program.printed, events))
        write_atomic(path, _head(key, text) + text)
    except (AutocompError, CodecError) as e:
        program.trace.add("note", "program cache", text=f"not kept: {e}")


_EMPTY = Graph("", (), ())


def _path(key: str) -> Path:
    return cache_root() / "programs" / f"{key}.json"


def _head(key: str, text: str) -> str:
    return json.dumps({"format": FORMAT, "key": key, "sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n"


def _checked(raw: bytes, key: str) -> str:
    """The document behind a right header. Raises CodecError."""
    head, _, body = raw.partition(b"\n")
    if head + b"\n" != _head(key, text := body.decode("utf-8", "replace")).encode():
        raise CodecError(f"{len(raw)} bytes whose checksum is not that of their header")
    return text
