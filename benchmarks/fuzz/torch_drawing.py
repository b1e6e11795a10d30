"""What random torch modules are made of: inputs, a module that grows statement by statement, and the statements."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import torch

FLOATS = ("float32", "float32", "float32", "float16", "bfloat16", "float64")
INTS = ("int32", "int64", "int8", "int16", "uint8")
LARGEST = 4096  # elements of a drawn value
INF, MINUS_INF = "float('inf')", "float('-inf')"


@dataclass(frozen=True)
class Given:
    """An input: `kind` says which values; `same`: given to export as the same tensor as the input before it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str
    seed: int
    same: bool = False

    def make(self, batch: int | None = None, shake: int | None = None) -> torch.Tensor:
        shape = self.shape if batch is None else (batch, *self.shape[1:])
        return value(self.dtype, shape, self.kind, self.seed + (batch or 0), shake)


@dataclass(frozen=True)
class Case:
    """`layers`: statements of `__init__`; `lines`: (name, statement) of `forward`; `outputs`: the names that it returns."""

    seed: int
    inputs: tuple[Given, ...]
    layers: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    dynamic: bool = False

    def module_text(self) -> str:
        return "\n".join(
            [
                "import torch",
                "from torch import nn",
                "import torch.nn.functional as F",
                "",
                "class M(nn.Module):",
                "    def __init__(self):",
                "        super().__init__()",
                f"        torch.manual_seed({self.seed})",
                *(f"        {x}" for x in self.layers),
                f"    def forward(self, {', '.join(g.name for g in self.inputs)}):",
                *(f"        {x}" for _, x in self.lines),
                f"        return {', '.join(self.outputs)}",
            ]
        )

    def text(self) -> str:
        given = ", ".join(f"value{(g.dtype, g.shape, g.kind, g.seed)}" for g in self.inputs)
        notes = "# the first dimension of every input is dynamic\n" if self.dynamic else ""
        notes += "".join(f"# {g.name} is the tensor before it when exported\n" for g in self.inputs if g.same)
        return (
            f"{notes}from benchmarks.fuzz.torch_functions import value\n{self.module_text()}\n\nxs = ({given},)\nm = M().eval()\n"
            f"print(m(*xs))\nimport autocomp\nprint(autocomp.optimize(m, example_inputs=xs, target='cpu')(*xs))\n"
        )

    def module(self) -> torch.nn.Module:
        space: dict[str, Any] = {}
        exec(self.module_text(), space)
        made: torch.nn.Module = space["M"]().eval()
        return made


def value(dtype: str, shape: tuple[int, ...], kind: str, seed: int, shake: int | None = None) -> torch.Tensor:
    """The values of an input; `shake`: each float moved by about an ulp, up or down."""
    rng = np.random.default_rng(seed)
    t = getattr(torch, dtype)
    if dtype == "bool":
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    if not t.is_floating_point:
        info = torch.iinfo(t)
        x: Any = rng.integers(max(info.min, -9), 10, shape)
        if kind == "extreme":
            x = np.where(rng.random(shape) < 0.3, rng.choice([info.min, info.max, info.max - 1, 0, 1], shape), x)
        return torch.from_numpy(np.asarray(x, np.int64)).to(t)
    y: Any = rng.standard_normal(shape)
    y = np.abs(y) + 0.1 if kind == "positive" else y * 50 if kind == "wide" else y
    if kind == "extreme":
        limits = torch.finfo(t)
        odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, limits.tiny, -limits.tiny / 4, 1.0, -1.0, 0.5, 2.5]
        y = np.where(rng.random(shape) < 0.4, rng.choice(odd, shape), y)
    if kind == "whole":
        y = np.round(y * 3)
    y = torch.from_numpy(np.asarray(y)).to(t)
    return y if shake is None else shaken(y, (seed, shake))


def shaken(x: torch.Tensor, seed: tuple[int, ...]) -> torch.Tensor:
    """Each float moved by about an ulp, up or down."""
    up = torch.from_numpy(np.random.default_rng(seed).integers(-1, 2, tuple(x.shape)).astype("f8"))
    return (x.double() * (1 + up * torch.finfo(x.dtype).eps)).to(x.dtype)


# ---- drawing
class Drawing:
    """A module that grows: `values` holds what each name is for the inputs as drawn."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.seed, self.layers, self.lines = seed, [], []  # type: ignore[var-annotated]
        self.values: dict[str, torch.Tensor] = {}
        self.held = torch.nn.Module()
        self.dynamic = self.rng.random() < 0.15
        self.inputs = self._inputs()
        for g in self.inputs:
            self.values[g.name] = g.make()

    def _inputs(self) -> tuple[Given, ...]:
        r, out = self.rng, []
        main = r.choice(FLOATS)
        base = [r.choice((1, 2, 3, 4, 5, 7, 8, 16)) for _ in range(r.choice((1, 2, 2, 3, 3, 4)))]
        if r.random() < 0.03:
            base[-1] = 0
        if self.dynamic:
            base[0] = 5
        for k in range(r.choice((1, 2, 2, 3))):
            kind, shape = r.random(), list(base)
            if not self.dynamic and k and r.random() < 0.5:
                shape = [d if r.random() < 0.7 else 1 for d in shape][r.randrange(len(shape)) if r.random() < 0.3 else 0 :]
            dtype = main if kind < 0.7 or k == 0 else r.choice(INTS) if kind < 0.9 else "bool"
            values = r.choice(("normal", "normal", "normal", "positive", "wide", "whole", "extreme"))
            out.append(Given(f"x{k}", dtype, tuple(shape), values, r.randrange(1 << 30)))
        if len(out) > 1 and out[-1].shape == out[-2].shape and out[-1].dtype == out[-2].dtype and r.random() < 0.3:
            out[-1] = replace(out[-1], same=True)
        return tuple(out)

    def pick(self, ok: Callable[[torch.Tensor], bool] = lambda x: True) -> str:
        names = [n for n, x in self.values.items() if ok(x)]
        if not names:
            raise LookupError
        late = names[-3:]
        return self.rng.choice(late if self.rng.random() < 0.6 else names)

    def layer(self, text: str) -> str:
        name = f"l{len(self.layers)}"
        torch.manual_seed(self.seed)
        setattr(self.held, name, eval(text, {"torch": torch, "nn": torch.nn}).eval())
        self.layers.append(f"self.{name} = {text}")
        return f"self.{name}"

    def step(self) -> bool:
        """One statement more, if the drawn one runs; whether it did."""
        held, name = len(self.layers), f"t{len(self.lines)}"
        try:
            text = self.rng.choice(MAKERS)(self, self.rng)
            lines = [f"{name} = {text}"] if "\n" not in text else [x.replace("@", name) for x in text.split("\n")]
            space = {"torch": torch, "F": torch.nn.functional, "self": self.held, **{k: v.clone() for k, v in self.values.items()}}
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for line in lines:
                    exec(line, space)
            made = space[name]
        except (LookupError, RuntimeError, ValueError, TypeError, NotImplementedError, ZeroDivisionError, OverflowError, AssertionError):
            del self.layers[held:]
            return False
        if any(x in line for x in MODULI for line in lines) and not all(_moderate(v) for k, v in self.values.items() if k in text):
            del self.layers[held:]
            return False
        if not isinstance(made, torch.Tensor) or made.numel() > LARGEST or made.is_complex():
            del self.layers[held:]
            return False
        self.values[name] = made.clone()
        self.lines += [(name, line) for line in lines]
        return True


MODULI = ("%", "//", "fmod", "remainder", "floor_divide", "rounding_mode")


def _moderate(x: torch.Tensor) -> bool:
    """torch's own remainders take a rounded quotient: of large ones over small ones they are NaN, or have no digit."""
    return not x.is_floating_point() or not bool((x.isfinite() & ((x.abs() > 1e4) | ((x.abs() < 1e-3) & (x != 0)))).any())


def real(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def whole(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def truth(x: torch.Tensor) -> bool:
    return x.dtype == torch.bool


def deep(n: int, ok: Callable[[torch.Tensor], bool] = lambda x: True) -> Callable[[torch.Tensor], bool]:
    return lambda x: x.dim() >= n and ok(x)


UNARY = (
    "abs",
    "neg",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "erf",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "relu",
    "square",
    "reciprocal",
    "isnan",
    "isinf",
    "isfinite",
    "frac",
    "exp2",
    "sinh",
    "cosh",
    "atan",
    "asin",
    "acos",
    "asinh",
    "acosh",
    "atanh",
    "erfc",
    "logical_not",
    "positive",
    "sgn",
    "signbit",
    "nan_to_num",
)
ACTIVATIONS = (
    "relu",
    "gelu",
    "silu",
    "elu",
    "selu",
    "celu",
    "leaky_relu",
    "softplus",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "mish",
    "relu6",
    "softsign",
    "logsigmoid",
    "tanhshrink",
    "softshrink",
    "hardshrink",
)
BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "fmod",
    "remainder",
    "floor_divide",
    "pow",
    "atan2",
    "hypot",
    "copysign",
    "fmax",
    "fmin",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "true_divide",
    "rsub",
    "logaddexp",
    "xlogy",
    "heaviside",
    "bitwise_left_shift",
    "bitwise_right_shift",
)
REDUCTIONS = (
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "any",
    "all",
    "logsumexp",
    "var",
    "std",
    "norm",
    "max",
    "min",
    "argmax",
    "argmin",
    "cumsum",
    "softmax",
    "log_softmax",
    "median",
    "nansum",
    "count_nonzero",
    "cumprod",
    "cummax",
    "sort",
    "argsort",
    "flip",
    "mode",
)


def _dim(r: Random, x: torch.Tensor) -> int:
    return r.randrange(-max(1, x.dim()), max(1, x.dim()))


def unary(d: Drawing, r: Random) -> str:
    return f"torch.{r.choice(UNARY)}({d.pick()})"


def activation(d: Drawing, r: Random) -> str:
    more = r.choice(("", "", ", approximate='tanh'", ", 0.3", ", -0.5, 2.0"))
    return f"F.{r.choice(ACTIVATIONS)}({d.pick(real)}{more})"


def binary(d: Drawing, r: Random) -> str:
    a = d.pick()
    b = d.pick() if r.random() < 0.7 else r.choice(("2", "-3", "0.5", "1.0", "-1.5", "7", "True", "1e-3"))
    if r.random() < 0.1:
        a, b = b, a
    if r.random() < 0.12:
        return f"torch.add({a}, {b}, alpha={r.choice((2, -1, 0.5))})"
    if r.random() < 0.15:
        return f"torch.div({a}, {b}, rounding_mode={r.choice(('None', repr('floor'), repr('trunc')))})"
    op = r.choice(BINARY)
    return f"torch.{op}({a}, {b})" if op != "copysign" or b not in d.values else f"torch.copysign({a}, {b}.nan_to_num())"  # of no NaN


def operators(d: Drawing, r: Random) -> str:
    return f"{d.pick()} {r.choice(('+', '-', '*', '/', '//', '%', '**'))} ({r.choice((d.pick(), '2', '-3', '0.5'))})"


def clamp(d: Drawing, r: Random) -> str:
    return f"{d.pick()}.clamp({r.choice(('min=-1', 'max=2', '-1, 1', '0.5, 2.5', '2, -1'))})"


def where(d: Drawing, r: Random) -> str:
    c, a = d.pick(truth), d.pick()
    return r.choice(
        (
            f"torch.where({c}, {a}, {d.pick()})",
            f"torch.where({c}, {a}, {r.choice(('0.0', '1', '-2.5'))})",
            f"{a}.masked_fill({c}, {r.choice(('0', '-1.5', MINUS_INF))})",
        )
    )


def cast(d: Drawing, r: Random) -> str:
    a, to = d.pick(), r.choice((*FLOATS, *INTS, "bool"))
    safe = "" if to == "bool" or "float" in to or not real(d.values[a]) else ".nan_to_num(0.0, 1.0, -1.0).clamp(-100, 100)"
    if safe and to == "uint8":
        safe += ".abs()"
    return f"{a}{safe}.to(torch.{to})"


def view(d: Drawing, r: Random) -> str:
    a = d.pick(deep(1))
    x = d.values[a]
    i, j = _dim(r, x), _dim(r, x)
    n = x.shape[i]
    cuts = sorted(r.randrange(-n, n + 1) for _ in range(2)) if n else [0, 0]
    index = ", ".join(r.choice((":", ":", "None", "...", "0", "-1", "1:", ":-1", "::2", "1::3")) for _ in range(r.choice((1, 2, 3))))
    return r.choice(
        (
            f"{a}.transpose({i}, {j})",
            f"{a}.unsqueeze({i})",
            f"{a}.squeeze()",
            f"{a}.squeeze({i})",
            f"{a}.flatten()",
            f"{a}.reshape(-1)",
            f"{a}.flip({i})",
            f"{a}.narrow({i}, {min(1, n)}, {max(n - 1, 0)})",
            f"{a}[{index}]",
            f"{a}[{index}]",
            f"{a}.select({i}, {max(n - 1, 0)})",
            f"{a}.roll({r.choice((1, -2, 5))}, {i})",
            f"{a}.permute({tuple(r.sample(range(x.dim()), x.dim()))})",
            f"{a}.repeat_interleave(2, {i})",
            f"{a}.repeat({tuple(r.choice((1, 1, 2)) for _ in range(x.dim()))})",
            f"{a}.expand(2, {', '.join('-1' for _ in x.shape)})",
            f"{a}.T" if x.dim() == 2 else f"{a}.movedim({i}, {j})",
            f"{a}.unfold({i}, {max(1, n // 2)}, 1)",
            f"{a}.diagonal()",
            f"{a}[{cuts[0]}:{cuts[1]}]",
            f"{a}.reshape({x.shape[0]}, -1)",
            f"{a}.unflatten({i}, (1, -1))",
            f"{a}.as_strided({tuple(x.shape)}, {x.stride()})",
            f"{a}.tril({r.choice((-1, 0, 1))})",
            f"{a}.triu({r.choice((-1, 0, 1))})",
            f"{a}.detach().contiguous()",
            f"{a}.tile((2,))",
            f"{a}.rot90()",
        )
    )


def join(d: Drawing, r: Random) -> str:
    a = d.pick(deep(1))
    x = d.values[a]
    b = d.pick(lambda y: y.dim() == x.dim())
    i, n = _dim(r, x), max(1, x.shape[0] // 2)
    return r.choice(
        (
            f"torch.cat([{a}, {b}], {i})",
            f"torch.cat([{a}, {a}, {b}], {i})",
            f"torch.stack([{a}, {b}], {i})",
            f"torch.cat([{a}, {b}, {a}], -1)",
            f"{a}.split({n})[-1]",
            f"{a}.chunk(3, {i})[0]",
            f"torch.stack({a}.narrow({i}, 0, {min(16, x.shape[i])}).unbind({i}), 0)",  # torch.export takes 20 s for 140 of them
            f"torch.cat({a}.split({n}, {i})[::-1], {i})",
            f"torch.tensor_split({a}, 2, {i})[-1]",
            f"torch.hstack([{a}, {b}])",
            f"F.pad({a}, ({r.choice((0, 1, 2))}, {r.choice((0, 1, -1))}), value={r.choice((0, 1.5))})",
        )
    )


def reduce(d: Drawing, r: Random) -> str:
    a, op = d.pick(), r.choice(REDUCTIONS)
    x = d.values[a]
    dim = str(_dim(r, x))
    if op in ("sum", "mean", "amax", "amin", "var", "std", "norm", "logsumexp", "nansum") and x.dim() > 1 and r.random() < 0.4:
        dim = str(tuple(r.sample(range(-x.dim(), 0), 2)))
    keep = r.choice(("", ", keepdim=True"))
    if op in ("cumsum", "cumprod", "softmax", "log_softmax", "flip", "argsort", "count_nonzero"):
        return f"{a}.{op}({dim}{', stable=True' if op == 'argsort' else ''})"  # else equal elements have any order
    if op in ("var", "std"):
        return f"{a}.{op}({dim}, correction={r.choice((0, 1, 1, 2))}{keep})"
    if op == "norm":
        return f"torch.linalg.vector_norm({a}, {r.choice(('2', '1', INF, '3', '0'))}, {dim}{keep})"
    if op in ("cummax", "sort"):
        return f"{a}.{op}({dim})[0]"
    if op in ("max", "min", "median", "mode"):
        return r.choice((f"{a}.{op}({dim}{keep})[0]", f"{a}.{op}({dim}{keep})[1]", f"{a}.{op}()" if op != "mode" else f"{a}.mode()[0]"))
    if r.random() < 0.2 and op in ("sum", "mean", "prod", "any", "all", "argmax", "amax"):
        return f"{a}.{op}()"
    dtype = f", dtype=torch.{r.choice((*FLOATS, 'int32', 'int64'))}" if op in ("sum", "prod") and r.random() < 0.2 else ""
    return f"{a}.{op}({dim}{keep}{dtype})"


def product(d: Drawing, r: Random) -> str:
    a = d.pick(deep(1, real))
    x = d.values[a]
    b = d.pick(lambda y: y.dtype == x.dtype and y.dim() >= 1)
    t = f"{b}.transpose(-1, -2)" if d.values[b].dim() > 1 else b
    return r.choice(
        (
            f"{a} @ {b}",
            f"{a} @ {t}",
            f"{a} @ {t}",
            f"torch.einsum('...i,...i->...', {a}, {b})",
            f"torch.outer({a}.flatten(), {b}.flatten())",
            f"F.scaled_dot_product_attention({a}, {b}, {b}{r.choice(('', ', is_causal=True', ', scale=0.3'))})",
            f"torch.addmm({a}, {a}, {t}, beta={r.choice((1, 0, 0.5))}, alpha={r.choice((1, 2))})",
            f"torch.dot({a}.flatten(), {a}.flatten())",
            f"torch.baddbmm({a}, {a}, {t})",
            f"torch.cdist({a}, {b})",
            f"F.cosine_similarity({a}, {b}, -1)",
            f"torch.kron({a}, {b})",
        )
    )


def layers(d: Drawing, r: Random) -> str:
    a = d.pick(deep(2, real))
    x = d.values[a]
    c, n = x.shape[-1], x.dim()
    as_ = f"dtype=torch.{str(x.dtype)[6:]}"
    bias = r.choice(("True", "False"))
    ch = x.shape[1] if n > 2 else c
    out = r.choice((1, 2, 3, 4, 6))
    groups = r.choice([g for g in (1, 1, 2, ch) if g and ch % g == 0])
    conv = (
        f"nn.Conv{min(max(n - 2, 1), 3)}d({ch}, {out * groups}, {r.choice((1, 2, 3))}, stride={r.choice((1, 2))}, "
        f"padding={r.choice((0, 1, 1))}, "
        f"dilation={r.choice((1, 1, 2))}, groups={groups}, bias={bias}, {as_})"
    )
    dims = min(max(n - 2, 1), 3)
    kind = r.choice(
        (
            f"nn.Linear({c}, {out}, bias={bias}, {as_})",
            f"nn.LayerNorm({c}, {as_})",
            f"nn.RMSNorm({c}, {as_})",
            conv,
            conv,
            conv,
            f"nn.BatchNorm{dims}d({ch}, {as_})",
            f"nn.GroupNorm({groups}, {ch}, {as_})",
            f"nn.InstanceNorm{dims}d({ch})",
            f"nn.MaxPool{dims}d({r.choice((2, 3))}, "
            f"stride={r.choice((1, 2))}, padding={r.choice((0, 1))}, ceil_mode={r.choice(('False', 'True'))})",
            f"nn.AvgPool{dims}d({r.choice((2, 3))}, stride={r.choice((1, 2))}, padding={r.choice((0, 1))}, count_include_pad={bias})",
            f"nn.AdaptiveAvgPool{dims}d({r.choice((1, 2, 3))})",
            f"nn.MultiheadAttention({c}, {r.choice((1, 2))}, batch_first=True, {as_})",
            f"nn.ConvTranspose{dims}d({ch}, {out}, 2, stride=2, {as_})",
            f"nn.Softmax({r.choice((-1, 0, 1))})",
            f"nn.GLU({r.choice((-1, 0))})",
            f"nn.PReLU({as_})",
            f"nn.Upsample(scale_factor=2, mode='{r.choice(('nearest', 'linear' if dims == 1 else 'bilinear'))}')",
            "nn.LocalResponseNorm(2)",
            "nn.PixelShuffle(2)",
            f"nn.GRU({c}, 3, batch_first=True, {as_})",
            f"nn.LSTM({c}, 3, {as_})",
        )
    )
    call = d.layer(kind)
    if "Attention" in kind:
        return f"{call}({a}, {a}, {a})[0]"
    return f"{call}({a})" + ("[0]" if "GRU" in kind or "LSTM" in kind else "")


def lookup(d: Drawing, r: Random) -> str:
    i = d.pick(lambda y: whole(y) and y.dtype in (torch.int32, torch.int64))
    a = d.pick(deep(1))
    x = d.values[a]
    k = _dim(r, x)
    n = max(1, x.shape[k])
    index = f"({i} % {n}).long()"
    rows = r.choice((3, 5, 8))
    return r.choice(
        (
            lambda: f"{d.layer(f'nn.Embedding({rows}, 4)')}({i} % {rows})",
            lambda: f"{a}.index_select({k}, {index}.flatten())",
            lambda: f"{a}[{index} % {max(1, x.shape[0])}]",
            lambda: f"torch.gather({a}, {k}, {index})",
            lambda: f"torch.take_along_dim({a}, {index}, {k})",
            lambda: f"{a}.flatten()[{index}]",
            lambda: f"F.one_hot({i}.long() % {rows}, {rows})",
            lambda: f"{a}[..., {index}.flatten() % {max(1, x.shape[-1])}]",
            lambda: f"torch.zeros_like({a}).index_add({k}, torch.arange({x.shape[k]}), {a})",
            lambda: f"torch.scatter({a}, {k}, {index}, 1)",
            lambda: f"{a}.topk({r.choice((1, 2))}, {k})[0]",
            lambda: f"{a}.gather({k}, {a}.topk({r.choice((1, 2))}, {k})[1])",  # which of equal ones comes first is open
            lambda: f"torch.bucketize({a}, torch.tensor([-1., 0., 2.]))",
        )
    )()


def make(d: Drawing, r: Random) -> str:
    a = d.pick()
    shape, to = f"{a}.shape[0]" if d.values[a].dim() else "3", r.choice(FLOATS[:4] + INTS)
    return r.choice(
        (
            f"torch.arange({shape})",
            f"torch.ones({shape}, dtype=torch.{to})",
            f"torch.full(({shape}, 2), 1.5)",
            f"torch.eye({shape})",
            f"torch.zeros_like({a})",
            f"torch.ones_like({a}, dtype=torch.{to})",
            f"torch.full_like({a}, 2)",
            "torch.arange(0, 1, 0.25)",
            f"torch.linspace(-1, 1, {shape})",
            "torch.tensor([1., -2., 3.])",
            "torch.arange(5, -1, -2)",
            f"{a}.new_full((2, 1), 3)",
            f"torch.tril(torch.ones({shape}, {shape}, dtype=torch.bool))",
            "torch.scalar_tensor(2)",
        )
    )


def in_place(d: Drawing, r: Random) -> str:
    """A value that is written to in place: what export makes pure."""
    a, b = d.pick(deep(1)), d.pick()
    part = r.choice(("@", "@[0]", "@[1:]", "@[..., -1]", "@.T", "@[::2]", "@.view(-1)", "@[..., :1]"))
    if "view" in part or ".T" in part:
        write = f"{part}.{r.choice(('add_', 'mul_', 'sub_'))}({r.choice(('1', '2', b))})"
    else:
        write = (
            r.choice((f"{part} = {b}", f"{part} += {b}", f"{part} *= 2", f"{part} = 1", f"{part} -= 1"))
            if part != "@"
            else r.choice(
                (
                    f"@.add_({b})",
                    "@.clamp_(-1, 1)",
                    "@.zero_()",
                    "@.fill_(2)",
                    f"@.mul_({b})",
                    "@.relu_()",
                    "@.neg_()",
                    f"@.masked_fill_({b} > 0, 3)",
                    f"@.copy_({b})",
                    "@.abs_()",
                )
            )
        )
    return f"@ = {a}.clone()\n{write}"


def compare(d: Drawing, r: Random) -> str:
    return f"{d.pick()} {r.choice(('>', '<', '==', '!=', '>=', '<='))} {r.choice((d.pick(), '0', '0.5', '1'))}"


MAKERS: Sequence[Callable[[Drawing, Random], str]] = (
    unary,
    unary,
    activation,
    binary,
    binary,
    binary,
    operators,
    operators,
    clamp,
    where,
    where,
    cast,
    cast,
    view,
    view,
    view,
    view,
    join,
    join,
    reduce,
    reduce,
    reduce,
    product,
    product,
    layers,
    layers,
    layers,
    lookup,
    make,
    in_place,
    in_place,
    compare,
)
