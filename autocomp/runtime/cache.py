"""Compiled programs on disk: the second run of a model skips everything between its import and its library.

The key is what the result depends on: the imported graph (not its weights, which no stage before the run reads), the
target with its chip's figures and toolchain, the options, the rules, and this package's own files. Entries are those of
`store`: what is damaged is a miss, is noted in the trace, and is written anew.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from autocomp.files import digest
from autocomp.ir.builder import digest as node_digest
from autocomp.ir.node import Graph
from autocomp.ir.types import Sym
from autocomp.options import Options
from autocomp.runtime.codec import CodecError, decode, encode
from autocomp.runtime.program import KernelInfo, Program, soon_or_later
from autocomp.store import package_stamp, read_entry, write_entry
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.rewrite import RuleSet
    from autocomp.targets import Target

FORMAT = "autocomp program 1"

def program_key(graph: Graph, target: Target, rules: RuleSet, options: Options, measured: str = "") -> str:
    """The key of a compilation. Equal graphs have equal keys in every process. `measured`: digest of the measurements it may use."""
    tools = target.toolchain
    parts = [FORMAT, package_stamp(), graph.name, repr([(n.attrs["name"], str(n.type)) for n in graph.inputs])]
    parts += sorted({repr(d) for n in graph.inputs for d in n.type.shape if isinstance(d, Sym)})  # types print names alone
    parts += [repr(sorted(orders.items())) for orders in (graph.input_orders, graph.output_orders)]
    parts += [f"{name} {node_digest(n)}" for name, n in graph.outputs]
    parts += [measured, target.name, repr(target.chip), target.why_not_runnable(), tools.missing() or tools.key()]
    plain = replace(options, rules=(), without=(), cache=True, deadline=None)  # what a deadline cut is not kept: all that is kept is whole
    parts += [f"{k}={v!r}" for k, v in sorted(asdict(plain).items())]
    parts += [f"{r.name} {r.phase} {r.text} {r.exact} {r.commutes} {r.targets} {r.requires} {r.siblings}" for r in rules]
    return digest(parts)


def load_program(key: str, graph: Graph, target: Target, options: Options, rule_names: tuple[str, ...],
                 trace: Trace) -> Program | None:  # fmt: skip
    """The stored program over this graph's weights, or None. The trace gets the events of the compilation that made it."""
    kept = read_entry("programs", FORMAT, key, trace)
    if kept is None:
        return None
    try:
        calls, infos, sources, printed, events = decode(kept.decode(), graph.params)
    except (CodecError, UnicodeDecodeError) as e:
        trace.add("note", "programs cache", text=f"{key} is no program ({e}); compiled again")
        return None
    calls = replace(calls, source=graph)
    trace.events += events
    trace.add("note", "programs cache", text=f"found {key}")
    executor = soon_or_later(calls, printed, sources, target, options, trace)
    kernels = [KernelInfo(*row) for row in infos]
    return Program(calls, kernels, sources, target, trace, options, rule_names, executor, printed)


def store_program(key: str, program: Program) -> None:
    """Keep a program for the next run. A cache that cannot be written costs a note in the trace and nothing else."""
    infos = [tuple(vars(k).values()) for k in program.kernels]
    events = [e for e in program.trace.events if e.kind != "stage" and not e.name.endswith("cache") and "undone" not in e.data]
    try:
        text = encode((replace(program.calls, source=_EMPTY), infos, program.sources, program.printed, events))
    except CodecError as e:
        program.trace.add("note", "programs cache", text=f"not kept: {e}")
        return
    write_entry("programs", FORMAT, key, text.encode(), program.trace)


_EMPTY = Graph("", (), ())

