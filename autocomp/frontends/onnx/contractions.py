"""Matrix products, convolutions and their quantised forms."""

from __future__ import annotations

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.shapes import reshape
from autocomp.ir.node import Node
from autocomp.ir.types import I32

ZEROS = 65536  # elements of a zero point that are looked at while importing


@lower("MatMul")
def matmul(c: Call) -> Node:
    return c.op("matmul", c.x(0), c.x(1))


@lower("Gemm")
def gemm(c: Call) -> Node:
    a, b = c.x(0), c.x(1)
    a = c.op("transpose", a, perm=(1, 0)) if c.flag("transA", 0) else a
    b = c.op("transpose", b, perm=(1, 0)) if c.flag("transB", 0) else b
    y = c.op("matmul", a, b)
    alpha, beta = c.float_attr("alpha", 1.0), c.float_attr("beta", 1.0)
    y = y if alpha == 1.0 else c.op("mul", y, alpha)
    bias = c.maybe(2)
    if bias is None or beta == 0.0:
        return y
    return c.op("add", y, bias if beta == 1.0 else c.op("mul", bias, beta))


@lower("MatMulInteger")
def matmul_integer(c: Call) -> Node:
    return c.op("matmul", centred(c, c.x(0), c.maybe(2), -2), centred(c, c.x(1), c.maybe(3), -1))


def centred(c: Call, x: Node, zero: Node | None, axis: int) -> Node:
    """x - zero in i32; a zero point vector lies along `axis`."""
    x = cast(c, x, I32)
    zero = zero_point(c, zero)
    if zero is None:
        return x
    if zero.type.rank == 1 and zero.type.shape != (1,) and axis == -2:
        zero = reshape(c, zero, (*zero.type.shape, 1))
    elif zero.type.shape == (1,):
        zero = reshape(c, zero, ())
    return c.op("sub", x, cast(c, zero, I32))


def zero_point(c: Call, zero: Node | None) -> Node | None:
    """A zero point as far as it is known: None where it is 0 everywhere (symmetric quantisation: then nothing stands between bytes and
    their product), one number where all are alike (rules see its value), else as it is."""
    known = c.importer.constants
    if zero is None or not zero.type.is_static or not 0 < zero.type.elements <= ZEROS or not known.is_constant(zero):
        return zero
    values = known.value(zero, "a zero point", c.where)
    if not values.any():
        return None
    return c.const(values.flat[0].item(), zero.type.dtype) if (values == values.flat[0]).all() else zero


def window(c: Call, spatial: tuple[int, ...], kernel: tuple[int, ...], ceil: bool = False) -> dict[str, tuple[int, ...]]:
    """strides, dilations, lo and hi of a sliding window from ONNX's attributes; `ceil` rounds the output size up."""
    rank = len(spatial)
    strides, dilations = c.ints_attr("strides", (1,) * rank) or (), c.ints_attr("dilations", (1,) * rank) or ()
    pads = c.ints_attr("pads", (0,) * 2 * rank) or ()
    auto = c.str_attr("auto_pad", "NOTSET")
    if not len(strides) == len(dilations) == len(kernel) == rank or len(pads) != 2 * rank:
        c.broken(f"strides, dilations, pads and window do not fit {rank} spatial dimensions")
    if any(v < 1 for v in (*strides, *dilations, *kernel)):
        c.broken(f"strides {list(strides)}, dilations {list(dilations)} and window {list(kernel)} must be positive")
    lo, hi = list(pads[:rank]), list(pads[rank:])
    for k in range(rank):
        reach = dilations[k] * (kernel[k] - 1) + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (-(-spatial[k] // strides[k]) - 1) * strides[k] + reach - spatial[k])
            lo[k] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            hi[k] = total - lo[k]
        elif auto == "VALID":
            lo[k] = hi[k] = 0
        elif ceil:
            span = spatial[k] + lo[k] + hi[k] - reach
            out = -(-span // strides[k]) + 1
            if (out - 1) * strides[k] >= spatial[k] + lo[k]:
                out -= 1
            hi[k] += (out - 1) * strides[k] - span
    return {"strides": strides, "dilations": dilations, "lo": tuple(lo), "hi": tuple(hi)}


def per_channel(c: Call, v: Node, rank: int) -> Node:
    """A vector over channels, shaped to broadcast with N,C,spatial."""
    return reshape(c, v, (*v.type.shape, *[1] * (rank - 2)))


def convolve(c: Call, x: Node, w: Node) -> Node:
    spatial, kernel = c.shape(x)[2:], c.shape(w)[2:]
    if c.ints_attr("kernel_shape", kernel) != kernel:
        c.broken(f"kernel_shape {list(c.ints_attr('kernel_shape') or ())} is not that of the weights {w.type}")
    return c.op("conv", x, w, **window(c, spatial, kernel), groups=c.int_attr("group", 1))


@lower("Conv")
def conv(c: Call) -> Node:
    y = convolve(c, c.x(0), c.x(1))
    return c.op("add", y, per_channel(c, c.x(2), y.type.rank)) if c.has(2) else y


@lower("ConvInteger")
def conv_integer(c: Call) -> Node:
    x = centred(c, c.x(0), c.maybe(2), -1)
    zero = zero_point(c, c.maybe(3))
    w = cast(c, c.x(1), I32)
    if zero is not None:
        zero = cast(c, zero, I32)
        zero = reshape(c, zero, ()) if zero.type.elements == 1 else reshape(c, zero, (*zero.type.shape, *[1] * (w.type.rank - 1)))
        w = c.op("sub", w, zero)
    return convolve(c, x, w)


@lower("ConvTranspose")
def conv_transpose(c: Call) -> Node:
    x, w = c.x(0), c.x(1)
    spatial, kernel = c.shape(x)[2:], c.shape(w)[2:]
    rank = len(spatial)
    strides, dilations = c.ints_attr("strides", (1,) * rank) or (), c.ints_attr("dilations", (1,) * rank) or ()
    extra = c.ints_attr("output_padding", (0,) * rank) or ()
    pads = c.ints_attr("pads", (0,) * 2 * rank) or ()
    lo, hi = list(pads[:rank]), list(pads[rank:])
    auto, want = c.str_attr("auto_pad", "NOTSET"), c.ints_attr("output_shape")
    for k in range(rank):
        full = strides[k] * (spatial[k] - 1) + (kernel[k] - 1) * dilations[k] + 1
        if want is not None or auto.startswith("SAME"):
            total = full + extra[k] - (want[-rank:][k] if want is not None else spatial[k] * strides[k])
            lo[k] = max(0, total // 2 if auto == "SAME_UPPER" else total - total // 2)
            hi[k] = total - lo[k]
        elif auto == "VALID":
            lo[k] = hi[k] = 0
        hi[k] -= extra[k]
    y = c.op(
        "conv_transpose", x, w, strides=strides, dilations=dilations, lo=tuple(lo), hi=tuple(hi), groups=c.int_attr("group", 1)
    )
    return c.op("add", y, per_channel(c, c.x(2), y.type.rank)) if c.has(2) else y


@lower("Einsum")
def einsum(c: Call) -> Node:
    """Any number of operands: diagonals, broadcasting ellipses and lone sums first, then two at a time."""
    xs = c.tensors()
    text = c.str_attr("equation").replace(" ", "")
    ins, arrow, out = text.partition("->")
    terms = ins.split(",")
    if len(terms) != len(xs):
        c.broken(f"equation '{text}' has {len(terms)} operands, the node {len(xs)}")
    free = [chr(k) for k in range(ord("A"), ord("Z") + 1) if chr(k) not in text]
    wide = max((x.type.rank - len(t.replace("...", "")) for x, t in zip(xs, terms, strict=True) if "..." in t), default=0)
    dots = "".join(free[:wide])
    terms = [t.replace("...", dots[wide - (x.type.rank - len(t.replace("...", ""))) :]) for x, t in zip(xs, terms, strict=True)]
    long = {s for x, t in zip(xs, terms, strict=True) for s, d in zip(t, x.type.shape, strict=False) if s in dots and d != 1}
    short = [_without_ones(c, x, t, long) for x, t in zip(xs, terms, strict=True)]
    xs, terms = [x for x, _ in short], [t for _, t in short]
    if not arrow:
        out = ("..." if dots else "") + "".join(sorted(s for s in set(ins) - {",", "."} if ins.count(s) == 1))
    out = out.replace("...", dots)
    x, spec = _lone(c, xs[0], terms[0], set(out) | set("".join(terms[1:])))
    for k in range(1, len(xs)):
        later = set(out) | set("".join(terms[k + 1 :]))
        y, other = _lone(c, xs[k], terms[k], later | set(spec))
        result = "".join(s for s in dict.fromkeys(spec + other) if s in later)
        x, spec = c.op("einsum", x, y, spec=f"{spec},{other}->{result}"), result
    return x if spec == out else c.op("transpose", x, perm=tuple(spec.index(s) for s in out))


def _without_ones(c: Call, x: Node, term: str, long: set[str]) -> tuple[Node, str]:
    """Dimensions of one element left out where the letter, one of an ellipsis, is `long` in another operand."""
    if x.type.rank != len(term):
        c.broken(f"'{term}' names {len(term)} dimensions of {x.type}")
    kept = [k for k, (s, d) in enumerate(zip(term, x.type.shape, strict=True)) if s not in long or d != 1]
    if len(kept) == len(term):
        return x, term
    return reshape(c, x, tuple(x.type.shape[k] for k in kept)), "".join(term[k] for k in kept)


def _lone(c: Call, x: Node, term: str, needed: set[str]) -> tuple[Node, str]:
    """Diagonals taken, letters that nobody else needs summed."""
    while len(set(term)) != len(term):
        s = next(s for s in term if term.count(s) > 1)
        i = term.index(s)
        j = term.index(s, i + 1)
        n = c.shape(x)[i]
        a = c.importer.node("iota", [], {"shape": x.type.shape, "axis": i})
        b = c.importer.node("iota", [], {"shape": x.type.shape, "axis": j})
        if x.type.shape[j] != n:
            c.broken(f"'{s}' is {n} and {x.type.shape[j]}")
        x = c.op("reduce_sum", c.op("where", c.op("eq", a, b), x, c.const(0, x.type.dtype)), axes=(j,))
        term = term[:j] + term[j + 1 :]
    drop = tuple(k for k, s in enumerate(term) if s not in needed)
    return (c.op("reduce_sum", x, axes=drop), "".join(s for s in term if s in needed)) if drop else (x, term)
