"""Rows that a mask chooses by data: how many there are is known in a call alone, so all of them are computed and the mask says which count.

    y = x[mask].exp(); x[mask] = y          ->   x = where(mask, exp(x), x)
    x[mask].mean()                          ->   sum(where(mask, x, 0)) / (the number of places where mask is true)
    i = torch.where(mask)[0]; out.index_add_(0, i, f(x[i]))   ->   the rows of all i, those that are not chosen 0

torch has a symbol for the number of chosen rows (u0); here its dimension is as long as the mask, which is read as flat. What works row by
row is computed as it is, a reduction over the rows has its identity in those that are not chosen, and what would see their number or
places (a result of that size, an order) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.call import Call, axes_of
from autocomp.frontends.torch.known_masks import masks_of
from autocomp.frontends.torch.sizes import is_dimension, is_size
from autocomp.frontends.torch.writing import joint
from autocomp.ir.node import Node
from autocomp.ir.sizes import product
from autocomp.ir.types import BOOL, F32, I64, SHORT_FLOATS, DType

if TYPE_CHECKING:
    from autocomp.frontends.torch.export import Reader

OPENERS = ("index", "masked_select", "nonzero")
HINT = "use torch.where with a mask of the whole shape"
# row by row whichever dimensions they change, as long as the one of the chosen rows is still there
FREE = ("clone", "_to_copy", "where", "alias", "detach", "unsqueeze", "squeeze", "permute", "transpose", "t", "expand", "mm", "addmm",
        "bmm", "baddbmm", "linear", "matmul", "full_like", "zeros_like", "ones_like")  # fmt: skip
# row by row along other dimensions than that of the rows: (the argument that says along which, what it is where it is not given)
ALONG = {
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax", "gather", "index_select", "select"), (1, None)),
    **dict.fromkeys(("cumsum", "cumprod", "argmax", "argmin"), (1, None)),
    **dict.fromkeys(("slice", "unbind", "cat"), (1, 0)),
    **dict.fromkeys(("split", "split_with_sizes"), (2, 0)),
    "topk": (2, -1),
    "sort": (1, -1),
}
REDUCED = {"sum": 0, "mean": 0, "var": 0, "prod": 1, "any": False, "all": True, "linalg_vector_norm": 0, "logsumexp": -np.inf,
           "amax": -np.inf, "max": -np.inf, "amin": np.inf, "min": np.inf}  # fmt: skip
RESHAPED = ("view", "reshape", "_unsafe_view", "_reshape_copy")
SHAPED = (*RESHAPED, "expand", "full")  # operators that may be given the number of rows as a size
INDEXED = ("index", "gather", "embedding", "index_select", "index_put")  # integers among their operands are places that are read


class ChosenRows:
    """Of a reader's nodes: the mask, flat, of those whose value has chosen rows. `coordinates`: of those that are the places of a mask's
    true elements, one tensor for each of its dimensions; `places`: of these the mask in its own shape and the dimension."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.b = reader, reader.b
        self.masks: dict[Any, Node] = {}
        self.of: dict[Any, Node] = {}  # of torch's symbols for how many rows there are: the mask
        self.coordinates: dict[Any, list[Node]] = {}
        self.places: dict[Node, tuple[Node, int]] = {}

    # ---- a node that chooses
    def opened(self, node: Any, name: str, where: str) -> Any:
        """The value of a node that chooses rows by data, None of others. Raises UnsupportedOp on forms that are not read."""
        self._check(node, name, where)
        symbol = _chosen_by_data(node, name)
        if symbol is None or masks_of(self.reader.program, node):
            return None
        c, values = Call(self.b, name, None, where), self.reader.values
        if self.chosen(node):
            raise c.refuse("chooses among rows that are chosen by data", HINT)
        x = values[node.args[0]]
        if name == "nonzero":
            mask = x if x.type.dtype == BOOL else c.op("ne", x, self.b.const(0, x.type.dtype))
            value = self._coordinates(node, c, mask)
        elif name == "masked_select":
            shape = joint([x.type.shape, values[node.args[1]].type.shape])
            mask = c.op("broadcast", values[node.args[1]], shape=shape)
            value = c.op("reshape", c.op("broadcast", x, shape=shape), shape=(product(shape),))
        else:
            given = [(k, values[i]) for k, i in enumerate(node.args[1]) if i is not None]
            if len(given) != 1:
                raise c.refuse("a mask beside other indices: the result's size depends on data", HINT)
            ((at, mask),), s = given, x.type.shape
            value = c.op("reshape", x, shape=(*s[:at], product(mask.type.shape), *s[at + mask.type.rank :]))
        self._open(symbol, node, c, mask)
        return value

    def _check(self, node: Any, name: str, where: str) -> None:
        """Raises UnsupportedOp for an operator that is given the number of chosen rows as a size, or makes a tensor of as many, but for one
        whose elements are alike."""
        if not self.of:
            return
        counts = lambda d: is_size(d) and not self.of.keys().isdisjoint(d.node.expr.free_symbols)
        types = [a.type for a in node.target._schema.arguments] if hasattr(node.target, "_schema") else []
        sizes = [a for arg, t in zip(node.args, types) if is_dimension(t) for a in (arg if isinstance(arg, (list, tuple)) else [arg])]
        given = any(counts(a.meta.get("val")) for a in sizes if hasattr(a, "meta"))
        made = any(map(counts, getattr(node.meta["val"], "shape", ()))) and not self.chosen(node) and name not in OPENERS
        if (given and name not in SHAPED) or (made and (name != "full" or _axis(node) is None)):
            raise UnsupportedOp(f"{name}: is given how many rows a mask chooses by data", where=where, hint=HINT)
        if made:
            self.masks[node] = self.of[node.meta["val"].shape[_axis(node)].node.expr]

    def _open(self, symbol: Any, node: Any, c: Call, mask: Node) -> None:
        n = product(mask.type.shape)
        if self.reader.counts.setdefault(symbol, n) != n or self.of.setdefault(symbol, self._flat(mask)) is not self._flat(mask):
            raise c.refuse("takes as many rows as another mask chooses by data", HINT)
        self.masks[node] = self._flat(mask)
        self.reader.sizes.read[symbol] = c.op("reduce_sum", c.cast(self.masks[node], I64), axes=(0,))

    def _flat(self, mask: Node) -> Node:
        return self.b.op("reshape", mask, shape=(product(mask.type.shape),))

    def _coordinates(self, node: Any, c: Call, mask: Node) -> Node:
        """[elements of the mask, its dimensions]: of each element the place."""
        columns = [self._flat(c.op("iota", shape=mask.type.shape, axis=k, dtype=I64.name)) for k in range(mask.type.rank)]
        self.places.update({column: (mask, k) for k, column in enumerate(columns)})
        self.coordinates[node] = columns
        lie = [c.op("reshape", column, shape=(*column.type.shape, 1)) for column in columns]
        return lie[0] if len(lie) == 1 else c.op("concat", *lie, axis=1)

    # ---- a node that reads chosen rows
    def chosen(self, node: Any) -> list[Any]:
        """The operands of a node whose rows are chosen."""
        return [i for i in node.all_input_nodes if i in self.masks]

    def lowered(self, node: Any, name: str, c: Call, lower: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The value of a node that reads chosen rows. Raises UnsupportedOp where it does not work row by row."""
        operands = self.chosen(node)
        mask = self.masks[operands[0]]
        if any(self.masks[i] is not mask for i in operands):
            raise c.refuse("joins rows that two masks choose by data", HINT)
        if (columns := self._columns(node, name)) is not None:
            self.masks[node] = mask
            return columns
        if name == "index_put":
            return self._put(node, c, mask, lower, args, kwargs)
        axes = {_axis(i) for i in operands}
        if name in INDEXED:
            args = self._within(node, mask, args)
        if (out := _axis_of_result(node)) is None:
            return self._reduced(node, name, c, mask, lower, args, kwargs)
        if None in axes or out < 0 or not self._by_rows(node, name, axes, out, args, kwargs):
            raise c.refuse("sees how many rows a mask chooses by data", HINT)
        value = lower(c, *args, **kwargs)
        self.masks[node] = mask
        return value

    def _columns(self, node: Any, name: str) -> Any:
        """The places along single dimensions where a node takes them from coordinates; None where it does not."""
        of = node.args[0]
        columns = self.coordinates.get(of)
        if columns is None:
            return None
        rank = len(node.meta["val"].shape) if hasattr(node.meta["val"], "shape") else 0
        if name == "unbind" and len(node.args) > 1 and node.args[1] in (1, -1):
            return tuple(columns)
        if name == "select" and node.args[1] in (1, -1):
            return columns[node.args[2]]
        return columns[0] if rank == 1 and len(columns) == 1 and name in (*RESHAPED, "squeeze") else None

    def _by_rows(self, node: Any, name: str, axes: set[Any], out: int, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether an operator computes each chosen row from that row alone."""
        import torch

        rank = lambda v: len(v.meta["val"].shape)
        if torch.Tag.pointwise in getattr(node.target, "tags", ()):
            result = len(node.meta["val"].shape) - out
            return all(rank(i) - axis == result for i in self.chosen(node) if (axis := _axis(i)) is not None)
        if name in FREE:
            return True
        if name == "index":
            return node.args[0] not in self.masks or all(i is None for i in node.args[1][_axis(node.args[0]) :][:1])
        if name == "embedding":
            return node.args[0] not in self.masks
        if name in RESHAPED:
            return axes == {0} and out == 0
        if name in ("layer_norm", "native_layer_norm"):
            return axes == {out} and out < rank(node) - len(args[1]) if name == "layer_norm" else axes == {0}
        if name in REDUCED:
            return True  # the rows are still there
        if name == "gather" and len(self.chosen(node)) < 2:
            return False  # pairs rows with the first rows of another tensor
        if name in ALONG:
            at, default = ALONG[name]
            dim = args[at] if len(args) > at else kwargs.get("dim", default)
            first = self.chosen(node)[0]
            return dim is not None and axes == {_axis(first)} and dim % rank(first) != _axis(first)
        return False

    def _within(self, node: Any, mask: Node, args: Sequence[Any]) -> list[Any]:
        """The arguments with 0 for places that rows name which are not chosen: they may be of nothing."""
        filled = {self.reader.values[i]: self._filled(mask, i, 0) for i in self.chosen(node)
                  if self.reader.values[i].type.dtype.is_int and self.reader.values[i] not in self.places}  # fmt: skip
        one = lambda a: filled.get(a, a) if isinstance(a, Node) else a
        return [[one(v) for v in a] if isinstance(a, list) else one(a) for a in args]

    def _filled(self, mask: Node, of: Any, value: Any) -> Node:
        """A node's value with a number in the rows that are not chosen."""
        x = self.reader.values[of]
        return self.b.op("where", self._lies(mask, of), x, self.b.const(_of_type(value, x.type.dtype), x.type.dtype))

    def _lies(self, mask: Node, of: Any) -> Node:
        """The mask in the shape of a node's value."""
        shape, axis = self.reader.values[of].type.shape, _axis(of)
        rows = self.b.op("reshape", mask, shape=tuple(d if k == axis else 1 for k, d in enumerate(shape)))
        return self.b.op("broadcast", rows, shape=shape)

    def _reduced(self, node: Any, name: str, c: Call, mask: Node, lower: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
        """A reduction over the chosen rows: the others have its identity. A mean is a sum over their number."""
        of = node.args[0]
        order = args[1] if name == "linalg_vector_norm" and len(args) > 1 else 2
        if name not in REDUCED or isinstance(node.meta["val"], (list, tuple)) or self.chosen(node) != [of] or order < 0:
            raise c.refuse("sees which rows a mask chooses by data", HINT)
        if name not in ("mean", "var"):
            return lower(c, self._filled(mask, of, REDUCED[name]), *args[1:], **kwargs)
        assert c.out is not None
        x, wide = self.reader.values[of], F32 if c.out.dtype in SHORT_FLOATS else c.out.dtype
        over = axes_of(x, args[1] if len(args) > 1 else kwargs.get("dim"))
        keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        rest = product(x.type.shape[a] for a in over if a != _axis(of))
        if not isinstance(rest, int):
            raise c.refuse("is a mean of rows of an open size that a mask chooses by data", HINT)
        rows = self._lies(mask, of)
        number = lambda v: self.b.const(v, wide)
        count = c.op("mul", c.op("reduce_sum", c.cast(mask, wide), axes=(0,)), number(rest))
        total = lambda v, keep: c.op("reduce_sum", c.op("where", rows, v, number(0)), axes=over, keepdims=keep)
        x = c.cast(x, wide)
        if name == "mean":
            return c.cast(c.op("div", total(x, keep), count), c.out.dtype)
        apart = c.op("sub", x, c.op("broadcast", c.op("div", total(x, True), count), shape=x.type.shape))
        free = 1 if (given := kwargs.get("correction")) is None else given
        left = c.op("max", c.op("sub", count, number(free)), number(0))
        return c.cast(c.op("div", total(c.op("mul", apart, apart), keep), left), c.out.dtype)

    def _put(self, node: Any, c: Call, mask: Node, lower: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Rows that are written where the mask that chose them is true, or to where indices of each say."""
        x, indices, values, *rest = args
        accumulate = bool(rest[0]) if rest else bool(kwargs.get("accumulate", False))
        if node.args[0] in self.masks:
            raise c.refuse("writes into rows that a mask chooses by data", HINT)
        given = [(k, i) for k, i in enumerate(indices) if i is not None]
        if (at := self._whole(given, mask)) is not None:
            return self._where(c, x, mask, at, values, accumulate)
        if accumulate and node.args[2] in self.masks and all(i.type.dtype != BOOL for _, i in given):
            args = self._within(node, mask, args)
            return lower(c, x, args[1], self._filled(mask, node.args[2], 0), *rest, **kwargs)
        raise c.refuse("writes rows that a mask chooses by data to other places", HINT)

    def _whole(self, given: Sequence[tuple[int, Node]], mask: Node) -> tuple[int, int] | None:
        """(the first dimension, how many) that a mask, or all coordinates of its true elements in order, index; None where they do not."""
        first = given[0][0]
        if len(given) == 1 and given[0][1].type.dtype == BOOL:
            return (first, given[0][1].type.rank) if self._flat(given[0][1]) is mask else None
        known = [self.places[i] for _, i in given if i in self.places]
        if len(known) < len(given):
            return None
        of = known[0][0]
        whole = [k for k, _ in given] == [*range(first, first + of.type.rank)] and known == [(of, k) for k in range(of.type.rank)]
        return (first, of.type.rank) if whole and self._flat(of) is mask else None

    def _where(self, c: Call, x: Node, mask: Node, at: tuple[int, int], values: Node, accumulate: bool) -> Node:
        """x with `values`, one row for each element of the mask, where it is true; the mask's dimensions are at[1] of x from at[0] on."""
        s, (first, n) = x.type.shape, at
        rows = (*s[:first], mask.type.shape[0], *s[first + n :])
        values = c.op("reshape", c.op("broadcast", c.cast(values, x.type.dtype), shape=rows), shape=s)
        lies = c.op("reshape", mask, shape=(*[1] * first, *s[first : first + n], *[1] * (len(s) - first - n)))
        return c.op("where", c.op("broadcast", lies, shape=s), c.op("add", x, values) if accumulate else values, x)


def _chosen_by_data(node: Any, name: str) -> Any:
    """The symbol of torch's for how many rows a node chooses, None where it chooses none by data."""
    boolean = lambda i: i is not None and str(i.meta["val"].dtype) == "torch.bool"
    if name not in OPENERS or (name == "index" and not any(map(boolean, node.args[1]))):
        return None
    axis = _axis(node)
    return node.meta["val"].shape[axis].node.expr if axis is not None else None


def _by_data(d: Any) -> bool:
    return any(map(d.node.shape_env.is_unbacked_symint, d.node.expr.free_symbols))


def _axis(node: Any) -> int | None:
    """The dimension of a tensor that data decide; None of several."""
    found = [k for k, d in enumerate(node.meta["val"].shape) if is_size(d) and _by_data(d)]
    return found[0] if len(found) == 1 and node.meta["val"].shape[found[0]].node.expr.is_symbol else None


def _axis_of_result(node: Any) -> int | None:
    """The same of a node's results; None where none has one, -1 where one has several or computes with it."""
    values = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
    found = set()
    for v in values:
        open_ = [(k, d) for k, d in enumerate(getattr(v, "shape", ())) if is_size(d) and _by_data(d)]
        found.add(open_[0][0] if len(open_) == 1 and open_[0][1].node.expr.is_symbol else -1 if open_ else None)
    return found.pop() if len(found) == 1 else -1


def _of_type(value: Any, dtype: DType) -> Any:
    """An identity as a number of this type."""
    if not dtype.is_int or not isinstance(value, float):
        return value
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if value < 0 else limits.max)
