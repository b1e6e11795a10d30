"""Small inputs on which a compiler's work may explode: each ends in time, and its result is right.

A case is a graph with rules of a user's own (associativity, distribution, rules that grow or never end) and a target. `check` fails
where the whole `optimize` takes more of a processor than LIMIT seconds, and where a program for the CPU gives a wrong result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import autocomp
from autocomp.errors import AutocompError
from autocomp.ir.tolerance import deviation
from autocomp.runtime.program import Program
from benchmarks.fuzz.verdict import RIGHT, Verdict
from benchmarks.random_graphs import NOISE, NOTHING, Expected, on_this_cpu

NAME = "explosions"
TARGET = "cpu"
CHAOS = 1e3  # tolerances that NumPy in the graph's own types may be off by: beyond it nothing is compared
LIMIT = 20.0  # seconds of a processor for one case, without the C compiler's


@dataclass(frozen=True)
class Case:
    """`lines`: the graph's text. `rules`: those of a user, as YAML."""

    family: str
    lines: tuple[str, ...]
    rules: tuple[str, ...] = ()
    target: str = "cpu"

    def graph(self) -> str:
        return "\n".join(self.lines) + "\n"

    def text(self) -> str:
        return (f"# {self.family}; autocomp.optimize(graph, target={self.target!r}, rules=[the file below], cache=False).verify()\n"
                + self.graph() + "".join(f"# rules:\n{r}\n" for r in self.rules))  # fmt: skip


class Writer:
    """Writes a graph's text; values are names, all of one type unless said otherwise."""

    def __init__(self, r: Random, type: str = "f32[8, 32]") -> None:
        self.r, self.type, self.lines, self.count = r, type, ["graph g"], 0

    def input(self, type: str = "") -> str:
        self.count += 1
        self.lines.append(f"input x{self.count}: {type or self.type}")
        return f"x{self.count}"

    def param(self, type: str, how: str = "") -> str:
        self.count += 1
        self.lines.append(f"param w{self.count}: {type} = {how or f'random({self.count})'}")
        return f"w{self.count}"

    def op(self, op: str, *args: str, **attrs: object) -> str:
        self.count += 1
        parts = [*args, *(f"{k}={v}" for k, v in attrs.items())]
        self.lines.append(f"%{self.count} = {op}({', '.join(parts)})")
        return f"%{self.count}"

    def const(self) -> str:
        return f"const({self.r.choice(['0.0', '1.0', '-1.0', '2.0', '0.5', '3.0', 'nan', 'inf', '-0.0', '1e-30', '1e30'])}, f32)"

    def done(self, *values: str) -> tuple[str, ...]:
        return (*self.lines, *(f"output y{n} = {v}" for n, v in enumerate(values)))


UNARY = ("exp", "log", "neg", "abs", "relu", "sigmoid", "tanh", "sqrt", "rsqrt", "silu", "gelu", "erf", "softplus", "floor", "sin")
BINARY = ("add", "sub", "mul", "div", "max", "min")


def tree(w: Writer, values: list[str], op: Callable[[], str]) -> str:
    """All values folded into one, two neighbours at a time in any order."""
    left = w.r.random() < 0.5
    while len(values) > 1:
        i = 0 if left else w.r.randrange(len(values) - 1)
        values[i : i + 2] = [w.op(op(), values[i], values[i + 1])]
    return values[0]


def wide_sum(r: Random) -> tuple[str, ...]:
    """Five to 40 terms, of one shape or of shapes that are spread, with numbers between them."""
    w = Writer(r)
    types = r.choice([["f32[8, 32]"], ["f32[8, 32]", "f32[32]", "f32[8, 1]", "f32[]"]])
    terms = [w.input(r.choice(types)) for _ in range(r.randint(5, 40))]
    ops = r.choice([("add",), ("mul",), ("max",), ("add", "mul"), ("add", "sub"), BINARY])
    terms += [w.const() for _ in range(r.choice([0, 0, 3]))]
    return w.done(tree(w, terms, lambda: r.choice(ops)))


def chain(r: Random) -> tuple[str, ...]:
    """One op behind the other, to 500 of them."""
    w = Writer(r)
    x = first = w.input()
    ops = r.choice([("neg",), ("exp", "log"), ("relu", "neg"), ("add",), ("mul", "add"), ("sigmoid", "tanh"), UNARY + BINARY])
    for _ in range(r.choice([30, 120, 500])):
        op = r.choice(ops)
        x = w.op(op, x) if op in UNARY else w.op(op, x, r.choice([first, w.const(), w.const()]))
    return w.done(x)


def siblings(r: Random) -> tuple[str, ...]:
    """Products of one tensor with many parameters."""
    w = Writer(r)
    x = w.input()
    out = []
    for _ in range(r.randint(3, 40)):
        n = r.choice([32, 32, 16, 8])
        y = w.op("matmul", x, w.param(f"f32[32, {n}]"))
        if r.random() < 0.5:
            y = w.op("add", y, w.param(f"f32[{n}]"))
        if r.random() < 0.3:
            y = w.op(r.choice(UNARY), y)
        out.append(y if n == 32 else w.op("matmul", y, w.param(f"f32[{n}, 32]")))
    return w.done(*out) if r.random() < 0.3 else w.done(tree(w, out, lambda: "add"))


def fan_out(r: Random) -> tuple[str, ...]:
    """One value with many users that meet again, some of them in an output of their own."""
    w = Writer(r)
    x = w.op(r.choice(UNARY), w.input())
    users = [w.op(r.choice(UNARY), w.op(r.choice(BINARY), x, w.const())) for _ in range(r.randint(10, 80))]
    outs = r.sample(users, min(len(users), r.choice([0, 5, 30])))
    return w.done(tree(w, users, lambda: r.choice(("add", "max"))), *outs)


def diamonds(r: Random) -> tuple[str, ...]:
    """x = f(x) op g(x), again and again: as many paths as powers of two."""
    w = Writer(r, r.choice(["f32[8, 32]", "f32[64]"]))
    x = w.input()
    for _ in range(r.choice([10, 30, 60])):
        left, right = (w.op(r.choice(UNARY), x) if r.random() < 0.6 else x for _ in range(2))
        x = w.op(r.choice(("add", "mul", "max", "sub")), left, right)
    return w.done(x)


def tower(r: Random) -> tuple[str, ...]:
    """Views of views, with a map here and there."""
    w = Writer(r)
    shape = [4, 6, 8]
    x = w.input("f32[4, 6, 8]")
    for _ in range(r.choice([10, 40, 120])):
        kind = r.choice(["transpose", "reshape", "slice", "pad", "map", "reshape", "transpose", "broadcast"])
        if kind == "transpose":
            perm = r.sample(range(len(shape)), len(shape))
            x, shape = w.op("transpose", x, perm=perm), [shape[p] for p in perm]
        elif kind == "reshape":
            total = 1
            for d in shape:
                total *= d
            new: list[int] = []
            rest = total
            while rest > 1 and len(new) < 4:
                d = r.choice([d for d in range(1, min(rest, 64) + 1) if rest % d == 0])
                new.append(d)
                rest //= d
            shape = [*new, rest]
            x = w.op("reshape", x, shape=shape)
        elif kind == "slice":
            axis = r.randrange(len(shape))
            if shape[axis] > 2 and x.startswith("%"):
                ends = [d - (k == axis) for k, d in enumerate(shape)]
                x, shape = w.op("slice", x, starts=[0] * len(shape), limits=ends, steps=[1] * len(shape)), ends
        elif kind == "pad":
            axis = r.randrange(len(shape))
            if max(shape) < 64:
                hi = [int(k == axis) for k in range(len(shape))]
                x = w.op("pad", x, lo=[0] * len(shape), hi=hi, value=r.choice([0.0, 1.0]))
                shape = [d + h for d, h in zip(shape, hi, strict=True)]
        elif kind == "map":
            x = w.op(r.choice(UNARY), x)
        elif 1 in shape:
            wide = [2 if d == 1 else d for d in shape]
            if len(wide) < 6:
                x, shape = w.op("broadcast", x, shape=wide), wide
                x, shape = w.op("reduce_max", x, axes=[0], keepdims="True"), [1, *shape[1:]]
    return w.done(w.op("exp", x))


def constants(r: Random) -> tuple[str, ...]:
    """Arithmetic of constants, NaN and infinities among them, some of them large."""
    w = Writer(r, "f32[64, 64]")
    values = [w.input(), *(w.param("f32[64, 64]", r.choice(["zeros", "ones", "random(1)"])) for _ in range(3))]
    values.append(w.op("broadcast", w.const(), shape=[64, 64]))
    if r.random() < 0.5:
        values.append(w.param("f32[1024, 64, 64]", "random(2)"))
    for _ in range(r.randint(10, 60)):
        a, b = r.choice(values), r.choice([*values, w.const()])
        values.append(w.op(r.choice(UNARY), a) if r.random() < 0.4 else w.op(r.choice(BINARY), a, b))
    return w.done(*values[-3:])


def concats(r: Random) -> tuple[str, ...]:
    """Many tensors side by side, of maps and parts of tensors, taken apart again."""
    w = Writer(r)
    x = w.input()
    parts = [w.input() if r.random() < 0.3 else w.op(r.choice(UNARY), x) for _ in range(r.choice([3, 12, 17, 40, 100]))]
    y = w.op("concat", *parts, axis=0)
    if r.random() < 0.5:
        y = w.op("concat", *(w.op("slice", y, starts=[8 * k, 0], limits=[8 * k + 8, 32], steps=[1, 1]) for k in range(len(parts))), axis=1)
    return w.done(w.op(r.choice(UNARY), y))


def softmax(w: Writer, x: str) -> str:
    top = w.op("exp", w.op("sub", x, w.op("reduce_max", x, axes=[1], keepdims="True")))
    return w.op("div", top, w.op("reduce_sum", top, axes=[1], keepdims="True"))


def log_softmax(w: Writer, x: str) -> str:
    low = w.op("sub", x, w.op("reduce_max", x, axes=[1], keepdims="True"))
    return w.op("sub", low, w.op("log", w.op("reduce_sum", w.op("exp", low), axes=[1], keepdims="True")))


def divergences(r: Random) -> tuple[str, ...]:
    """Softmaxes, logarithms, entropies and divergences of them, one in another."""
    w = Writer(r)
    values = [w.input() for _ in range(r.randint(1, 3))]
    for _ in range(r.randint(2, 12)):
        a, b = r.choice(values), r.choice(values)
        kind = r.choice(["softmax", "log_softmax", "kl", "entropy", "mix", "log", "plain"])
        if kind in ("softmax", "log_softmax") and r.random() < 0.3:
            new = w.op(kind, a, axes=[1])
        elif kind == "softmax":
            new = softmax(w, a)
        elif kind == "log_softmax":
            new = log_softmax(w, a)
        elif kind == "kl":
            p, q = softmax(w, a), softmax(w, b)
            new = w.op("mul", p, w.op("sub", w.op("log", p), w.op("log", q)))
        elif kind == "entropy":
            new = w.op("neg", w.op("mul", softmax(w, a), log_softmax(w, a)))
        elif kind == "mix":
            new = w.op("mul", w.op("add", a, b), "const(0.5, f32)")
        elif kind == "log":
            new = w.op("log", w.op("exp", a))
        else:
            new = w.op("sub", a, w.op("reduce_sum", w.op("mul", a, b), axes=[1], keepdims="True"))
        values.append(new)
    return w.done(w.op("reduce_sum", values[-1], axes=[1], keepdims="False"), *values[-2:-1])


def norms(r: Random) -> tuple[str, ...]:
    """Norms, products and residuals: the layers of a network, with means and variances written out."""
    w = Writer(r)
    x = w.input()
    for _ in range(r.randint(2, 14)):
        n = f"const({1 / 32}, f32)"
        mean = w.op("mul", w.op("reduce_sum", x, axes=[1], keepdims="True"), n)
        d = w.op("sub", x, mean)
        var = w.op("mul", w.op("reduce_sum", w.op("mul", d, d), axes=[1], keepdims="True"), n)
        y = w.op("div", d, w.op("sqrt", w.op("add", var, "const(1e-5, f32)")))
        y = w.op("add", w.op("mul", y, w.param("f32[32]")), w.param("f32[32]"))
        if r.random() < 0.5:
            y = w.op("matmul", y, w.param("f32[32, 32]"))
        x = w.op("add", x, w.op(r.choice(UNARY[4:7]), y))
    return w.done(x)


def dag(r: Random) -> tuple[str, ...]:
    """A random graph of to 400 nodes."""
    w = Writer(r)
    values = [w.input() for _ in range(4)] + [w.input("f32[32]"), w.input("f32[8, 1]")]
    full = values[:4]
    near = r.choice([4, 20, 400])
    for _ in range(r.choice([60, 150, 400])):
        kind = r.random()
        if kind < 0.3:
            new = w.op(r.choice(UNARY), r.choice(full[-near:]))
        elif kind < 0.85:
            new = w.op(r.choice(BINARY), r.choice(full[-near:]), r.choice([*full[-near:], *values[4:6], w.const()]))
        elif kind < 0.95:
            x = r.choice(full[-near:])
            new = w.op("sub", x, w.op(r.choice(["reduce_max", "reduce_sum"]), x, axes=[r.randrange(2)], keepdims="True"))
        else:
            new = w.op("matmul", r.choice(full[-near:]), w.param("f32[32, 32]"))
        full.append(new)
    return w.done(*(full[-30:] if r.random() < 0.3 else full[-1:]))


def attention(r: Random) -> tuple[str, ...]:
    """Weighted sums of one another, plain and in parts."""
    w = Writer(r, "f32[16, 16]")
    values = [w.input() for _ in range(3)]
    for _ in range(r.randint(1, 8)):
        q, k, v = (r.choice(values) for _ in range(3))
        s = w.op("matmul", q, w.op("transpose", k, perm=[1, 0]))
        s = w.op("mul", s, "const(0.25, f32)") if r.random() < 0.7 else s
        values.append(w.op("add", w.op("matmul", softmax(w, s), v), q))
    return w.done(values[-1])


def windows(r: Random) -> tuple[str, ...]:
    """Convolutions, norms and residuals in a row, one beside the other."""
    w = Writer(r)
    x = w.input("f32[1, 8, 10, 10]")
    for _ in range(r.randint(2, 20)):
        k = r.choice([1, 3])
        y = w.op("conv", x, w.param(f"f32[8, 8, {k}, {k}]"), strides=[1, 1], lo=[k // 2] * 2, hi=[k // 2] * 2, dilations=[1, 1], groups=1)
        y = w.op("add", w.op("mul", y, w.param("f32[8, 1, 1]")), w.param("f32[8, 1, 1]"))
        x = r.choice([y, w.op("relu", y), w.op("add", x, w.op("relu", y))])
    return w.done(x)


FAMILIES: dict[str, Callable[[Random], tuple[str, ...]]] = {f.__name__: f for f in (
    wide_sum, chain, siblings, fan_out, diamonds, tower, constants, concats, divergences, norms, dag, attention, windows)}  # fmt: skip


def rule(name: str, lhs: str, rhs: str, **more: str) -> str:
    """A rule that is taken as it is: nothing proves one that never ends."""
    fields = {"phase": "algebra", "lhs": lhs, "rhs": rhs, "exact": "false", "assumed": "true", "why": "a test", **more}
    return "\n  ".join([f"- name: user/{name}", *(f"{k}: {v}" for k, v in fields.items())])


def ac(op: str) -> tuple[str, ...]:
    return (rule(f"commute-{op}", f"{op}(?x, ?y)", f"{op}(?y, ?x)"),
            rule(f"associate-{op}", f"{op}({op}(?x, ?y), ?z)", f"{op}(?x, {op}(?y, ?z))"))  # fmt: skip


SAME = "[shape(?root) == shape(?x)]"
RULES: dict[str, tuple[str, ...]] = {
    "none": (),
    "sums": ac("add"),
    "sums and products": (*ac("add"), *ac("mul")),
    "distributive": (rule("distribute", "mul(add(?x, ?y), ?z)", "add(mul(?x, ?z), mul(?y, ?z))", commutes="true"),
                     rule("collect", "add(mul(?x, ?z), mul(?y, ?z))", "mul(add(?x, ?y), ?z)", commutes="true"), *ac("add")),
    "more zeros": tuple(rule(f"zero-{f}", f"{f}(?x)", f"add({f}(?x), 0)") for f in ("exp", "neg", "relu", "tanh")),
    "any zero": (rule("zero", "add(?x, ?y)", "add(add(?x, ?y), 0)"),),
    "turned twice": (rule("twice", "exp(?x)", "neg(neg(exp(?x)))"), rule("sum-twice", "add(?x, ?y)", "neg(neg(add(?x, ?y)))")),
    "growing": (rule("grow", "sub(?x, ?y)", "max(sub(?x, ?y), sub(sub(?x, ?y), 1))", where="[is_float(?x)]"),
                rule("grow-sum", "add(?x, ?y)", "max(add(?x, ?y), sub(add(?x, ?y), 1))", where="[is_float(?x)]"),
                rule("grow-exp", "exp(?x)", "max(exp(?x), sub(exp(?x), 1))", where="[is_float(?x)]")),
    "odd": (rule("in", "tanh(neg(?x))", "neg(tanh(?x))"), rule("out", "neg(tanh(?x))", "tanh(neg(?x))"),
            rule("sum", "neg(add(?x, ?y))", "add(neg(?x), neg(?y))"), rule("sums", "add(neg(?x), neg(?y))", "neg(add(?x, ?y))"),
            rule("product", "neg(mul(?x, ?y))", "mul(neg(?x), ?y)", commutes="true")),
    "views": (rule("there", "exp(?x)", "reshape(exp(reshape(?x, shape=[elements(?x)])), shape=shape(?x))"),
              rule("back", "neg(?x)", "transpose(transpose(neg(?x), perm=range(rank(?x))), perm=range(rank(?x)))")),
}  # fmt: skip


def draw(seed: int) -> Case:
    """Every family in turn, with rules of its own in a half of the cases."""
    r = Random(seed)
    family = list(FAMILIES)[seed % len(FAMILIES)]
    lines = FAMILIES[family](r)
    kind = r.choice(list(RULES)) if r.random() < 0.5 else "none"
    target = TARGET if TARGET != "cpu" else r.choice(["cpu"] * 6 + ["cuda:h200", "maca:c500"])
    return Case(f"{family}, rules: {kind}", lines, RULES[kind], target)


def check(case: Case) -> Verdict:
    """Compile; a program for the CPU is run against the reference."""
    began = time.process_time()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rules.yaml"
        path.write_text("\n".join(case.rules) + "\n")
        try:
            program = autocomp.optimize(case.graph(), target=case.target, rules=[str(path)] if case.rules else [], cache=False)
        except AutocompError as e:
            verdict = Verdict("refused", str(e))
            program = None
        seconds = time.process_time() - began
        if seconds > LIMIT:
            return Verdict("wrong", f"{case.family}: optimize took {seconds:.1f} s of a processor, at most {LIMIT:g}")
        if program is None:
            return verdict
    return compared(case, program) if case.target == "cpu" else RIGHT


def compared(case: Case, program: Program) -> Verdict:
    """The program's results beside float64's, as far as NumPy in the graph's own types comes near these."""
    known = Expected.of(program.graph)
    if not deviation(program.graph, known.want, known.own).ratio <= CHAOS:
        return RIGHT
    (got,) = on_this_cpu(program, known.feed)
    d = deviation(program.graph, known.want, got, known.own)
    if d.ratio <= max(1.0, NOISE * known.natural) or abs(d.got - d.want) <= NOTHING:
        return RIGHT
    return Verdict("wrong", f"{case.family}: {d.output}{list(d.index)} is {d.got!r}, float64 says {d.want!r}: {d.ratio:.3g} times the "
                            f"tolerance (NumPy in these types, or with inputs an ulp away: {known.natural:.3g})")  # fmt: skip


def smaller(case: Case) -> Iterator[Case]:
    """Without rules, then fewer of them, then with the output moved to an earlier value."""
    if case.rules:
        yield replace(case, rules=())
        for n in range(len(case.rules)):
            yield replace(case, rules=case.rules[:n] + case.rules[n + 1 :])
    made = [n for n, line in enumerate(case.lines) if line.startswith("%")]
    for n in (made[len(made) // 2], *reversed(made[:-1])) if made else ():
        kept = [line for line in case.lines[: n + 1] if not line.startswith("output")]
        yield replace(case, lines=(*kept, f"output y = {case.lines[n].split(' = ')[0]}"))
