"""Common cases of a back end of torch.compile, each a function and what it is called with.

`CASES`: name -> (function, arguments maker, kind): "" for a call without gradients, "grad" for one with, "dynamic" for four sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

net = lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4))
last: Any = {"memory_format": torch.channels_last}
Case = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], str]
CASES: dict[str, Case] = {}


def case(name: str, f: Callable[..., Any], make: Callable[[], tuple[Any, ...]], kind: str = "") -> None:
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    CASES[name] = (f, make, kind)


R, I = torch.randn, lambda hi, *shape: torch.randint(0, hi, shape)
OF, FOR = vars(torch), vars(F)
one = lambda *shape: lambda: (R(*shape),)
two = lambda a, b: lambda: (R(*a), R(*b))

UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1",
    "floor", "frac", "isfinite", "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "logit", "neg", "positive", "rad2deg",
    "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc", "i0", "nan_to_num"
]  # fmt: skip
for _n in UNARY:
    case(f"unary {_n}", lambda x, f=OF[_n]: (f(x), f(x.t() + 0.5)), lambda: (R(5, 7),))
ACTIVATIONS = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu6",
    "rrelu", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink"
]  # fmt: skip
for _n in ACTIVATIONS:
    case(f"activation {_n}", lambda x, f=FOR[_n]: f(x) + 1, one(6, 8), "" if _n == "rrelu" else "grad")
BINARY = [
    "add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "fmod", "remainder", "copysign", "hypot", "fmax", "fmin",
    "floor_divide", "true_divide", "logaddexp", "logaddexp2", "xlogy", "eq", "ne", "lt", "le", "gt", "ge", "nextafter"
]  # fmt: skip
for _n in BINARY:
    case(f"binary {_n}", lambda a, b, f=OF[_n]: (f(a, b), f(a, b[0])), two((4, 6), (4, 6)))
INTEGERS = ["add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "gcd", "lt"]
for _n in INTEGERS:
    case(f"integers {_n}", lambda a, b, f=OF[_n]: (f(a, b), f(a, b.to(torch.int32))), lambda: (I(50, 4, 6), I(9, 4, 6) + 1))
for _n in ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "eq", "ne"]:
    case(f"truths {_n}", lambda a, b, f=OF[_n]: f(a > 0, b > 0), two((4, 6), (6,)))
_cast = lambda a, b: lambda: ((R(4, 6) * 3).to(a), (R(6) * 3).to(b))
for _a, _b in ((torch.float32, torch.float64), (torch.float16, torch.float32), (torch.bfloat16, torch.float32),
               (torch.int64, torch.float32), (torch.int32, torch.int64),
               (torch.bool, torch.int64), (torch.uint8, torch.int8), (torch.bool, torch.float16)):  # fmt: skip
    case(f"promotion {_a} {_b}", lambda a, b: (a + b, a * 2, b * 0.5, torch.where(a > 0, a, b)),
         _cast(_a, _b))  # fmt: skip
for _t in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.uint8, torch.bool):
    case(f"cast {_t}", lambda x, t=_t: (x.abs().to(t), x.abs().to(t).to(torch.float32) + 1, x.square().type(t)), one(4, 6))

REDUCTIONS = ["sum", "mean", "prod", "amax", "amin", "std", "var", "logsumexp", "norm", "any", "all"]
for _n in REDUCTIONS:
    f = getattr(torch, _n)
    more = ((0, 1),) if _n == "logsumexp" else ()
    case(f"reduce {_n} all", lambda x, f=f, a=more, n=_n: f(x > 0 if n in ("any", "all") else x, *a), one(5, 9))
    case(f"reduce {_n} axis", lambda x, f=f, n=_n: (f(x, dim=1), f(x, dim=0, keepdim=True)), one(5, 9))
for _n in ["argmax", "argmin", "max", "min", "median", "mode", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "logcumsumexp"]:
    case(f"axis {_n}", lambda x, f=OF[_n]: f(x, 1), lambda: (torch.randperm(63).reshape(7, 9).float() / 10,))
case("reduce sum of integers", lambda x: (x.sum(), x.sum(1), x.to(torch.int32).sum(), (x > 3).sum(0)), lambda: (I(9, 4, 6),))
case("reduce to a double", lambda x: x.sum(1, dtype=torch.float64), one(4, 6))
case("reduce of nothing", lambda x: (x.sum(0), x.sum(), x.prod(1)), one(0, 4))
case("reduce of one", lambda x: (x.mean(1), x.var(1, correction=0), x.softmax(1)), one(4, 1))
case("reduce large", lambda x: (x.sum(), x.mean(0), x.amax(1)), one(300, 1000))
case("reduce three axes", lambda x: (x.sum((0, 2)), x.mean((1, 2), keepdim=True), x.amax((0, 1, 2))), one(3, 4, 5))
case("aminmax", lambda x: torch.aminmax(x, dim=1), one(4, 6))
case("topk", lambda x: torch.topk(x, 3), one(4, 9))
case("kthvalue", lambda x: torch.kthvalue(x, 2), one(4, 9))
case("count_nonzero", lambda x: torch.count_nonzero(x > 0, 1), one(4, 9))
case("trace and diagonal", lambda x: (x.trace(), x.diagonal(), torch.diag(x), x.diagonal(1)), one(5, 5))
case("norms of orders", lambda x: (x.norm(p=1), x.norm(p=3, dim=1), x.norm(p=float("inf")), F.normalize(x)), one(5, 5))
case("cosine", lambda a, b: (F.cosine_similarity(a, b), F.pairwise_distance(a, b)), two((4, 6), (4, 6)))
case("softmaxes", lambda x: (x.softmax(1), x.log_softmax(0), F.softmin(x, 1), x.softmax(1, dtype=torch.float64)), one(5, 9), "grad")

VIEWS: dict[str, Callable[..., Any]] = {
    "transpose": lambda x: x.transpose(0, 2) + 1, "permute": lambda x: x.permute(2, 0, 1) * 2, "reshape": lambda x: x.reshape(6, -1) + 1,
    "flatten": lambda x: x.flatten(1).relu(), "unsqueeze": lambda x: x.unsqueeze(1) + x.unsqueeze(0),
    "squeeze": lambda x: x[:, :1].squeeze() * 2,
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1, -1) + 1, "repeat": lambda x: x.repeat(2, 1, 3),
    "tile": lambda x: torch.tile(x, (2, 1)),
    "roll": lambda x: torch.roll(x, (1, -2), (0, 2)), "flip": lambda x: x.flip(0, 2), "rot90": lambda x: torch.rot90(x, 1, (0, 1)),
    "narrow": lambda x: x.narrow(1, 1, 2) * 2, "select": lambda x: x.select(1, 1) + 1, "slice": lambda x: x[:, 1:3, ::2] + 1,
    "negative steps": lambda x: x.flip(1)[:, ::2] * 2, "split": lambda x: [p * 2 for p in x.split(2, 2)], "chunk": lambda x: x.chunk(2, 2),
    "unbind": lambda x: [a + 1 for a in x.unbind(1)], "stack": lambda x: torch.stack([x, x * 2], 1),
    "cat": lambda x: torch.cat([x, x + 1, x], 2),
    "unfold": lambda x: x.unfold(2, 2, 1) * 2, "movedim": lambda x: x.movedim(0, 2) + 1, "swapaxes": lambda x: x.swapaxes(0, 1) + 1,
    "view_as": lambda x: (x + 1).view_as(x), "tril": lambda x: (x.tril(), x.triu(1)), "view dtype": lambda x: x.view(torch.int32) + 1,
    "as_strided": lambda x: x.as_strided((3, 2), (4, 1), 2) + 1, "unflatten": lambda x: x.unflatten(2, (2, 2)) * 2, "contiguous": lambda x:
    x.transpose(1, 2).contiguous() + 1, "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"), "broadcast": lambda x:
    torch.broadcast_tensors(x, x[:1]), "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "diag_embed": lambda x: torch.diag_embed(x[0]),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 0, 2), value=3.0)), "pad modes": lambda x: (F.pad(x, (1, 1), mode="reflect"),
    F.pad(x, (1, 1), mode="replicate"), F.pad(x, (1, 1), mode="circular")), "hstack": lambda x: torch.hstack((x, x)), "T of a result":
    lambda x: (x[0] * 2).t(), "a view of a view": lambda x: (x + 1).permute(1, 0, 2)[1:].flatten(1),
}  # fmt: skip
for _n, _f in VIEWS.items():
    case(f"view {_n}", _f, one(2, 3, 4))
    if _n in ("transpose", "slice", "cat", "expand", "split", "pad", "roll", "select", "as_strided", "unfold", "repeat"):
        case(f"view {_n} grad", _f, one(2, 3, 4), "grad")

INDEXING: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "by a list": (lambda x: x[[0, 2, 1]] + 1, one(4, 6)), "by a tensor": (lambda x, i: x[i] * 2, lambda: (R(5, 6), I(5, 3))),
    "by two": (lambda x, i, j: x[i, j], lambda: (R(5, 6), I(5, 3), I(6, 3))),
    "in the middle": (lambda x, i: x[:, i], lambda: (R(5, 6, 2), I(6, 4))),
    "negative": (lambda x, i: x[i - 3], lambda: (R(5, 6), I(5, 3))), "by truths": (lambda x: x[x > 0], one(4, 6)),
    "gather": (lambda x, i: x.gather(1, i), lambda: (R(5, 6), I(6, 5, 3))), "take": (lambda x, i: x.take(i), lambda: (R(5, 6), I(30, 7))),
    "index_select": (lambda x, i: x.index_select(1, i), lambda: (R(5, 6), I(6, 4))),
    "take_along_dim": (lambda x: x.take_along_dim(x.argsort(1), 1), one(4, 6)),
    "scatter": (lambda x, i, s: x.scatter(1, i, s), lambda: (R(4, 6), torch.stack([torch.randperm(6)[:3] for _ in range(4)]), R(4, 3))),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), lambda: (R(4, 6), I(6, 4, 9), R(4, 9))),
    "scatter a number": (lambda x, i: x.scatter(1, i, 2.0), lambda: (R(4, 6), I(6, 4, 2))),
    "scatter_reduce": (lambda x, i, s: x.scatter_reduce(1, i, s, "amax"), lambda: (R(4, 6), I(6, 4, 9), R(4, 9))),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), lambda: (R(4, 6), I(4, 5), R(5, 6))),
    "index_put": (lambda x, i, s: x.index_put((i,), s), lambda: (R(4, 6), torch.tensor([0, 2]), R(2, 6))),
    "index_put adding": (lambda x, i, s: x.index_put((i,), s, accumulate=True), lambda: (R(4, 6), torch.tensor([0, 2, 0]), R(3, 6))),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), lambda: (R(4, 6), torch.tensor([0, 2]))),
    "masked_fill": (lambda x, m: x.masked_fill(m > 0, -1.0), two((4, 6), (6,))),
    "masked_select": (lambda x: x.masked_select(x > 0), one(4, 6)),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), two((4, 6), (4, 6))),
    "where": (lambda x: torch.where(x > 0, x, 0.0), one(4, 6)),
    "nonzero": (lambda x: x.nonzero() * 2, one(4, 6)), "one_hot": (lambda i: F.one_hot(i, 7), lambda: (I(7, 4, 3),)),
    "embedding": (lambda w, i: F.embedding(i, w), lambda: (R(9, 4), I(9, 3, 5))),
    "embedding_bag": (lambda w, i: F.embedding_bag(i, w), lambda: (R(9, 4), I(9, 3, 5))),
    "searchsorted": (lambda x, v: torch.searchsorted(x.sort().values, v), two((9,), (4,))),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1])), one(4, 6)),
    "bincount": (lambda i: torch.bincount(i, minlength=9), lambda: (I(9, 20),)), "unique": (lambda i: torch.unique(i), lambda: (I(5, 20),)),
    "select_scatter": (lambda x, y: x.select_scatter(y, 0, 1), two((4, 6), (6,))),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 0, 1, 3), two((4, 6), (2, 6))),
    "diagonal_scatter": (lambda x, y: x.diagonal_scatter(y), two((4, 4), (4,))),
    "combinations": (lambda x: x[..., None, :2] + x[:, None, :1], one(3, 4)),
}  # fmt: skip
for _n, (_f, _m) in INDEXING.items():
    case(f"index {_n}", _f, _m)
case("index by a tensor grad", lambda x, i: x[i] * 2, lambda: (R(5, 6), I(5, 3)), "grad")
case("gather grad", lambda x, i: x.gather(1, i), lambda: (R(5, 6), I(6, 5, 3)), "grad")
case("embedding grad", lambda w, i: F.embedding(i, w).sum(1), lambda: (R(9, 4), I(9, 3, 5)), "grad")
case("masked_fill grad", lambda x, m: x.masked_fill(m > 0, -1.0), two((4, 6), (6,)), "grad")

FACTORIES: dict[str, Callable[..., Any]] = {
    "zeros": lambda x: torch.zeros(4, 6) + x, "ones_like": lambda x: torch.ones_like(x) * 2, "full": lambda x: torch.full((3,), 2.5),
    "arange": lambda x: torch.arange(6) + x, "arange of floats": lambda x: torch.arange(0, 3, 0.5) * x,
    "linspace": lambda x: torch.linspace(0, 1, 6) + x,
    "logspace": lambda x: torch.logspace(0, 1, 6), "eye": lambda x: torch.eye(4) @ x,
    "tensor": lambda x: torch.tensor([1.0, 2, 3, 4, 5, 6]) * x,
    "scalar": lambda x: torch.tensor(3.0) + x, "empty_like filled": lambda x: torch.empty_like(x).fill_(2.0),
    "new_zeros": lambda x: x.new_zeros(3, 2) + 1,
    "tril_indices": lambda x: torch.tril_indices(3, 3), "bernoulli": lambda x: torch.bernoulli(torch.ones_like(x)),
    "a constant alone": lambda x:
    torch.ones(3), "triu mask": lambda x: x[:, :4].masked_fill(torch.triu(torch.ones(4, 4, dtype=torch.bool), 1), 0.0), "hann": lambda x:
    torch.hann_window(6) * x,
}  # fmt: skip
for _n, _f in FACTORIES.items():
    case(f"factory {_n}", _f, one(4, 6))


def _writes() -> dict[str, Callable[..., Any]]:
    def add_(x: Any) -> Any:
        x.add_(1)
        return x * 2

    def slices(x: Any) -> Any:
        x[1:3, ::2] = 5.0
        return x.sum(1)

    def view(x: Any) -> Any:
        x.t()[1] = 0.0
        return x

    def alias(x: Any) -> Any:
        y = x[1]
        x.mul_(2)
        return y + 1

    def copy_(x: Any) -> None:
        x.copy_(x.flip(0))

    def masked(x: Any) -> Any:
        x[x > 0] = 1.0
        return x

    def of_result(x: Any) -> Any:
        y = x * 2
        y[0].zero_()
        y.clamp_(min=-1)
        return y

    def several(x: Any) -> Any:
        for k in range(3):
            x[k] += x[k + 1]
        return x[0]

    def out_of_view(x: Any) -> Any:
        y = x.view(-1)
        y[3:7].fill_(9.0)
        return x, y

    def unsqueezed(x: Any) -> Any:
        x.unsqueeze_(0)
        return x + 1

    def given_twice(x: Any) -> Any:
        a, b = x[:2], x[2:]
        a.add_(b)
        b.mul_(a)
        return a - b

    def index_add_(x: Any) -> Any:
        return x.index_add_(0, torch.tensor([0, 0, 2]), x[:3].clone())

    def accumulate(x: Any) -> Any:
        total = torch.zeros(6)
        for row in x:
            total += row
        return total

    def swap(x: Any) -> Any:
        x[[0, 1]] = x[[1, 0]]
        return x

    def diagonal(x: Any) -> Any:
        x.diagonal().fill_(0)
        return x.sum()

    def triangle(x: Any) -> Any:
        return x.tril_().add_(1)

    return {k: v for k, v in locals().items() if callable(v)}


for _n, _f in _writes().items():
    case(f"write {_n}", _f, one(4, 6))

ALIASES: dict[str, Callable[..., Any]] = {
    "input": lambda x: x, "input twice": lambda x: (x, x), "view": lambda x: x.view(-1), "view and result": lambda x: (x.t(), x + 1, x[1]),
    "views of one result": lambda x: [(y, y.t(), y[1]) for y in (x + 1,)], "detached": lambda x: (x + 1).detach(),
    "nothing": lambda x: None,
    "numbers": lambda x: (x.shape[0], 3, "a", x + 1), "a dict": lambda x: {"a": x + 1, "b": [x, (x * 2,)]},
    "the same result twice": lambda x: [x * 2] * 2, "a scalar tensor": lambda x: x.sum(), "a Python number": lambda x: x.sum().item() * 2,
}  # fmt: skip
for _n, _f in ALIASES.items():
    case(f"result {_n}", _f, one(4, 6))

INPUTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "transposed": lambda: (R(6, 4).t(),), "strided": lambda: (R(8, 12)[::2, ::2],), "expanded": lambda: (R(4, 1).expand(4, 6),),
    "offset": lambda:
    (R(30)[5:29].view(4, 6),), "empty": lambda: (R(0, 6),), "no columns": lambda: (R(4, 0),), "one": lambda: (R(1, 1),), "double": lambda:
    (R(4, 6).double(),), "half": lambda: (R(4, 6).half(),), "bfloat16": lambda: (R(4, 6).bfloat16(),), "integer": lambda: (I(9, 4, 6),),
    "a row":
    lambda: (R(1, 6),), "byte": lambda: (I(200, 4, 6).byte(),), "a Python number": lambda: (3,),
    "overlapping": lambda: (R(9).as_strided((4, 6), (1, 1)),),
    "complex": lambda: (torch.complex(R(4, 6), R(4, 6)),), "large": lambda: (R(512, 1024),),
    "four dimensions": lambda: (R(2, 3, 4, 5)[0, 0],),
}  # fmt: skip
for _n, _m in INPUTS.items():
    case(f"input {_n}", lambda x: (x * 2 + 1, (x + x) * x, x * x - 1), _m)

PRODUCTS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "mm": (lambda a, b: a @ b, two((5, 6), (6, 7))), "mv": (lambda a, b: a @ b, two((5, 6), (6,))), "dot": (torch.dot, two((6,), (6,))),
    "bmm": (torch.bmm, two((3, 5, 6), (3, 6, 7))), "broadcast": (torch.matmul, two((2, 1, 5, 6), (3, 6, 7))),
    "outer": (torch.outer, two((5,), (7,))),
    "addmm": (lambda a, b: torch.addmm(a[:, :1], a, b, beta=0.5, alpha=2), two((5, 6), (6, 7))),
    "transposed": (lambda a, b: a.t() @ b.t(), two((6, 5), (7, 6))),
    "baddbmm": (lambda a, b: torch.baddbmm(a[:, :, :1], a, b), two((3, 5, 6), (3, 6, 7))),
    "addmv": (lambda a, b: torch.addmv(a[:, 0], a, b), two((5, 6), (6,))),
    "einsum": (lambda a, b: torch.einsum("bij,bjk->ikb", a, b), two((3, 5, 6), (3, 6, 7))),
    "einsum outer": (lambda a, b: torch.einsum("i,j->ij", a, b), two((5,), (6,))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), two((3, 5, 6), (5, 6, 7))), "kron": (torch.kron, two((2, 3), (3, 2))),
    "linear": (F.linear, two((2, 5, 6), (7, 6))),
    "bilinear": (lambda a, b: F.bilinear(a, a, b), two((4, 3), (5, 3, 3))), "cdist": (torch.cdist, two((5, 3), (6, 3))),
    "matrix_power": (lambda a: a.matrix_power(3), one(4, 4)),
    "chain": (lambda a, b: torch.linalg.multi_dot([a, b, a]), two((5, 6), (6, 5))), "cross": (torch.linalg.cross, two((5, 3), (5, 3))),
    "vander": (torch.vander, one(4)),
    "of halves": (lambda a, b: a.bfloat16() @ b.bfloat16(), two((5, 6), (6, 7))),
    "of doubles": (lambda a, b: a.double() @ b.double(), two((5, 6), (6, 7))),
    "of integers": (lambda a, b: a @ b, lambda: (I(9, 4, 5), I(9, 5, 6))), "no inner": (lambda a, b: a @ b, two((5, 0), (0, 7))),
    "inverse": (torch.linalg.inv, lambda: (R(4, 4) + 4 * torch.eye(4),)),
    "solve": (torch.linalg.solve, lambda: (R(4, 4) + 4 * torch.eye(4), R(4, 2))), "svd": (lambda a: torch.linalg.svdvals(a), one(4, 4)),
    "cholesky": (lambda a: torch.linalg.cholesky(a @ a.t() + torch.eye(4)), one(4, 4)),
    "determinant": (torch.linalg.det, one(4, 4)), "qr": (lambda a: torch.linalg.qr(a)[1].abs(), one(4, 4)),
    "fft": (lambda a: torch.fft.rfft(a).abs(), one(4, 8)),
}  # fmt: skip
for _n, (_f, _m) in PRODUCTS.items():
    case(f"product {_n}", _f, _m)
for _n in ("mm", "bmm", "broadcast", "linear", "einsum", "baddbmm", "inverse", "cdist"):
    case(f"product {_n} grad", *PRODUCTS[_n], "grad")

qkv = lambda *s: lambda: (R(*s), R(*s), R(*s))
ATTENTION: dict[str, Callable[..., Any]] = {
    "plain": F.scaled_dot_product_attention, "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "masked": lambda q, k, v:
    F.scaled_dot_product_attention(q, k, v, attn_mask=torch.arange(5)[:, None] >= torch.arange(5)), "biased": lambda q, k,
    v: F.scaled_dot_product_attention(q, k, v, attn_mask=q[..., :5] * 0.1),
    "scaled": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), "by hand": lambda q, k,
    v: (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1) @ v,
    "grouped": lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True), "unbatched": lambda q, k,
    v: F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0]),
    "bfloat16": lambda q, k, v: F.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16()),
}  # fmt: skip
for _n, _f in ATTENTION.items():
    case(f"attention {_n}", _f, qkv(2, 3, 5, 8))
    if _n not in ("bfloat16", "unbatched"):
        case(f"attention {_n} grad", _f, qkv(2, 3, 5, 8), "grad")

IMAGES: dict[str, Callable[..., Any]] = {
    "conv1d": lambda x: F.conv1d(x[0], torch.ones(4, 8, 2), stride=2),
    "conv2d": lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3) / 9, padding=1), "conv2d stride": lambda x:
    F.conv2d(x, torch.ones(4, 3, 3, 3), stride=2, dilation=2), "conv2d groups": lambda x: F.conv2d(x, torch.ones(3, 1, 3, 3), groups=3),
    "conv3d": lambda x: F.conv3d(x[None], torch.ones(2, 2, 2, 3, 3)),
    "conv transpose": lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 3, 3), stride=2), "max_pool": lambda x: F.max_pool2d(x, 2),
    "max_pool padded": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool indices": lambda x: F.max_pool2d(x, 2, return_indices=True), "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool uncounted": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive avg": lambda x: F.adaptive_avg_pool2d(x, (2, 3)), "adaptive max": lambda x: F.adaptive_max_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2), "bilinear": lambda x:
    F.interpolate(x, size=(5, 7), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2), "im2col": lambda x: F.unfold(x, 3),
    "col2im": lambda x: F.fold(F.unfold(x, 3), (8, 8), 3), "grid_sample": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1)),
    "batch norm": lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
    "batch norm of the batch": lambda x: F.batch_norm(x, None, None, training=True), "instance norm": F.instance_norm,
    "group norm": lambda x: F.group_norm(x, 3), "layer norm": lambda x: F.layer_norm(x, (8,)), "rms norm": lambda x: F.rms_norm(x, (8,)),
    "local response": lambda x: F.local_response_norm(x, 3),
    "channels last": lambda x: F.conv2d(x.contiguous(memory_format=torch.channels_last), torch.ones(4, 3, 3, 3)).relu(),
    "lp_pool": lambda x: F.lp_pool2d(x, 2, 2), "channel shuffle": lambda x: F.channel_shuffle(x, 3),
}  # fmt: skip
for _n, _f in IMAGES.items():
    case(f"image {_n}", _f, one(2, 3, 8, 8))
    if _n in ("conv2d", "conv2d stride", "conv2d groups", "conv transpose", "max_pool", "avg_pool", "adaptive avg", "bilinear",
              "batch norm of the batch", "group norm", "layer norm", "rms norm", "nearest"):  # fmt: skip
        case(f"image {_n} grad", _f, one(2, 3, 8, 8), "grad")

for _n in ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]:
    case(f"loss {_n}", getattr(F, _n), two((4, 6), (4, 6)), "grad")
case("loss cross entropy", lambda x, i: F.cross_entropy(x, i), lambda: (R(4, 6), I(6, 4)), "grad")
case("loss cross entropy smoothed", lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1), lambda: (R(4, 6), I(6, 4)), "grad")
case("loss cross entropy ignoring", lambda x, i: F.cross_entropy(x, i, ignore_index=2), lambda: (R(8, 4), I(4, 8)), "grad")
case("loss cross entropy of shares", lambda x, y: F.cross_entropy(x, y.softmax(1)), two((4, 6), (4, 6)), "grad")
case("loss nll", lambda x, i: F.nll_loss(x.log_softmax(1), i), lambda: (R(4, 6), I(6, 4)), "grad")
case("loss bce", lambda x, y: F.binary_cross_entropy(x.sigmoid(), (y > 0).float()), two((4, 6), (4, 6)), "grad")
case("loss bce logits", lambda x, y: F.binary_cross_entropy_with_logits(x, (y > 0).float()), two((4, 6), (4, 6)), "grad")
case("loss kl", lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), two((4, 6), (4, 6)), "grad")
case("loss triplet", lambda x, y: F.triplet_margin_loss(x, y, x + y), two((4, 6), (4, 6)), "grad")
case("loss hinge", lambda x, y: F.hinge_embedding_loss(x, torch.where(y > 0, 1.0, -1.0)), two((4, 6), (4, 6)), "grad")


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Sequential(self.a, nn.ReLU(), self.a)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x)) + self.a.weight.sum()


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.n += 1  # type: ignore[operator, assignment]
        self.calls += 1
        return x * self.n + self.calls


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 6))

    def forward(self, x: Any, at: Any) -> Any:
        self.keys.index_copy_(1, at, x[:2, None])  # type: ignore[operator]
        return (self.keys * x[0]).sum(-1).softmax(-1)  # type: ignore[operator]


class Rotary(nn.Module):
    def forward(self, x: Any) -> Any:
        angle = torch.arange(x.shape[0])[:, None] / 10000 ** (torch.arange(3) / 3)
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 4)), one(5, 6)), "shared weights": (Shared, one(5, 6)),
    "counting": (Counts, one(5, 6)),
    "cache": (Cache, lambda: (R(5, 6), torch.tensor([3]))), "rotary": (Rotary, one(5, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)).eval(), one(5, 6)),
    "batch norm training": (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU()), one(5, 6)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).eval(), one(5, 6)),
    "conv net": (lambda: net().eval(), one(2, 3, 8, 8)),
    "conv net training": (net, one(2, 3, 8, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), one(2, 5, 16)),
    "encoder training": (lambda: nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), one(2, 5, 16)),
    "decoder": (lambda: nn.TransformerDecoderLayer(16, 4, 32, 0.0, batch_first=True), lambda: (R(2, 5, 16), R(2, 7, 16))),
    "attention": (lambda: nn.MultiheadAttention(16, 4, batch_first=True), lambda: (R(2, 5, 16),) * 3),
    "lstm": (lambda: nn.LSTM(6, 5, 2), one(4, 3, 6)), "gru": (lambda: nn.GRU(6, 5, bidirectional=True), one(4, 3, 6)),
    "rnn": (lambda: nn.RNN(6, 5), one(4, 3, 6)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 3)), lambda: (I(9, 2, 5),)),
    "residual": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.SiLU(), nn.RMSNorm(6)), one(2, 5, 6)),
    "prelu": (lambda: nn.Sequential(nn.Linear(6, 6), nn.PReLU()), one(5, 6)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), one(5, 6)),
    "channels last": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).to(**last).eval(),
    lambda: (R(2, 3, 8, 8).contiguous(**last),)),
    "transposed conv": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.ReLU()), one(2, 3, 4, 4)),
    "half": (lambda: nn.Linear(6, 4).bfloat16(), lambda: (R(5, 6).bfloat16(),)),
    "double": (lambda: nn.Linear(6, 4).double(), lambda: (R(5, 6).double(),)),
}  # fmt: skip
for _n, (_build, _m) in MODULES.items():
    case(f"module {_n}", _build, _m, "module")
    if _n not in ("counting", "cache", "dropout", "half"):
        case(f"module {_n} grad", _build, _m, "module grad")

DYNAMIC: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x: x.sin() * 2 + x.shape[0], "reduce": lambda x: (x.sum(0), x.mean(1), x.var(0)),
    "softmax": lambda x: x.softmax(0), "product": lambda x: x @ x.t(), "linear": lambda x: F.linear(x, torch.ones(4, 6)),
    "cat": lambda x: torch.cat([x, x], 0) + 1, "slice": lambda x: x[1:] - x[:-1], "reshape": lambda x: x.view(-1, 3).sum(1),
    "flatten": lambda x: x.flatten() * 2, "arange": lambda x: x + torch.arange(x.shape[0])[:, None],
    "ones": lambda x: torch.ones(x.shape[0], 3) * 2, "transpose": lambda x: (x.t() + 1, x.t().contiguous()),
    "expand": lambda x: x[:, :1].expand(-1, 4) + 1, "gather": lambda x: x[torch.arange(x.shape[0] - 1)],
    "attention": lambda x: F.scaled_dot_product_attention(*(x.view(1, 1, -1, 6),) * 3), "mean by hand": lambda x: x.sum() / x.numel(),
    "pad": lambda x: F.pad(x, (0, 0, 1, 1)), "causal": lambda x: (x @ x.t()).tril(), "layer norm": lambda x:
    F.layer_norm(x, (6,)), "two sizes": lambda x: (x @ x.t()).sum(1) + x[:, 0], "chunks": lambda x: x.chunk(2, 1),
    "last": lambda x: x[-1] * 2, "cumsum": lambda x: x.cumsum(0), "argmax": lambda x: x.argmax(0), "repeat": lambda x: x.repeat(2, 1),
    "conv": lambda x: F.conv1d(x.t()[None], torch.ones(2, 6, 2)), "where": lambda x: torch.where(x > 0, x, x.mean()),
    "branch": lambda x: x * 2 if x.shape[0] > 4 else x + 1,
}  # fmt: skip
for _n, _f in DYNAMIC.items():
    case(f"dynamic {_n}", _f, one(5, 6), "dynamic")


def _control() -> dict[str, Callable[..., Any]]:
    def broken(x: Any) -> Any:
        y = x * 2
        torch._dynamo.graph_break()
        return y.relu() + 1

    def branch(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    def loop(x: Any) -> Any:
        for _ in range(5):
            x = x.tanh() + 0.1
        return x

    def comprehension(x: Any) -> Any:
        return {k: v.sum() for k, v in zip("abc", x)}

    def generator(x: Any) -> Any:
        return sum(row * k for k, row in enumerate(x))

    def closure(x: Any) -> Any:
        scale = x.shape[0] ** 0.5
        scaled = lambda y: y / scale
        return scaled(x)

    def numpy(x: Any) -> Any:
        return torch.from_numpy(x.numpy() * 2) + 1

    def checked(x: Any) -> Any:
        assert x.shape[0] == 4
        return x + 1

    def caught(x: Any) -> Any:
        try:
            if x.shape[0] == 4:
                raise ValueError("four rows")
        except ValueError:
            x = x * 3
        return x

    def with_grad(x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
        return y + x

    def cond(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))

    def autocast(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return (x @ x.t()).float().round(decimals=0) * 0

    def vmap(x: Any) -> Any:
        return torch.vmap(lambda r: r.softmax(0) * 2)(x)

    def gradient(x: Any) -> Any:
        return torch.func.grad(lambda y: y.sin().sum())(x)

    return {k: v for k, v in locals().items() if callable(v)}


for _n, _f in _control().items():
    case(f"python {_n}", _f, one(4, 6))
