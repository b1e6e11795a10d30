"""Element types, dimensions and tensor types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import copysign, prod

import ml_dtypes
import numpy as np

from autocomp.errors import ModelError
from autocomp.forks import kept_property


@dataclass(frozen=True, eq=False)
class DType:
    """An element type, which its name tells from others. `kind` is one of f (float), i (signed), u (unsigned), b (bool)."""

    name: str
    kind: str
    bits: int
    numpy: np.dtype

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DType) and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory (bool takes one)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def eps(self) -> float:
        """Unit roundoff times two (distance from 1 to the next number); 0 for exact types."""
        return float(ml_dtypes.finfo(self.numpy).eps) if self.is_float else 0.0

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


F64 = DType("f64", "f", 64, np.dtype(np.float64))
F32 = DType("f32", "f", 32, np.dtype(np.float32))
F16 = DType("f16", "f", 16, np.dtype(np.float16))
BF16 = DType("bf16", "f", 16, np.dtype(ml_dtypes.bfloat16))
F8E4M3 = DType("f8e4m3", "f", 8, np.dtype(ml_dtypes.float8_e4m3fn))
F8E5M2 = DType("f8e5m2", "f", 8, np.dtype(ml_dtypes.float8_e5m2))
I8 = DType("i8", "i", 8, np.dtype(np.int8))
I16 = DType("i16", "i", 16, np.dtype(np.int16))
I32 = DType("i32", "i", 32, np.dtype(np.int32))
I64 = DType("i64", "i", 64, np.dtype(np.int64))
U8 = DType("u8", "u", 8, np.dtype(np.uint8))
U16 = DType("u16", "u", 16, np.dtype(np.uint16))
U32 = DType("u32", "u", 32, np.dtype(np.uint32))
U64 = DType("u64", "u", 64, np.dtype(np.uint64))
BOOL = DType("bool", "b", 1, np.dtype(np.bool_))

FLOATS_8 = (F8E4M3, F8E5M2)
SHORT_FLOATS = (F16, BF16, *FLOATS_8)  # held and accumulated as f32
SHORT_NUMPY = tuple(d.numpy for d in SHORT_FLOATS)
DTYPES = {d.name: d for d in (F64, F32, *SHORT_FLOATS, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}
_BY_NUMPY = {d.numpy: d for d in DTYPES.values()}


def widens(a: DType, b: DType) -> bool:
    """Every value of `a` is one of `b`, and both are floats or both are none."""
    if a.is_float and b.is_float:
        x, y = ml_dtypes.finfo(a.numpy), ml_dtypes.finfo(b.numpy)
        return bool(x.nmant <= y.nmant and float(x.max) <= float(y.max) and float(x.smallest_subnormal) >= float(y.smallest_subnormal))
    if a.kind in "iub" and b.kind in "iu":
        return a.kind == "b" or (a.kind == b.kind and a.bits <= b.bits) or (a.kind == "u" and b.kind == "i" and a.bits < b.bits)
    return a == b


def contains(a: DType, b: DType) -> bool:
    """Every value of `b` is one of `a`: widens, or a float type with as many digits as the integers of `b` have."""
    return b.bits <= ml_dtypes.finfo(a.numpy).nmant + 1 if a.is_float and not b.is_float else widens(b, a)


def dtype_of(array_or_dtype: object) -> DType:
    """The DType of a NumPy array, NumPy dtype or name. Raises KeyError for types we do not have."""
    if isinstance(array_or_dtype, str) and array_or_dtype in DTYPES:
        return DTYPES[array_or_dtype]
    if not isinstance(array_or_dtype, type):
        array_or_dtype = getattr(array_or_dtype, "dtype", array_or_dtype)
    return _BY_NUMPY[np.dtype(array_or_dtype)]  # type: ignore[call-overload]


_AXIS = re.compile(r"[ir]\d+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def can_be_named(text: str) -> bool:
    """Whether a dimension may be called so: an identifier, and no axis of kernels."""
    return bool(_IDENTIFIER.fullmatch(text)) and not _AXIS.fullmatch(text)


@dataclass(frozen=True)
class Sym:
    """A named dimension: any int in [lo, hi] that is a multiple of `multiple`. `parts`, `offset`, `divisor`: a size that is computed from
    others, the sum of coefficient * size and the offset, divided and rounded down (`ir.sizes`); no parts for one that inputs say.
    `factors`: a size that is the product of these. `clipped`: the sum where it is more than 0, else 0 (so min(a, b) is a less what a has
    more than b).

    Raises ModelError for a name that is no identifier or an axis of kernels."""

    name: str
    lo: int = 1
    hi: int = 2**31 - 1
    multiple: int = 1
    parts: tuple[tuple[Sym, int], ...] = ()
    offset: int = 0
    divisor: int = 1
    factors: tuple[Sym, ...] = ()
    clipped: bool = False

    @property
    def is_computed(self) -> bool:
        return bool(self.parts or self.factors)

    def __post_init__(self) -> None:
        if not _IDENTIFIER.fullmatch(self.name):
            raise ModelError(f"a dimension may not be called {self.name[:60]!r}",
                             hint="use letters, digits and underscores, no digit first")  # fmt: skip
        if _AXIS.fullmatch(self.name):
            raise ModelError(f"a dimension may not be called '{self.name}': kernels call their axes so", hint="give it another name")

    def __str__(self) -> str:
        return self.name


Dim = int | Sym


def dim_hint(d: Dim, above: float = 0.0, most: int = 1024) -> int:
    """A number to cost a dimension with: itself, or for a symbol the geometric middle of its bounds up to `most`. `above`: the share of the
    way from the least to the largest, in logarithms, that it lies above the middle, -0.5 to 0.5."""
    if isinstance(d, int):
        return d
    if d.parts:
        value = (sum(k * dim_hint(s, above, most) for s, k in d.parts) + d.offset) // d.divisor
        return max(value, 0) if d.clipped else value
    if d.factors:
        return prod(dim_hint(s, above, most) for s in d.factors)
    mid = int((max(d.lo, 1) ** (1 - 2 * above) * min(d.hi, most) ** (1 + 2 * above)) ** 0.5) if d.hi > d.lo else d.lo
    return max(d.multiple, mid // d.multiple * d.multiple)


def may_be_one(d: Dim) -> bool:
    """Whether a dimension is open and may be 1 when the program runs."""
    return isinstance(d, Sym) and d.lo <= 1 <= d.hi and d.multiple == 1


@dataclass(frozen=True)
class TensorType:
    """dtype and shape; a scalar has shape ()."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @kept_property
    def elements(self) -> int:
        """Number of elements (symbols counted at `dim_hint`)."""
        return prod(dim_hint(d) for d in self.shape)

    @kept_property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    @kept_property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @kept_property
    def _text(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return self._text


def same_number(a: float | None, b: float | None) -> bool:
    """Whether two numbers are one: 0.0 and -0.0 are two (their reciprocals are far apart), NaN is itself."""
    if a is None or b is None or a != b:
        return a is b or (a != a and b != b)
    return a != 0 or copysign(1.0, a) == copysign(1.0, b)


def holds_symbol(v: object) -> bool:
    """Whether a symbolic size stands in a dimension, a tensor type, or (tuples and mappings of) attributes. What holds one is known
    when a program runs and not before, also where no input is below it: `iota(shape=(batch,))`."""
    if isinstance(v, TensorType):
        return not v.is_static
    if isinstance(v, Mapping):
        return any(map(holds_symbol, v.values()))
    return isinstance(v, Sym) or (isinstance(v, tuple) and any(map(holds_symbol, v)))
