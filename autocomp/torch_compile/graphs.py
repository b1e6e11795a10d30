"""A functional graph of ATen operators -> a function: programs for the groups that are ours, torch's operators between them."""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from sympy import Integer
from torch.utils._python_dispatch import _disable_current_modes

from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.forks import Lock
from autocomp.frontends.torch.sizes import is_size
from autocomp.options import Options
from autocomp.pipeline import compile_model
from autocomp.report.compiled import GRAPHS, CompiledGraph, Stayed
from autocomp.runtime.program import Program
from autocomp.targets import load_target
from autocomp.torch_compile.capability import Trial, is_tensor, named
from autocomp.torch_compile.partition import groups, halves, ordered
from autocomp.torch_compile.parts import callable_of, ends_of, source_of, where_of
from autocomp.torch_compile.settings import Settings
from autocomp.trace import Trace

log = logging.getLogger("autocomp.torch_compile")
SPECIALISED = 8  # sets of sizes for which a group is compiled, where symbols are refused


@dataclass
class _Group:
    """`call`: what computes it; `inputs`, `outputs`: nodes of torch's."""

    nodes: list[Any]
    call: Callable[..., Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    programs: list[Program] = field(default_factory=list)


class Maker:
    """Compiles one graph. `record` is what the report says of it."""

    def __init__(self, gm: Any, kind: str, settings: Settings) -> None:
        self.gm, self.settings = gm, settings
        self.options: Options = settings.resolved()
        self.device = _device(gm)
        self.target = settings.target or self.device.type
        self.record = CompiledGraph(_name(), kind, self.target)
        self.refused: dict[Any, str] = {}

    def made(self) -> Callable[..., Any]:
        """The graph as a function over a list of its inputs (torch calls such boxed)."""
        begun = time.perf_counter()
        GRAPHS.append(self.record)
        try:
            with _disable_current_modes(), torch.no_grad(), self._here():
                run = self._compiled()
        except AutocompError as e:
            self._all_stay(e.what)
            run = self.gm.forward
        except Exception as e:  # whatever is wrong here, torch runs the graph: the report and a warning say so
            log.warning("autocomp left a graph to torch: %s: %s", type(e).__name__, e, exc_info=True)
            self._all_stay(f"an error in autocomp: {type(e).__name__}: {e}")
            run = self.gm.forward
        self.record.seconds = time.perf_counter() - begun
        return boxed(run)

    def _here(self) -> Any:
        """The device as the current one, on which programs are made."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def _all_stay(self, why: str) -> None:
        self.record.nodes = self.record.programs = self.record.kernels = 0
        self.record.stayed[:] = [Stayed(*named(n), why) for n in self.gm.graph.nodes if _counts(n)]

    def _compiled(self) -> Callable[..., Any]:
        if self.device.type not in ("cpu", "cuda"):
            raise UnsupportedOp(f"tensors on {self.device}", hint="give tensors on cpu or cuda")
        if self.target.partition(":")[0] != self.device.type:
            raise UnsupportedOp(f"the graph's tensors lie on {self.device}, the target is {self.target}", hint="move the module there")
        trial = Trial(self.gm, self.device, load_target(self.target, self.options).chip.features)
        made: list[_Group] = []
        for nodes in groups(self.gm.graph, trial.ours):
            made += self._group(nodes)
        self._note(trial, made)
        return self._assembled(made)

    def _note(self, trial: Trial, made: Sequence[_Group]) -> None:
        mine = {n for g in made for n in g.nodes}
        r = self.record
        r.nodes = sum(n.target is not operator.getitem for n in mine - trial.again)
        programs = [p for g in made for p in g.programs]
        r.programs, r.kernels = len(made), sum(len(p.calls.calls) for p in programs)
        for n in self.gm.graph.nodes:
            if n not in mine and _counts(n):
                why = trial.why.get(n) or self.refused.get(n) or "it is a view: no code is needed"
                r.stayed.append(Stayed(*named(n), why))

    # ---- a group
    def _group(self, nodes: list[Any]) -> list[_Group]:
        """The group as one program, or as several where it is refused as a whole; what is refused alone stays with torch."""
        name = f"{self.record.name}_{nodes[0].name}"
        try:
            return [self._one(nodes, name)]
        except AutocompError as e:
            first, second = halves(nodes)
            if not second:
                self.refused.update(dict.fromkeys(nodes, e.what))
                return []
            self.record.notes.append(f"{name}: cut in two: {e.what}")
            return [*self._group(first), *self._group(second)]

    def _one(self, nodes: list[Any], name: str) -> _Group:
        try:
            source = source_of(self.gm, nodes, name)
            program = self.program(source.graph)
            return _Group(nodes, callable_of(source, program), source.inputs, [n for n, _ in source.outputs], [program])
        except UnsupportedOp as e:
            if not any(_symbolic(n) for n in nodes):
                raise
            special = _Specialised(self, nodes, name)
            self.record.notes.append(f"{name}: compiled for each set of sizes: {e.what}")
            return _Group(nodes, special, special.inputs, special.outputs, special.programs)

    def program(self, graph: Any) -> Program:
        program = compile_model(graph, self.target, self.options, Trace())
        if not program.runnable:
            raise UnsupportedOp(f"the target cannot run here: {program.not_runnable}", where=self.target, hint="leave `target` away")
        if self.settings.tune:
            program.tune(self.settings.tune, quiet=True)
            program = compile_model(graph, self.target, self.options, Trace())
        return program

    # ---- the whole
    def _assembled(self, made: Sequence[_Group]) -> Callable[..., Any]:
        """The graph with each group as one call."""
        group_of = {n: g for g in made for n in g.nodes}
        keys = {n: id(g) for n, g in group_of.items()}
        by_key = {id(g): g for g in made}
        graph = torch.fx.Graph()
        values: dict[Any, Any] = {}
        get = lambda n: values[n]
        for item in ordered(self.gm.graph, lambda n: keys.get(n, n)):
            if item not in by_key:
                values[item] = graph.node_copy(item, get)
                continue
            g = by_key[item]
            called = graph.call_function(g.call, tuple(values[i] for i in g.inputs))
            for k, n in enumerate(g.outputs):
                values[n] = called if len(g.outputs) == 1 else graph.call_function(operator.getitem, (called, k))
        return torch.fx.GraphModule(self.gm, graph).forward


class _Specialised:
    """A group that is compiled again for each set of its symbols' values; beyond SPECIALISED of them torch runs it."""

    __name__ = __qualname__ = "autocomp_specialised"

    def __init__(self, maker: Maker, nodes: list[Any], name: str) -> None:
        self.maker, self.nodes, self.name = maker, nodes, name
        self.programs: list[Program] = []
        self._made: dict[tuple[int, ...], Callable[..., Any]] = {}
        self._lock = Lock()
        self.symbols, inputs, self.outputs = ends_of(maker.gm, nodes)
        self.tensors = sum(map(is_tensor, inputs))
        self.inputs = inputs
        self._where = [where_of(expr, inputs, name) for expr in self.symbols]
        seen = next(n.meta["val"].node.shape_env for n in maker.gm.graph.nodes if is_size(n.meta.get("val"))) if self.symbols else None
        hints = tuple(int(seen.backed_var_to_val[s]) for s in self.symbols) if seen is not None else ()
        self._made[hints] = self._ours(hints)

    def __call__(self, *args: Any) -> Any:
        key = tuple([args[k].shape[a] if a >= 0 else args[k] for k, a in self._where])
        call = self._made.get(key)
        if call is None:
            call = self._new(key)
        return call(*args[: self.tensors])

    def _new(self, key: tuple[int, ...]) -> Callable[..., Any]:
        """What computes the group with these sizes. Torch does where they are refused, and beyond the limit."""
        with self._lock.held, _disable_current_modes(), torch.no_grad():
            if key not in self._made:
                if len(self._made) >= SPECIALISED:
                    return self._of_torch(key)
                try:
                    self._made[key] = self._ours(key)
                except AutocompError as e:
                    self.maker.record.notes.append(f"{self.name}: torch runs it with sizes {key}: {e.what}")
                    self._made[key] = self._of_torch(key)
            return self._made[key]

    def _ours(self, key: tuple[int, ...]) -> Callable[..., Any]:
        source = source_of(self.maker.gm, self.nodes, self.name, self._numbers(key))
        program = self.maker.program(source.graph)
        self.programs.append(program)
        return callable_of(source, program)

    def _numbers(self, key: tuple[int, ...]) -> dict[Any, Any]:
        return dict(zip(self.symbols, map(Integer, key)))

    def _of_torch(self, key: tuple[int, ...]) -> Callable[..., Any]:
        """The same nodes as torch's operators, with numbers in the place of sizes."""
        numbers = self._numbers(key)
        graph = torch.fx.Graph()
        values: dict[Any, Any] = {i: graph.placeholder(i.name) for i in self.inputs[: self.tensors]}

        def value(n: Any) -> Any:
            if n not in values:
                v = n.meta.get("val")
                values[n] = graph.node_copy(n) if n.op == "get_attr" else int(v.node.expr.xreplace(numbers)) if is_size(v) else v
            return values[n]

        for n in self.nodes:
            values[n] = graph.node_copy(n, value)
        outs = tuple(values[n] for n in self.outputs)
        graph.output(outs[0] if len(outs) == 1 else outs)
        forward: Callable[..., Any] = torch.fx.GraphModule(self.maker.gm, graph).forward
        return forward


def boxed(run: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def call(args: list[Any]) -> Any:
        return run(*args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _counts(node: Any) -> bool:
    """Whether a node is an operator over tensors, which the report names where it stays."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    v = node.meta.get("val")
    return not (is_size(v) or isinstance(v, (int, float, bool)))


def _symbolic(node: Any) -> bool:
    return any(is_size(d) for i in (node, *node.all_input_nodes) if is_tensor(i) for d in i.meta["val"].shape)


def _device(gm: Any) -> torch.device:
    """Where the graph's tensors lie: on a device where one does."""
    found = dict.fromkeys(n.meta["val"].device for n in gm.graph.nodes if is_tensor(n))
    return next((d for d in found if d.type != "cpu"), torch.device("cpu"))


def _name() -> str:
    from torch._functorch.aot_autograd import get_graph_being_compiled

    return get_graph_being_compiled()
