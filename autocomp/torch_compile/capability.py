"""Which nodes of a graph can be ours, and which stay with torch and why: the importer reads each node on trial."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from autocomp.errors import AutocompError
from autocomp.frontends.torch.call import name_of
from autocomp.frontends.torch.complex_numbers import Pair
from autocomp.frontends.torch.control import OPERATORS
from autocomp.frontends.torch.dispatched import one_length
from autocomp.frontends.torch.exported import place_of
from autocomp.frontends.torch.fragment import Fragment
from autocomp.frontends.torch.sizes import is_size
from autocomp.frontends.torch.spectra import LIBRARY
from autocomp.ir.coded import coded, coded_by_rule
from autocomp.ir.node import Node
from autocomp.ir.ops import OPS


def is_tensor(node: Any) -> bool:
    """Whether a node of torch's is a tensor."""
    return hasattr(node.meta.get("val"), "dtype")


def is_number(node: Any) -> bool:
    """Whether a node computes with sizes alone: torch runs it as Python."""
    v = node.meta.get("val")
    return is_size(v) or isinstance(v, (int, float, bool))


def is_view(node: Any) -> bool:
    """Whether an operator's result shares its operand's memory."""
    schema = getattr(node.target, "_schema", None)
    return node.target is operator.getitem or (schema is not None and any(
        r.alias_info is not None and not r.alias_info.is_write for r in schema.returns))  # fmt: skip


def writes(node: Any) -> bool:
    """Whether an operator writes to its operands, or does what cannot be seen in its result."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    schema = getattr(node.target, "_schema", None)
    return node.is_impure(False) or (schema is not None and schema.is_mutable)


def is_random(node: Any) -> bool:
    """Whether an operator draws numbers: such run in the graph's order, so that a seed means what it means without us."""
    import torch

    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [a.name for a in node.target._schema.arguments]
    return bool(dict(zip(names, node.args), **node.kwargs).get("dropout_p", 0.0 if "dropout_p" in names else 1.0))


class Trial:
    """`why`: the reasons of nodes that stay with torch. Numbers, constants and inputs are neither ours nor torch's. `again`: views of ours
    that torch makes too."""

    def __init__(self, gm: Any, device: Any, features: Sequence[str] = ()) -> None:
        self.device, self.features, self.why = device, features, dict[Any, str]()
        # the same memory under another shape, and what the plan of a program for a CPU repeats
        self.without_kernels = ("regroup", "loop") if device.type == "cpu" else ("regroup",)
        one_length(gm.graph.nodes)
        self.reader = Fragment("trial", gm)
        self._seen: set[Node] = set()
        self.again: set[Any] = set()
        for node in gm.graph.nodes:
            self._try(node)
        self._regroups(gm)
        self._views(gm)
        self._shared(gm)

    def ours(self, node: Any) -> bool:
        return node.op == "call_function" and not is_number(node) and node not in self.why

    def _try(self, node: Any) -> None:
        values = self.reader.values
        if is_number(node):
            values[node] = node.meta["val"]
            return
        if node.op in ("output", "placeholder") or (node.op == "get_attr" and not is_tensor(node)):
            return
        if node.op == "get_attr" and self.refusal(node):
            return
        if node.op == "get_attr":
            self._read(node)
        elif node.target is operator.getitem and node.args[0] in self.why:
            self.why[node] = self.why[node.args[0]]
        elif why := self.refusal(node):
            self.why[node] = why
        else:
            self._read(node)

    def refusal(self, node: Any) -> str:
        """Why a node cannot be ours, by what it is; "" where the importer may read it."""
        if is_random(node):
            return "it draws random numbers"
        if writes(node):
            return "it does more than its result shows"
        for v in (*_flat(node.meta.get("val")), *(v for i in node.all_input_nodes for v in _flat(i.meta.get("val")))):
            if v.device != self.device:
                return f"a tensor lies on {v.device}, not on {self.device}"
            if str(v.layout) != "torch.strided":
                return f"a tensor's layout is {v.layout}"
        if str(node.target) in OPERATORS:
            return self._inside(node)
        if node.op == "call_function" and name_of(node.target) in LIBRARY:
            return "torch calls a library for it, whose vectors have their signs"
        known = node.op == "get_attr" or hasattr(node.target, "_schema") or node.target is operator.getitem
        return "" if known else "it is no operator of ATen"

    def _inside(self, node: Any) -> str:
        """Why a node in the graphs of an operator over graphs cannot be ours, "" for none."""
        inner = [i.target for i in node.all_input_nodes if i.op == "get_attr" and not is_tensor(i)]
        graphs = [getattr(node.graph.owning_module, name).graph for name in inner]
        whys = (self.refusal(n) for g in graphs for n in g.nodes if n.op == "call_function" and not is_number(n))
        return next((f"in its graph {why}" for why in whys if why), "")

    def _read(self, node: Any) -> None:
        reader, values = self.reader, self.reader.values
        try:
            for i in node.all_input_nodes:
                if i not in values and is_tensor(i):
                    reader.give(i, None)
            reader.read(node)
        except AutocompError as e:
            self.why[node] = e.what
            return
        found = values[node]
        if node.target is operator.getitem:
            if found is None and node.users:
                self._give_up(node.args[0], f"its row does not give result {node.args[1]}")
            return
        given = found if isinstance(found, tuple) else (found,)
        parts = [p for v in given for p in ((v.re, v.im) if isinstance(v, Pair) else (v,))]
        if opaque := self._opaque([p for p in parts if isinstance(p, Node)]):
            self.why[node] = f"no code is generated for '{opaque}': {OPS[opaque].opaque}"
            values.pop(node)

    def _give_up(self, node: Any, why: str) -> None:
        for n in (node, *node.users):
            if n is node or n.target is operator.getitem:
                self.why[n] = why
                self.reader.values.pop(n, None)

    def _opaque(self, roots: list[Node]) -> str:
        """An op without generated code among those that are new."""
        stack = roots
        while stack:
            n = stack.pop()
            if n in self._seen:
                continue
            if n.op in OPS and OPS[n.op].opaque and n.op not in self.without_kernels and not self._coded(n):
                return n.op
            self._seen.add(n)
            stack.extend(n.inputs)
        return ""

    def _coded(self, n: Node) -> bool:
        """Whether the target has a function for an opaque op, or it is written with others where it is as small as here."""
        operands = [x.type for x in n.inputs]
        if coded(n.op, operands, self.features, n.attrs) or coded_by_rule(n.op, operands, n.attrs, self.features):
            return True
        decompose = OPS[n.op].decompose
        return decompose is not None and decompose(self.reader.b, n.inputs, n.attrs) is not None

    def _shared(self, gm: Any) -> None:
        """Results that share memory with another result: torch makes these views, so that what is written into one is seen in both."""
        outputs = [n for n in gm.graph.output_node().args[0] if hasattr(n, "op") and is_tensor(n)]
        of = {n: _base(n) for n in dict.fromkeys(outputs)}
        for n, base in of.items():
            if base.op == "call_function" and sum(b is base for b in of.values()) > 1:
                while n is not base:
                    self._of_torch(n, "it is a view of another result, which torch makes without a copy")
                    n = n.args[0]

    def _regroups(self, gm: Any) -> None:
        """Reshapes of open sizes whose results others than ours read: nothing is copied where torch makes these views."""
        for node in reversed(gm.graph.nodes):
            found = self.reader.values.get(node)
            if isinstance(found, Node) and found.op == "regroup" and self.ours(node) and not all(map(self.ours, node.users)):
                self._of_torch(node, "it is a view that torch makes without a copy")

    def _of_torch(self, node: Any, why: str) -> None:
        """torch makes a view. What is ours reads one of its own, so that it need not wait for torch's between two programs."""
        inner = [u for u in node.users if self.ours(u)]
        self.why[node] = why
        if not inner or node not in self.reader.values:
            return
        with node.graph.inserting_after(node):
            mine = node.graph.node_copy(node)
        self.again.add(mine)
        self.reader.values[mine] = self.reader.values[node]
        for u in inner:
            u.replace_input_with(node, mine)

    def _views(self, gm: Any) -> None:
        """What torch reads by its place in memory stays as torch places it."""
        for node in reversed(gm.graph.nodes):
            if node in self.why and "as_strided" in str(node.target):
                while (node := node.args[0]) in self.reader.values and is_view(node) and self.ours(node):
                    self.why[node] = "torch reads it by its place in memory"


def _base(node: Any) -> Any:
    """What a node is a view of: itself where it is none."""
    while node.op == "call_function" and node.target is not operator.getitem and is_view(node):
        node = node.args[0]
    return node


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [v for x in value for v in _flat(x)]
    return [value] if hasattr(value, "dtype") and hasattr(value, "layout") else []


def named(node: Any) -> tuple[str, str]:
    """(operator, place in the module) of a node, for people."""
    return str(node.target), place_of(node)
