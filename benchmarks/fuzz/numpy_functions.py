"""Random NumPy functions, traced and compiled for the CPU, against NumPy running the same text on the same arrays.

A function is drawn line by line; NumPy runs each line as it is drawn, so that every program is one that NumPy takes. Arrays have mixed
dtypes, dimensions of 0 and 1, NaN, infinities and the ends of their types; programs have views of views, casts, constants, the same value
twice among the outputs, outputs that are inputs, and are called with arrays that are views themselves.

Integers and bools must be NumPy's. Floats may be as far from NumPy's as their dtype's rounding explains: NumPy's own distance from the
same function in float64, what an ulp in the inputs or some on the way do, and some units in the last place. A NaN or an infinity must be
one in one of these runs (and the same, but for inputs so large that their products overflow).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

import autocomp
from autocomp.errors import AutocompError
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "numpy"
FLOATS = ("f2", "f4", "f4", "f4", "f8")
INTS = ("i1", "i2", "i4", "i4", "i8", "u1", "u2", "u4", "u8")
DIMS = (0, 1, 1, 2, 3, 3, 4, 5, 8, 9, 17)
LARGEST = 3000  # elements of a value
SHAKES = 3  # runs of NumPy with inputs an ulp away, and as many with errors on the way
ULPS = 64.0  # of a result, allowed where nothing else explains more
NATURAL = 8.0  # times what NumPy's own rounding, or an ulp in the inputs, does


ROUNDED = re.compile(r"exp|log|sqrt|cbrt|sin|cos|tan|hypot|power|sum|prod|mean|var|std|average|norm|trace|[/@%]|\*\*|inner|dot|outer|"
                     r"convolve|degrees|radians|reciprocal|square|nan_to_num|round")  # fmt: skip

EITHER_ZERO = re.compile(r"sort|max|min|ptp|clip")  # which of 0.0 and -0.0 comes first, or is the larger, is NumPy's loops' to say
FLOAT_SUM = re.compile(r"\bnp\.(mean|average|sum|prod)\((\w+)(.*)")


def _moved_sums(line: str) -> str:
    """The line with the terms of its sum in floating point an ulp away, those that are integers too: where they cancel, the sum's order
    decides about all digits that are left."""
    found = FLOAT_SUM.search(line)
    if not found:
        return line
    dtype = re.search(r"dtype='(\w+)'", found[3])
    if (dtype or found[1] in ("sum", "prod")) and (not dtype or dtype[1][0] != "f"):
        return line
    kind = dtype[1] if dtype else ""
    terms = f"np.asarray({found[2]}).astype({kind!r})" if kind else f"{found[2]} * 1.0"
    return f"{line[: found.start()]}np.{found[1]}(moved({terms}, 0.25){found[3]}"


@dataclass(frozen=True)
class Input:
    """An argument: its values are drawn from `seed`, then viewed through `view` (text of an expression over `a`). `like`: the number of an
    earlier input whose array is given as the example of this one too."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    seed: int
    special: bool
    view: str = "a"
    like: int = -1

    def array(self, salt: int = 0) -> np.ndarray:
        rng = np.random.default_rng((self.seed, salt))
        a = _values(self.dtype, self.shape, rng, self.special)
        return eval(self.view, {"np": np}, {"a": a})  # type: ignore[no-any-return]

    def text(self) -> str:
        what = f"{self.dtype}{list(self.shape)} of seed {self.seed}{', with extremes' if self.special else ''}"
        return f"{self.name} = {self.view}   # a: {what}"


@dataclass(frozen=True)
class Case:
    inputs: tuple[Input, ...]
    lines: tuple[str, ...]  # "v0 = np.add(x0, 1)"
    outputs: tuple[str, ...]  # names, or texts of constants

    def source(self, noise: bool = False) -> str:
        body = ""
        for line in self.lines:
            name = line.split(" ", 1)[0]
            if noise:  # the mean inside is rounded too, also of integers
                line = re.sub(r"\b(np\.(?:nan)?(?:std|var))\((\w+)", r"\1(moved(\2 * 1.0, 0.25)", line)
                line = _moved_sums(line)
                line = re.sub(r"\b(\w+)\.(mean|var|std)\(", lambda m: m[0] if m[1] == "np" else f"moved({m[1]}, 0.25).{m[2]}(", line)
            after = "moved" if ROUNDED.search(line) else "turned" if EITHER_ZERO.search(line) else ""
            body += f"    {line}\n" + (f"    {name} = {after}({name})\n" if noise and after else "")
        return f"def fn({', '.join(i.name for i in self.inputs)}):\n{body}    return {', '.join(self.outputs)},\n"

    def text(self) -> str:
        return f"import numpy as np\n\n{self.source()}\n" + "".join(f"# {i.text()}\n" for i in self.inputs)

    def function(self, wide: bool = False, noise: int = -1, loops: bool = False) -> Callable[..., tuple[Any, ...]]:
        """The function. `wide`: every float dtype in it is float64; `noise`: seed of errors of some ulps where a line rounds; `loops`:
        products by NumPy's own loops, as its BLAS takes an infinity times 0 for 0, and variances of float16 whose sum is not one."""
        text = self.source(noise >= 0)
        if loops:
            text = re.sub(r"\b(?!np\b)(\w+|moved\([^()]*\))\.(var|std)\(", r"np.\2(\1, ", text)
        if wide:
            text = re.sub(r"(['\"])f[24]\1|np\.float(16|32)\b", lambda m: "np.float64" if m[2] else "'f8'", text)
        rng = np.random.default_rng(noise + 1)

        def turned(x: Any) -> Any:
            x = np.asarray(x)
            return np.where(x == 0, x * rng.choice([-1, 1], x.shape), x).astype(x.dtype) if x.dtype.kind == "f" else x

        def moved(x: Any, by: float = 1.0) -> Any:
            x = np.asarray(x)
            if x.dtype.kind != "f":
                return x
            x = turned(x)  # a sum of zeros has either sign
            return (x.astype("f8") * (1 + rng.choice([-4 * by, 4 * by], x.shape) * float(np.finfo(x.dtype).eps))).astype(x.dtype)

        space: dict[str, Any] = {"np": _Loops() if loops else np, "moved": moved, "turned": turned}
        exec(compile(text, "<drawn>", "exec"), space)
        return space["fn"]  # type: ignore[no-any-return]


class _Loops:
    """NumPy, but for the products that it gives to BLAS and for variances of float16, whose sum of squares it rounds to float16 before
    it divides: it overflows where the variance does not."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def tensordot(a: Any, b: Any, axes: int = 1) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        if axes != 1:
            return np.tensordot(a, b, axes)
        flat = np.einsum("ik,kj->ij", a.reshape(-1, a.shape[-1]), b.reshape(b.shape[0], -1), optimize=False)
        return flat.reshape((*a.shape[:-1], *b.shape[1:]))

    @classmethod
    def dot(cls, a: Any, b: Any) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        if not a.ndim or not b.ndim:
            return np.multiply(a, b)
        return cls.tensordot(a, np.moveaxis(b, max(b.ndim - 2, 0), 0))

    @classmethod
    def inner(cls, a: Any, b: Any) -> Any:
        b = np.asarray(b)
        return cls.dot(a, b) if b.ndim < 1 else cls.tensordot(a, np.moveaxis(b, -1, 0))

    @staticmethod
    def prod(a: Any, axis: Any = None, **given: Any) -> Any:
        """In another order: lanes of 16 elements, then what they came to. An infinity that comes before a zero makes a NaN."""
        a = np.asarray(a)
        if axis is not None or a.size < 32:
            return np.prod(np.flip(a), axis=axis, **given)
        dtype = given.get("dtype") or np.prod(a.ravel()[:0].astype(a.dtype)).dtype
        flat = np.concatenate([a.ravel(), np.ones(-a.size % 16, a.dtype)]).reshape(-1, 16)
        out = np.prod(np.prod(flat, axis=0, dtype=dtype), dtype=dtype)
        return np.reshape(out, (1,) * a.ndim) if given.get("keepdims") else out

    @staticmethod
    def var(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        a = np.asarray(a)
        if a.dtype != np.float16:
            return np.var(a, axis=axis, ddof=ddof, keepdims=keepdims)
        square = (a - np.mean(a, axis=axis, keepdims=True)) ** 2
        total = np.sum(square, axis=axis, keepdims=keepdims, dtype="f4")
        count = square.size // max(total.size, 1)
        return np.asarray(total / np.float32(max(count - ddof, 0))).astype(np.float16)[()]

    @classmethod
    def std(cls, a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        return np.sqrt(cls.var(a, axis, ddof, keepdims))


def _values(dtype: str, shape: tuple[int, ...], rng: np.random.Generator, special: bool) -> np.ndarray:
    d = np.dtype(dtype)
    if d.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if d.kind in "iu":
        i = np.iinfo(d)
        x = rng.integers(max(i.min, -9), 10, shape).astype(d)
        ends = np.array([i.min, i.max, i.max - 1, i.max // 2, 0, 1], d)
    else:
        f = ml_dtypes.finfo(d)
        x = (rng.standard_normal(shape) * rng.choice([1.0, 1.0, 10.0])).astype(d)
        if rng.random() < 0.3:
            x = np.rint(x)
        ends = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, float(f.max), float(f.tiny), -1.0, 0.5], d)
    if special:
        x = np.where(rng.random(shape) < 0.25, ends[rng.integers(0, len(ends), shape)], x)
    return x.astype(d)


# ---- drawing
@dataclass
class Drawn:
    """A program in the making: what every name holds on the drawn inputs."""

    rng: Random
    env: dict[str, np.ndarray]

    def of(self, kinds: str = "fiub", rank: int = 0) -> str | None:
        """A name, recent ones more often, of a dtype kind and at least that rank."""
        fits = [n for n, v in self.env.items() if v.dtype.kind in kinds and v.ndim >= rank]
        return self.rng.choice([*fits, *fits[-2:] * 2]) if fits else None

    def one(self, *items: Any) -> Any:
        return self.rng.choice(items)

    def axis(self, name: str, none: bool = True) -> str:
        n = self.env[name].ndim
        picks = [*range(-n, n), *([None] if none else []), *([(0, n - 1)] if none and n > 1 else [])]
        return repr(self.rng.choice(picks)) if picks else "None"


UNARY_F = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan",
           "arctan", "arcsin", "arccos", "sinh",
           "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil", "trunc", "rint", "sign", "abs", "fabs", "negative",
           "square", "reciprocal", "isnan", "isinf", "isfinite", "signbit", "degrees", "radians", "nan_to_num", "positive",
           "logical_not")  # fmt: skip
UNARY_I = ("abs", "negative", "invert", "sign", "square", "sqrt", "exp", "floor", "isnan", "logical_not", "positive", "signbit", "conj")
UNARY_B = ("logical_not", "invert", "abs", "square", "exp", "isfinite", "conj")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide", "remainder", "fmod", "less", "less_equal",
          "greater",
          "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor", "fmax", "fmin", "copysign", "hypot", "arctan2",
          "logaddexp", "heaviside", "isclose", "float_power")  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
REDUCE = ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "ptp", "count_nonzero", "average")
NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "-2.5", "True", "1e-3", "np.float32(1.5)", "np.int8(3)", "np.float64(0.1)", "np.nan",
           "np.inf", "100",
           "np.uint8(200)", "-0.0", "7")  # fmt: skip


def unary(g: Drawn) -> str | None:
    x = g.of()
    if x is None:
        return None
    name = g.one(*{"f": UNARY_F, "b": UNARY_B}.get(g.env[x].dtype.kind, UNARY_I))
    return f"np.{name}({x})" if name != "signbit" else f"np.signbit(np.nan_to_num({x}))"  # NaN's sign is not kept (docs/differences.md)


def binary(g: Drawn) -> str | None:
    x = g.of()
    if x is None:
        return None
    y = g.of() if g.rng.random() < 0.6 else g.one(*NUMBERS)
    pair = (x, y) if g.rng.random() < 0.5 else (y, x)
    if all(p in g.env and g.env[p].dtype.kind in "iub" for p in pair) and g.rng.random() < 0.3:
        return f"np.{g.one(*BITS)}({pair[0]}, {pair[1]})"
    if g.rng.random() < 0.5:
        return f"{pair[0]} {g.one('+', '-', '*', '/', '//', '%', '<', '>=', '==', '!=', '**')} {pair[1]}"
    name = g.one(*BINARY)
    return f"np.{name}({pair[0]}, {pair[1]})" if name != "copysign" else f"np.copysign({pair[0]}, np.nan_to_num({pair[1]}))"


def reduction(g: Drawn) -> str | None:
    x = g.of(rank=1)
    if x is None:
        return None
    name = g.one(*REDUCE)
    axis = g.axis(x, none=name not in ("argmax", "argmin"))
    more = g.one("", "", ", keepdims=True")
    if name in ("sum", "prod", "mean") and g.rng.random() < 0.2:
        more += f", dtype={g.one('f4', 'f8', 'i8')!r}"
    if name in ("var", "std") and g.rng.random() < 0.4:
        more += ", ddof=1"
    return f"np.{name}({x}, axis={axis}{more})"


def rows(g: Drawn) -> str | None:
    """What models do with a row: norms and softmax, which the compiler rewrites."""
    x = g.of("f", rank=1)
    if x is None:
        return None
    a = g.axis(x, none=False)
    return g.one(
        f"({x} - {x}.mean({a}, keepdims=True)) / np.sqrt({x}.var({a}, keepdims=True) + 1e-5)",
        f"np.exp({x} - {x}.max({a}, keepdims=True)) / np.exp({x} - {x}.max({a}, keepdims=True)).sum({a}, keepdims=True)",
        f"{x} / np.sqrt(({x} * {x}).mean({a}, keepdims=True) + 1e-6)", f"np.linalg.norm({x}, axis={a})",
        f"np.log(np.exp({x} - {x}.max({a}, keepdims=True)).sum({a})) + {x}.max({a})", f"np.var({x}, axis={a})",
    )  # fmt: skip


def running(g: Drawn) -> str | None:
    x = g.of(rank=1)
    if x is None:
        return None
    a = g.axis(x, none=False)
    return g.one(f"np.cumsum({x}, axis={a})", f"np.cumprod({x}, axis={a})", f"np.sort({x}, axis={a})", f"np.diff({x}, axis={a})",
                 f"np.take_along_axis({x}, np.argmax({x}, axis={a}, keepdims=True), axis={a})", f"np.cumsum({x})")  # fmt: skip


def cast(g: Drawn) -> str | None:
    x = g.of()
    if x is None:
        return None
    if g.env[x].dtype.kind != "f":
        return f"{x}.astype({g.one('?', 'f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8')!r})"
    how = g.one("float", "float", "signed", "unsigned", "bool")
    if how == "signed":
        return f"np.clip(np.nan_to_num({x}), -100, 100).astype({g.one('i1', 'i2', 'i4', 'i8')!r})"
    if how == "unsigned":
        return f"np.clip(np.nan_to_num({x}), 0, 100).astype({g.one('u1', 'u2', 'u4', 'u8')!r})"
    return f"{x}.astype({'?' if how == 'bool' else g.one('f2', 'f4', 'f8')!r})" if how != "bool" else f"{x}.astype('?')"


def choice(g: Drawn) -> str | None:
    c, x, y = g.of(), g.of(), g.of() if g.rng.random() < 0.6 else g.one(*NUMBERS)
    if c is None or x is None:
        return None
    lo, hi = g.one(("0", "5"), ("-1", "1"), ("None", "2"), ("0.5", "0.25"))
    return g.one(f"np.where({c} > 0, {x}, {y})", f"np.where({c}, {x}, {y})", f"np.where({c}, {y}, {x})", f"np.clip({x}, {lo}, {hi})",
                 f"np.nan_to_num({x}, nan=1, posinf=2, neginf=-3)", f"np.round({x}, {g.one(0, 1, 2)})")  # fmt: skip


def view(g: Drawn) -> str | None:
    x = g.of(rank=1)
    if x is None:
        return None
    n = g.env[x].ndim
    cut = lambda: g.one(":", "::-1", "1:", ":-1", "::2", "-2:", "1::2", "::-2", "0", "-1", "None", "2:2", "0:1")
    index = ", ".join(cut() for _ in range(g.rng.randint(1, n)))
    perm = tuple(g.rng.sample(range(n), n))
    shape = list(g.env[x].shape)
    g.rng.shuffle(shape)
    merged = g.one(repr(tuple(shape)), "-1", "(-1, 1)", "(1, -1)", f"(*{x}.shape, 1)", f"({x}.shape[0], -1)")
    return g.one(f"{x}[{index}]", f"{x}[{index}]", f"{x}[{index}]", f"{x}[..., ::-1]", f"{x}.T", f"{x}.transpose{perm}",
                 f"{x}.reshape({merged})",
                 f"np.flip({x})", f"np.broadcast_to({x}, (2, *{x}.shape))", f"np.expand_dims({x}, {g.rng.randint(0, n)})",
                 f"np.squeeze({x})",
                 f"{x}.ravel()", f"np.swapaxes({x}, 0, -1)", f"np.moveaxis({x}, 0, -1)", f"{x}[{index}][..., None]")  # fmt: skip


def arrange(g: Drawn) -> str | None:
    x, y = g.of(rank=1), g.of(rank=1)
    if x is None or y is None:
        return None
    n = max(1, g.env[x].shape[0])
    at = [g.rng.randint(-n, n - 1) for _ in range(g.rng.randint(1, 4))]
    a = g.rng.randint(0, g.env[x].ndim - 1)
    return g.one(f"np.concatenate([{x}, {y}], axis={a})", f"np.stack([{x}, {x}], axis={a})", f"np.pad({x}, {g.one(1, (0, 2), (1, 0))})",
                 f"np.tile({x}, {g.one(2, (2, 1), (1, 2))})", f"np.repeat({x}, {g.one(0, 1, 2, 3)}, axis={a})",
                 f"np.roll({x}, {g.one(1, -2, 3)}, axis={a})",
                 f"{x}[{at}]", f"np.take({x}, {at}, axis=0)", f"np.tril({x})", f"np.triu({x}, 1)", f"np.diag({x})", f"np.trace({x})",
                 f"np.pad({x}, 1, mode={g.one('edge', 'reflect', 'wrap')!r})", f"np.hstack([{x}, {y}])", f"np.vstack([{x}, {y}])",
                 f"np.split({x}, [1], axis={a})[{g.one(0, 1)}]", f"np.full_like({x}, 3)", f"np.zeros_like({x}, dtype='f4')")  # fmt: skip


def product(g: Drawn) -> str | None:
    x, y = g.of(rank=1), g.of(rank=1)
    if x is None or y is None:
        return None
    return g.one(f"{x} @ {y}", f"{x} @ {y}.T", f"{x}.T @ {x}", f"np.outer({x}, {y})", f"np.inner({x}, {x})", f"np.tensordot({x}, {y}, 1)",
                 f"np.dot({x}, {y})", f"np.convolve({x}.ravel()[:9], {y}.ravel()[:4], {g.one('full', 'same', 'valid')!r})",
                 f"np.vecdot({x}, {x})", f"np.multiply.outer({x}.ravel()[:9], {y}.ravel()[:9])")  # fmt: skip


STEPS = (unary, unary, unary, binary, binary, binary, binary, reduction, reduction, rows, running, cast, cast, choice, choice, view, view,
         view,
         arrange, arrange, product)  # fmt: skip
VIEWS = ("a", "a", "a", "a[::-1]", "a.T", "a[..., ::-1]", "np.broadcast_to(a[:1], a.shape)", "np.repeat(a, 2, 0)[::2]",
         "np.asfortranarray(a)")  # fmt: skip


def draw(seed: int) -> Case:
    rng = Random(seed)
    inputs: list[Input] = []
    rank = rng.choice((0, 1, 1, 2, 2, 2, 3, 3))
    shape = tuple(rng.choice(DIMS) for _ in range(rank))
    for k in range(rng.choice((1, 1, 2, 2, 3))):
        dtype = rng.choice((*FLOATS, *FLOATS, *INTS, "?"))
        cut = rng.randint(0, rank) if rng.random() < 0.3 else 0
        own = tuple(1 if rng.random() < 0.15 else d for d in shape[cut:])
        one = Input(f"x{k}", dtype, own, rng.randrange(2**31), rng.random() < 0.4)
        if k and rng.random() < 0.15:
            one = replace(inputs[0], name=f"x{k}", like=0, seed=one.seed)
        elif own:
            v = one.array()
            views = [w for w in VIEWS if _shape_of(w, v) == v.shape]
            one = replace(one, view=rng.choice(views))
        inputs.append(one)
    g = Drawn(rng, {i.name: i.array() for i in inputs})
    lines: list[str] = []
    length = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 10, 12))
    with np.errstate(all="ignore"):
        for _ in range(80):
            if len(lines) == length:
                break
            text = rng.choice(STEPS)(g)
            value = None if text is None else _run(text, g.env)
            if value is not None:
                name = f"v{len(lines)}"
                lines.append(f"{name} = {text}")
                g.env[name] = value
    made = [f"v{k}" for k in range(len(lines))]
    used = {n for line in lines for n in re.findall(r"\bv\d+\b", line.split(" = ", 1)[1])}
    outputs = [n for n in made if n not in used][-3:] or [inputs[0].name]
    if rng.random() < 0.3:
        outputs.append(rng.choice([*made, *outputs, *(i.name for i in inputs), "1.5", "3", "np.arange(3)", "np.float32(2)"]))
    return Case(tuple(inputs), tuple(lines), tuple(outputs))


def _shape_of(view: str, a: np.ndarray) -> tuple[int, ...]:
    return np.shape(eval(view, {"np": np}, {"a": a}))


def _run(text: str, env: dict[str, np.ndarray]) -> np.ndarray | None:
    """The value of an expression, or None where NumPy refuses it, or it is too large or of a dtype that is not compiled."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            value = np.asarray(eval(text, {"np": np}, dict(env)))
    except Exception:
        return None
    fits = value.dtype.kind in "fiub" and value.dtype.itemsize <= 8 and value.size <= LARGEST and value.ndim <= 5
    return value if fits else None


# ---- comparing
def _wide(x: np.ndarray, to: type = np.float64) -> np.ndarray:
    return x.astype(to) if x.dtype.kind == "f" else x


def _shaken(x: np.ndarray, k: int) -> np.ndarray:
    if x.dtype.kind != "f":
        return x
    rng = np.random.default_rng(k)
    return np.where(x == 0, x, np.nextafter(x, rng.choice([-np.inf, np.inf], x.shape).astype(x.dtype)))


@dataclass(frozen=True)
class Expected:
    """What NumPy says of one output: in its own dtypes, and in the runs that show how far that is determined."""

    own: np.ndarray
    others: tuple[np.ndarray, ...]
    huge: bool = False


def expected(case: Case, arrays: list[np.ndarray], shakes: range = range(SHAKES)) -> list[Expected]:
    import warnings

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fn = case.function()
        own = [np.asarray(v) for v in fn(*arrays)]
        halves = bool(re.search(r"\b(var|std)\(", case.source()))
        runs: list[list[np.ndarray]] = []
        wide = (np.float64, np.longdouble)  # the second, as a product and what is done with it may be one operation
        attempts: list[Callable[[], Any]] = [lambda to=to: case.function(wide=True)(*(_wide(a, to) for a in arrays)) for to in wide]  # type: ignore[misc]
        attempts += [lambda: case.function(loops=True)(*arrays)]
        attempts += [lambda k=k: fn(*(_shaken(a, k) for a in arrays)) for k in shakes]  # type: ignore[misc]
        attempts += [lambda k=k: case.function(noise=k)(*arrays) for k in shakes]  # type: ignore[misc]
        attempts += [lambda k=k: case.function(noise=k, loops=True)(*arrays) for k in shakes if halves]  # type: ignore[misc]
        for attempt in attempts:
            try:
                run = [np.asarray(v) for v in attempt()]
            except Exception:
                continue
            if [r.shape for r in run] == [o.shape for o in own]:
                runs.append(run)
    huge = any(map(_huge, arrays)) or bool(re.search(r"prod\(", case.source()))  # products of integers as floats overflow too
    return [Expected(o, tuple(r[k] for r in runs), huge) for k, o in enumerate(own)]


def _huge(x: np.ndarray) -> bool:
    """Values whose products overflow: which infinity or NaN a sum of them is, depends on its order."""
    if x.dtype.kind != "f":
        return False
    a = np.abs(x[np.isfinite(x)].astype(np.float64))
    return bool(a.size and a.max() > float(ml_dtypes.finfo(x.dtype).max) ** 0.5)


def problem(got: Any, want: Expected) -> str:
    """How a result differs from NumPy's, or ""."""
    got, own = np.asarray(got), want.own
    if got.dtype != own.dtype or got.shape != own.shape:
        return f"{got.dtype}{list(got.shape)}, NumPy has {own.dtype}{list(own.shape)}"
    with np.errstate(all="ignore"):
        if own.dtype.kind in "iub":
            bad = got != own
            if bad.any() and want.others:  # rounding decides: anything between what the runs say
                every = np.stack([own, *(o.astype(own.dtype) for o in want.others)])
                bad &= (got < every.min(0)) | (got > every.max(0))
        else:
            g, w = got.astype(np.float64), own.astype(np.float64)
            others = [o.astype(np.float64) for o in want.others]
            far = [np.abs(o - w) for o in others]
            natural = np.max([np.where(np.isfinite(f), f, 0) for f in far], axis=0) if far else np.zeros(w.shape)
            f = ml_dtypes.finfo(own.dtype)
            limit = ULPS * float(f.eps) * np.abs(w) + NATURAL * natural + ULPS * float(f.smallest_subnormal)
            same = lambda o: (g == o) | (np.isnan(g) & np.isnan(o)) | (np.isfinite(g) & np.isfinite(o) & (np.abs(g - o) <= limit))
            bad = ~np.any([same(o) for o in (w, *others)], axis=0)
            beyond = [np.isfinite(o) & (np.abs(o) > float(f.max)) & (g == np.copysign(np.inf, o)) for o in others]
            bad &= ~np.any(beyond, axis=0) if beyond else True
            bad &= ~(~np.isfinite(g) & ~np.isfinite(w)) if want.huge else True
    if not np.any(bad):
        return ""
    at = np.unravel_index(int(np.argmax(bad)), np.shape(bad))
    return f"{list(map(int, at))} is {got[at]!r}, NumPy has {own[at]!r} ({int(np.sum(bad))} of {bad.size} elements)"


def arguments(case: Case) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(examples, what it is called with)."""
    arrays = [i.array() for i in case.inputs]
    return [arrays[i.like] if i.like >= 0 else a for i, a in zip(case.inputs, arrays)], arrays


def outputs(program: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    out = program.run(dict(zip([n.attrs["name"] for n in program.graph.inputs], arrays)))
    return [out[name] for name, _ in program.graph.outputs]


def check(case: Case, change: Callable[[Any], None] = lambda program: None, **options: Any) -> Verdict:
    examples, arrays = arguments(case)
    try:
        program = autocomp.optimize(case.function(), target="cpu", example_inputs=tuple(examples), **({"cache": False} | options))
    except AutocompError as e:
        return Verdict("refused", e.what)
    change(program)
    program.executor.poison = True  # type: ignore[union-attr]
    before = [a.copy() for a in arrays]
    got = outputs(program, arrays)
    for a, b, i in zip(arrays, before, case.inputs):
        if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return Verdict("wrong", f"the call changed its argument {i.name}")
    want = expected(case, arrays)
    if any(map(problem, got, want)):
        want = expected(case, arrays, range(8 * SHAKES))
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        if text := problem(g, w):
            return Verdict("wrong", f"output {k} ({case.outputs[k]}): {text}")
    return RIGHT


# ---- shrinking
def smaller(case: Case) -> Iterator[Case]:
    """One output, or a line's value alone; a line less (its value an input's); inputs that are plain, small and without extremes."""
    def valid(c: Case) -> bool:
        try:
            with np.errstate(all="ignore"):
                c.function()(*arguments(c)[1])
        except Exception:
            return False
        return True

    names = [line.split(" = ", 1)[0] for line in case.lines]
    for k, n in enumerate(names):
        one = _needed(replace(case, lines=case.lines[: k + 1], outputs=(n,)))
        if one != case:
            yield one
    if len(case.outputs) > 1:
        yield from (_needed(replace(case, outputs=(o,))) for o in case.outputs)
    for k, n in enumerate(names):
        before: tuple[Input | str, ...] = (*case.inputs, *names[:k])
        for i in before:
            by = i.name if isinstance(i, Input) else i
            lines = tuple(re.sub(rf"\b{n}\b", by, line) for j, line in enumerate(case.lines) if j != k)
            less = _needed(replace(case, lines=lines, outputs=tuple(re.sub(rf"\b{n}\b", by, o) for o in case.outputs)))
            if valid(less):
                yield less
    for k, i in enumerate(case.inputs):  # type: ignore[assignment]
        assert isinstance(i, Input)
        plain = [replace(i, view="a")] if i.view != "a" else []
        plain += [replace(i, special=False)] if i.special else []
        plain += [replace(i, shape=tuple(2 if j == a else d for j, d in enumerate(i.shape))) for a, v in enumerate(i.shape) if v > 2]
        for p in plain:
            c = replace(case, inputs=(*case.inputs[:k], p, *case.inputs[k + 1 :]))
            if valid(c):
                yield c


def _needed(case: Case) -> Case:
    """Without lines and inputs that no output needs (one input stays)."""
    need, lines = set(re.findall(r"\b[vx]\d+\b", " ".join(case.outputs))), []
    for line in reversed(case.lines):
        name, text = line.split(" = ", 1)
        if name in need:
            lines.append(line)
            need |= set(re.findall(r"\b[vx]\d+\b", text))
    inputs = tuple(replace(i, like=-1) for i in case.inputs if i.name in need) or case.inputs[:1]
    if len(inputs) == len(case.inputs):
        inputs = case.inputs
    return Case(inputs, tuple(reversed(lines)), case.outputs)
