"""Resize and Upsample: along each axis, every output element is a weighted sum of a few input elements known at import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, I64

MAX_TAPS = 4
"""Up to so many weighted elements a resized axis is a sum of look-ups; above it (antialiasing) a product with a matrix."""


@dataclass(frozen=True)
class Taps:
    """out[o] = sum over k of weight[o, k] * x[at[o, k]]; `outside` marks outputs that take the extrapolation value."""

    at: np.ndarray
    weight: np.ndarray
    outside: np.ndarray

    def matrix(self, n: int) -> np.ndarray:
        """The same as a dense [outputs, n] matrix."""
        check_table(len(self.at) * n, "resize")
        m = np.zeros((len(self.at), n))
        np.add.at(m, (np.arange(len(self.at))[:, None], self.at), self.weight)
        return m


@dataclass(frozen=True)
class Rule:
    """The attributes that say where an output element lies in the input and what weights its neighbours have.

    nearest "simple": opset 10 had no attribute for it; its test case of 4 elements at scale 0.6, and onnxruntime, take the next element
    where an axis shrinks.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool


def _source(c: Call, rule: Rule, n: int, out: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """The coordinate in the input of each output element (ONNX's coordinate_transformation_mode)."""
    check_table(out, c.where)
    o, width = np.arange(out, dtype=np.float64), scale * n
    kind = rule.coordinates
    if kind == "align_corners":
        return o * 0.0 if width == 1 else o * (n - 1) / (width - 1)
    if kind == "asymmetric":
        return o / scale
    if kind == "tf_half_pixel_for_nn":
        return (o + 0.5) / scale
    if kind == "tf_crop_and_resize":
        start, end = roi
        if width == 1:
            return start * (n - 1) + (end - start) * (n - 1) / 2 + o * 0.0
        return start * (n - 1) + o * (end - start) * (n - 1) / (width - 1)
    if kind == "pytorch_half_pixel" and width == 1:
        return o * 0.0 - 0.5
    if kind in ("half_pixel", "pytorch_half_pixel"):
        return (o + 0.5) / scale - 0.5
    if kind == "half_pixel_symmetric":
        return n / 2 * (1 - out / width) + (o + 0.5) / scale - 0.5
    c.broken(f"has unknown coordinate_transformation_mode '{kind}'")


def _linear(d: np.ndarray) -> np.ndarray:
    return np.clip(1 - np.abs(d), 0, 1)


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel: support 2, a = -0.75 as in most image libraries, -0.5 as in TensorFlow."""
    d = np.abs(d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d <= 1, near, np.where(d < 2, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, 0.0))


def taps(c: Call, rule: Rule, n: int, out: int, scale: float, roi: tuple[float, float]) -> Taps:
    """The taps of one axis of n elements resized to `out`."""
    x = _source(c, rule, n, out, scale, roi)
    outside = (x < 0) | (x > n - 1) if rule.coordinates == "tf_crop_and_resize" else np.zeros(out, bool)
    if rule.mode == "nearest":
        pick: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "round_prefer_floor": lambda v: np.ceil(v - 0.5),
            "round_prefer_ceil": lambda v: np.floor(v + 0.5),
            "floor": np.floor,
            "ceil": np.ceil,
            "simple": lambda v: np.floor(v) if scale >= 1 else np.ceil(v.astype(np.float32)),
        }
        if rule.nearest not in pick:
            c.broken(f"has unknown nearest_mode '{rule.nearest}'")
        at = np.clip(pick[rule.nearest](x), 0, n - 1).astype(np.int64)
        return Taps(at[:, None], np.ones((out, 1)), outside)
    shrink = min(scale, 1.0) if rule.antialias else 1.0
    reach = (1 if rule.mode == "linear" else 2) / shrink
    base = np.ceil(x) - 1  # a coordinate that is an integer counts as the right end of its cell
    check_table(out * (ceil(reach) - floor(-reach)), c.where)
    places = base[:, None] + np.arange(floor(-reach) + 1, ceil(reach) + 1)
    distance = (places - x[:, None]) * shrink
    weight = _linear(distance) if rule.mode == "linear" else _cubic(distance, rule.cubic)
    if rule.exclude_outside:
        weight = np.where((places >= 0) & (places < n), weight, 0.0)
    weight = weight / weight.sum(1, keepdims=True)
    return Taps(np.clip(places, 0, n - 1).astype(np.int64), weight, outside)


def resample(c: Call, x: Node, axis: int, t: Taps) -> Node:
    """x resized along `axis`. A plain repetition or a strided choice stays a view."""
    n, out, shape = c.shape(x)[axis], len(t.at), x.type.shape
    if t.at.shape[1] == 1:
        return chosen(c, x, axis, t.at[:, 0])
    if t.at.shape[1] > MAX_TAPS:
        last = x.type.rank - 1
        order = (*range(axis), *range(axis + 1, last + 1), axis)
        y = c.op("matmul", c.op("transpose", x, perm=order), c.array(t.matrix(n).T, x.type.dtype))
        return c.op("transpose", y, perm=(*range(axis), last, *range(axis, last)))
    along = (out, *[1] * (len(shape) - axis - 1))
    total: Node | None = None
    for k in range(t.at.shape[1]):
        term = c.op("mul", chosen(c, x, axis, t.at[:, k]), c.array(t.weight[:, k].reshape(along), x.type.dtype))
        total = term if total is None else c.op("add", total, term)
    assert total is not None
    return total


def chosen(c: Call, x: Node, axis: int, at: np.ndarray) -> Node:
    """x[at] along an axis: a broadcast, a strided slice, or a look-up."""
    n, out, shape = c.shape(x)[axis], len(at), x.type.shape
    if out % n == 0 and np.array_equal(at, np.arange(out) // (out // n)):
        wide = c.op("broadcast", reshape(c, x, (*shape[: axis + 1], 1, *shape[axis + 1 :])),
                    shape=(*shape[: axis + 1], out // n, *shape[axis + 1 :]))  # fmt: skip
        return reshape(c, wide, (*shape[:axis], out, *shape[axis + 1 :]))
    step = int(at[1] - at[0]) if out > 1 else 1
    if step > 0 and np.array_equal(at, at[0] + step * np.arange(out)):
        return cut(c, x, {axis: (int(at[0]), int(at[-1]) + 1, step)})
    return c.op("gather", x, c.array(at, I64), axis=axis)


def _scales(c: Call, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[list[float], list[int]]:
    """(scale, output size) of each of `axes`, from the scales or the sizes that the node gives. Scales are f32, and so are their products
    with sizes, as in the standard's inference of shapes: 5 elements by 1.4 are 7."""
    if c.op_type == "Upsample" or c.opset < 11:
        given = c.static(1) if c.has(1) else np.asarray(c.floats_attr("scales"))
    elif c.has(3) and c.x(3).type.elements:
        sizes = list(c.static_ints(3))
        if len(sizes) != len(axes):
            c.broken(f"gives {len(sizes)} sizes for {len(axes)} axes")
        factors = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]
        policy = c.str_attr("keep_aspect_ratio_policy", "stretch")
        if policy == "stretch":
            return factors, sizes
        one = min(factors) if policy == "not_larger" else max(factors)
        return [one] * len(axes), [floor(one * shape[a] + 0.5) for a in axes]
    else:
        given = c.static(2)
    factors = [float(v) for v in given.reshape(-1)]
    if len(factors) != len(axes) or any(not v > 0 for v in factors):
        c.broken(f"has scales {factors} for {len(axes)} axes; each must be positive")
    return factors, [floor(np.float32(shape[a]) * np.float32(f)) for a, f in zip(axes, factors, strict=True)]


@lower("Resize", "Upsample")
def resize(c: Call) -> Node:
    x = c.x()
    rank = x.type.rank
    axes = c.axes(c.ints_attr("axes") or tuple(range(rank)), rank)
    shape = c.shape(x)
    scales, sizes = _scales(c, shape, axes)
    new = c.opset >= 11 and c.op_type == "Resize"
    rule = Rule(
        c.str_attr("mode", "nearest"),
        c.str_attr("coordinate_transformation_mode", "half_pixel") if new else "asymmetric",
        c.str_attr("nearest_mode", "round_prefer_floor") if new else "simple",
        c.float_attr("cubic_coeff_a", -0.75),
        c.flag("exclude_outside", 0),
        c.flag("antialias", 0),
    )
    if rule.mode not in ("nearest", "linear", "cubic"):
        c.broken(f"has unknown mode '{rule.mode}'")
    regions = [(0.0, 1.0)] * len(axes)
    if rule.coordinates == "tf_crop_and_resize":
        roi = c.static(1).astype(float).reshape(2, len(axes))
        regions = [(float(a), float(b)) for a, b in roi.T]
    dtype = x.type.dtype
    y = x if rule.mode == "nearest" or (dtype.bits >= 32 and dtype.is_float) else cast(c, x, F32)
    for axis, scale, size, region in zip(axes, scales, sizes, regions, strict=True):
        if size == shape[axis] and scale == 1.0 and rule.coordinates != "tf_crop_and_resize":
            continue
        t = taps(c, rule, shape[axis], size, scale, region)
        y = resample(c, y, axis, t)
        if t.outside.any():
            mask = c.array(t.outside.reshape(-1, *[1] * (rank - axis - 1)), BOOL)
            y = c.op("where", mask, c.const(c.float_attr("extrapolation_value", 0.0), y.type.dtype), y)
    return cast(c, y, dtype)
