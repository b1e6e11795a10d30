"""Families of graphs that are drawn by seed, for checks of rules about kernels: shapes have tails, types and forms vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from autocomp.ir.directives import DIRECTIVES
from autocomp.rewrite.instance import CONSTANT

Inputs = dict[str, str]
Family = Callable[[Random], tuple[Inputs, str]]


def _product(r: Random) -> tuple[Inputs, str]:
    m, n, k = (r.choice((48, 96, 257, 1000, 1536, 4096, 8192)) for _ in range(3))
    dtype = r.choice(("f16", "bf16", "f32"))
    after = r.choice(("", "\n%1 = relu(%0)", "\n%1 = add(%0, c)", "\n%1 = add(%0, d)\n%2 = gelu(%1)"))
    more = {"c": f"{dtype}[{m}, {n}]"} if "c)" in after else {"d": f"{dtype}[{n}]"} if after.endswith("gelu(%1)") else {}
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]", **more}, "%0 = matmul(a, b)" + after


def _triangle(r: Random) -> tuple[Inputs, str]:
    """A product of which a mask takes the results on one side of a diagonal."""
    m, n, k = r.choice((96, 257, 1000)), r.choice((96, 200, 1000)), r.choice((64, 257))
    test, by = r.choice(("ge", "lt", "gt")), r.choice((0, 3, -40))
    lines = f"""%0 = matmul(a, b)
%1 = iota(shape=[{m}, {n}], axis=0)
%2 = iota(shape=[{m}, {n}], axis=1)
%3 = sub(%2, %1)
%4 = {test}(%3, const({by}, i64))
%5 = where(%4, %0, const(0.0, f32))"""
    return {"a": f"f32[{m}, {k}]", "b": f"f32[{k}, {n}]"}, lines


def _few_rows(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((1, 3, 8, 16, 40, 56)), r.choice((1000, 4096, 11008)), r.choice((2048, 4096, 8192))
    dtype, given = r.choice(("f16", "bf16")), r.choice((CONSTANT, ""))  # constants are laid as they are read, others lie along the depth
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{n}, {k}]{given}"}, "%t = transpose(b, perm=[1, 0])\n%0 = matmul(a, %t)"


def _packed_weights(r: Random) -> tuple[Inputs, str]:
    """Few rows by weights of 4 bits, two in a byte, less 8, with a scale for each 64 of a row."""
    m, n, k, dtype = r.choice((1, 5, 16)), r.choice((1024, 1032)), r.choice((1024, 1536)), r.choice(("f16", "bf16"))
    lines = f"""%0 = bitand(q, const(15, u8))
%1 = shr(q, const(4, u8))
%2 = cast(%0, to="{dtype}")
%3 = cast(%1, to="{dtype}")
%4 = sub(%2, const(8.0, {dtype}))
%5 = sub(%3, const(8.0, {dtype}))
%6 = reshape(%4, shape=[{n}, {k // 2}, 1])
%7 = reshape(%5, shape=[{n}, {k // 2}, 1])
%8 = concat(%6, %7, axis=2)
%9 = reshape(%8, shape=[{n}, {k // 64}, 64])
%10 = mul(%9, s)
%11 = reshape(%10, shape=[{n}, {k}])
%12 = transpose(%11, perm=[1, 0])
%13 = matmul(x, %12)"""
    return {"x": f"{dtype}[{m}, {k}]", "q": f"u8[{n}, {k // 2}]", "s": f"{dtype}[{n}, {k // 64}, 1]"}, lines


def _few_columns(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((512, 1000, 4096)), r.choice((1, 3, 10)), r.choice((320, 1024, 4099))
    dtype = r.choice(("f16", "f32"))
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)"


def _small_square(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((128, 256, 512)), r.choice((256, 512)), r.choice((1024, 4096, 16384))
    return {"a": f"f16[{m}, {k}]", "b": f"f16[{k}, {n}]"}, "%0 = matmul(a, b)"


def _batched(r: Random) -> tuple[Inputs, str]:
    b, m, n, k = r.choice((8, 48)), r.choice((128, 384, 1000)), r.choice((64, 77, 512)), r.choice((64, 96, 250))
    return {"a": f"f16[{b}, {m}, {k}]", "b": f"f16[{b}, {k}, {n}]"}, "%0 = matmul(a, b)"


def _bytes(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((64, 512, 1000)), r.choice((1024, 4096)), r.choice((1024, 4096))
    lines = '%0 = cast(a, to="i32")\n%1 = cast(b, to="i32")\n%t = transpose(%1, perm=[1, 0])\n%2 = matmul(%0, %t)'
    return {"a": f"i8[{m}, {k}]", "b": f"i8[{n}, {k}]"}, lines


def _normalised_product(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((96, 500, 2048)), r.choice((40, 128, 250)), r.choice((64, 96, 300))
    after = r.choice(("%1 = softmax(%0, axes=[1])", "%1 = reduce_max(%0, axes=[1], keepdims=True)\n%2 = sub(%0, %1)"))
    return {"a": f"f32[{m}, {k}]", "b": f"f32[{k}, {n}]"}, f"%0 = matmul(a, b)\n{after}"


def _low_rank(r: Random) -> tuple[Inputs, str]:
    m, k, w, n = r.choice((196, 784, 3136)), r.choice((64, 256, 4096)), r.choice((16, 32)), r.choice((64, 256, 4096))
    return {"a": f"f32[{m}, {k}]", "u": f"f32[{k}, {w}] constant", "v": f"f32[{w}, {n}] constant"}, "%0 = matmul(a, u)\n%1 = matmul(%0, v)"


def _attention(r: Random) -> tuple[Inputs, str]:
    b, s, d = r.choice((8, 24, 96)), r.choice((77, 384, 1000, 2048)), r.choice((40, 64, 128, 256))
    return _scores(b, s, s, d, r.choice(("f16", "f32")))


def _wide_attention(r: Random) -> tuple[Inputs, str]:
    return _scores(r.choice((2, 8)), r.choice((64, 512)), r.choice((512, 1024)), 512)


def _one_query(r: Random) -> tuple[Inputs, str]:
    return _scores(r.choice((4, 32)), r.choice((1, 8, 16)), r.choice((1000, 4096, 16384)), r.choice((64, 128)))


def _latent(r: Random) -> tuple[Inputs, str]:
    """Keys that are the values too."""
    b, q, s, d = r.choice((1, 8)), r.choice((16, 64, 128)), r.choice((512, 1000, 4096)), r.choice((320, 512))
    lines = ["%0 = transpose(k, perm=[0, 2, 1])", "%1 = matmul(q, %0)", "%2 = softmax(%1, axes=[2])", "%3 = matmul(%2, k)"]
    return {"q": f"f16[{b}, {q}, {d}]", "k": f"f16[{b}, {s}, {d}]"}, "\n".join(lines)


def _scores(b: int, q: int, s: int, d: int, dtype: str = "f16") -> tuple[Inputs, str]:
    lines = ["%0 = transpose(k, perm=[0, 2, 1])", "%1 = matmul(q, %0)", f"%2 = mul(%1, const(0.125, {dtype}))",
             "%3 = softmax(%2, axes=[2])", "%4 = matmul(%3, v)"]  # fmt: skip
    return {"q": f"{dtype}[{b}, {q}, {d}]", "k": f"{dtype}[{b}, {s}, {d}]", "v": f"{dtype}[{b}, {s}, {d}]"}, "\n".join(lines)


ROWS = (
    "%0 = softmax(a, axes=[1])", "%0 = reduce_sum(a, axes=[1], keepdims=False)", "%0 = reduce_argmax(a, axes=[1])",
    "%0 = reduce_mean(a, axes=[1], keepdims=True)\n%1 = sub(a, %0)\n%2 = mul(%1, %1)\n%3 = reduce_mean(%2, axes=[1], keepdims=True)\n"
    "%4 = add(%3, const(0.00001, f32))\n%5 = rsqrt(%4)\n%6 = mul(%1, %5)",
)  # fmt: skip


def _rows(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((7, 100, 512, 4096, 16384))}, {r.choice((5, 24, 100, 768, 1000, 4096))}]"}, r.choice(ROWS)


def _normalised_rows(r: Random) -> tuple[Inputs, str]:
    """Rows as wide as a model's, of which each element is kept."""
    return {"a": f"f32[{r.choice((100, 512, 4096))}, {r.choice((320, 768, 1000, 2048))}]"}, r.choice((ROWS[0], ROWS[3]))


def _long_rows(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((3, 64, 512))}, {r.choice((20000, 32768, 50257, 65536, 131072))}]"}, r.choice(ROWS)


def _whole(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((100003, 1048576, 8388608))}]"}, "%0 = reduce_sum(a, axes=[0], keepdims=False)"


def _columns(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((48, 1000, 4096, 20000)), r.choice((30, 768, 1000, 8192))
    return {"a": f"f32[{m}, {n}]"}, f"%0 = {r.choice(('reduce_max', 'reduce_sum'))}(a, axes=[0], keepdims=False)"


def _middle(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f16[{r.choice((5, 64))}, {r.choice((20, 130, 1000))}, {r.choice((70, 512))}]"}, "%0 = softmax(a, axes=[1])"


def _pointwise(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((9, 4096, 10000)), r.choice((5, 24, 1000, 4096))
    return {"a": f"f16[{m}, {n}]", "b": f"f16[{n}]"}, "%0 = add(a, b)\n%1 = exp(%0)\n%2 = mul(%1, a)"


def _short_rows(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((3000, 20000)), r.choice((3, 7, 20))
    return {"a": f"f16[{m}, {n}]", "b": f"f16[{n}, {m}]"}, "%0 = transpose(b, perm=[1, 0])\n%1 = mul(a, %0)"


def _same_rows(r: Random) -> tuple[Inputs, str]:
    """Results along a row that are made of one statistic."""
    m, n, c = r.choice((16, 200)), r.choice((9, 60)), r.choice((128, 1000))
    lines = "%0 = reduce_sum(a, axes=[1], keepdims=True)\n%1 = mul(%0, b)"
    return {"a": f"f32[{m}, {n}]", "b": f"f32[{m}, {c}]"}, lines


def _turned(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((1000, 4096)), r.choice((30, 768, 3000))
    return {"a": f"f16[{m}, {n}]", "b": f"f16[{n}, {m}]"}, "%0 = transpose(a, perm=[1, 0])\n%1 = add(%0, b)"


def _window(r: Random) -> tuple[Inputs, str]:
    n, c, side, w = r.choice((1, 16)), r.choice((3, 64, 192)), r.choice((14, 30, 57)), r.choice((2, 3))
    how = f"window=[{w}, {w}], strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1]"
    return {"a": f"f16[{n}, {c}, {side}, {side}]"}, f"%0 = maxpool(a, {how})"


def _convolution(r: Random) -> tuple[Inputs, str]:
    n, c, k, side, w = r.choice((1, 16, 32)), r.choice((3, 32, 64, 128)), r.choice((32, 64, 192)), r.choice((14, 28, 56)), r.choice((1, 3))
    groups, s = r.choice(((1, 1), (1, 1), (1, 2), (c, 1)))
    k = c if groups == c else k
    how = f"lo=[{w // 2}, {w // 2}], hi=[{w // 2}, {w // 2}], strides=[{s}, {s}], dilations=[1, 1], groups={groups}"
    return {"x": f"f16[{n}, {c}, {side}, {side}]", "w": f"f16[{k}, {c // groups}, {w}, {w}] constant"}, f"%0 = conv(x, w, {how})"


def _byte_convolution(r: Random) -> tuple[Inputs, str]:
    """Windows of bytes, summed in whole numbers."""
    n, c, k, side, s = r.choice((1, 4)), r.choice((16, 64, 128)), r.choice((32, 64)), r.choice((14, 28, 57)), r.choice((1, 1, 2))
    how = f"lo=[1, 1], hi=[1, 1], strides=[{s}, {s}], dilations=[1, 1], groups=1"
    lines = '%a = cast(x, to="i32")\n%b = cast(w, to="i32")\n' + f"%0 = conv(%a, %b, {how})"
    return {"x": f"u8[{n}, {c}, {side}, {side}]", "w": f"i8[{k}, {c}, 3, 3] constant"}, lines


def _few_channels(r: Random) -> tuple[Inputs, str]:
    """A convolution of f32 to few channels, whose tiles have all of them."""
    n, c, k, side, w = r.choice((16, 64)), r.choice((64, 176)), r.choice((40, 72)), r.choice((28, 56)), 5
    how = f"lo=[{w // 2}, {w // 2}], hi=[{w // 2}, {w // 2}], strides=[1, 1], dilations=[1, 1], groups=1"
    return {"x": f"f32[{n}, {c}, {side}, {side}]", "w": f"f32[{k}, {c}, {w}, {w}]"}, f"%0 = conv(x, w, {how})"


def _stem(r: Random) -> tuple[Inputs, str]:
    """A convolution by a stride of 2, without a border."""
    c, k, side, w = r.choice((16, 24)), r.choice((16, 64)), r.choice((29, 57)), r.choice((2, 3, 5))
    how = "lo=[0, 0], hi=[0, 0], strides=[2, 2], dilations=[1, 1], groups=1"
    return {"x": f"f32[1, {c}, {side}, {side}]", "w": f"f32[{k}, {c}, {w}, {w}] constant"}, f"%0 = conv(x, w, {how})"


def _winograd(r: Random) -> tuple[Inputs, str]:
    """A convolution that is done as products of transformed tiles where that pays: contractions behind each other."""
    c, k, side = r.choice((64, 128, 512)), r.choice((64, 256, 512)), r.choice((7, 14, 28))
    how = "lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=1"
    return {"x": f"f32[1, {c}, {side}, {side}]", "w": f"f32[{k}, {c}, 3, 3] constant"}, f"%0 = conv(x, w, {how})"


def _tapped(r: Random) -> tuple[Inputs, str]:
    """A convolution whose channels lie innermost."""
    n, c, k, side, w = r.choice((1, 16, 32)), r.choice((64, 128)), r.choice((64, 192)), r.choice((14, 28, 56)), 3
    how = 'lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=1, layout="nhwc_ohwi"'
    return {"x": f"f16[{n}, {side}, {side}, {c}]", "w": f"f16[{k}, {w}, {w}, {c}] constant"}, f"%0 = conv(x, w, {how})"


def _scan(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((64, 1000))}, {r.choice((512, 1000, 4096))}]"}, "%0 = cumsum(a, axis=1, exclusive=False, reverse=False)"


def _lookup(r: Random) -> tuple[Inputs, str]:
    table = f"f16[{r.choice((1000, 50304))}, {r.choice((768, 1000))}]"
    return {"t": table, "i": f"i64[{r.choice((512, 10000))}]"}, "%0 = gather(t, i, axis=0)"


def _scattered(r: Random) -> tuple[Inputs, str]:
    """Updates that are added to rows of which a tensor says the numbers, where few of them change, of a type that no atomics add."""
    rows, n, columns = r.choice((300, 1000)), r.choice((500, 2176)), r.choice((64, 256, 1000))
    inputs = {"x": f"i16[{rows}, {columns}]", "i": f"i64[{n}, 1]", "u": f"i16[{n}, {columns}]"}
    return inputs, '%0 = scatter_nd(x, i, u, reduction="add")'


def _open_rows(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((64, 1000))}, open]"}, r.choice(ROWS[:2])


def _stencil(r: Random) -> tuple[Inputs, str]:
    n, steps = r.choice((1000, 20000)), r.choice((9, 50))
    taps = r.choice((0, 1, 2))
    if taps == 0:
        return {"a": f"f32[{n}]"}, f"%0 = stencil(a, offsets=[[0], [1]], weights=[0.5, 0.5], steps={steps})"
    if taps == 1:
        return {"a": f"f32[{n}]"}, f"%0 = stencil(a, offsets=[[-1], [0], [1]], weights=[0.25, 0.5, 0.25], steps={steps})"
    offsets = "[[0, -1], [0, 1], [-1, 0], [1, 0]]"
    return {"a": f"f32[{n // 20}, 300]"}, f"%0 = stencil(a, offsets={offsets}, weights=[0.25, 0.25, 0.25, 0.25], steps={steps})"


def _residual(r: Random) -> tuple[Inputs, str]:
    """A product and, behind it, an operand as large as the result: a residual, a gate."""
    m, n, k = r.choice((136, 512, 1000, 4096)), r.choice((136, 264, 1024, 4096)), r.choice((168, 520, 1024))
    dtype, given = r.choice(("f16", "bf16")), r.choice((CONSTANT, ""))
    behind = r.choice(("%1 = gelu(%0)\n%2 = add(%1, c)", "%1 = add(%0, c)", "%1 = sigmoid(c)\n%2 = mul(%0, %1)"))
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]{given}", "c": f"{dtype}[{m}, {n}]"}, f"%0 = matmul(a, b)\n{behind}"


def _wide_residual(r: Random) -> tuple[Inputs, str]:
    """One whose tiles may be large beside a deep ring."""
    m, n, k = r.choice((512, 1000, 4096, 8192)), r.choice((512, 1024, 4096)), r.choice((520, 1024, 4096))
    return {"a": f"bf16[{m}, {k}]", "b": f"bf16[{k}, {n}]", "c": f"bf16[{m}, {n}]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)"


def _computed_factor(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((64, 200, 1000)), r.choice((40, 64, 136)), r.choice((256, 1024))
    before = r.choice(("%0 = exp(a)", "%0 = silu(a)", "%p = mul(a, a)\n%0 = add(%p, const(1.0, f16))"))
    return {"a": f"f16[{m}, {k}]", "b": f"f16[{k}, {n}]"}, f"{before}\n%1 = matmul(%0, b)"


def _heads(r: Random) -> tuple[Inputs, str]:
    """Attention of heads whose weights and scores find room beside each other."""
    b, q, s, d = r.choice((8, 32, 96)), r.choice((200, 512, 1000)), r.choice((256, 777, 2048)), r.choice((64, 64, 128))
    return _scores(b, q, s, d, r.choice(("f16", "bf16")))


def _causal_attention(r: Random) -> tuple[Inputs, str]:
    """A query sees the keys up to its own, or those of a window in front of it."""
    b, s, d = r.choice((8, 24)), r.choice((200, 384, 1000, 2048)), r.choice((40, 64, 128))
    near = r.choice(("", f"%n = sub(%r, const({r.choice((33, 256))}, i64))\n%h = gt(%c, %n)\n"))
    lines = f"""%0 = transpose(k, perm=[0, 2, 1])
%1 = matmul(q, %0)
%2 = mul(%1, const(0.125, f16))
%r = iota(shape=[{s}, {s}], axis=0)
%c = iota(shape=[{s}, {s}], axis=1)
%g = ge(%r, %c)
{near}{"%m = and(%g, %h)" if near else "%m = not(%g)"}
%3 = where(%m, {"%2, const(-inf, f16)" if near else "const(-inf, f16), %2"})
%4 = softmax(%3, axes=[2])
%5 = matmul(%4, v)"""
    return {x: f"f16[{b}, {s}, {d}]" for x in "qkv"}, lines


def _scaled_rows(r: Random) -> tuple[Inputs, str]:
    """Norms whose results need more than the row: a scale, a shift."""
    m, n, dtype = r.choice((3, 100, 512)), r.choice((1024, 2048, 4096)), r.choice(("f16", "f32"))
    if r.random() < 0.5:
        return {"a": f"{dtype}[{m}, {n}]", "g": f"{dtype}[{n}]", "b": f"{dtype}[{n}]"}, "%0 = layer_norm(a, g, b, axes=[1])"
    lines = f"%0 = mul(a, a)\n%1 = reduce_mean(%0, axes=[1], keepdims=True)\n%2 = add(%1, const(0.00001, {dtype}))\n%3 = rsqrt(%2)"
    return {"a": f"{dtype}[{m}, {n}]", "g": f"{dtype}[{n}]"}, f"{lines}\n%4 = mul(a, %3)\n%5 = mul(%4, g)"


def _quantised_rows(r: Random) -> tuple[Inputs, str]:
    """Rows rounded to multiples of their largest number's 127th part."""
    m, n, dtype = r.choice((3, 37, 100)), r.choice((96, 512, 1111)), r.choice(("f32", "bf16"))
    wide = "%0 = cast(a, to=\"f32\")\n%1 = abs(%0)" if dtype != "f32" else "%0 = neg(a)\n%1 = abs(a)"
    lines = f"{wide}\n%2 = reduce_max(%1, axes=[1], keepdims=True)\n%3 = mul(%2, const(0.007874016, f32))\n%4 = div(%0, %3)\n%5 = round(%4)"
    return {"a": f"{dtype}[{m}, {n}]"}, lines


def _functions_of_bytes(r: Random) -> tuple[Inputs, str]:
    """A function of bytes, rounded to bytes again."""
    f, n = r.choice(("sigmoid", "tanh", "exp")), r.choice((1000, 40000))
    return {"a": f"{r.choice(('u8', 'i8'))}[{n}]"}, (
        f"%0 = cast(a, to=\"f32\")\n%1 = mul(%0, const(0.05, f32))\n%2 = {f}(%1)\n%3 = div(%2, const(0.01, f32))\n%4 = round(%3)\n"
        "%5 = max(%4, const(-100, f32))\n%6 = min(%5, const(100, f32))\n%7 = cast(%6, to=\"i8\")")  # fmt: skip


def _depthwise(r: Random) -> tuple[Inputs, str]:
    """Windows of each channel alone; channels may lie innermost in what is read."""
    n, c, side, w = r.choice((1, 2, 16)), r.choice((3, 32, 40)), r.choice((21, 37, 56)), r.choice((3, 5))
    dtype, s, h = r.choice(("f32", "f16")), r.choice((1, 1, 2)), w // 2
    how = f"lo=[{h}, {h}], hi=[{h}, {h}], strides=[{s}, {s}], dilations=[1, 1]"
    if r.random() < 0.5:
        return {"x": f"{dtype}[{n}, {c}, {side}, {side + 3}]", "w": f"{dtype}[{c}, 1, {w}, {w}]"}, f"%0 = conv(x, w, {how}, groups={c})"
    lines = f"%t = transpose(x, perm=[0, 3, 1, 2])\n%0 = conv(%t, w, {how}, groups={c})"
    return {"x": f"{dtype}[{n}, {side}, {side + 3}, {c}]", "w": f"{dtype}[{c}, 1, {w}, {w}]"}, lines


def _transposed_convolution(r: Random) -> tuple[Inputs, str]:
    """All places of a stride as one product; some have fewer taps than others. Channels innermost."""
    n, side, c, o, w = r.choice((1, 2, 8)), r.choice((7, 14, 28)), r.choice((64, 128)), r.choice((24, 64)), r.choice((3, 4, 5))
    return {"x": f"f16[{n}, {side}, {side + 1}, {c}]", "w": f"f16[{o}, {w}, {w}, {c}]"}, (
        f'%0 = conv_spread(x, w, spread=[2, 2], lo=[{w // 2}, {w // 2}], hi=[{w // 2}, {w // 2}], dilations=[1, 1], layout="nhwc_ohwi")')


def _joined(r: Random) -> tuple[Inputs, str]:
    """Parts of a tensor, or of several, behind one another."""
    m, n, dtype = r.choice((72, 1000)), r.choice((96, 130, 1024)), r.choice(("f16", "f32"))
    at = r.choice((n // 2, n // 3, 1))
    part = lambda of, lo, hi: f"slice({of}, starts=[0, {lo}], limits=[{m}, {hi}], steps=[1, 1])"
    if r.random() < 0.5:  # a roll, whose first part is negated where it is that of a rotation
        first = r.choice(("%n = neg(%0)", "%n = relu(%0)"))
        lines = f"%0 = {part('a', at, n)}\n{first}\n%1 = {part('a', 0, at)}\n%2 = concat(%n, %1, axis=1)"
        return {"a": f"{dtype}[{m}, {n}]"}, lines
    return {"a": f"{dtype}[{m}, {n}]", "b": f"{dtype}[{m}, {at}]"}, "%0 = concat(a, b, a, axis=1)\n%1 = exp(%0)"


def _line(r: Random) -> tuple[Inputs, str]:
    """A vector of which the last tile is a part."""
    dtype, after = r.choice(("f16", "f32")), r.choice(("exp", "silu", "neg"))
    return {"a": f"{dtype}[{r.choice((4099, 65537, 1000001))}]"}, f"%0 = {after}(a)"


def _streamed(r: Random) -> tuple[Inputs, str]:
    """Maps of what no cache holds."""
    m, n = r.choice((16384, 40000)), r.choice((4096, 8192))
    return {"a": f"f32[{m}, {n}]", "b": f"f32[{m}, {n}]"}, r.choice(("%0 = add(a, b)", "%0 = mul(a, b)\n%1 = exp(%0)"))


def _column_variance(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((2011, 20011)), r.choice((7, 40, 256))
    lines = f"""%0 = reduce_sum(a, axes=[0], keepdims=1)
%1 = mul(%0, const({1 / m}, f32))
%2 = sub(a, %1)
%3 = mul(%2, %2)
%4 = reduce_sum(%3, axes=[0])
%5 = mul(%4, const({1 / (m - 1)}, f32))"""
    return {"a": f"f32[{m}, {n}]"}, lines


def _chosen_sums(r: Random) -> tuple[Inputs, str]:
    """Sums of the updates whose number is a row's."""
    rows, n, columns = r.choice((7, 40)), r.choice((65, 500)), r.choice((64, 300))
    lines = f"""%0 = iota(shape=[{rows}, 1, 1], axis=0, dtype="i32")
%1 = eq(i, %0)
%2 = where(%1, u, const(0.0, f32))
%3 = reduce_sum(%2, axes=[1])"""
    return {"i": f"i32[1, {n}, 1]", "u": f"f32[1, {n}, {columns}]"}, lines


def _rows_of_stencils(r: Random) -> tuple[Inputs, str]:
    """Stencils of which some axis is not read across: rows, or planes, that know nothing of each other."""
    m, n, steps = r.choice((7, 64, 500)), r.choice((300, 1000)), r.choice((9, 50))
    taps = r.choice(((-1, 0, 1), (0, 1), (-2, 0, 2), (-1, 0)))
    weights = [round(1 / len(taps), 3)] * len(taps)
    if r.random() < 0.5:
        return {"a": f"f32[{m}, {n}]"}, f"%0 = stencil(a, offsets={[[0, o] for o in taps]}, weights={weights}, steps={steps})"
    offsets = [[0, o, p] for o, p in zip(taps, reversed(taps))]
    return {"a": f"f32[{m}, 40, {n // 10}]"}, f"%0 = stencil(a, offsets={offsets}, weights={weights}, steps={steps})"


FORMS: Mapping[Family, tuple[str, ...]] = {  # of the kernels that targets make of each family's graphs; "scan": a reduction beside others
    _triangle: ("contract", "map"),
    _product: ("contract", "map"), _few_rows: ("contract", "map"),
    _packed_weights: ("contract", "map"), _few_columns: ("contract", "map"), _small_square: ("contract", "map"),
    _batched: ("contract", "map"), _bytes: ("contract", "map"), _normalised_product: ("contract", "reduce", "map"),
    _low_rank: ("contract", "chain", "map"), _attention: ("online", "contract", "reduce", "map"),
    _wide_attention: ("online", "contract", "reduce", "map"), _latent: ("online", "contract", "reduce", "map"),
    _one_query: ("online", "contract", "reduce", "map"), _rows: ("reduce", "map"), _normalised_rows: ("reduce", "map"),
    _short_rows: ("map",), _same_rows: ("reduce", "map"),
    _long_rows: ("reduce", "map"), _whole: ("reduce", "map"), _columns: ("reduce", "map"), _middle: ("reduce", "map"),
    _pointwise: ("map",), _turned: ("map",), _window: ("reduce", "map"), _convolution: ("contract", "reduce", "map"),
    _winograd: ("contract", "chain", "map"), _tapped: ("contract", "map"), _scan: ("scan", "reduce", "map"), _lookup: ("map",),
    _residual: ("contract", "map"), _wide_residual: ("contract", "map"), _streamed: ("map",), _computed_factor: ("contract", "map"),
    _heads: ("online", "contract", "reduce", "map"),
    _causal_attention: ("online", "contract", "reduce", "map"), _scaled_rows: ("reduce", "map"),
    _quantised_rows: ("reduce", "map"), _functions_of_bytes: ("map",), _depthwise: ("contract", "reduce", "map"),
    _joined: ("map",), _line: ("map",), _column_variance: ("reduce", "map"), _chosen_sums: ("reduce", "map"),
    _scattered: ("reduce", "map"), _open_rows: ("reduce", "map"), _stencil: ("map",), _rows_of_stencils: ("map",),
    _transposed_convolution: ("contract", "map"),
    _byte_convolution: ("contract", "map"), _few_channels: ("contract", "map"), _stem: ("contract", "chain", "map"),
}  # fmt: skip
FAMILIES: tuple[Family, ...] = tuple(FORMS)
SPLIT: tuple[Family, ...] = (_rows, _long_rows)  # those whose reductions are also done in PARTS, which a kernel of its own combines
PARTS = 4
RECURRENCES: tuple[Family, ...] = (_stencil, _rows_of_stencils)  # those with a kernel whose loop over time carries a dependence
NAMED: Mapping[str, Family] = {f.__name__.removeprefix("_"): f for f in FAMILIES}
USES: Mapping[str, tuple[Family, ...]] = {d.name: tuple(NAMED[n] for n in d.families) for d in DIRECTIVES.values() if d.families}
