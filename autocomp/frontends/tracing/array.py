"""The array that is being recorded. What it answers to is registered by name, so that this file needs none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from autocomp.budget import NODES
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing import source
from autocomp.frontends.tracing.registry import FUNCTIONS, PROTOCOLS, UFUNCS
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, DTYPES, DType, Sym, TensorType, dtype_of


def lift(b: Builder, value: Any, like: DType | None) -> Node:
    """A node for a tracer, an array (a parameter) or a number (a constant, of `like` where it is a Python number). Raises ModelError on a
    number that the type of the array beside it does not hold."""
    if isinstance(value, Tracer):
        return value.node
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic) and like is not None:
        if like.is_int and isinstance(value, int) and not np.iinfo(like.numpy).min <= value <= np.iinfo(like.numpy).max:
            raise ModelError(f"{value} does not fit the {like} of the array beside it", where="trace", hint="cast the array first: .astype")
        return b.const(value, like)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise ModelError(f"a value of type {type(value).__name__} is no array of numbers", where="trace", hint="use arrays and numbers")
    if array.ndim == 0:
        return b.const(array.item(), like or dtype_of(array))
    name = f"const{len(b.params)}"
    return b.param(b.fresh(name) if b.is_taken(name) else name, array)


def numpy_dtype(dtype: Any) -> DType:
    """What `dtype` means in NumPy ("i8" is an integer of 8 bytes), or the compiler's own name of it where NumPy has none ("bf16").

    Raises UnsupportedOp for what is no dtype, or one that is not compiled.
    """
    if isinstance(dtype, DType):
        return dtype
    try:
        return dtype_of(np.dtype(dtype))
    except KeyError:
        pass
    except TypeError:
        if isinstance(dtype, str) and dtype in DTYPES:
            return DTYPES[dtype]
    raise UnsupportedOp(f"dtype {dtype!r}", where="trace", hint=f"dtypes: {', '.join(str(d.numpy) for d in DTYPES.values())}")


def refuse_value(x: Tracer, what: str, hint: str) -> NoReturn:
    """Raise for what would need the values of an array that is only recorded."""
    raise UnsupportedOp(f"{what} a traced array {x.node.type}", where="trace", hint=hint)


VIEWS = {"reshape", "transpose", "slice", "broadcast"}
"""Ops whose result NumPy may keep in its operand's memory."""


class Recorder(Builder):
    """A builder that notes the user's line at each node it makes, and knows the arrays that are still in use. Raises UnsupportedOp for
    more than `budget.NODES`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.arrays: WeakValueDictionary[int, Tracer] = WeakValueDictionary()

    def op(self, op: str, *inputs: Node, **attrs: Any) -> Node:
        if len(self.locations) >= NODES:
            raise UnsupportedOp(f"makes more than {NODES} operations", where="trace",
                                hint="loops are unrolled: is there one that does not end?")  # fmt: skip
        out = super().op(op, *inputs, **attrs)
        self.locations.setdefault(out, source.here())
        return out


def called(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A traced function of numpy. Raises UnsupportedOp for arguments that it does not take."""
    try:
        return FUNCTIONS[name](*args, **kwargs)
    except TypeError as e:
        if e.__traceback__ is not None and e.__traceback__.tb_next is None:  # the call itself does not fit
            what = f"numpy.{name}: {str(e).split('() ')[-1]}"
            raise UnsupportedOp(what, where="trace", hint="leave that argument out") from None
        raise


def _computed_in(v: Any, dtype: DType) -> Any:
    """An operand of a ufunc that is told its dtype. Raises UnsupportedOp where that would change its kind."""
    of = v.dtype if isinstance(v, Tracer) else np.asarray(v).dtype
    if not np.can_cast(of, dtype.numpy, "same_kind"):
        raise UnsupportedOp(f"computing {of} in {dtype.numpy}", where="trace", hint="cast the operand with astype")
    return v.astype(dtype) if isinstance(v, Tracer) else np.asarray(v).astype(dtype.numpy)


def _operator(ufunc: str, flip: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return UFUNCS[ufunc](other, self) if flip else UFUNCS[ufunc](self, other)

    return method


def _in_place(ufunc: str) -> Callable[[Any, Any], Any]:
    """`x += y`: under every name of this array, in its dtype and shape. Raises UnsupportedOp where another array that is in use may share
    its memory (a view of it, or what it is a view of), ModelError where NumPy would not cast the result."""

    def method(self: Any, other: Any) -> Any:
        if any(t is not self and t.memory is self.memory for t in list(self.b.arrays.values())):
            what = f"an assignment into a traced array {self.node.type} of which there are views"
            raise UnsupportedOp(what, where="trace", hint="make a new array: x = x + y, or x = x.copy() before")
        new = UFUNCS[ufunc](self, other)
        if new.shape != self.shape or not np.can_cast(new.dtype, self.dtype, "same_kind"):
            what = f"a result {new.node.type} does not go into {self.node.type}"
            raise ModelError(what, where="trace", hint="make a new array: x = x + y")
        self.node = new.astype(self.dtype).node
        return self

    return method


def _unary(ufunc: str) -> Callable[[Any], Any]:
    return lambda self: UFUNCS[ufunc](self)


def _method(name: str) -> Callable[..., Any]:
    """The function of that name with the array first."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return called(name, (self, *args), kwargs)

    return method


class Tracer:
    """An array that is being recorded: `shape`, `dtype`, `ndim` are known, values are not."""

    __array_priority__ = 1000
    __array__ = None
    __hash__ = object.__hash__

    def __init__(self, builder: Builder, node: Node, memory: object = None) -> None:
        self.b, self.node, self.memory = builder, node, memory or object()
        if isinstance(builder, Recorder):
            builder.arrays[id(self)] = self

    def __repr__(self) -> str:
        return f"<traced {self.node.type}>"

    # ---- what is known
    @property
    def type(self) -> TensorType:
        return self.node.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.node.type.shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy's, so that a function may branch on it or make arrays of it."""
        return self.node.type.dtype.numpy

    @property
    def element(self) -> DType:
        """The compiler's own dtype of an element."""
        return self.node.type.dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def ndim(self) -> int:
        return self.node.type.rank

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def T(self) -> Tracer:
        return self.transpose()

    @property
    def mT(self) -> Tracer:
        return self.swapaxes(-1, -2)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tracer]:
        return (self[k] for k in range(len(self)))

    # ---- what would need values
    def __bool__(self) -> NoReturn:  # noqa: PLE0304
        refuse_value(self, "a branch on the value of", "use np.where, or decide on shapes and Python values")

    def __float__(self) -> NoReturn:
        refuse_value(self, "the value of", "keep it an array: a[...] of shape () broadcasts like a number")

    __int__ = __complex__ = __float__

    def __index__(self) -> NoReturn:  # noqa: PLE0305
        refuse_value(self, "an index or a size from the value of", "use np.take for gathers; sizes must be known")

    def item(self) -> NoReturn:
        refuse_value(self, "the value of", "keep it an array: a[...] of shape () broadcasts like a number")

    tolist = item

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        refuse_value(self, "an assignment into", "make a new array: np.where(mask, new, old) or np.concatenate")

    # ---- recording
    def op(self, op: str, *nodes: Node, **attrs: Any) -> Tracer:
        """An entry of the op table applied to this array and more nodes."""
        return Tracer(self.b, self.b.op(op, self.node, *nodes, **attrs), self.memory if op in VIEWS else None)

    def copied(self) -> Tracer:
        """The same values in memory of their own."""
        return Tracer(self.b, self.node)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        dtype = kwargs.pop("dtype", None)
        if method == "reduce" and ufunc.__name__ in REDUCING:
            given = {"axis": 0, **kwargs} | ({} if dtype is None else {"dtype": dtype})
            return called(REDUCING[ufunc.__name__], (inputs[0],), given)
        if method == "accumulate" and ufunc.__name__ in ("add", "multiply"):
            given = {"axis": 0, **kwargs} | ({} if dtype is None else {"dtype": dtype})
            return called("cumsum" if ufunc.__name__ == "add" else "cumprod", (inputs[0],), given)
        if method == "outer" and len(inputs) == 2:
            x, y = (v if isinstance(v, Tracer) else np.asarray(v) for v in inputs)
            return ufunc(x[(...,) + (None,) * y.ndim], y)
        if method != "__call__" or kwargs:
            what = f".{method}" if method != "__call__" else f" with {', '.join(sorted(kwargs))}="
            raise UnsupportedOp(f"numpy.{ufunc.__name__}{what}", where="trace", hint="call it with arrays only")
        if ufunc.__name__ not in UFUNCS:
            raise UnsupportedOp(f"numpy.{ufunc.__name__}", where="trace", hint=f"ufuncs traced: {', '.join(sorted(UFUNCS))}")
        if dtype is not None:
            inputs = tuple(_computed_in(v, numpy_dtype(dtype)) for v in inputs)
        out = UFUNCS[ufunc.__name__](*inputs)
        if dtype is not None and out.element != numpy_dtype(dtype):
            raise UnsupportedOp(f"numpy.{ufunc.__name__} with dtype={dtype!r}", where="trace", hint="cast its result with astype")
        return out

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ not in FUNCTIONS:
            raise UnsupportedOp(f"numpy.{func.__name__}", where="trace", hint=f"functions traced: {', '.join(sorted(FUNCTIONS))}")
        return called(func.__name__, args, kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return PROTOCOLS["__array_namespace__"]()

    # ---- methods of arrays
    def reshape(self, *shape: Any, order: str = "C") -> Tracer:
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if order != "C":
            raise UnsupportedOp(f"a reshape in order '{order}'", where="trace", hint="transpose, then reshape")
        if -1 in shape:
            fixed = [s for s in shape if s != -1]
            left = list(self.shape)
            for s in list(fixed):
                if isinstance(s, Sym) and s in left:
                    left.remove(s)
                    fixed.remove(s)
            rest, total = prod(fixed), prod(left)
            if rest == 0 or shape.count(-1) > 1 or any(isinstance(s, Sym) for s in (*fixed, *left)) or total % rest:
                raise ModelError(f"cannot reshape {self.node.type} into {list(shape)}", where="trace")
            shape = tuple(total // rest if not isinstance(s, Sym) and s == -1 else s for s in shape)
        return self if shape == self.shape else self.op("reshape", shape=tuple(shape))

    def transpose(self, *perm: Any) -> Tracer:
        if len(perm) == 1 and (perm[0] is None or isinstance(perm[0], (tuple, list))):
            perm = tuple(perm[0] or ())
        if perm and sorted(p + self.ndim * (p < 0) for p in perm) != list(range(self.ndim)):
            raise ModelError(f"{list(perm)} is no order of the {self.ndim} dimensions of {self.node.type}", where="trace")
        order = tuple(p % self.ndim for p in perm) if perm else tuple(reversed(range(self.ndim)))
        return self.op("transpose", perm=order)

    def astype(self, dtype: Any, copy: bool = True) -> Tracer:
        to = numpy_dtype(dtype)
        return self.copied() if to == self.element else self.op("cast", to=to.name)

    def __getitem__(self, key: Any) -> Tracer:
        return PROTOCOLS["__getitem__"](self, key)  # type: ignore[no-any-return]

    sum, prod, max, min = _method("sum"), _method("prod"), _method("max"), _method("min")
    any, all, mean, var, std = _method("any"), _method("all"), _method("mean"), _method("var"), _method("std")
    argmax, argmin, sort, argsort = _method("argmax"), _method("argmin"), _method("sort"), _method("argsort")
    cumsum, cumprod, ptp, trace, diagonal = _method("cumsum"), _method("cumprod"), _method("ptp"), _method("trace"), _method("diagonal")
    clip, round, dot, take, repeat = _method("clip"), _method("round"), _method("dot"), _method("take"), _method("repeat")
    ravel, flatten, squeeze, swapaxes = _method("ravel"), _method("flatten"), _method("squeeze"), _method("swapaxes")
    copy = conj = _method("copy")

    # ---- operators
    __add__, __radd__ = _operator("add"), _operator("add", flip=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", flip=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", flip=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", flip=True)
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", flip=True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", flip=True)
    __divmod__, __rdivmod__ = _operator("divmod"), _operator("divmod", flip=True)
    __rpow__ = _operator("power", flip=True)

    def __pow__(self, other: Any) -> Any:
        """NumPy's `x ** 2` is square(x) of arrays, which has another dtype of bools than power(x, 2), as scalars have it, and of floats
        `x ** 0.5` is sqrt(x). What a function computes without dimensions is a scalar, what it is given is an array."""
        if type(other) is float and other == 0.5 and self.element.is_float:
            return UFUNCS["sqrt"](self)
        scalar = self.ndim == 0 and self.node.op != "input"
        square = type(other) is int and other == 2 and not (scalar and self.element == BOOL)
        return UFUNCS["square"](self) if square else UFUNCS["power"](self, other)

    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", flip=True)
    __and__, __rand__ = _operator("bitwise_and"), _operator("bitwise_and", flip=True)
    __or__, __ror__ = _operator("bitwise_or"), _operator("bitwise_or", flip=True)
    __xor__, __rxor__ = _operator("bitwise_xor"), _operator("bitwise_xor", flip=True)
    __lshift__, __rlshift__ = _operator("left_shift"), _operator("left_shift", flip=True)
    __rshift__, __rrshift__ = _operator("right_shift"), _operator("right_shift", flip=True)
    __lt__, __le__, __gt__, __ge__ = _operator("less"), _operator("less_equal"), _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]
    __iadd__, __isub__, __imul__ = _in_place("add"), _in_place("subtract"), _in_place("multiply")
    __itruediv__, __ifloordiv__, __imod__ = _in_place("divide"), _in_place("floor_divide"), _in_place("remainder")
    __ipow__, __imatmul__ = _in_place("power"), _in_place("matmul")
    __iand__, __ior__, __ixor__ = _in_place("bitwise_and"), _in_place("bitwise_or"), _in_place("bitwise_xor")
    __ilshift__, __irshift__ = _in_place("left_shift"), _in_place("right_shift")
    __neg__, __pos__, __abs__, __invert__ = _unary("negative"), _unary("positive"), _unary("absolute"), _unary("invert")


REDUCING = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}
"""ufunc -> the function that its `reduce` is."""
