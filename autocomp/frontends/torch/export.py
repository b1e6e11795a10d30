"""torch modules and exported programs, through torch.export.

    graph = load_torch(module, example_inputs=(x,))          graph = load_torch(torch.export.export(module, (x,), dynamic_shapes=..))

Parameters and buffers become parameters by reference (read when first needed). Dynamic dimensions become named symbols with the
bounds that torch found.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from math import lcm
from typing import Any

import numpy as np

from autocomp.errors import AutocompError, ModelError, UnsupportedOp
from autocomp.forks import Lock, kept_property
from autocomp.frontends.torch import (  # noqa: F401  (their rows stand in TABLE, operators over graphs in control.OPERATORS)
    bags,
    control,
    convolutions,
    factorisations,
    flexible_attention,
    foreach,
    fourier,
    gamma,
    linear_algebra,
    losses,
    normalisation,
    ordering,
    pointwise,
    pooling,
    products,
    quantising,
    recurrent,
    reductions,
    resampling,
    running,
    sampling,
    sampling_gradients,
    special,
    spectra,
    views,
    window_gradients,
    writing,
)
from autocomp.frontends.torch.call import TABLE, Call, name_of
from autocomp.frontends.torch.chosen_rows import ChosenRows
from autocomp.frontends.torch.complex_numbers import REAL, Pair, lowered
from autocomp.frontends.torch.exported import PURE, by_name, check_apart, decompose, export, place_of
from autocomp.frontends.torch.formats import as_eager_lays_out
from autocomp.frontends.torch.guards import least_of, multiple_of, same_as
from autocomp.frontends.torch.known_masks import at_places, chosen, counts, masks_of
from autocomp.frontends.torch.of_parameters import of_parameters
from autocomp.frontends.torch.read_places import read_places
from autocomp.frontends.torch.renamed import renamed
from autocomp.frontends.torch.sizes import Sizes, from_behind, is_dimension, is_size
from autocomp.frontends.torch.structures import structures_of
from autocomp.frontends.torch.views import Less
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node, Written
from autocomp.ir.orders import Order, inverse, order_of
from autocomp.ir.sizes import total
from autocomp.ir.types import BF16, DTYPES, FLOATS_8, Dim, Sym, TensorType, can_be_named

DTYPE = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3",
         "float8_e5m2": "f8e5m2", "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
         "uint16": "u16", "uint32": "u32", "uint64": "u64"}  # fmt: skip


NUMBERS = ("tril", "triu")  # operators whose arguments that are sizes are numbers to compute with
NOT_VALUES = ("device", "layout", "pin_memory", "memory_format", "dtype")  # arguments that say where, or what the result's type says


def load_torch(model: Any, example_inputs: Sequence[Any] | None = None) -> Graph:
    """The graph of an nn.Module (exported in eval mode on `example_inputs`: one for each argument, or a dict of them by the arguments'
    names) or of an ExportedProgram.

    Raises ModelError where torch or the examples are missing or torch cannot export the module, UnsupportedOp for an ATen
    operator or dtype that the op table lacks, with its place in the module.
    """
    try:
        import torch
    except ImportError:
        raise ModelError("torch is not installed", where=type(model).__name__, hint="pip install 'autocomp[torch]'") from None
    if isinstance(model, torch.nn.Module):
        if example_inputs is None:
            raise ModelError("a torch module is exported on examples", where=type(model).__name__,
                             hint="optimize(module, example_inputs=(x, ..))")  # fmt: skip
        if model.training:
            raise ModelError("the module is in training mode", where=type(model).__name__, hint="call module.eval() first")
        with EXPORTS.held:
            program, name = export(model, *by_name(model, example_inputs)), type(model).__name__
    elif isinstance(model, torch.export.ExportedProgram):
        program, name = model, "exported"
    else:
        raise ModelError(f"a {type(model).__qualname__} of torch is no model", where=type(model).__name__,
                         hint="give an nn.Module with example_inputs, or torch.export.export(module, ..)")  # fmt: skip
    with EXPORTS.held:
        check_apart(program, name)
        structure = structures_of(program, name)
        reader = Reader(renamed(program) or as_eager_lays_out(decompose(program, name)), name)
        reader.numbers = structure is not None and any(structure.made)
        graph = reader.graph()
    return replace(graph, structure=structure)


EXPORTS = Lock()  # torch exports one module at a time in a process, and its tracing modes are of all threads


class Reader:
    """An exported program's nodes, one after another, into a graph. `values`: of each node of torch's. `formats`: inputs and outputs lie
    as torch's do (channels-last); else as they are named. `pairs`: complex numbers are read, as pairs of real ones. `numbers`: results that
    are numbers are no outputs, as the graph's structure has them. `chooses`: rows that a mask chooses by data are read (`chosen_rows`)."""

    pairs = True
    numbers = False
    chooses = True

    def __init__(self, program: Any, name: str, formats: bool = True) -> None:
        self.program, self.b = program, Builder(name)
        self.formats = formats
        self.changed: set[str] = set()  # inputs that the module writes into
        self.arguments: set[str] = set()  # names of inputs, which parameters may have in the module
        self.values: dict[Any, Any] = {}
        self.symbols: dict[str, Sym] = {}
        self.times: dict[str, int] = {}  # of a symbol of torch's: how many times the one that stands for it
        self.sizes = Sizes(self.b, self.symbol)
        self.rows = ChosenRows(self)

    @kept_property
    def counts(self) -> dict[Any, Dim]:
        """Sizes that torch leaves open, of masks that are parameters, and of those that are not how long they are."""
        return dict(counts(self.program)) if self.program is not None else {}

    def graph(self) -> Graph:
        signature = self.program.graph_signature
        inputs = {s.arg.name: s for s in signature.input_specs if hasattr(s.arg, "name")}
        self.changed = set(signature.user_inputs_to_mutate.values())
        self.arguments = set(signature.user_inputs)
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self.placeholder(node, inputs[node.name])
            elif node.op == "call_function":
                self.values[node] = self.call(node)
            elif node.op == "output":
                self.outputs(node.args[0], signature.output_specs)
        return self.b.graph()

    def placeholder(self, node: Any, spec: Any) -> Any:
        """An input or a parameter; a number's size; None for what is neither."""
        from torch.export.graph_signature import InputKind

        if spec.kind is InputKind.TOKEN:
            return None
        if spec.kind is InputKind.USER_INPUT:
            if _is_tensor(node):
                return self.input(node)
            return v if is_size(v := node.meta.get("val")) else None
        return self.parameter(spec.target, node)

    def input(self, node: Any) -> Node:
        """An input; one whose axes lie in another order than they are named is a view of what lies there (`ir.orders`). Raises
        UnsupportedOp for complex ones."""
        if node.meta["val"].dtype.is_complex:
            raise UnsupportedOp(f"the input '{node.name}' is complex", where=self.b.name, hint="pass torch.view_as_real(x)")
        type, order = self.type(node), None if node.name in self.changed else self.order(node)
        if order is None:
            return self.b.input(node.name, type)
        self.b.orders[0][node.name] = order
        lies = self.b.input(node.name, replace(type, shape=tuple(type.shape[k] for k in order)))
        return self.b.op("transpose", lies, perm=inverse(order))

    def order(self, node: Any) -> Order | None:
        """How torch lays out a node's value; None for what lies as it is named, whose sizes are open, and where it does not matter."""
        v = node.meta.get("val") if self.formats else None
        if v is None or str(v.layout) != "torch.strided":
            return None
        if not all(isinstance(n, int) for n in (*v.shape, *v.stride(), v.storage_offset())):
            return None
        return order_of(v.shape, v.stride()) if v.numel() and not v.storage_offset() else None

    def outputs(self, values: Sequence[Any], specs: Sequence[Any]) -> None:
        """The new value of an input that the module changes is an output (`Graph.written`). Raises UnsupportedOp where it changes a
        buffer."""
        from torch.export.graph_signature import OutputKind

        for i, (value, spec) in enumerate(zip(values, specs)):
            if spec.kind is OutputKind.TOKEN:
                continue
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                self.output(f"{spec.target}_written", self.values[value])
                self.b.written.append(Written(f"{spec.target}_written", spec.target, returned=False))
                continue
            if spec.kind is not OutputKind.USER_OUTPUT:
                raise UnsupportedOp(f"'{spec.target}' is changed in place", where=self.b.name,
                                    hint=f"{PURE}; torch.compile(module, backend='autocomp') keeps it")  # fmt: skip
            if value is not None and not (self.numbers and isinstance(value, (int, float, str))):
                if value in self.rows.masks:
                    raise UnsupportedOp(f"how many rows output {i} has depends on data", where=place_of(value),
                                        hint="return the mask and the whole tensor")  # fmt: skip
                name, order = f"output_{i}", self.order(value) if hasattr(value, "meta") and _is_tensor(value) else None
                made = self.values[value] if hasattr(value, "meta") else value
                if order is not None and isinstance(made, Node):
                    self.b.orders[1][name], made = order, self.b.op("transpose", made, perm=order)
                self.output(name, made)

    def output(self, name: str, value: Any) -> None:
        if isinstance(value, Pair):
            raise UnsupportedOp(f"{name} is complex", where=self.b.name, hint="let the module return torch.view_as_real(x)")
        if not isinstance(value, Node):
            raise UnsupportedOp(f"{name} is {value!r}, no tensor", where=self.b.name, hint="let the module return tensors alone")
        self.b.output(name, value)

    def parameter(self, target: str, node: Any) -> Node | Pair:
        p = self.program
        source = p.state_dict.get(target)
        source = source if source is not None else p.constants.get(target)
        if source is None:
            raise ModelError(f"'{target}' has no data", where=self.b.name)
        if source.dtype.is_complex and self.pairs:
            part = lambda of: lambda: np.ascontiguousarray(of(to_numpy(source.resolve_conj())))
            return Pair(*(self.b.param(self.b.fresh(f"{target}_{n}"), part(of), self.type(node))
                          for n, of in (("re", np.real), ("im", np.imag))))  # fmt: skip
        name = self.b.fresh(target) if target in self.arguments else target
        return self.b.param(name, lambda: to_numpy(source), self.type(node))

    def type(self, node: Any) -> TensorType:
        """The type of a node's value, of its parts where it is complex. Raises UnsupportedOp on dtypes that the IR lacks."""
        v = node.meta["val"]
        return self.tensor_type(v, node)

    def tensor_type(self, v: Any, node: Any) -> TensorType:
        name = str(v.dtype).rpartition(".")[2]
        name = REAL.get(name, name) if self.pairs else name
        if str(v.layout) != "torch.strided":
            raise UnsupportedOp(f"'{node.name}' is laid out as {v.layout}", where=place_of(node), hint="use dense tensors: x.to_dense()")
        if name not in DTYPE:
            raise UnsupportedOp(f"dtype {name} of '{node.name}'", where=place_of(node), hint=f"dtypes: {', '.join(DTYPE)}")
        return TensorType(DTYPES[DTYPE[name]], tuple(self.dim(d, node) for d in v.shape))

    def dim(self, d: Any, node: Any) -> Dim:
        if isinstance(d, int):
            return d
        try:
            return self.sizes.dim(d, place_of(node))
        except UnsupportedOp as e:
            if node.op != "call_function" or not any(map(d.node.shape_env.is_unbacked_symint, d.node.expr.free_symbols)):
                raise
            raise UnsupportedOp(f"{node.target}: {e.what}", where=place_of(node), hint=e.hint) from None

    def symbol(self, expr: Any, size: Any) -> Dim:
        """The symbol of torch's with the bounds that torch found; of one that is a multiple of a number, that number times a symbol; of
        several that are one by torch's guards, one for all."""
        env, same = size.node.shape_env, same_as(expr, size.node.shape_env)
        if str(expr) not in self.symbols and same[0] != expr:
            of = self.symbol(same[0], size)
            self.symbols[str(expr)], self.times[str(expr)] = self.symbols[str(same[0])], self.times[str(same[0])]
            return of
        if str(expr) not in self.symbols:
            if env.is_unbacked_symint(expr):
                if expr in self.counts:
                    return self.counts[expr]
                raise UnsupportedOp(f"'{expr}', a number that is read from a tensor, stands for a size or an index", where=self.b.name,
                                    hint="index with the tensor, or pass the number as an argument")  # fmt: skip
            known = getattr(self.program, "range_constraints", {})
            ranges = [known[s] for s in same if s in known] or [env.var_to_range[s] for s in same]
            if not all(r.lower.is_finite and r.lower >= 0 for r in ranges):
                raise UnsupportedOp(f"'{expr}', a number that is an argument, has any value", where=self.b.name,
                                    hint="pass it as a tensor: torch.tensor(x)")  # fmt: skip
            hi = min([2**31 - 1, *(int(r.upper) for r in ranges if r.upper.is_number and r.upper.is_finite and r.upper < 2**31)])
            low = min([max(int(r.lower) for r in ranges), *(_least_of(s, of, r) for of, r in known.items() for s in same)])
            low = max(low, *(least_of(s, env) for s in same)) if not known else low
            times = lcm(*(multiple_of(s, env) for s in same))
            name = self.spoken(expr, env) + (f"_by_{times}" if times > 1 else "")
            self.symbols[str(expr)], self.times[str(expr)] = Sym(name, -(-max(1, low) // times), hi // times), times
        return total([(self.symbols[str(expr)], self.times[str(expr)])])

    def spoken(self, expr: Any, env: Any) -> str:
        """What the user called a dimension: `batch` of Dim("batch"), where torch kept it, else torch's own symbol."""
        sources = getattr(env, "var_to_sources", {}).get(expr, ())
        names = getattr(env, "source_name_to_debug_name", {})
        name = next((names[s.name] for s in sources if isinstance(s.name, str) and s.name in names), str(expr))
        return name if can_be_named(name) and name not in {s.name for s in self.symbols.values()} else str(expr)

    def call(self, node: Any) -> Any:
        where = place_of(node)
        if node.target is operator.getitem:
            parts = self.values[node.args[0]]
            if node.args[0] in self.rows.masks:
                self.rows.masks[node] = self.rows.masks[node.args[0]]
            return parts[node.args[1]] if parts is not None else None
        if is_size(v := node.meta.get("val")) or isinstance(v, (int, float)):
            if str(node.target) == "aten._local_scalar_dense.default" and is_size(v) and isinstance(x := self.values[node.args[0]], Node):
                self.sizes.read[v.node.expr] = self.b.op("reshape", x, shape=())
            return v
        picked = self.rows.chosen(node)
        if (over_graphs := control.OPERATORS.get(str(node.target))) is not None and not picked:
            return over_graphs(self, node, where)
        if str(node.target) == "with_effects" and str(node.args[1]).startswith("aten._linalg_check_errors"):
            return (None, None)  # what torch raises for gives NaN (linear_algebra)
        name = name_of(node.target)
        if name.startswith(("sym_", "_assert", "_guards")) or "val" not in node.meta or node.meta["val"] is None:
            return None
        if self.chooses and (opened := self.rows.opened(node, name, where)) is not None:
            return opened
        lower = TABLE.get(name) or TABLE.get(name.removesuffix("_copy"))  # of a view as a tensor of its own
        paired = self.pairs and any(_is_complex(n.meta.get("val")) for n in (node, *node.all_input_nodes))
        costly = lower is None or name.startswith("linalg_")  # a loop each call
        if costly and not paired and (held := of_parameters(self.program, node)) is not None:
            return self.b.param(self.b.fresh(node.name), lambda: to_numpy(held()), self.type(node))
        if (lower is None and not paired) or (picked and (lower is None or paired)):
            raise UnsupportedOp(f"ATen operator '{node.target}'", where=where, hint="write it with others, or add a row to the table")
        places = read_places(self, node, name, where)
        out = self.tensor_type(node.meta["val"], node) if hasattr(node.meta["val"], "dtype") else None
        kinds = {a.name: a.type for a in node.target._schema.arguments} if hasattr(node.target, "_schema") and name not in NUMBERS else {}
        of = node.args[0].meta["val"].shape[node.args[1] if len(node.args) > 1 else 0] if name == "slice" else None
        read = self.padding if name in ("constant_pad_nd", "pad") else self.argument
        taken = zip_longest(node.args, [*kinds.values()][: len(node.args)])
        args = [places[n] if n in places else read(a, where, k, of) for n, (a, k) in enumerate(taken)]
        kwargs = {k: self.argument(v, where, kinds.get(k)) for k, v in node.kwargs.items() if k not in NOT_VALUES}
        several = self.several(node)
        call = Call(self.b, name, out, where, *several, dense=_dense(node), contiguous=_contiguous(node))
        try:
            if (masks := masks_of(self.program, node)) and name != "index":
                value = chosen(call, masks[0], args[0])
            elif picked and lower is not None:
                value = self.rows.lowered(node, name, call, lower, args, kwargs)
            else:
                args = at_places(call, masks, args) if masks else args
                value = lowered(call, args, kwargs) if paired or lower is None else lower(call, *args, **kwargs)
        except UnsupportedOp:
            raise
        except AutocompError as e:
            raise ModelError(f"{node.target}: {e.what}", where=where, hint=e.hint) from None
        except Exception as e:  # a form of the call that its row does not know
            given = ", ".join([*map(str, node.args), *(f"{k}={v}" for k, v in node.kwargs.items())])
            raise UnsupportedOp(f"ATen operator '{node.target}' with arguments ({given})", where=where,
                                hint="write it with others") from e  # fmt: skip
        types, _ = several
        for v, t in zip(value, types) if isinstance(value, tuple) else ((value, out),):
            if isinstance(v, (Node, Pair)) and t is not None and v.type != t:
                raise UnsupportedOp(f"ATen operator '{node.target}' with these arguments gives {t}, its row {v.type}", where=where,
                                    hint="write it with others")  # fmt: skip
        for v in value if isinstance(value, tuple) else (value,):
            for part in (v.re, v.im) if isinstance(v, Pair) else (v,):
                if isinstance(part, Node):
                    self.b.locations.setdefault(part, where)
        return value

    def branch(self, module: Any, operands: Sequence[Any]) -> list[Any]:
        """What a graph of torch's gives for these operands."""
        rest = iter(operands)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(rest)
            elif node.op == "get_attr" and _is_tensor(node):
                self.values[node] = self.b.param(self.b.fresh(node.name), to_numpy(getattr(module, node.target)))
            elif node.op == "call_function":
                self.values[node] = self.call(node)
            elif node.op == "output":
                results = node.args[0] if isinstance(node.args[0], (list, tuple)) else node.args
                return [self.values[x] if hasattr(x, "users") else x for x in results]
        raise AssertionError("a graph without an output")

    def several(self, node: Any) -> tuple[tuple[Any, ...], frozenset[int]]:
        """(types, numbers of those read) of a node's results where it has several."""
        if not isinstance(v := node.meta["val"], (list, tuple)):
            return (), frozenset()
        types = tuple(self.tensor_type(x, node) if hasattr(x, "dtype") else None for x in v)
        return types, frozenset(u.args[1] for u in node.users if u.target is operator.getitem and u.users)

    def argument(self, a: Any, where: str, kind: object, of: Any = None) -> Any:
        """What a row is given for an argument of this type of ATen's schema: nodes, Python's numbers, dimensions. `of`: the size that
        negative symbols are counted from the end of."""
        if isinstance(a, (list, tuple)):
            return [self.argument(x, where, kind) for x in a]
        if not (hasattr(a, "meta") and hasattr(a, "users")):
            return a
        value = self.values[a]
        if value is None and _is_tensor(a):
            raise UnsupportedOp(f"'{a.name}' is a result that its row does not give", where=where, hint="do not read it")
        if is_size(value):
            value = value + of if of is not None and from_behind(value) else value
            return self.sizes.dim(value, where) if is_dimension(kind) else self.sizes.scalar(value, where)
        return value


    def padding(self, a: Any, where: str, kind: object, of: Any = None) -> Any:
        """The same for a padding, whose numbers may be sizes that are never positive."""
        if isinstance(a, (list, tuple)):
            return [self.padding(x, where, kind) for x in a]
        try:
            return self.argument(a, where, kind, of)
        except UnsupportedOp:
            if not (hasattr(a, "meta") and is_size(value := self.values[a]) and is_dimension(kind)):
                raise
            try:
                return Less(self.sizes.dim(-value, where))
            except UnsupportedOp:
                pass
            raise


def _is_tensor(node: Any) -> bool:
    return hasattr(node.meta.get("val"), "dtype")


def _is_complex(v: Any) -> bool:
    """Whether a value of torch's, or one of several, is complex."""
    return any(x.dtype.is_complex for x in (v if isinstance(v, (list, tuple)) else [v]) if hasattr(x, "dtype"))


def _dense(node: Any) -> bool:
    """Whether the first tensor that a node reads lies row by row from the start of its memory; no where sizes are numbers that are read."""
    at_start = lambda v: isinstance(v.storage_offset(), int) and v.storage_offset() == 0
    return all(map(at_start, _first_read(node))) and _contiguous(node)


def _contiguous(node: Any) -> bool:
    """Whether the first tensor that a node reads lies row by row; no where sizes are numbers that are read."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return all(not free_unbacked_symbols(v) and v.is_contiguous() for v in _first_read(node))


def _first_read(node: Any) -> list[Any]:
    return [v for a in node.all_input_nodes[:1] if hasattr(v := a.meta.get("val"), "is_contiguous")]


def to_numpy(x: Any) -> np.ndarray:
    """A tensor's data as NumPy; types that NumPy itself does not have (bfloat16, 8-bit floats) through their bits."""
    import torch

    x = x.detach().cpu().contiguous()
    own = DTYPES.get(DTYPE.get(str(x.dtype).removeprefix("torch."), ""))
    if own in (BF16, *FLOATS_8):
        return x.view(torch.int16 if own == BF16 else torch.uint8).numpy().view(own.numpy)
    return x.numpy()  # type: ignore[no-any-return]


def _least_of(symbol: Any, expr: Any, bounds: Any) -> int:
    """What a symbol may be at least where the user bounded a multiple of it, or one and a number more: h of `2*h`, `h + 9`, which torch
    takes to be 2 or more itself."""
    more, of = expr.as_coeff_Add()
    k, rest = of.as_coeff_Mul()
    whole = rest == symbol and k.is_Integer and k > 0 and more.is_Integer and expr != symbol and bounds.lower.is_Integer
    return -(-int(bounds.lower - more) // int(k)) if whole else 2**31
