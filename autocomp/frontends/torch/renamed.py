"""Exported programs whose operators are core ATen's by another name: what torch's decomposition gives, without its tracing.

    conv2d(x, w, b, [2, 2])  ->  convolution(x, w, b, [2, 2], [0, 0], [1, 1], False, [0, 0], 1)         relu_(y)  ->  relu(y)

torch traces the whole program anew for it, which is most of what reading a network of convolutions takes. A program with any other
operator, with open sizes or another memory format, or that writes into what may be seen elsewhere, is left to torch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import Any

# operators that torch's decomposition leaves as they are (some of them as `exported.KEPT` says)
SAME = frozenset(f"aten.{n}" for n in (
    "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "neg.default", "relu.default", "sigmoid.default", "tanh.default",
    "gelu.default", "silu.default", "exp.default", "cat.default", "linear.default", "matmul.default", "layer_norm.default", "softmax.int",
    "mean.dim", "avg_pool2d.default", "pad.default", "clone.default", "scaled_dot_product_attention.default", "embedding.default",
    "hardtanh.default", "leaky_relu.default", "view.default", "permute.default", "unsqueeze.default", "slice.Tensor", "select.int",
    "expand.default", "stack.default", "unbind.int", "split.Tensor", "rms_norm.default", "masked_fill.Scalar", "log_softmax.int",
    "softplus.default", "roll.default", "tril.default", "triu.default", "gather.default", "index.Tensor", "where.self", "cumsum.default",
    "rsqrt.default", "sqrt.default", "cos.default", "sin.default", "erf.default", "log.default", "abs.default", "pow.Tensor_Scalar",
    "bmm.default", "amax.default", "sum.dim_IntList", "arange.start_step", "full.default", "clamp.default", "maximum.default",
    "minimum.default", "bitwise_and.Tensor", "logical_not.default", "logical_and.default", "squeeze.dims", "mul.Scalar", "add.Scalar",
    "addmm.default", "alias.default", "pow.Tensor_Tensor", "full_like.default", "repeat.default",
    *(f"{order}.{kind}" for order in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Scalar", "Tensor"))))  # fmt: skip
_WRITING = ("relu_.default", "add_.Tensor", "mul_.Tensor", "sigmoid_.default", "silu_.default", "hardtanh_.default", "leaky_relu_.default",
            "hardswish_.default")  # fmt: skip
IN_PLACE = {f"aten.{n}": f"aten.{n.replace('_.', '.')}" for n in _WRITING}
# results that are, or may be, the memory of what they read
VIEWS = frozenset(f"aten.{n}" for n in (
    "view.default", "permute.default", "unsqueeze.default", "slice.Tensor", "select.int", "expand.default", "flatten.using_ints",
    "unbind.int", "split.Tensor", "chunk.default", "squeeze.dims", "to.dtype", "to.dtype_layout", "to.device", "type_as.default",
    "alias.default", "reshape.default", "transpose.int", "contiguous.default", "unflatten.int", "squeeze.dim", "mT.default", "t.default",
    "dropout.default", "dropout_.default"))  # fmt: skip


CHECKS = ("aten._assert_tensor_metadata.default",)  # of what torch knows while it traces


@dataclass(frozen=True)
class Core:
    """What a node is in core ATen: an operator with its arguments, which may be such operators (None: it is its first argument). `name`:
    what torch's decomposition calls it, where its row takes the operator as it is."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    name: str = ""


def renamed(program: Any) -> Any:
    """The program in core ATen's operators, with what a reader asks of it (`export.Reader`); None where torch is to decompose it."""
    import torch
    from torch.export.graph_signature import OutputKind

    signature, nodes = program.graph_signature, list(program.graph.nodes)
    if any(s.kind is not OutputKind.USER_OUTPUT for s in signature.output_specs) or not all(map(_known, nodes)):
        return None
    graph, values = torch.fx.Graph(), dict[Any, Any]()
    owner: dict[Any, Any] = {}  # of each node the one whose memory it is, whose value is what was written last
    value = lambda n: values[owner[n]]
    for n in nodes:
        owner[n] = n
        if n.op == "placeholder":
            values[n] = graph.placeholder(n.name)
            values[n].name, values[n].meta = n.name, n.meta
        elif n.op == "output":
            graph.output(torch.fx.node.map_arg(n.args[0], value))
        elif str(n.target) in CHECKS:
            continue
        elif (core := _core(n)) is None or (str(n.target) in IN_PLACE and not _alone(n, owner)):
            return None
        elif core.target is None and n.meta["val"].stride() == n.args[0].meta["val"].stride():  # no copy, so that nothing of it is written
            values[n] = value(n.args[0])
        else:
            if core.target is None:  # laid out anew: `contiguous`, `to` with a memory format
                core = Core(_operator("aten.clone.default"), core.args, {})
            made = _built(graph, core, n.meta, value, {})
            owner[n] = owner[n.args[0]] if str(n.target) in IN_PLACE else n
            values[owner[n]] = made
    graph.eliminate_dead_code()
    return SimpleNamespace(graph=graph, graph_signature=signature, state_dict=program.state_dict, constants=program.constants,
                           range_constraints=program.range_constraints)  # fmt: skip


def _built(graph: Any, core: Core, meta: Mapping[str, Any], value: Callable[[Any], Any], known: dict[int, Any]) -> Any:
    """The node of an operator, behind those operands that are operators (`known`: each once); of these torch says types and shapes."""
    import torch

    def inner(x: Any) -> Any:
        if not isinstance(x, Core):
            return x
        if id(x) in known:
            return known[id(x)]
        made = known[id(x)] = _built(graph, x, meta, value, known)
        given = torch.fx.node.map_arg(made.args, lambda a: a.meta["val"])
        with _mode(made.args):
            made.meta = {**meta, "val": x.target(*given, **x.kwargs)}
        return made

    args = tuple([inner(y) for y in x] if isinstance(x, list) else inner(x) for x in core.args)
    args = torch.fx.node.map_arg(args, lambda a: value(a) if a.graph is not graph else a)
    made = graph.create_node("call_function", core.target, args, dict(core.kwargs), name=core.name or _called(core.target))
    made.meta = meta
    return made


def _mode(args: Any) -> Any:
    """The mode in which torch makes tensors without data, where a tensor among the arguments has one."""
    from torch.utils._pytree import tree_leaves

    modes = (getattr(x.meta["val"], "fake_mode", None) for x in tree_leaves(args) if hasattr(x, "meta"))
    return next((m for m in modes if m is not None), nullcontext())


def _known(n: Any) -> bool:
    """Whether a node gives tensors of sizes that are numbers, as inputs row by row in memory, is the results, or checks what is known."""
    if n.op == "output":
        return all(hasattr(x, "meta") for x in n.args[0])
    if str(n.target) in CHECKS:
        return True
    v = n.meta.get("val")
    tensors = v if isinstance(v, (list, tuple)) and n.op == "call_function" else [v]
    return n.op in ("placeholder", "call_function") and all(_plain(x, n.op == "placeholder") for x in tensors)


def _plain(v: Any, given: bool) -> bool:
    if not all(hasattr(v, a) for a in ("stride", "layout", "dtype")):
        return False
    return (str(v.layout) == "torch.strided" and all(isinstance(k, int) for k in (*v.shape, *v.stride())) and not v.dtype.is_complex
            and v.device.type == "cpu" and (not given or (v.is_contiguous() and not v.storage_offset())))  # fmt: skip


def _alone(n: Any, owner: Mapping[Any, Any]) -> bool:
    """Whether what a node writes into is an operator's result that no view shares, and stays what it is: of floats, as the others are."""
    x = n.args[0]
    mine = [m for m, o in owner.items() if o is owner[x]]
    others = [a for a in n.args[1:] if hasattr(a, "meta")]
    shares = lambda m: str(m.target) in VIEWS or m.target is operator.getitem or m.op == "placeholder"
    return (not shares(owner[x]) and not any(shares(u) for m in mine for u in m.users) and x.meta["val"].dtype.is_floating_point
            and all(a.meta["val"].dtype == x.meta["val"].dtype for a in others))  # fmt: skip


def _core(n: Any) -> Core | None:
    """None for an operator or a form of one that is not known."""
    name = str(n.target)
    if name in SAME or n.target is operator.getitem:
        return Core(n.target, n.args, n.kwargs)
    if name in IN_PLACE and IN_PLACE[name] in SAME:
        return Core(_operator(IN_PLACE[name]), n.args, n.kwargs)
    name = IN_PLACE.get(name, name)
    if name.startswith("aten.to.") or name == "aten.type_as.default":
        cast = n.meta["val"].dtype != n.args[0].meta["val"].dtype
        return Core(_operator("aten._to_copy.default"), n.args[:1], {"dtype": n.meta["val"].dtype}) if cast else Core(None, n.args[:1], {})
    if name == "aten.where.ScalarOther" and n.meta["val"].dtype != n.args[1].meta["val"].dtype:
        return None
    form = _FORMS.get(name)
    try:
        if name in MADE:
            target, args = MADE[name]
            return Core(_operator(target), args(*n.args), n.kwargs)
        return form(*n.args, **n.kwargs) if form is not None else None
    except (TypeError, IndexError, ZeroDivisionError):  # arguments that the form does not have, or no dimension
        return None


def _called(target: Any) -> str:
    """What torch's tracing calls the nodes of an operator."""
    return "getitem" if target is operator.getitem else target.overloadpacket.__name__  # type: ignore[no-any-return]


def _operator(name: str) -> Any:
    import torch

    _, op, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, op), overload)


MADE: dict[str, tuple[str, Callable[..., tuple[Any, ...]]]] = {  # tensors of no other one; of another name alone
    "aten.arange.default": ("aten.arange.start_step", lambda end: (0, end)),
    "aten.arange.start": ("aten.arange.start_step", lambda start, end: (start, end)),
    "aten.zeros.default": ("aten.full.default", lambda size: (size, 0)),
    "aten.ones.default": ("aten.full.default", lambda size: (size, 1)),
    "aten.new_zeros.default": ("aten.full.default", lambda x, size: (size, 0)),
    "aten.new_ones.default": ("aten.full.default", lambda x, size: (size, 1)),
    "aten.zeros_like.default": ("aten.full_like.default", lambda x: (x, 0)),
    "aten.ones_like.default": ("aten.full_like.default", lambda x: (x, 1)),
    "aten.__and__.Tensor": ("aten.bitwise_and.Tensor", lambda x, y: (x, y)),
}


def _convolution(rank: int) -> Callable[..., Core | None]:
    def form(x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Core | None:
        if x.meta["val"].dim() != rank + 2 or isinstance(padding, str):
            return None
        each = lambda v: [v] * rank if isinstance(v, int) else list(v) * (rank if len(v) == 1 else 1)
        args = (x, w, b, each(stride), each(padding), each(dilation), False, [0] * rank, groups)
        return Core(_operator("aten.convolution.default"), args, {})

    return form


def _norm(x: Any, w: Any, b: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float, cudnn: bool) -> Core | None:
    if training or mean is None or variance is None:
        return None
    args = (x, w, b, mean, variance, training, momentum, eps, cudnn)
    return Core(_operator("aten.batch_norm.default"), args, {}, "_native_batch_norm_legit_no_training")


def _maxima(x: Any, *how: Any) -> Core | None:
    return Core(_operator("aten.max_pool2d.default"), (x, *how), {}, "max_pool2d_with_indices")


def _means(x: Any, size: Any) -> Core | None:
    if not x.meta["val"].is_contiguous():  # torch lays out the result by more operators
        return None
    if [*size] == [1, 1]:
        return Core(_operator("aten.mean.dim"), (x, [-1, -2], True), {})
    return Core(_operator("aten._adaptive_avg_pool2d.default"), (x, size), {})


def _flat(x: Any, start: int = 0, end: int = -1) -> Core:
    shape = [*x.meta["val"].shape]
    start, end = start % len(shape), end % len(shape)
    return _viewed(x, [*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]])


def _viewed(x: Any, shape: Any) -> Core:
    return Core(_operator("aten.view.default"), (x, shape), {})


def _unflat(x: Any, dim: int, sizes: Any) -> Core:
    shape = [*x.meta["val"].shape]
    dim %= len(shape)
    return _viewed(x, [*shape[:dim], *sizes, *shape[dim + 1 :]])


def _turned(x: Any, a: int, b: int) -> Core:
    order = [*range(x.meta["val"].dim())]
    order[a], order[b] = order[b], order[a]
    return Core(_operator("aten.permute.default"), (x, order), {})


def _transposed(x: Any) -> Core:
    return _turned(x, 0, 1) if x.meta["val"].dim() == 2 else Core(None, (x,), {})


def _chunks(x: Any, n: int, dim: int = 0) -> Core:
    size = x.meta["val"].shape[dim]
    return Core(_operator("aten.split.Tensor"), (x, -(-size // n), dim), {})


def _differences(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Core | None:
    if n != 1 or append is not None or str(x.meta["val"].dtype) == "torch.bool":
        return None
    size, y = x.meta["val"].shape[dim], x
    if prepend is not None:
        size, y = size + prepend.meta["val"].shape[dim], Core(_operator("aten.cat.default"), ([prepend, x], dim), {})
    part = lambda a, b: Core(_operator("aten.slice.Tensor"), (y, dim, a, b), {})
    return Core(_operator("aten.sub.Tensor"), (part(1, size), part(0, size - 1)), {})


def _clamped(x: Any) -> Core:
    at_least = Core(_operator("aten.clamp.default"), (Core(_operator("aten.add.Tensor"), (x, 3), {}), 0), {})
    return Core(_operator("aten.clamp.default"), (at_least, None, 6), {})


def _divided(x: Any) -> Core:
    return Core(_operator("aten.div.Tensor"), (x, 6), {})


def _chosen(c: Any, x: Any, other: Any) -> Core:
    number = Core(_operator("aten.scalar_tensor.default"), (other,), {"dtype": x.meta["val"].dtype})
    return Core(_operator("aten.where.self"), (c, x, number), {})


def _kept(x: Any, p: float, train: bool) -> Core | None:
    return None if train else Core(None, (x,), {})


_FORMS: dict[str, Callable[..., Core | None]] = {
    "aten.conv1d.default": _convolution(1), "aten.conv2d.default": _convolution(2), "aten.conv3d.default": _convolution(3),
    "aten.batch_norm.default": _norm, "aten.max_pool2d.default": _maxima, "aten.adaptive_avg_pool2d.default": _means,
    "aten.flatten.using_ints": _flat, "aten.reshape.default": _viewed, "aten.unflatten.int": _unflat, "aten.transpose.int": _turned,
    "aten.hardswish.default": lambda x: _divided(Core(_operator("aten.mul.Tensor"), (x, _clamped(x)), {})),
    "aten.hardsigmoid.default": lambda x: _divided(_clamped(x)), "aten.diff.default": _differences, "aten.where.ScalarOther": _chosen,
    "aten.min.other": lambda x, y: Core(_operator("aten.minimum.default"), (x, y), {}),
    "aten.chunk.default": _chunks, "aten.mT.default": lambda x: _turned(x, -2, -1), "aten.t.default": _transposed,
    "aten.squeeze.dim": lambda x, dim: Core(_operator("aten.squeeze.dims"), (x, [dim]), {}),
    "aten.contiguous.default": lambda x: Core(None, (x,), {}), "aten.dropout.default": _kept, "aten.dropout_.default": _kept}  # fmt: skip
