"""Random torch modules, drawn as source text, against torch itself (the same module in float64 and in its own types).

Statements are tried on the inputs while they are drawn, so that shapes and dtypes always fit. A float is right within what rounding, and
inputs and results of functions an ulp away, do to torch's own results; integers and truth values are exact, except where those references
differ among themselves.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

import autocomp
from autocomp.errors import AutocompError
from benchmarks.fuzz.torch_drawing import Case, Drawing, Given, shaken, value
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "torch"
TARGET = "cpu"
ALLOWED = {"float64": 1e-9, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}  # relative, of the element; a thirtieth of the largest
SHAKES = 4
# functions with one right result in floating point, whatever computes them; all others are rounded as their library likes
EXACT = frozenset((
    "get", "set", "getitem", "setitem", "abs", "add", "sub", "mul", "rsub", "radd", "rmul", "iadd", "isub", "imul", "neg", "add_", "sub_",
    "mul_", "relu", "relu_", "clamp", "clamp_", "clip", "maximum", "minimum", "max", "min", "amax", "amin", "where", "masked_fill",
    "masked_fill_", "floor", "ceil", "round", "trunc", "sign", "to", "type", "float", "double", "half", "bfloat16", "clone", "contiguous",
    "detach", "view", "view_as", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "permute", "transpose",
    "t", "T", "movedim", "swapaxes", "repeat", "tile", "cat", "concat", "stack", "hstack", "vstack", "dstack", "chunk", "split", "unbind",
    "narrow", "select", "index_select", "gather", "take", "take_along_dim", "flip", "roll", "rot90", "tril", "triu", "diagonal", "diag",
    "pad", "max_pool1d", "max_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "topk", "sort", "copysign", "nan_to_num", "zero_",
    "fill_", "copy_", "zeros_like", "ones_like", "full_like", "new_full", "hardtanh", "relu6", "threshold", "leaky_relu", "unfold",
    "embedding", "dropout",
))  # fmt: skip
SIZES = (2, 7, 13)  # of the dynamic dimension, which is drawn with 5
warnings.filterwarnings("ignore", category=UserWarning, module="torch")

__all__ = ["NAME", "Case", "Given", "check", "draw", "smaller", "value"]


def draw(seed: int) -> Case:
    d = Drawing(seed)
    want, tries = d.rng.randrange(3, 13), 0
    while len({n for n, _ in d.lines}) < want and tries < 120:
        tries += 1
        d.step()
    made = [n for n in d.values if n not in {g.name for g in d.inputs}] or [d.inputs[0].name]
    outputs = [made[-1], *d.rng.sample(made, min(len(made), d.rng.choice((0, 1, 2))))]
    if d.rng.random() < 0.1:
        outputs += [d.rng.choice([outputs[0], d.inputs[0].name])]
    case = Case(seed, d.inputs, tuple(d.layers), tuple(d.lines), tuple(outputs), d.dynamic)
    return _without_dead(case)


def _without_dead(case: Case) -> Case:
    need, lines = set(case.outputs), []
    for name, line in reversed(case.lines):
        if name in need:
            lines.append((name, line))
            need |= set(re.findall(r"\b[tx]\d+\b", line))
    used = set(re.findall(r"self\.(l\d+)\b", "\n".join(line for _, line in lines)))
    layers = tuple(x for x in case.layers if re.match(r"self\.(l\d+)", x).group(1) in used)  # type: ignore[union-attr]
    return replace(case, lines=tuple(reversed(lines)), layers=layers)


# ---- checking
def check(case: Case) -> Verdict:
    module = case.module()
    examples = [g.make() for g in case.inputs]
    for k, g in enumerate(case.inputs):
        if g.same:
            examples[k] = examples[k - 1]
    try:
        model: Any = module
        if case.dynamic:
            first = torch.export.Dim("batch", min=1, max=64)
            try:
                model = torch.export.export(module, tuple(x.clone() for x in examples), dynamic_shapes=tuple({0: first} for _ in examples))
            except Exception as e:
                return Verdict("refused", f"torch.export: {type(e).__name__}")
        given: dict[str, Any] = {} if case.dynamic else {"example_inputs": tuple(examples)}
        program = autocomp.optimize(model, target=TARGET, **given)
        for batch in SIZES if case.dynamic else (None,):
            xs = tuple(g.make(batch) for g in case.inputs)
            try:
                references = _references(case, module, batch)
            except (RuntimeError, IndexError):
                continue  # torch itself has no result at this size
            kept = [x.clone() for x in xs]
            got = program(*xs)
            got = got if isinstance(got, tuple) else (got,)
            own = [x.clone() for x in kept]  # what torch writes to (an argument that says in place) is written to
            module(*own)
            if any(not torch.equal(a, b) and torch.equal(b, c) and not a.isnan().any() for a, b, c in zip(xs, kept, own)):
                return Verdict("wrong", "an input was written to")
            for k, g in enumerate(got):
                if differs(torch.as_tensor(g), [r[k] for r in references]):
                    references += _references(case, module, batch, range(SHAKES, 6 * SHAKES)) + _decomposed(module, xs)
                wanted = [r[k] for r in references]
                if not differs(torch.as_tensor(g), wanted, huge := max(map(_huge, xs), default=0)):
                    continue
                if why := differs(torch.as_tensor(g), wanted, huge, coarsest(module, xs)[k]):
                    return Verdict("wrong", f"output {k} ({case.outputs[k]}){f' at batch {batch}' if batch else ''}: {why}")
    except AutocompError as e:
        return Verdict("refused", str(e).partition("\n")[0])
    return RIGHT


class _Rounded(TorchFunctionMode):
    """Inside, what functions take and give that nobody rounds in one way only (sums, quotients, exp) is an ulp away, up and down in turn
    by even and odd seeds; zeros have either sign; attention, norms and running products are formulas: other parts overflow than torch's;
    products of f64 are summed in long double."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw, self.sign = torch.Generator().manual_seed(seed // 2), 1 - seed % 2 * 2
        self.still = seed % 5 == 4  # only the formulas: equal numbers stay equal

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", "").strip("_"), kwargs or {}
        if name == "scaled_dot_product_attention" and len(args) == 3 and set(kwargs) <= {"scale", "is_causal"}:
            q, k, v = args
            with torch._C.DisableTorchFunction():
                scores = (q @ k.mT) * (kwargs.get("scale") or q.shape[-1] ** -0.5)
                hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1) & bool(kwargs.get("is_causal"))
                return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        if name in ("einsum", "matmul", "bmm", "mm") and self.sign > 0 and not kwargs:
            spec, factors = (args[0], args[1:]) if name == "einsum" else (None, args)
            if all(isinstance(x, torch.Tensor) and x.dtype == torch.float64 and _huge(x) for x in factors):
                with torch._C.DisableTorchFunction(), np.errstate(all="ignore"):  # as by fma: no product overflows before it is added
                    wide = [x.numpy(force=True).astype(np.longdouble) for x in factors]
                    y = np.einsum(spec, *wide) if spec else np.matmul(*wide)
                    return torch.from_numpy(np.asarray(y, np.float64))
        if name == "div" and kwargs.get("rounding_mode"):
            with torch._C.DisableTorchFunction():
                quotient = self._moved(torch.div(*map(self._moved, args)))
                return quotient.trunc() if kwargs["rounding_mode"] == "trunc" else quotient.floor()
        if name == "signbit":  # of a NaN: either
            with torch._C.DisableTorchFunction():
                return torch.where(args[0].isnan(), self.sign < 0, func(*args)) if args[0].is_floating_point() else func(*args)
        if name == "layer_norm" and len(args) == 2:
            (x, shape), w, b, eps = args, kwargs.get("weight"), kwargs.get("bias"), kwargs.get("eps", 1e-5)
            with torch._C.DisableTorchFunction():
                y = self._normalised(x, tuple(range(-len(shape), 0)), eps)
                y = y if w is None else y * w
                return self._moved(y if b is None else y + b)
        if name == "group_norm" and (len(args) == 5 or (len(args) == 2 and set(kwargs) == {"weight", "bias", "eps"})):
            x, groups, w, b, eps = args if len(args) == 5 else (*args, kwargs["weight"], kwargs["bias"], kwargs["eps"])
            with torch._C.DisableTorchFunction():
                return self._by_channel(self._normalised(x.reshape(x.shape[0], groups, -1), (-1,), eps).reshape(x.shape), w, b)
        if name == "instance_norm" and kwargs.get("use_input_stats", True):
            x, w, b, eps = args[0], kwargs.get("weight"), kwargs.get("bias"), kwargs.get("eps", 1e-5)
            with torch._C.DisableTorchFunction():
                return self._by_channel(self._normalised(x, tuple(range(2, x.dim())), eps), w, b)
        if name == "cumprod" and len(args) == 2 and args[0].is_floating_point() and args[0].dim():
            with torch._C.DisableTorchFunction():
                y = args[0].movedim(args[1], 0)
                runs = [self._product(y[: k + 1]) for k in range(len(y))]
                return self._moved(torch.stack(runs).movedim(0, args[1]) if runs else y)
        if name == "prod" and self.sign > 0 and (dtype := kwargs.get("dtype") or args[0].dtype) in (torch.float16, torch.bfloat16):
            with torch._C.DisableTorchFunction():  # in f32, where nothing overflows on the way
                return self._moved(args[0].to(dtype).float().prod(*args[1:], **{**kwargs, "dtype": None}).to(dtype))
        if name == "median" and (len(args) == 2 or "dim" in kwargs):  # whose index among equals is anyone's
            values, index = func(*args, **kwargs)
            with torch._C.DisableTorchFunction():
                dim, keep = args[1] if len(args) == 2 else kwargs["dim"], kwargs.get("keepdim", False)
                if not args[0].dim():
                    return values, index
                same = args[0] == (values if keep else values.unsqueeze(dim))
                ends = same.int().argmax(dim, keep), args[0].shape[dim] - 1 - same.flip(dim).int().argmax(dim, keep)
                return values, torch.where(args[0].isnan().any(dim, keep), index, ends[self.sign > 0])
        if name in EXACT or not any(isinstance(x, torch.Tensor) for x in args):
            return func(*args, **kwargs)
        y = func(*map(self._moved, args), **kwargs)
        return tuple(map(self._moved, y)) if type(y) is tuple else self._moved(y)

    def _normalised(self, x: torch.Tensor, over: tuple[int, ...], eps: float) -> torch.Tensor:
        """Over `over`, by statistics of the tensor's own type or of float64 (those of equal numbers are exact)."""
        wide = x.double() if self.sign > 0 else x
        return ((wide - wide.mean(over, True)) * (wide.var(over, correction=0, keepdim=True) + eps).rsqrt()).to(x.dtype)

    def _by_channel(self, y: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
        form = (-1, *[1] * (y.dim() - 2))
        y = y if w is None else y * w.reshape(form)
        return self._moved(y if b is None else y + b.reshape(form))

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        """Of all along the first axis, in an order of its own: what overflows on the way depends on it."""
        x = x[torch.randperm(len(x), generator=self.draw)]
        while len(x) > 1:
            x = torch.cat([x[0 : len(x) // 2 * 2 : 2] * x[1::2], x[len(x) // 2 * 2 :]])
        return x[0]

    def _moved(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.is_sparse or self.still:
            return x
        with torch._C.DisableTorchFunction():
            by = self.sign * (2.0 * torch.randint(0, 2, x.shape, generator=self.draw, dtype=torch.float64) - 1)
            return torch.where(x == 0, x * by, x * (1 + by * torch.finfo(x.dtype).eps)).to(x.dtype)


class _Coarsest(TorchFunctionMode):
    """Inside, of every float tensor the coarsest type that it was computed in, or from."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[int, str] = {}  # by memory, which views share
        self.alive: list[torch.Tensor] = []

    def name(self, x: torch.Tensor) -> str:
        own = str(x.dtype)[6:]
        return max(own, self.names.get(x.untyped_storage().data_ptr(), own), key=lambda n: ALLOWED.get(n, 0.0))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        y = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            floats = lambda tree: [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.is_floating_point()]
            made = floats(args[0] if getattr(func, "__name__", "") == "__setitem__" else y)
            names = [self.name(t) for t in floats((args, kwargs))]
            for t in made:
                self.alive.append(t)
                self.names[t.untyped_storage().data_ptr()] = max(self.name(t), *names, key=lambda n: ALLOWED.get(n, 0.0))
        return y


def coarsest(module: torch.nn.Module, xs: Sequence[torch.Tensor]) -> list[str]:
    """For each output the coarsest type of float that its values went through: a cast to float64 gives them no digits back."""
    with torch.no_grad(), _Coarsest() as mode:
        y = module(*(x.clone() for x in xs))
        outputs = y if isinstance(y, tuple) else (y,)
        with torch._C.DisableTorchFunction():
            return [mode.name(t) if t.is_floating_point() else "" for t in outputs]


def _decomposed(module: torch.nn.Module, xs: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
    """What torch's own decompositions give: other intermediates overflow than those of its kernels."""
    with suppress(Exception), torch.no_grad():
        y = torch.export.export(module, tuple(xs)).run_decompositions().module()(*(x.clone() for x in xs))
        return [y if isinstance(y, tuple) else (y,)]
    return []


def _references(
    case: Case, module: torch.nn.Module, batch: int | None, shakes: Sequence[int | None] = (None, *range(SHAKES))
) -> list[tuple[torch.Tensor, ...]]:
    """torch's results: in the module's own types first, with inputs (of the module and of its layers) an ulp away, and in float64 where it
    runs so. A layer may magnify what its input's rounding does: a norm of equal numbers divides by the root of its eps."""
    out: list[tuple[torch.Tensor, ...]] = []
    wide = case.module().double()
    with torch.no_grad():
        for shake in shakes:
            xs = [g.make(batch, shake) for g in case.inputs]
            with _moved(module, shake), _Rounded(shake) if shake is not None else nullcontext():
                y = module(*(x.clone() for x in xs))
            out.append(y if isinstance(y, tuple) else (y,))
            with suppress(RuntimeError, IndexError, ValueError, TypeError), _double():
                y = wide(*(x.double() if x.is_floating_point() else x.clone() for x in xs))
                out.append(y if isinstance(y, tuple) else (y,))
    return out


@contextmanager
def _moved(module: torch.nn.Module, shake: int | None) -> Iterator[None]:
    """Floats that a layer is given moved by about an ulp, as `shake` says."""

    def one(x: Any) -> Any:
        if shake is None or not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        return shaken(x, (17, shake))

    hooks = [layer.register_forward_pre_hook(lambda _, args: tuple(map(one, args))) for layer in module.children()]
    try:
        yield
    finally:
        for h in hooks:
            h.remove()


@contextmanager
def _double() -> Iterator[None]:
    """float64 where torch makes floats of integers (a logarithm of truth values)."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _huge(x: torch.Tensor) -> int:
    """1: values whose products overflow: which infinity or NaN comes of them depends on the order. 2: of float64, where no wider type
    tells how it ends."""
    if not x.is_floating_point() or not bool((x[x.isfinite()].abs().double() > float(torch.finfo(x.dtype).max) ** 0.5).any()):
        return 0
    return 2 if x.dtype == torch.float64 else 1


def differs(got: torch.Tensor, references: Sequence[torch.Tensor], huge: int = 0, through: str = "") -> str:
    """How a result is none that the references allow; "" where it is. `huge`: what is not finite may be otherwise so, or (2) anything.
    `through`: the coarsest type of float that it went through, if not its own."""
    first = references[0]
    references = [r for r in references if r.shape == first.shape]  # torch turns a running product of nothing along its steps
    if got.dtype != first.dtype or got.shape != first.shape:
        return f"is {got.dtype}{list(got.shape)}, torch has {first.dtype}{list(first.shape)}"
    if not first.is_floating_point():
        same = [r.to(first.dtype) for r in references]
        ok = got == first
        if first.dtype == torch.bool:
            ok |= torch.stack([r != first for r in same]).any(0)
        else:
            least, most = torch.stack(same).amin(0), torch.stack(same).amax(0)
            ok |= (got >= least) & (got <= most)
        return _first(ok, got, first)
    name = through if through in ALLOWED else str(first.dtype)[6:]
    as_ = torch.finfo(getattr(torch, name))
    all_ = torch.stack([r.double() for r in references])
    settled = all_.isfinite().all(0)
    kinds = lambda x: x.isnan() * 1 + (x == float("inf")) * 2 + (x == float("-inf")) * 3
    kind = kinds(all_)
    open_ = (kind != kind[0]).any(0)  # the references do not agree what it is
    g = got.double()
    finite = torch.where(settled, all_, 0.0)
    least, most = finite.amin(0), finite.amax(0)
    size = finite.abs()
    allowed = ALLOWED[name]
    room = (
        allowed * size.amax(0) + allowed / 30 * (size.max() if size.numel() else 0.0) + 4 * (most - least) + as_.tiny
    )
    limit = min(as_.max, torch.finfo(first.dtype).max) * (1 - 2 * allowed)
    near = settled & ((g >= least - room) & (g <= most + room))
    over = settled & (size.amax(0) >= limit) & g.isinf()
    order = (~settled & (~g.isfinite() | (huge > 1))) if huge else torch.zeros_like(settled)
    return _first(open_ | near | over | order | (~settled & (kinds(g) == kind[0])), got, first)


def _first(ok: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> str:
    if bool(ok.all()):
        return ""
    at = tuple(int(i) for i in (~ok).nonzero()[0])
    return f"{int((~ok).sum())} of {ok.numel()} elements, {list(at)} is {got[at].item()!r}, torch has {want[at].item()!r}"


def smaller(case: Case) -> Iterator[Case]:
    """One value alone as the output, the earliest first; fewer outputs; static; inputs that are two tensors."""
    names = list(dict.fromkeys(n for n, _ in case.lines))
    for n in names:
        if case.outputs != (n,):
            yield _without_dead(replace(case, outputs=(n,)))
    for k in range(len(case.outputs)):
        if len(case.outputs) > 1:
            yield _without_dead(replace(case, outputs=case.outputs[:k] + case.outputs[k + 1 :]))
    for k, (name, line) in enumerate(case.lines):  # a value as an input
        if line.startswith(f"{name} = ") and len(case.lines) > 1 and len(case.inputs) < 4 and name not in case.outputs:
            for g in case.inputs:
                if g.name != name:
                    yield _without_dead(replace(case, lines=(*case.lines[:k], (name, f"{name} = {g.name} + 0"), *case.lines[k + 1 :])))
    if any(g.same for g in case.inputs):
        yield replace(case, inputs=tuple(replace(g, same=False) for g in case.inputs))
    for k, g in enumerate(case.inputs):
        if g.kind not in ("normal",):
            yield replace(case, inputs=(*case.inputs[:k], replace(g, kind="normal"), *case.inputs[k + 1 :]))
