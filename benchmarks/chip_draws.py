"""Single kernels that chips of all makers are asked for, a graph's text each; sizes come from a seed, no shape is fixed.

Types, moves, folds, products and windows: what a chip's units lack shows as a refusal or as the fall-back (`benchmarks.chips`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Draw = Callable[[Random], str]
FLOATS = ("f32", "f16", "bf16")
TYPES = (*FLOATS, "i8", "u8", "i32", "i64", "bool")


def drawn(seed: int) -> dict[str, str]:
    """name -> text of a graph. Each kernel has a generator of its own, so that one more changes no other."""
    return {name: draw(Random(f"{seed} {name}")) for name, draw in kernels().items()}


def kernels() -> dict[str, Draw]:
    """name -> what draws it; the first word is its family."""
    return {**_folds(), **_words(), **_moves(), **_windows(), **_products(), **_rows()}


def graph(inputs: str, *lines: str) -> str:
    """Text of a graph: inputs as "x: f32[3]; y: f32[3]", an operation a line, of which the last is the output."""
    return "\n".join(["graph g", *(f"input {x}" for x in inputs.split("; ")), *lines, f"output out = {lines[-1].split(' ')[0]}", ""])


def _matrix(r: Random, rows: tuple[int, int] = (4, 200), columns: tuple[int, int] = (16, 300)) -> tuple[int, int]:
    return r.randint(*rows), r.randint(*columns)


def _of_one(line: str, dtype: str) -> Draw:
    def draw(r: Random) -> str:
        m, n = _matrix(r)
        return graph(f"x: {dtype}[{m}, {n}]", f"%0 = {line.format(axis=r.randint(0, 1), k=r.randint(2, n // 2))}")

    return draw


def _of_two(fn: str, dtype: str) -> Draw:
    def draw(r: Random) -> str:
        m, n = _matrix(r)
        return graph(f"x: {dtype}[{m}, {n}]; y: {dtype}[{m}, {n}]", f"%0 = {fn}(x, y)")

    return draw


def _folds() -> dict[str, Draw]:
    out = {f"cumsum {d}": _of_one("cumsum(x, axis={axis})", d) for d in ("f32", "f16", "i32", "i64")}
    out |= {f"cummax {d}": _of_one("cummax(x, axis={axis})", d) for d in ("f32", "i32")}
    out |= {f"argmax {d}": _of_one("reduce_argmax(x, axes=[{axis}])", d) for d in ("f32", "i32", "i8")}
    out |= {f"sum {d}": _of_one("reduce_sum(x, axes=[{axis}])", d) for d in ("f32", "f16", "i32")}

    def top(dtype: str, part: str) -> Draw:
        def draw(r: Random) -> str:
            m, n = _matrix(r, (2, 20), (20, 200))
            return graph(f"x: {dtype}[{m}, {n}]", f'%0 = topk(x, k={r.randint(2, n // 2)}, axis=1, largest=True, part="{part}")')

        return draw

    return out | {"topk f32": top("f32", "values"), "topk i32": top("i32", "values"), "topk indices": top("f16", "indices")}


def _words() -> dict[str, Draw]:
    def lines(inputs: str, *body: str) -> Draw:
        def draw(r: Random) -> str:
            m, n = _matrix(r)
            return graph(inputs.format(m=m, n=n), *body)

        return draw

    return {
        **{f"i32 {fn}": _of_two(fn, "i32") for fn in ("add", "mul", "floordiv", "max")},
        "i32 bits": lines("x: i32[{m}, {n}]; y: i32[{m}, {n}]", "%0 = bitand(x, y)", "%1 = shr(%0, const(2, i32))"),
        "i64 add": _of_two("add", "i64"),
        "i64 gt": _of_two("gt", "i64"),
        "i64 choice": lines("x: i64[{m}, {n}]; y: f32[{m}, {n}]", "%0 = eq(x, const(3, i64))", "%1 = where(%0, y, const(0.0, f32))"),
        "mask and": lines("x: f32[{m}, {n}]; m: bool[{m}, {n}]; k: bool[{n}]", "%0 = and(m, k)", "%1 = where(%0, x, const(-1.0, f32))"),
        "mask out": lines("x: f16[{m}, {n}]; y: f16[{n}]", "%0 = gt(x, y)", "%1 = not(%0)"),
        "floor f32": lines("x: f32[{m}, {n}]", "%0 = floor(x)"),
        "sin f16": lines("x: f16[{m}, {n}]", "%0 = sin(x)"),
    }


def _moves() -> dict[str, Draw]:
    def steps(dtype: str) -> Draw:
        def draw(r: Random) -> str:
            m, n = _matrix(r)
            every = f"[{r.randint(1, 3)}, {r.randint(2, 5)}]"
            return graph(f"x: {dtype}[{m}, {n}]", f"%0 = slice(x, starts=[1, {r.randint(0, 9)}], limits=[{m}, {n - 2}], steps={every})")

        return draw

    def turned(dtype: str) -> Draw:
        def draw(r: Random) -> str:
            shape = f"[{r.randint(2, 6)}, {r.randint(9, 90)}, {r.randint(9, 90)}]"
            return graph(f"x: {dtype}{shape}", f"%0 = transpose(x, perm={r.choice(('[0, 2, 1]', '[2, 0, 1]', '[2, 1, 0]'))})")

        return draw

    def beside(dtype: str) -> Draw:
        def draw(r: Random) -> str:
            m, n = _matrix(r)
            return graph(f"x: {dtype}[{m}, {n}]; y: {dtype}[{m}, {n + r.randint(1, 40)}]", "%0 = concat(x, y, axis=1)")

        return draw

    def looked_up(r: Random) -> str:
        m, n = _matrix(r)
        return graph(f"t: f16[{m}, {n}]; i: i64[{r.randint(3, 90)}]", "%0 = gather(t, i, axis=0)")

    def looked_up_along(r: Random) -> str:
        m, n = _matrix(r)
        return graph(f"t: f32[{m}, {n}]; i: i32[{r.randint(3, 90)}]", "%0 = gather(t, i, axis=1)")

    def added(r: Random) -> str:
        m, n = _matrix(r)
        k = r.randint(3, 40)
        return graph(f"t: f32[{m}, {n}]; i: i64[{k}, 1]; u: f32[{k}, {n}]", '%0 = scatter_nd(t, i, u, reduction="add")')

    return {
        **{f"slice {d}": steps(d) for d in ("f32", "i8", "i64")},
        **{f"transpose {d}": turned(d) for d in TYPES},
        **{f"concat {d}": beside(d) for d in ("f32", "f16", "i8")},
        **{f"pad {d}": _of_one("pad(x, lo=[1, 2], hi=[3, 4], value=0)", d) for d in ("f32", "f16", "i32")},
        "gather rows": looked_up,
        "gather columns": looked_up_along,
        "scatter rows": added,
    }


def _each(n: int, value: int) -> str:
    return f"[{', '.join([str(value)] * n)}]"


def _conv(dtype: str, dims: int = 2, window: int = 3, groups: str = "", last: bool = False) -> Draw:
    """groups: "" one, "some" two to four, "each" a group a channel; `last`: channels lie last in memory."""
    return lambda r: _window(r, dtype, dims, window, groups, last)


def _window(r: Random, dtype: str, dims: int, window: int, groups: str, last: bool) -> str:
    low, high = {1: (40, 200), 2: (8, 30), 3: (6, 14)}[dims]
    sides = [r.randint(low, high) for _ in range(dims)]
    g = {"": 1, "some": r.randint(2, 4), "each": r.randint(4, 70)}[groups]
    most = 16 if dims == 3 else 70
    c, o = (g, g) if groups == "each" else (g * r.randint(3, most // g), g * r.randint(4, most // g))
    pad, batch = window // 2, r.randint(1, 2)
    shape = [batch, *sides, c] if last else [batch, c, *sides]
    attrs = ", ".join(f"{n}={_each(dims, v)}" for n, v in (("strides", r.randint(1, 2)), ("lo", pad), ("hi", pad), ("dilations", 1)))
    there, back = [0, dims + 1, *range(1, dims + 1)], [0, *range(2, dims + 2), 1]
    lines = [f"%t = transpose(x, perm={there})"] if last else []
    lines += [f"%c = conv({'%t' if last else 'x'}, w, {attrs}, groups={g})"]
    lines += [f"%o = transpose(%c, perm={back})"] if last else []
    return graph(f"x: {dtype}{shape}; w: {dtype}{[o, c // g, *[window] * dims]}", *lines)


def _pool(op: str, dtype: str) -> Draw:
    def draw(r: Random) -> str:
        step = r.randint(1, 2)
        more = ", count_include_pad=False" if op == "avgpool" else ""
        window = f"window=[3, 3], strides=[{step}, {step}], lo=[1, 1], hi=[1, 1], dilations=[1, 1]{more}"
        return graph(f"x: {dtype}[1, {r.randint(4, 32)}, {r.randint(10, 30)}, {r.randint(10, 30)}]", f"%0 = {op}(x, {window})")

    return draw


def _windows() -> dict[str, Draw]:
    return {
        **{f"pool {op[:3]} {d}": _pool(op, d) for op in ("maxpool", "avgpool") for d in ("f32", "f16")},
        **{f"conv first {d}": _conv(d) for d in FLOATS},
        "conv last f16": _conv("f16", last=True),
        "conv 1x1 f16": _conv("f16", window=1),
        "conv groups f16": _conv("f16", groups="some"),
        **{f"conv depthwise {d}": _conv(d, groups="each") for d in ("f32", "f16")},
        **{f"conv {n}d {d}": _conv(d, dims=n) for n in (1, 3) for d in ("f32", "f16")},
    }  # fmt: skip


def _products() -> dict[str, Draw]:
    def plain(dtype: str, after: str = "") -> Draw:
        def draw(r: Random) -> str:
            m, n, k = r.randint(8, 300), r.randint(16, 300), r.randint(16, 300)
            return graph(f"x: {dtype}[{m}, {k}]; y: {dtype}[{k}, {n}]", "%0 = matmul(x, y)", *([f"%1 = {after}(%0)"] if after else []))

        return draw

    def of_bytes(*after: str) -> Draw:
        def draw(r: Random) -> str:
            m, n, k = r.randint(8, 200), r.randint(16, 200), r.randint(16, 300)
            scales = f"; s: f32[{n}]" if after else ""
            widen = ('%0 = cast(x, to="i32")', '%1 = cast(w, to="i32")', "%2 = matmul(%0, %1)")
            return graph(f"x: i8[{m}, {k}]; w: i8[{k}, {n}]{scales}", *widen, *after)

        return draw

    def w8a16(r: Random) -> str:
        m, k, n = r.randint(1, 90), r.randint(16, 300), r.randint(16, 200)
        return graph(f"x: f16[{m}, {k}]; w: i8[{k}, {n}]; s: f16[{n}]", '%0 = cast(w, to="f16")', "%1 = mul(%0, s)", "%2 = matmul(x, %1)")

    def w4a16(r: Random) -> str:
        m, k, n = r.randint(1, 90), r.randint(16, 150), r.randint(16, 200)
        return graph(f"x: f16[{m}, {2 * k}]; q: u8[{k}, {n}]; s: f16[{n}]", "%0 = bitand(q, const(15, u8))",
                     "%1 = shr(q, const(4, u8))", "%2 = concat(%0, %1, axis=0)", '%3 = cast(%2, to="f16")',
                     "%4 = sub(%3, const(8, f16))", "%5 = mul(%4, s)", "%6 = matmul(x, %5)")  # fmt: skip

    def attention(r: Random) -> str:
        h, m, n, d = r.randint(1, 3), r.randint(16, 150), r.randint(30, 300), r.choice((40, 64, 80))
        inputs = f"q: f16[{h}, {m}, {d}]; k: f16[{h}, {n}, {d}]; v: f16[{h}, {n}, {d}]"
        return graph(inputs, "%0 = transpose(k, perm=[0, 2, 1])", "%1 = matmul(q, %0)", 
                     "%2 = mul(%1, const(0.125, f16))", "%3 = softmax(%2, axes=[2])", "%4 = matmul(%3, v)")  # fmt: skip

    narrowed = ('%3 = cast(%2, to="f32")', "%4 = mul(%3, s)", "%5 = round(%4)", "%6 = max(%5, const(-128.0, f32))",
                "%7 = min(%6, const(127.0, f32))", '%8 = cast(%7, to="i8")')  # fmt: skip
    return {
        **{f"gemm {d}": plain(d) for d in FLOATS},
        **{f"gemm gelu {d}": plain(d, "gelu") for d in ("f32", "f16")},
        "gemm bytes": of_bytes(),
        "gemm requantised": of_bytes(*narrowed),
        "gemm w8a16": w8a16,
        "gemm w4a16": w4a16,
        "attention f16": attention,
    }


def _rows() -> dict[str, Draw]:
    def normed(dtype: str) -> Draw:
        def draw(r: Random) -> str:
            m, n = _matrix(r, (4, 80), (8, 900))
            return graph(f"x: {dtype}[{m}, {n}]; g: {dtype}[{n}]", "%0 = rms_norm(x, g, axes=[1], eps=0.01)")

        return draw

    soft = {f"softmax {d}": _of_one("softmax(x, axes=[1])", d) for d in FLOATS}
    return {**soft, **{f"norm {d}": normed(d) for d in ("f32", "f16")}}
