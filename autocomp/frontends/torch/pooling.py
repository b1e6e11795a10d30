"""ATen's pools: windows of one size, and adaptive ones, whose windows may have several."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.call import Call, per_axis, row
from autocomp.ir.monoids import neutral
from autocomp.ir.node import Node
from autocomp.ir.sizes import linear, quotient, size_of, summed, total
from autocomp.ir.types import F32, I64, SHORT_FLOATS, Dim, Sym


def _batched(c: Call, x: Node, n: int) -> Node:
    """(N, C, ..spatial): torch also pools without a batch."""
    return x if x.type.rank == n + 2 else c.op("reshape", x, shape=(1, *x.type.shape))


def _as_given(c: Call, y: Node, x: Node) -> Node:
    return y if y.type.rank == x.type.rank else c.op("reshape", y, shape=y.type.shape[1:])


def _upper(c: Call, x: Node, n: int, k: Any, s: Any, p: Any, d: Any, ceil_mode: bool, out: Any) -> tuple[int, ...]:
    """Padding at the upper ends: where the size is rounded up, as much as the last window reaches over."""
    if not ceil_mode:
        return tuple(p)
    return tuple(max(_reaches_over(c, x, *of), of[4]) for of in zip(x.type.shape[-n:], out[-n:], k, s, p, d))


def _reaches_over(c: Call, x: Node, size: Dim, places: Dim, k: int, s: int, p: int, d: int) -> int:
    """How far the last window reaches past the end. Of an open size as far as it may, which adds no window, provided that none begins past
    the end, where torch leaves it out."""
    span = d * (k - 1) + 1
    if isinstance(size, int) and isinstance(places, int):
        return (places - 1) * s + span - size - p
    try:
        windows = total([(size_of(quotient(summed([(linear(size), 1)], 2 * p - span + s - 1), s)), 1)], 1)
        total([(size, 1), (windows, -s)], p + s - 1)  # raises where the last one may begin past the end
    except UnsupportedOp as e:
        raise c.refuse(f"rounds up sizes of {x.type}: {e.what}", "bound the dimension, or fix it") from None
    if windows != places:
        raise c.refuse(f"rounds up sizes of {x.type} to {places}", "fix the dimension")
    return p + s - 1


@row("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(c: Call, x: Node, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    n = _spatial(c)
    full = _batched(c, x, n)
    k, s, p, d = (per_axis(n, v) for v in (kernel, stride or kernel, padding, dilation))
    hi = _upper(c, x, n, k, s, p, d, ceil_mode, c.out.shape if c.out else c.outs[0].shape)
    window: dict[str, Any] = {"window": k, "strides": s, "lo": p, "hi": hi, "dilations": d}
    y = _as_given(c, c.op("maxpool", full, **window), x)
    if not c.name.endswith("indices"):
        return y
    if 1 not in c.read:
        return y, None
    if any(isinstance(size, Sym) for size in full.type.shape[1:]):
        return y, _as_given(c, _places_of_largest(c, full, y if y.type.rank == full.type.rank else _batched(c, y, n), k, s, p, d), x)
    at = c.op("maxpool_index", full, **window)  # counts over all channels, torch within one
    return y, _as_given(c, c.op("mod", at, c.b.const(prod(full.type.shape[2:]), I64)), x)  # type: ignore[arg-type]


def _places_of_largest(c: Call, x: Node, y: Node, k: Any, s: Any, p: Any, d: Any) -> Node:
    """Where in an image of open size each window's largest element lies: windows as dimensions of their own, in which the first and the
    last element that lies within the image also stand for those before and behind."""
    n, number = len(k), lambda v: c.b.const(v, I64)
    extents = [c.op("extent", x, axis=2 + j, dtype=I64.name) for j in range(n)]

    def place(j: int, o: Node, tap: Node) -> Node:
        """Along an axis, for the number of a window and of an element in it."""
        start = c.op("sub", c.op("mul", o, number(s[j])), number(p[j]))
        first = c.op("max", c.op("floordiv", c.op("sub", number(d[j] - 1), start), number(d[j])), number(0))
        last = c.op("floordiv", c.op("sub", c.op("sub", extents[j], number(1)), start), number(d[j]))
        return c.op("add", start, c.op("mul", c.op("min", c.op("max", tap, first), last), number(d[j])))

    for j in range(n):
        shape = (y.type.shape[2 + j], k[j])
        o, tap = (c.op("iota", shape=shape, axis=axis, dtype=I64.name) for axis in (0, 1))
        x = c.op("gather", x, place(j, o, tap), axis=2 + 2 * j)
    x = c.op("transpose", x, perm=(0, 1, *range(2, 2 + 2 * n, 2), *range(3, 3 + 2 * n, 2)))
    x = c.op("reshape", x, shape=(*y.type.shape, prod(k)))
    at = c.op("reduce_argmax", x, axes=(n + 2,), keepdims=False)
    total: Node = number(0)
    for j in range(n):
        tap = c.op("mod", c.op("floordiv", at, number(prod(k[j + 1 :]))), number(k[j]))
        o = c.op("iota", shape=y.type.shape, axis=2 + j, dtype=I64.name)
        total = c.op("add", c.op("mul", total, extents[j]), place(j, o, tap))
    return total


def _spatial(c: Call) -> int:
    """How many dimensions the operator pools: its name says it."""
    return int(next(a for a, b in zip(c.name, c.name[1:]) if b == "d" and a.isdigit()))


@row("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c: Call, x: Node, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include: bool = True,
              divisor: Any = None) -> Node:  # fmt: skip
    assert c.out is not None
    n = _spatial(c)
    full = _batched(c, x, n)
    k, s, p = (per_axis(n, v) for v in (kernel, stride or kernel, padding))
    one = (1,) * n
    hi = _upper(c, x, n, k, s, p, one, ceil_mode, c.out.shape)
    if x.type.dtype.is_int:
        total = c.op("sumpool", full, window=k, strides=s, lo=p, hi=hi, dilations=one)
        return _as_given(c, c.op("idiv", total, _counted(c, full, k, s, p, hi, include, divisor)), x)
    if not x.type.dtype.is_float:
        raise c.refuse(f"averages {x.type}", "cast it to a float first")
    if divisor is not None:
        wide = c.cast(full, F32) if full.type.dtype in SHORT_FLOATS else full
        y = c.op("sumpool", wide, window=k, strides=s, lo=p, hi=hi, dilations=one)
        y = c.cast(c.op("div", y, c.b.const(divisor, wide.type.dtype)), x.type.dtype)
    elif include and hi != p:  # the padding counts, what rounding up adds does not
        full = c.op("pad", full, lo=(0, 0, *p), hi=(0, 0, *p))
        hi = tuple(a - b for a, b in zip(hi, p))
        y = c.op("avgpool", full, window=k, strides=s, lo=(0,) * n, hi=hi, dilations=one)
    else:
        y = c.op("avgpool", full, window=k, strides=s, lo=p, hi=hi, dilations=one, count_include_pad=include)
    return _as_given(c, y, x)


def _counted(c: Call, x: Node, k: Any, s: Any, p: Any, hi: Any, include: bool, divisor: Any) -> Node:
    """What the sum of each window of integers x [batch, channels, ..] is divided by, [] or [1, 1, ..windows]: the divisor, else how many
    elements the window holds, with those of the padding where they count."""
    if divisor is not None or (include and hi == p):
        return c.b.const(prod(k) if divisor is None else divisor, x.type.dtype)
    ones = c.op("broadcast", c.b.const(1, x.type.dtype), shape=(1, 1, *x.type.shape[2:]))
    if include:
        ones = c.op("pad", ones, lo=(0, 0, *p), hi=(0, 0, *p), value=1)
        p, hi = (0,) * len(p), tuple(a - b for a, b in zip(hi, p))
    return c.op("sumpool", ones, window=k, strides=s, lo=p, hi=hi, dilations=(1,) * len(p))


# ---- adaptive pools: out window o of an axis of n begins at floor(o n / out) and ends before ceil((o + 1) n / out)
def adaptive_spans(n: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    o = np.arange(out)
    return o * n // out, -(-(o + 1) * n // out)


def _windows(c: Call, x: Node, sizes: tuple[int, ...]) -> tuple[Node, list[tuple[np.ndarray, np.ndarray]], list[int]]:
    """x with each of its last axes n as (windows, elements of the longest): past the end of a window its last element stands."""
    lead = x.type.rank - len(sizes)
    spans: list[tuple[np.ndarray, np.ndarray]] = []
    longest: list[int] = []
    for j, out in enumerate(sizes):
        axis = lead + 2 * j
        begin, end = adaptive_spans(int(x.type.shape[axis]), out)  # type: ignore[arg-type]
        k = int((end - begin).max())
        check_table(out * k, c.where)
        at = np.minimum(begin[:, None] + np.arange(k), end[:, None] - 1)
        x = c.op("gather", x, c.array(at.astype(np.int64)), axis=axis)
        spans.append((begin, end))
        longest.append(k)
    return x, spans, longest


def _adaptive_sizes(c: Call, x: Node, size: Any) -> tuple[tuple[int, ...], list[int]]:
    n = _spatial(c)
    shape = x.type.shape[-n:]
    if any(not isinstance(d, int) for d in shape):
        raise c.refuse(f"pools symbolic dimensions of {x.type}", "fix them")
    given = list(size) if isinstance(size, (list, tuple)) else [size]
    given = given * n if len(given) == 1 else given
    return tuple(d if s is None else s for s, d in zip(given, shape)), [int(d) for d in shape]  # type: ignore[misc, arg-type]


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive_avg(c: Call, x: Node, size: Any) -> Node:
    n, given = _spatial(c), size if isinstance(size, (list, tuple)) else [size]
    last = tuple(range(x.type.rank - n, x.type.rank))
    if all(s == 1 for s in given):
        return c.op("reduce_mean", x, axes=last, keepdims=True)
    if any(not isinstance(d, int) for d in x.type.shape[-n:]):
        return _adaptive_open(c, x, n)
    sizes, shape = _adaptive_sizes(c, x, size)
    if 0 not in sizes and not any(a % b for a, b in zip(shape, sizes)):
        k = tuple(a // b for a, b in zip(shape, sizes))
        y = c.op("avgpool", _batched(c, x, n), window=k, strides=k, lo=(0,) * n, hi=(0,) * n, dilations=(1,) * n)
        return _as_given(c, y, x)
    wide = c.cast(x, F32) if x.type.dtype in SHORT_FLOATS else x
    y, spans, longest = _windows(c, wide, sizes)
    own, zero = (1,) * (2 * n), c.b.const(0, wide.type.dtype)
    for j, ((begin, end), most) in enumerate(zip(spans, longest)):
        inside = np.arange(most) < (end - begin)[:, None]
        if not inside.all():
            form = [*own]
            form[2 * j : 2 * j + 2] = inside.shape
            y = c.op("where", c.array(inside.reshape(form)), y, zero)
    lead = x.type.rank - n
    total = c.op("reduce_sum", y, axes=tuple(lead + 2 * j + 1 for j in range(n)), keepdims=False)
    counts = np.ones(())
    for begin, end in spans:
        counts = np.multiply.outer(counts, (end - begin).astype(np.float64))
    return c.cast(c.op("div", total, c.array(counts.astype(wide.type.dtype.numpy))), x.type.dtype)


def _adaptive_open(c: Call, x: Node, n: int) -> Node:
    """The mean, or the largest, of symbolic sizes, axis by axis: each window is a mask over the axis."""
    sizes = (c.out if c.out is not None else c.outs[0]).shape
    largest = "max" in c.name
    y = c.cast(x, F32) if x.type.dtype in SHORT_FLOATS and not largest else x
    rest = c.b.const(neutral("max", y.type.dtype) if largest else 0, y.type.dtype)
    for j in range(n):
        axis = y.type.rank - n + j
        d, out = y.type.shape[axis], sizes[axis]
        if d == out:
            continue
        if not isinstance(out, int):
            raise c.refuse(f"pools symbolic dimensions of {x.type} to {out}", "fix the dimension")
        inside = _inside(c, y, axis, out)
        behind = [1] * (y.type.rank - axis - 1)
        apart = c.op("reshape", y, shape=(*y.type.shape[:axis], 1, *y.type.shape[axis:]))
        chosen = c.op("where", c.op("reshape", inside, shape=(out, d, *behind)), apart, rest)
        y = c.op("reduce_max" if largest else "reduce_sum", chosen, axes=(axis + 1,), keepdims=False)
        if not largest:
            count = c.op("reduce_sum", c.cast(inside, I64), axes=(1,), keepdims=True)
            y = c.op("div", y, c.cast(c.op("reshape", count, shape=(out, *behind)), y.type.dtype))
    return c.cast(y, x.type.dtype)


def _inside(c: Call, x: Node, axis: int, out: int) -> Node:
    """Which elements of an axis lie in each of `out` windows over it, [out, elements]."""
    number = lambda v: c.b.const(v, I64)
    o, i = (c.op("iota", shape=(out, x.type.shape[axis]), axis=k, dtype=I64.name) for k in (0, 1))
    length = c.op("extent", x, axis=axis, dtype=I64.name)
    begin = c.op("floordiv", c.op("mul", o, length), number(out))
    after = c.op("floordiv", c.op("add", c.op("mul", c.op("add", o, number(1)), length), number(out - 1)), number(out))
    return c.op("and", c.op("ge", i, begin), c.op("lt", i, after))


def _places_in_spans(c: Call, x: Node, values: Node, n: int) -> Node:
    """The first place, counted row by row, at which each window of open size has its largest element, or NaN."""
    lead, sizes = x.type.rank - n, x.type.shape[-n:]
    outs = [out for out in values.type.shape[-n:] if isinstance(out, int)]
    if len(outs) < n:
        raise c.refuse(f"pools symbolic dimensions of {x.type} to {values.type}", "fix the dimension")
    full = (*x.type.shape[:lead], *outs, *sizes)
    over = tuple(range(lead + n, lead + 2 * n))
    apart = lambda v, shape: c.op("broadcast", c.op("reshape", v, shape=(*x.type.shape[:lead], *shape)), shape=full)
    given = apart(x, (*[1] * n, *sizes))
    chosen = c.op("eq", given, apart(values, (*outs, *[1] * n)))
    if x.type.dtype.is_float:
        chosen = c.op("or", chosen, c.op("ne", given, given))
    place = most = c.b.const(0, I64)
    for j in range(n):
        form: list[Dim] = [1] * (2 * n)
        form[j], form[n + j] = outs[j], sizes[j]
        chosen = c.op("and", chosen, c.op("reshape", _inside(c, x, lead + j, outs[j]), shape=tuple(form)))
        length = c.op("extent", x, axis=lead + j, dtype=I64.name)
        place = c.op("add", c.op("mul", place, length), c.op("iota", shape=full, axis=over[j], dtype=I64.name))
        most = c.op("add", c.op("mul", most, length), length)
    return c.op("reduce_min", c.op("where", chosen, place, most), axes=over, keepdims=False)


@row("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(c: Call, x: Node, size: Any) -> Any:
    n = _spatial(c)
    if any(isinstance(d, Sym) for d in x.type.shape[-n:]):
        values = _adaptive_open(c, x, n)
        return values, _places_in_spans(c, x, values, n) if 1 in c.read else None
    sizes, shape = _adaptive_sizes(c, x, size)
    y, spans, longest = _windows(c, x, sizes)
    lead = x.type.rank - n
    inner = tuple(lead + 2 * j + 1 for j in range(n))
    values = c.op("reduce_max", y, axes=inner, keepdims=False)
    if 1 not in c.read:
        return values, None
    order = (*range(lead), *(lead + 2 * j for j in range(n)), *inner)
    flat = c.op("reshape", c.op("transpose", y, perm=order), shape=(*x.type.shape[:lead], *sizes, prod(longest)))
    at = c.op("reduce_argmax", flat, axes=(flat.type.rank - 1,), keepdims=False)
    place: Node | None = None
    for j, ((begin, end), k) in enumerate(zip(spans, longest)):
        form = [-1 if i == j else 1 for i in range(n)]
        number = lambda v: c.b.const(v, I64)
        step = c.op("mod", c.op("floordiv", at, number(prod(longest[j + 1 :]))), number(k))
        i = c.op("min", c.op("add", step, c.array(begin.reshape(form))), c.array((end - 1).reshape(form)))
        i = c.op("mul", i, number(prod(shape[j + 1 :])))
        place = i if place is None else c.op("add", place, i)
    return values, place


@row("fractional_max_pool2d", "fractional_max_pool3d")
def _fractional(c: Call, x: Node, kernel: Any, out: Any, samples: Node) -> tuple[Node, Node]:
    """(largest element of each window, its place in the image): windows of one size that begin at
    floor((i + u) a) - floor(u a), a = (size - window) / (windows - 1), the last one at the end; u of each image, channel and axis."""
    n = _spatial(c)
    given, x = x, _batched(c, x, n)
    sizes, k, out = x.type.shape[2:], per_axis(n, kernel), per_axis(n, out)
    if not x.type.is_static:
        raise c.refuse(f"of {x.type}", "fix the sizes")
    number = lambda v: c.b.const(v, I64)
    lead, wide = x.type.shape[:2], F32 if x.type.dtype in SHORT_FLOATS else x.type.dtype
    samples = c.cast(samples if samples.type.rank == 3 else c.op("reshape", samples, shape=(1, *samples.type.shape)), wide)
    check_table(prod((*lead, *out, *k)), c.where)  # type: ignore[arg-type]
    place = number(0)
    for axis, (size, window, count) in enumerate(zip(sizes, k, out)):
        at = n - 1 - axis if n == 2 else axis  # torch's own orders
        u = c.op("slice", samples, starts=(0, 0, at), limits=(*samples.type.shape[:2], at + 1), steps=(1, 1, 1))
        a = c.b.const((size - window) / (count - 1) if count > 1 else 0, wide)  # type: ignore[operator]
        i = c.op("iota", shape=(1, 1, count), axis=2, dtype=I64.name)
        down = [c.cast(c.op("trunc", c.op("mul", v, a)), I64) for v in (c.op("add", c.cast(i, wide), u), u)]
        first = c.op("sub", *down)
        first = c.op("where", c.op("eq", i, number(count - 1)), number(size - window), first)  # type: ignore[operator]
        first = c.op("reshape", first, shape=(*lead, *(count if b == axis else 1 for b in range(n)), *(1,) * n))
        inside = c.op("iota", shape=tuple(window if b == n + 2 + axis else 1 for b in range(2 * n + 2)), axis=n + 2 + axis, dtype=I64.name)
        place = c.op("add", c.op("mul", place, number(size)), c.op("add", first, inside))  # type: ignore[arg-type]
    windows, elements = prod(out), prod(k)
    place = c.op("reshape", place, shape=(*lead, windows * elements))
    flat = c.op("reshape", x, shape=(*lead, prod(sizes)))  # type: ignore[arg-type]
    taken = c.op("reshape", c.op("gather_elements", flat, place, axis=2), shape=(*lead, windows, elements))
    best = c.op("reduce_argmax", taken, axes=(3,), keepdims=True)
    index = c.op("gather_elements", c.op("reshape", place, shape=(*lead, windows, elements)), best, axis=3)
    shaped = lambda v: _as_given(c, c.op("reshape", v, shape=(*lead, *out)), given)
    return shaped(c.op("reduce_max", taken, axes=(3,), keepdims=False)), shaped(index)
