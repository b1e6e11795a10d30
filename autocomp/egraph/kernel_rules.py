"""Tiling and scheduling rules of one kernel as egglog rules over one constructor: a schedule is a row of columns.

    (Tile rows cols depth batch taps threads stages grouped workers cluster deep resident overlap lazy unroll persistent apart stream
     split roles instruction)

A tiling rule joins its `choose` tables under its conditions and unites the kernel with a Tile; a scheduling rule matches the
Tiles of the kernel and adds others. The e-graph decides each condition itself or, where it cannot, puts the question
(`ask_<rule>_<condition>`) to which Python adds the answer (`says_<rule>_<condition>`); legality is asked once for each set of
axes that is cut. For every condition there is also the rule that records which choices it refused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from autocomp.cost.roles import Roles, spread
from autocomp.egraph.kernel_terms import Condition, Number, Unstated, Variables, condition, is_legal, number
from autocomp.errors import RuleError
from autocomp.ir.schedule import Schedule
from autocomp.rewrite.expr import Expr, Ref
from autocomp.rewrite.laws import check_choice
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.vocabulary import FIELDS, ROLE, WORDS
from autocomp.rewrite.where import Env, Unanswerable, evaluate, holds

TILES = ("rows", "cols", "depth", "batch", "taps")  # 0: the whole axes; of taps: as the depth says
COLUMNS = (*TILES, *FIELDS, *WORDS)
WIDEST = 2**31  # what a column of a schedule may be at most


class Words:
    """Words and other values that are no whole numbers, as numbers for egglog."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def code(self, value: Any) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


@dataclass(frozen=True)
class KernelRule:
    """A rule in egglog. `at`: place of each variable in the rows of its relations; `conditions` in the rule's order; `fixed`: what
    the variables are that do not vary; `words`: those that stand for words; `never`: the condition that refuses all of its `choices`.
    `commands` declare and define it."""

    rule: Rule
    number: int
    at: Mapping[str, int]
    conditions: tuple[Condition, ...]
    fixed: Mapping[str, Any]
    words: frozenset[str]
    never: str
    choices: int
    commands: tuple[str, ...] = ()

    def question(self, i: int) -> str:
        return f"ask_{self.number}_{i}"

    def answer(self, i: int) -> str:
        return f"says_{self.number}_{i}"

    def refusal(self, i: int) -> str:
        return f"no_{self.number}_{i}"


_Decision = Generator[str, None, tuple[list[str], list[str]]]


def _fact(relation: str, arguments: Sequence[str]) -> str:
    return f"({' '.join((relation, *arguments))})"


def default_row(words: Words) -> tuple[int, ...]:
    """The columns of the schedule that says nothing: the kernel as one tile."""
    empty = Schedule()
    fields = (int(getattr(empty, f) or 0) for f in FIELDS)
    return (*(0 for _ in TILES), *fields, *(words.code(getattr(empty, w)) for w in WORDS))


class Decoder:
    """Rows of columns as schedules: sizes spread over the axes of each role."""

    def __init__(self, roles: Roles, words: Words) -> None:
        self.roles, self.words = roles, words
        self._tiles: dict[tuple[int, ...], tuple[tuple[str, int], ...]] = {}

    def schedule(self, row: tuple[int, ...]) -> Schedule:
        """One row."""
        rest: dict[str, Any] = dict(zip((*FIELDS, *WORDS), row[len(TILES) :], strict=True))
        rest |= {w: self.words.values[rest[w]] for w in WORDS}
        split = (self.roles.split, rest["split"]) if rest["split"] else None
        flags = {b: bool(rest[b]) for b in ("persistent", "apart", "stream")}
        return Schedule(self.tile(row[: len(TILES)]), **rest | {"split": split} | flags)

    def tile(self, sizes: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
        """Tiles of the axes, by name, for the sizes of the roles (few among the rows)."""
        if sizes not in self._tiles:
            tile: dict[str, int] = {}
            for name, size in zip(TILES, sizes, strict=True):
                for axes in axes_of(self.roles, name) if size else ():
                    tile |= spread(axes, size, self.roles.padded and name != "taps")
            self._tiles[sizes] = tuple(sorted(tile.items()))
        return self._tiles[sizes]


def axes_of(roles: Roles, role: str) -> tuple[Any, ...]:
    """The groups of axes over which a role's size is spread: every reduction's for the depth, but for that of an online
    reduction's scores, which stays whole."""
    return roles.depths if role == "depth" and roles.form != "online" else (getattr(roles, role),)


def applies(rule: Rule, roles: Roles) -> bool:
    """Does the rule speak of kernels of this form (or, for scheduling rules, of any schedule)?"""
    if not isinstance(rule.match, Apply) or not isinstance(rule.rhs, Apply) or rule.rhs.op != "tile":
        return False
    known = {*ROLE, *FIELDS, *WORDS} if rule.phase == "scheduling" else set(ROLE)
    form = "tile" if rule.phase == "scheduling" else roles.form
    return rule.match.op == form and all(k in known for k, _ in rule.match.attrs)


def compile_rule(rule: Rule, n: int, roles: Roles, functions: Mapping[str, Any], words: Words) -> KernelRule:
    """The rule for a kernel with these roles. Raises RuleError where its right side cannot be computed."""
    return _Compiler(rule, n, roles, functions, words).result()


class _Compiler:
    def __init__(self, rule: Rule, n: int, roles: Roles, functions: Mapping[str, Any], words: Words) -> None:
        assert isinstance(rule.match, Apply) and isinstance(rule.rhs, Apply)
        self.rule, self.n, self.roles, self.words = rule, n, roles, words
        self.match, self.rhs = rule.match, rule.rhs
        self.facts: list[str] = []  # of the body
        self.commands: list[str] = []
        self.free: dict[str, Number | None] = {}
        self.fixed: dict[str, Any] = {}
        self.row = [str(v) for v in default_row(words)]
        if rule.phase == "scheduling":
            self._match_tile()
        else:
            self.fixed = {e.name: roles.extent(ROLE[k]) for k, e in self.match.attrs if isinstance(e, Ref)}
        self.env = Env(self.fixed, functions)
        self.number = 1  # of choices
        self.spoken = {n for n, v in self.free.items() if v is None}
        self._choose()
        columns = [c for c in self.row if c.startswith("q")]
        self.carried = [*columns, *(f"v_{name}" for name, _ in rule.choose)]

    def _match_tile(self) -> None:
        """`tile(m: ?bm, stages: 1)`: a bare variable binds a column, anything else is compared."""
        self.row = [f"q{i}" for i in range(len(COLUMNS))]
        for key, e in self.match.attrs:
            at = COLUMNS.index(ROLE.get(key, key))
            if isinstance(e, Ref):
                self.free[e.name] = None if key in WORDS else Number(self.row[at], 0, WIDEST)
            else:
                self.row[at] = self._value(key, e, {}, Env({}))
        self.facts.append(f"(= (Body) (Tile {' '.join(self.row)}))")

    def _choose(self) -> None:
        """A table for each chosen variable; sizes of a role are no larger than its extent."""
        keys = {e.name: k for k, e in self.rhs.attrs if isinstance(e, Ref)}
        most = {e.name: self.roles.limit(ROLE[k]) for k, e in self.rhs.attrs if isinstance(e, Ref) and k in ROLE}
        for name, of in self.rule.choose:
            values = of if isinstance(of, tuple) else tuple(evaluate(of, self.env))
            check_choice(self.rule, name, values, keys)
            numbers = all(isinstance(v, int) for v in values)
            codes = list(dict.fromkeys(min(int(v), most.get(name, int(v))) if numbers else self.words.code(v) for v in values))
            self.number *= len(codes)
            variable, table = f"v_{name}", f"choose_{self.n}_{name}"
            self.free[name] = Number(variable, min(codes), max(codes)) if numbers and codes else None
            if not numbers:
                self.spoken.add(name)
            self.commands += [f"(relation {table} (i64))", *(f"({table} {v})" for v in codes)]
            self.facts.append(f"({table} {variable})")

    def _text(self, name: str) -> str:
        """The egglog variable that stands for ?name."""
        own = self.free[name]
        if own is not None:
            return own.text
        bound = next((k for k, e in self.match.attrs if isinstance(e, Ref) and e.name == name and k in WORDS), None)
        return f"v_{name}" if bound is None else f"q{COLUMNS.index(bound)}"

    def _value(self, key: str, e: Expr, free: Variables, env: Env) -> str:
        """The column `key` of the right side."""
        if isinstance(e, Ref) and free.get(e.name, e) is None:
            return self._text(e.name)
        try:
            if key in WORDS:
                return str(self.words.code(str(evaluate(e, env))))
            n = number(e, free, env)
            if free and not isinstance(e, Ref):  # computed: the rule makes nothing of a tile without elements or larger than its axes
                low, high = (1, self.roles.limit(ROLE[key])) if key in ROLE else (0, WIDEST)
                self.facts += [f"(= (bool-<= {low} {n.text}) true)"] if n.low < low else []
                self.facts += [f"(= (bool-<= {n.text} {high}) true)"] if n.high > high else []
            return n.text
        except (Unanswerable, Unstated) as x:
            raise RuleError(f"{key}: {e} is no whole number here ({x})", where=self.rule.where_text) from None

    def result(self) -> KernelRule:
        for key, e in self.rhs.attrs:
            role = ROLE.get(key, key)
            empty = role in TILES and not any(axes_of(self.roles, role))
            self.row[COLUMNS.index(role)] = "0" if empty else self._value(key, e, self.free, self.env)
        conditions = [condition(c, self.free, self.env) for c in self.rule.where]
        same = [c for c in conditions if not c.variables and not is_legal(c.expr)]  # the same for every choice
        never = next((a.reason for a in (holds((c.expr,), self.env) for c in same) if not a), "")
        at = {n: self.carried.index(self._text(n)) for n in self.free}
        open_ = tuple(c for c in conditions if c not in same)
        out = KernelRule(self.rule, self.n, at, open_, self.fixed, frozenset(self.spoken), never, self.number)
        return out if never else replace(out, commands=(*self.commands, *self._guards(out)))

    def _guards(self, out: KernelRule) -> Iterator[str]:
        """The choices pass the conditions one after another: `at_<rule>_<i>` holds those that came as far as condition i > 0."""
        sorts, row = " ".join("i64" for _ in self.carried), " ".join(self.row)
        made = f"(union (Body) (Tile {row})) (set (made {row}) {self.n})"
        here = " ".join(self.facts)
        for i, c in enumerate(out.conditions):
            last = i == len(out.conditions) - 1
            there = _fact(f"at_{self.n}_{i + 1}", self.carried)
            if not last:
                yield f"(relation at_{self.n}_{i + 1} ({sorts}))"
            yield f"(relation {out.refusal(i)} ({sorts}))"
            yes, no = yield from self._decision(out, i, c, here)
            yield self._rule(f"pass_{self.n}_{i}", yes, made if last else there)
            yield self._rule(out.refusal(i), no, _fact(out.refusal(i), self.carried))
            here = there
        if not out.conditions:
            yield self._rule(f"make_{self.n}", [here], made)

    def _decision(self, out: KernelRule, i: int, c: Condition, here: str) -> _Decision:
        """Yields commands; returns the bodies that hold where the condition does, and where it does not."""
        if c.text:
            return [here, f"(= {c.text} true)"], [here, f"(= {c.text} false)"]
        if is_legal(c.expr):
            return (yield from self._legality(i, here))
        names = [self._text(v) for v in c.variables]
        sorts = " ".join("i64" for _ in names)
        yield f"(relation {out.question(i)} ({sorts}))"
        yield f"(function {out.answer(i)} ({sorts}) i64 :no-merge)"
        yield self._rule(out.question(i), [here], _fact(out.question(i), names))
        says = _fact(out.answer(i), names)
        return [here, f"(= {says} 1)"], [here, f"(= {says} 0)"]

    def _legality(self, i: int, here: str) -> _Decision:
        """First which axes the sizes cut, then whether these cuts are legal: asked once for each set of axes."""
        relation, mask = f"cuts_{self.n}_{i}", reduce(lambda a, b: f"(| {a} {b})", (f"cut{k}" for k, _ in enumerate(TILES)))
        cuts = [f"(= cut{k} (cut {k} {self.row[k]}))" for k, _ in enumerate(TILES)]
        yield f"(relation {relation} ({' '.join('i64' for _ in (*self.carried, mask))}))"
        yield self._rule(f"cut_{self.n}_{i}", [here], " ".join(f"(ask_cut {k} {self.row[k]})" for k, _ in enumerate(TILES)))
        yield self._rule(relation, [here, *cuts], f"{_fact(relation, (*self.carried, mask))} (ask_legal {mask})")
        fact = _fact(relation, (*self.carried, "mask"))
        return [fact, "(= (legal mask) 1)"], [fact, "(= (legal mask) 0)"]

    def _rule(self, name: str, body: list[str], head: str) -> str:
        return f'(rule ({" ".join(body)}) ({head}) :ruleset schedules :name "{name}")'
