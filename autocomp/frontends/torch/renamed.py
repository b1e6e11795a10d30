"""Exported programs whose operators are core ATen's by another name: what torch's decomposition gives, without its tracing.

    conv2d(x, w, b, [2, 2])  ->  convolution(x, w, b, [2, 2], [0, 0], [1, 1], False, [0, 0], 1)         relu_(y)  ->  relu(y)

torch traces the whole program anew for it, which is most of what reading a network of convolutions takes. A program with any other
operator, with open sizes or another memory format, or that writes into what may be seen elsewhere, is left to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    "expand.default"))  # fmt: skip
IN_PLACE = {f"aten.{n}": f"aten.{n.replace('_.', '.')}" for n in ("relu_.default", "add_.Tensor", "mul_.Tensor", "sigmoid_.default",
                                                                 "silu_.default", "hardtanh_.default", "leaky_relu_.default")}  # fmt: skip
# results that are, or may be, the memory of what they read
VIEWS = frozenset(f"aten.{n}" for n in (
    "view.default", "permute.default", "unsqueeze.default", "slice.Tensor", "select.int", "expand.default", "flatten.using_ints",
    "reshape.default", "transpose.int", "contiguous.default", "unflatten.int", "squeeze.dim", "dropout.default",
    "dropout_.default"))  # fmt: skip


@dataclass(frozen=True)
class Core:
    """What a node is in core ATen: an operator with its arguments (None: it is its first argument). `name`: what torch's decomposition
    calls it, where its row takes the operator as it is."""

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
        elif (core := _core(n)) is None or (str(n.target) in IN_PLACE and not _alone(n, owner)):
            return None
        elif core.target is None:  # it may be that memory: nothing of it is written then
            values[n] = value(n.args[0])
        else:
            args, name = torch.fx.node.map_arg(core.args, value), core.name or core.target.overloadpacket.__name__
            made = graph.create_node("call_function", core.target, args, dict(core.kwargs), name=name)
            made.meta = n.meta
            owner[n] = owner[n.args[0]] if str(n.target) in IN_PLACE else n
            values[owner[n]] = made
    return SimpleNamespace(graph=graph, graph_signature=signature, state_dict=program.state_dict, constants=program.constants,
                           range_constraints=program.range_constraints)  # fmt: skip


def _known(n: Any) -> bool:
    """Whether a node is one tensor of sizes that are numbers, as an input row by row in memory, or the results."""
    if n.op == "output":
        return all(hasattr(x, "meta") for x in n.args[0])
    v = n.meta.get("val")
    if n.op not in ("placeholder", "call_function") or not all(hasattr(v, a) for a in ("stride", "layout", "dtype")):
        return False
    return (all(isinstance(k, int) for k in (*v.shape, *v.stride())) and str(v.layout) == "torch.strided" and not v.dtype.is_complex
            and v.device.type == "cpu" and (n.op == "call_function" or (v.is_contiguous() and not v.storage_offset())))  # fmt: skip


def _alone(n: Any, owner: Mapping[Any, Any]) -> bool:
    """Whether what a node writes into is an operator's result that no view shares, and stays what it is: of floats, as the others are."""
    x = n.args[0]
    mine = [m for m, o in owner.items() if o is owner[x]]
    others = [a for a in n.args[1:] if hasattr(a, "meta")]
    shares = lambda m: str(m.target) in VIEWS or m.op == "placeholder"
    return (not shares(owner[x]) and not any(shares(u) for m in mine for u in m.users) and x.meta["val"].dtype.is_floating_point
            and all(a.meta["val"].dtype == x.meta["val"].dtype for a in others))  # fmt: skip


def _core(n: Any) -> Core | None:
    """None for an operator or a form of one that is not known."""
    name = str(n.target)
    if name in SAME:
        return Core(n.target, n.args, n.kwargs)
    if name in IN_PLACE:
        return Core(_operator(IN_PLACE[name]), n.args, n.kwargs)
    form = _FORMS.get(name)
    return form(*n.args, **n.kwargs) if form is not None else None


def _operator(name: str) -> Any:
    import torch

    _, op, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, op), overload)


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


def _kept(x: Any, p: float, train: bool) -> Core | None:
    return None if train else Core(None, (x,), {})


_FORMS: dict[str, Callable[..., Core | None]] = {
    "aten.conv1d.default": _convolution(1), "aten.conv2d.default": _convolution(2), "aten.conv3d.default": _convolution(3),
    "aten.batch_norm.default": _norm, "aten.max_pool2d.default": _maxima, "aten.adaptive_avg_pool2d.default": _means,
    "aten.flatten.using_ints": _flat, "aten.reshape.default": _viewed, "aten.unflatten.int": _unflat, "aten.transpose.int": _turned,
    "aten.squeeze.dim": lambda x, dim: Core(_operator("aten.squeeze.dims"), (x, [dim]), {}),
    "aten.contiguous.default": lambda x: Core(None, (x,), {}), "aten.dropout.default": _kept, "aten.dropout_.default": _kept}  # fmt: skip
