"""Rule files as people and editors break them: shipped rules with words, fields and brackets changed, drawn rules, and files that are none.

A file goes through `load_rules`, `rules check` with a small budget, and sometimes `optimize(rules=..)`. It may be right or refused;
anything but an AutocompError is a traceback.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from autocomp.errors import AutocompError
from autocomp.rewrite.vocabulary import PHASES, vocabulary
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "rule_files"
GRAPH = """graph g
input x: f32[3, 4]
input z: f32[4, 5]
%0 = mul(x, const(2.0, f32))
%1 = matmul(%0, z)
%2 = transpose(%1, perm=[1, 0])
%3 = reduce_sum(%2, axes=[0], keepdims=True)
%4 = add(%3, const(0.0, f32))
output y = %4
"""
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3.5",
    "-0.0",
    "1e308",
    "1e999",
    "99999999999999999999999",
    "1" + "0" * 400,
    "0.1",
    ".nan",
    "-.inf",
    "1.",
    "7",
)
WORDS = (
    "f32",
    "f64",
    "i32",
    "bool",
    "f99",
    "true",
    "false",
    "null",
    "nchw",
    "last",
    "root",
    "?root",
    "?x",
    "?y",
    "?k",
    "?x...",
    "?",
    "??x",
    "x",
    "[]",
    "[0]",
    "[1, 0]",
    "[[1]]",
    "{}",
    "{a: b}",
    "''",
    "'a'",
    '"b"',
    "()",
    "(",
    ")",
    "[",
    "]",
    ",",
    "==",
    "and",
    "not",
    "-",
    "/",
    "//",
    "%",
    "in",
    "\t",
    "\u00e9",
    "\U0001f600",
    "\x00",
    "&a",
    "*a",
    "!!python/object:os.system",
    "%YAML",
    "---",
    "...",
    "#",
    "|",
    ">",
    "$f",
    "$",
)


@dataclass(frozen=True)
class Case:
    """The bytes of one file. `optimize`: whether a program is compiled with it. folder: a directory stands in its place."""

    source: bytes
    optimize: bool = False
    folder: bool = False

    def text(self) -> str:
        try:
            body = self.source.decode()
        except UnicodeDecodeError:
            return f"# bytes\n{self.source!r}"
        return "a directory" if self.folder else body


@cache
def shipped() -> tuple[str, ...]:
    """The text of every rule of the package."""
    out: list[str] = []
    for f in sorted(files("autocomp.rules").iterdir(), key=lambda f: f.name):
        if f.name.endswith(".yaml"):
            out += re.split(r"\n(?=- name:)", f.read_text(encoding="utf-8"))
    return tuple(x + "\n" for x in out if x.startswith("- name:"))


@cache
def pool() -> tuple[str, ...]:
    names: list[str] = []
    for phase in PHASES:
        v = vocabulary(phase)
        names += [*v.arity, *v.functions, *v.words]
    return tuple(dict.fromkeys(names))


def draw(seed: int) -> Case:
    rng = random.Random(seed)
    kind = rng.random()
    if kind < 0.06:
        return _odd(rng)
    text = "".join(rng.sample(shipped(), rng.choice((1, 1, 1, 2)))).replace("- name: ", "- name: my/") if kind < 0.6 else drawn(rng)
    if rng.random() < 0.3:  # what is not checked reaches the e-graph
        text = text.replace("  phase: ", "  assumed: true\n  phase: ")
    for _ in range(rng.choice((0, 1, 1, 2, 3)) if kind > 0.6 else rng.choice((1, 1, 2, 3))):
        text = rng.choice(CHANGES)(rng, text)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.02:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 4))) + data[at:]
    return Case(data, rng.random() < (0.6 if b"assumed: true" in data else 0.1))


def _odd(rng: random.Random) -> Case:
    texts = (
        "",
        "\n",
        "# nothing\n",
        "- \n",
        "[]",
        "{}",
        "rules:\n",
        "rules: 3\n",
        "- 3\n",
        "- [a]\n",
        "a: b\n",
        "null",
        "- {}\n",
        "~",
        "rules: {a: b}\n",
        "- {name: 3, phase: algebra, lhs: neg(?x), rhs: ?x}\n",
        "- name: [a]\n  phase: algebra\n",
        "? [a]\n: b\n",
        "- ? {a: b}\n  : c\n",
        "a: &x [1]\nb: *x\n",
        "- &r {name: a/b, x: *r}\n",
        "[" * 400 + "]" * 400,
        "- " * 300 + "a\n",
        "{a: " * 200 + "b" + "}" * 200,
        "- name: a/b\n  phase: algebra\n  lhs: " + "neg(" * 60 + "?x" + ")" * 60 + "\n  rhs: ?x\n",
        "\ufeff- name: a/b\n",
        "- name: a/b\r\n  phase: algebra\r\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [" + "rank(?x) == 1, " * 2000 + "]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [" + "not " * 3000 + "true]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [" + "-" * 3000 + "1 == 1]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [rank(?x)" + "[0]" * 1200 + "]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [1 " + "+ 1 " * 1500 + "== 1]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [repeat(1, 1000000000) == []]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: ?x\n  where: [range(99999999999) == []]\n",
        "- name: a/b\n  phase: algebra\n  lhs: neg(?x)\n  rhs: reshape(?x, shape=[" + "1, " * 60 + "2])\n",
        "- name: a/b\n  phase: algebra\n  lhs: reshape(?x, shape=?s)\n  rhs: ?x\n  examples: [{x: 'f32[100000, 100000]', s: [10, 10]}]\n",
        "- name: a/b\n  phase: algebra\n  lhs: silu(x)\n  rhs: x\n",
        "- name: a/b\n  phase: algebra\n  lhs: silu(?x)\n  rhs: x\n",
    )
    if rng.random() < 0.05:
        return Case(b"", folder=True)
    if rng.random() < 0.2:
        return Case(bytes(rng.randrange(256) for _ in range(rng.randrange(200))))
    return Case(rng.choice(texts).encode(), rng.random() < 0.2)


# ---- drawn rules
def drawn(rng: random.Random) -> str:
    """A rule of the graph phases with patterns, conditions and examples of any kind."""
    v = vocabulary("algebra")
    names = ["x", "y", "z"][: rng.randint(1, 3)]
    lhs, rhs = (_pattern(rng, v, names, 2, side == 0) for side in range(2))
    where = [_condition(rng, v, names) for _ in range(rng.choice((0, 0, 1, 2)))]
    out = f"- name: a/b{rng.randrange(9)}\n  phase: {rng.choice(('algebra', 'layout', 'idioms', 'precision', 'monoids', 'shapes'))}\n"
    out += f"  lhs: {lhs}\n  rhs: {rhs}\n" + (f"  where: [{', '.join(where)}]\n" if where else "")
    for field, values in (
        ("exact", "true false false"),
        ("commutes", "true false"),
        ("finite", "true"),
        ("assumed", "true"),
        ("siblings", "[x]"),
    ):
        if rng.random() < 0.2:
            out += f"  {field}: {rng.choice(values.split())}\n"
    shown = [
        ", ".join(f"{n}: {_binding(rng)}" for n in (*names, *(k for k in "abc" if rng.random() < 0.3)))
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    return out + (f"  examples: [{', '.join('{' + s + '}' for s in shown)}]\n" if shown else "")


def _pattern(rng: random.Random, v: object, names: list[str], depth: int, left: bool) -> str:
    if depth == 0 or (rng.random() < 0.3 and not left):
        return rng.choice([*(f"?{n}" for n in names), *(f"?{n}" for n in names), rng.choice(("0", "1", "2", "0.5", "-1"))])
    op = rng.choice(tuple(v.arity))  # type: ignore[attr-defined]
    low, high = v.arity[op]  # type: ignore[attr-defined]
    count = min(rng.choice((low, low, low, high, low + 1)), 4)
    args = [_pattern(rng, v, names, depth - 1, False) for _ in range(count)]
    attrs = [f"{k}={_attribute(rng, left)}" for k in sorted(v.attrs[op]) if rng.random() < 0.85]  # type: ignore[attr-defined]
    return f"{op}({', '.join([*args, *attrs])})"


def _attribute(rng: random.Random, left: bool) -> str:
    free = rng.choice(("?a", "?b", "?c", "?a"))
    given = rng.choice(
        (
            "[0]",
            "[1, 0]",
            "0",
            "1",
            "true",
            "f32",
            "nchw",
            "'m'",
            "[]",
            "0.5",
            "shape(?x)",
            "rank(?x) - 1",
            "-1",
            "[?a[0] + 1]",
            "?a + ?b",
            "range(rank(?x))",
            "1 / 0",
            "dim(?x, 7)",
            "value(?x)",
            "len(?a)",
        )
    )
    return free if rng.random() < (0.8 if left else 0.4) else given


def _condition(rng: random.Random, v: object, names: list[str]) -> str:
    def value(depth: int) -> str:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice((f"?{rng.choice(names)}", "?a", "?b", *NUMBERS[:6], "f32", "[0, 1]", "'a'", "true", "shape(?x)", "?root"))
        name = rng.choice(tuple(v.functions))  # type: ignore[attr-defined]
        f = v.functions[name]  # type: ignore[attr-defined]
        return f"{name}({', '.join(value(depth - 1) for _ in range(min(max(f.least, 1), 3)))})"

    op = rng.choice(("==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "+", "/", "//", "%", "*"))
    return rng.choice(
        (f"{value(2)} {op} {value(1)}", value(2), f"not {value(2)}", f"{value(1)}[{value(1)}]", f"{value(1)}[{value(0)}:{value(0)}]")
    )


def _binding(rng: random.Random) -> str:
    shape = ", ".join(str(rng.choice((1, 2, 3, 4, 0, 5))) for _ in range(rng.randint(0, 4)))
    return rng.choice(
        (
            f"'f64[{shape}]'",
            f"'f32[{shape}]'",
            f"'i32[{shape}]'",
            f"'f64[{shape}] constant'",
            f"'f16[{shape}]'",
            "[1, 0]",
            "2",
            "0.5",
            "true",
            "f32",
            "{a: b}",
            "[[1], 2]",
            "null",
            "'f99[2]'",
            "'f32[-1]'",
            "'f32[99999999999]'",
            "1e400",
            "[a]",
            "''",
        )
    )


# ---- changes
def _token(rng: random.Random, text: str) -> str:
    found = list(re.finditer(r"\??[A-Za-z_]\w*|\d+(?:\.\d+)?|[()\[\]{},:?=]", text))
    if not found:
        return text
    m = rng.choice(found)
    new = rng.choice((rng.choice(NUMBERS), rng.choice(WORDS), rng.choice(pool()), rng.choice(found)[0], "", m[0] * 2, m[0].lstrip("?")))
    return text[: m.start()] + new + text[m.end() :]


def _line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    k = rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[k]
    elif kind == 1:
        lines.insert(k, lines[k])
    elif kind == 2:
        j = rng.randrange(len(lines))
        lines[k], lines[j] = lines[j], lines[k]
    elif kind == 3:
        lines[k] = rng.choice(("\t", " ", "   ")) + lines[k]
    else:
        lines[k] = lines[k][: rng.randrange(len(lines[k]) + 1)]
    return "\n".join(lines)


def _field(rng: random.Random, text: str) -> str:
    """Another value for one field."""
    found = list(re.finditer(r"(?m)^(\s+|- )(\w+): (.*)$", text))
    if not found:
        return text
    m = rng.choice(found)
    values = (
        *NUMBERS,
        "[]",
        "{}",
        "''",
        "null",
        "true",
        "[1, 2]",
        "[[a]]",
        "{a: [b]}",
        "{f: [relu, tanh]}",
        "{f: []}",
        "{f: [[a]]}",
        rng.choice(pool()),
        "?x",
        "x",
        rng.choice(found)[3],
        m[3] * 2,
        m[3][::-1],
    )
    return text[: m.start(3)] + rng.choice(values) + text[m.end(3) :]


def _variable(rng: random.Random, text: str) -> str:
    """One `?` less, or another name in its place."""
    found = list(re.finditer(r"\?\w+", text))
    if not found:
        return text
    m = rng.choice(found)
    return text[: m.start()] + rng.choice((m[0][1:], rng.choice(found)[0], "?new", m[0] + "...")) + text[m.end() :]


def _example(rng: random.Random, text: str) -> str:
    """Another value in an example."""
    found = list(re.finditer(r"(\w+): (\"[^\"]*\"|\[[^\]]*\]|[-\w.]+)(?=[,}])", text))
    if not found:
        return text
    m = rng.choice(found)
    return text[: m.start(2)] + rng.choice((_binding(rng), rng.choice(NUMBERS))) + text[m.end(2) :]


CHANGES: tuple[Callable[[random.Random, str], str], ...] = (_token, _token, _token, _line, _field, _field, _variable, _example, _example)


# ---- what is tried
def check(case: Case) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.yaml"
        if case.folder:
            path.mkdir()
        else:
            path.write_bytes(case.source)
        steps: list[Callable[[], None]] = [lambda: _checked(path), *([lambda: _compiled(path)] if case.optimize else [])]
        refused = [text for step in steps if (text := _refusal(step))]
    return Verdict("refused", refused[0]) if refused else RIGHT


def _refusal(step: Callable[[], None]) -> str:
    try:
        step()
    except AutocompError as e:
        return str(e).splitlines()[0]
    return ""


def _checked(path: Path) -> None:
    """`rules check` with a small budget."""
    from autocomp.report.rulecheck import check_rules
    from autocomp.rewrite import load_rules

    loaded = load_rules((str(path),))
    report = check_rules([r for r in loaded if str(r.location).startswith(str(path))], loaded, 1)
    report.table()
    report.data()
    report.require()


def _compiled(path: Path) -> None:
    """A program that may use the rules: rules that say `assumed: true` are used unchecked."""
    import autocomp

    program = autocomp.optimize(GRAPH, rules=[str(path)], cache=False)
    program.explain()


def smaller(case: Case) -> Iterator[Case]:
    """One rule alone, then fewer lines."""
    try:
        text = case.source.decode()
    except UnicodeDecodeError:
        yield Case(case.source[: len(case.source) // 2], case.optimize)
        return
    rules = re.split(r"\n(?=- )", text)
    if len(rules) > 1:
        yield from (Case((r + "\n").encode(), case.optimize) for r in rules)
    lines = text.split("\n")
    for k in range(len(lines)):
        yield Case("\n".join(lines[:k] + lines[k + 1 :]).encode(), case.optimize)
    if case.optimize:
        yield Case(case.source)
