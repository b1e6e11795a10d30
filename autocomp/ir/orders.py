"""Arrays whose axes do not lie in memory in the order in which callers name them: channels-last tensors, transposed matrices.

    f16[8, 64, 56, 56] in channels-last order (0, 2, 3, 1)          the graph has an input f16[8, 56, 56, 64] and a transpose

An order lists an array's axes from the outermost in memory to the innermost. Inside a program every tensor is dense; orders are known
where callers' arrays come in and go out, and turning an array there moves no element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autocomp.errors import ModelError

Order = tuple[int, ...]


def order_of(shape: Sequence[int], strides: Sequence[int]) -> Order | None:
    """The order of a dense array (strides in elements): None where its axes lie as they are named, or where it is not dense (a part of
    another array, an element that stands for many). Axes of extent 1 lie anywhere, and stay beside what they are named beside."""
    if _is_dense(shape, strides, range(len(shape))):
        return None
    long = sorted((k for k, n in enumerate(shape) if n != 1), key=lambda k: (-strides[k], k))
    order = list(long)
    for k, n in enumerate(shape):
        if n == 1:
            order.insert(0 if k == 0 else order.index(k - 1) + 1, k)
    return tuple(order) if _is_dense(shape, strides, order) else None


def _is_dense(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    step = 1
    for k in reversed(order):
        if shape[k] != 1 and strides[k] != step:
            return False
        step *= shape[k]
    return True


def inverse(order: Order) -> Order:
    """The permutation that takes an array in memory order to its named axes."""
    return tuple(order.index(k) for k in range(len(order)))


def in_memory_order(arrays: Mapping[str, Any], orders: Mapping[str, Order]) -> dict[str, Any]:
    """Views of callers' arrays as they lie: what a program's inputs are. An array of another rank stays as it is."""
    return {name: turned(x, orders[name]) if name in orders else x for name, x in arrays.items()}


def as_named(arrays: Mapping[str, Any], orders: Mapping[str, Order]) -> dict[str, Any]:
    """Views of a program's outputs with their axes in the order in which callers name them."""
    return {name: turned(x, inverse(orders[name])) if name in orders else x for name, x in arrays.items()}


def turned(x: Any, order: Order) -> Any:
    """The view of an array (NumPy's, CuPy's, torch's) whose axis k is axis order[k] of `x`. Raises ModelError for an array that cannot be
    turned."""
    if len(getattr(x, "shape", ())) != len(order):
        return x
    turn = getattr(x, "permute", None) or getattr(x, "transpose", None)
    if turn is None:
        raise ModelError(f"a {type(x).__qualname__} cannot be turned to the order {list(order)} in which it lies", where="inputs",
                         hint="give an array of NumPy, CuPy or torch")  # fmt: skip
    return turn(order)
