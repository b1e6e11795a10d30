"""Tiling and scheduling rules of one kernel as egglog rules over one constructor: a schedule is a row of columns.

    (Tile rows cols depth batch taps still high wide threads stages grouped workers cluster cluster_split_k resident softmax_overlap
     rescale_threshold persistent ping_pong stream_k scan split roles instruction)

A tiling rule joins its `choose` tables under its conditions and unites the kernel with a Tile; a scheduling rule matches the
Tiles of the kernel and adds others. The e-graph decides each condition itself or, where it cannot, puts the question
(`ask_<rule>_<condition>`) to which Python adds the answer (`says_<rule>_<condition>`); legality is asked once for each set of
axes that is cut. Rules beside these record which choices are refused; which of the conditions that egglog decides at once it was, Python
finds out.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import Any

from autocomp.cost.roles import Roles, spread_role
from autocomp.egraph.directives import Directives
from autocomp.egraph.kernel_terms import LIMIT, Condition, Number, Unstated, condition, is_legal, number, variables_of
from autocomp.egraph.room import Need, is_room, needs
from autocomp.errors import RuleError
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import FLAGS
from autocomp.rewrite.expr import Call, Expr, Ref, walk
from autocomp.rewrite.laws import check_choice
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.vocabulary import COUNTED, FIELDS, ROLE, WORDS
from autocomp.rewrite.where import Env, Unanswerable, evaluate, listed

# 0: the whole axes; of taps: as the depth says; of the three behind them: as the rows say
TILES = ("rows", "cols", "depth", "batch", "taps", "still", "high", "wide")
COLUMNS = (*TILES, *FIELDS, *WORDS)
MACHINE = frozenset(("room", "fits", "cores", "feature", "lanes", "wave", "option", "int", "min", "max"))  # they ask of no kernel
WIDEST = 2**31  # what a column of a schedule may be at most
OWN = re.compile(r"\bown\d+\b")  # variables for numbers that each kernel has its own of


class Words:
    """Words and other values that are no whole numbers, as numbers for egglog."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def code(self, value: Any) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


@dataclass(frozen=True)
class KernelEntry:
    """One of the kernels whose schedules an e-graph holds: its number there, its axes' roles, and what conditions may ask about it."""

    number: int
    roles: Roles
    functions: Mapping[str, Any]


@dataclass(frozen=True)
class KernelRule:
    """A rule in egglog. `at`: place of each variable in the rows of its relations, behind the kernel's number; `conditions` in the rule's
    order; by kernel: `fixed`, what the variables are that do not vary, `never`, the condition that refuses all of its `choices`, and
    `choices`. `words`: the variables that stand for words. `commands` declare and define it, `facts` say what each kernel's numbers are."""

    rule: Rule
    number: int
    at: Mapping[str, int]
    conditions: tuple[Condition, ...]
    fixed: Mapping[int, Mapping[str, Any]]
    words: frozenset[str]
    never: Mapping[int, str]
    choices: Mapping[int, int]
    commands: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def question(self, i: int) -> str:
        return f"ask_{self.number}_{i}"

    def answer(self, i: int) -> str:
        return f"says_{self.number}_{i}"

    def refusal(self, i: int) -> str:
        return f"no_{self.number}_{i}"

    def together(self) -> Iterator[tuple[int, tuple[Condition, ...]]]:
        """Conditions that are decided at once, and the number of the first: egglog's that stand behind each other, others alone."""
        for decided, some in groupby(enumerate(self.conditions), lambda x: bool(x[1].text)):
            found = list(some)
            if decided:
                yield found[0][0], tuple(c for _, c in found)
            else:
                yield from ((i, (c,)) for i, c in found)


_Decision = Generator[str, None, tuple[str, str]]


def _fact(relation: str, arguments: Sequence[str]) -> str:
    return f"({' '.join((relation, *arguments))})"


def default_row(words: Words) -> tuple[int, ...]:
    """The columns of the schedule that says nothing: the kernel as one tile."""
    empty = Schedule()
    fields = (int(getattr(empty, f) or 0) for f in FIELDS)
    return (*(0 for _ in TILES), *fields, *(words.code(getattr(empty, w)) for w in WORDS))


class Decoder:
    """Rows of columns as schedules: sizes spread over the axes of each role."""

    def __init__(self, roles: Roles, words: Words, directives: Directives = Directives((), {})) -> None:  # noqa: B008
        self.roles, self.words, self.directives = roles, words, directives
        self._tiles: dict[tuple[int, ...], tuple[tuple[str, int], ...]] = {}
        self._rest: dict[tuple[int, ...], Schedule] = {}
        self._roles: dict[tuple[str, int], dict[str, int]] = {}

    def schedule(self, row: tuple[int, ...]) -> Schedule:
        """One row."""
        return self.tiled(self.tile(row[: len(TILES)]), row[len(TILES) :])

    def tiled(self, tile: tuple[tuple[str, int], ...], rest: tuple[int, ...]) -> Schedule:
        """Tiles of axes with the columns beside those of tiles."""
        if rest not in self._rest:
            self._rest[rest] = self._untiled(rest)
        return self._rest[rest].tiled(tile)

    def _untiled(self, columns: tuple[int, ...]) -> Schedule:
        """What stands beside the tiles (few among the rows)."""
        rest: dict[str, Any] = dict(zip((*FIELDS, *WORDS), columns, strict=True))
        rest |= {w: self.words.values[rest[w]] for w in WORDS}
        split = (self.roles.split, rest["split"]) if rest["split"] else None
        flags = {b: bool(rest[b]) for b in FLAGS}
        schedule = Schedule(**rest | {"split": split} | flags)
        return schedule.told(self.directives.of(schedule))

    def tile(self, sizes: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
        """Tiles of the axes, by name, for the sizes of the roles (few among the rows)."""
        if sizes not in self._tiles:
            tile: dict[str, int] = {}
            for name, size in zip(TILES, sizes, strict=True):
                tile |= self._role(name, size) if size else {}
            self._tiles[sizes] = tuple(sorted(tile.items()))
        return self._tiles[sizes]

    def _role(self, name: str, size: int) -> dict[str, int]:
        """Tiles of the axes of one role."""
        if (name, size) not in self._roles:
            tile: dict[str, int] = {}
            for axes in axes_of(self.roles, name):
                tile |= spread_role(self.roles, name, axes, size)
            self._roles[name, size] = tile
        return self._roles[name, size]


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


def compile_rule(rule: Rule, n: int, entries: Sequence[KernelEntry], words: Words) -> KernelRule:
    """The rule for kernels whose roles have axes alike. Raises RuleError where its right side cannot be computed."""
    return _Compiler(rule, n, entries, words).result()


class _Compiler:
    """What is the same for all kernels is written into the egglog rule; what is not is a function of the kernel's number."""

    def __init__(self, rule: Rule, n: int, entries: Sequence[KernelEntry], words: Words) -> None:
        assert isinstance(rule.match, Apply) and isinstance(rule.rhs, Apply)
        self.rule, self.n, self.entries, self.words = rule, n, entries, words
        self.match, self.rhs = rule.match, rule.rhs
        self.facts: list[str] = [f"(live_{n} kernel)"]  # of the body
        self.commands: list[str] = [f"(relation live_{n} (i64))"]
        self.said: list[str] = []  # about each kernel
        self.free: dict[str, Number | None] = {}
        self.row = [str(v) for v in default_row(words)]
        self.fixed: dict[int, dict[str, Any]] = {x.number: {} for x in entries}
        if rule.phase == "scheduling":
            self._match_tile()
        else:
            extents = {e.name: ROLE[k] for k, e in self.match.attrs if isinstance(e, Ref)}
            self.fixed = {x.number: {name: x.roles.extent(role) for name, role in extents.items()} for x in entries}
        self.envs = {x.number: Env(self.fixed[x.number], x.functions) for x in entries}
        self.constants: dict[str, str] = {}  # text of an expression -> the variable that has its value for each kernel
        self.asked: dict[str, str] = {}  # that variable -> the fact that binds it
        self.spoken = {name for name, v in self.free.items() if v is None}
        self.choices = dict.fromkeys(self.envs, 1)
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
                self.row[at] = self._word(key, e, Env({})) if key in WORDS else self._number(key, e)
        self.facts.append(f"(= (Body kernel) (Tile kernel {' '.join(self.row)}))")

    def _choose(self) -> None:
        """A table for each chosen variable; sizes of a role are no larger than its extent."""
        keys = {e.name: k for k, e in self.rhs.attrs if isinstance(e, Ref)}
        most = {name: ROLE[k] for name, k in keys.items() if k in ROLE}
        for name, of in self.rule.choose:
            values = {n: of if isinstance(of, tuple) else listed(self.rule, name, of, env) for n, env in self.envs.items()}
            for some in values.values():
                check_choice(self.rule, name, some, keys)
            numbers = all(isinstance(v, int) for vs in values.values() for v in vs)
            codes = {n: [int(v) if numbers else self.words.code(v) for v in vs] for n, vs in values.items()}
            variable, table = f"v_{name}", f"choose_{self.n}_{name}"
            limits = self._limits(most[name]) if numbers and name in most else {}
            if len({tuple(c) for c in codes.values()}) == 1:
                self.commands.append(f"(relation {table} (i64))")
                self.said += (f"({table} {v})" for v in dict.fromkeys(next(iter(codes.values()))))
                of_kernel = ""
            else:
                self.commands.append(f"(relation {table} (i64 i64))")
                self.said += (f"({table} {n} {v})" for n, c in codes.items() for v in dict.fromkeys(c))
                of_kernel = "kernel "
            if limits:
                bound = self._constant(f"most {most[name]}", limits)
                self.facts += [f"({table} {of_kernel}w_{name})", f"(= {variable} (min w_{name} {bound}))"]
                codes = {n: [min(v, limits[n]) for v in c] for n, c in codes.items()}
            else:
                self.facts.append(f"({table} {of_kernel}{variable})")
            self.choices = {n: self.choices[n] * len(set(c)) for n, c in codes.items()}
            every = [v for c in codes.values() for v in c]
            self.free[name] = Number(variable, min(every), max(every)) if numbers and every else None
            if not numbers:
                self.spoken.add(name)

    def _limits(self, role: str) -> dict[int, int]:
        """The largest tile of each kernel."""
        return {x.number: x.roles.limit(role) for x in self.entries}

    def _constant(self, text: str, values: Mapping[int, int]) -> str:
        """What egglog calls a number that each kernel has its own of."""
        if text not in self.constants:
            name = self.constants[text] = f"own{len(self.constants)}"
            function = f"own_{self.n}_{len(self.asked)}"
            self.asked[name] = f"(= {name} ({function} kernel))"
            self.commands.append(f"(function {function} (i64) i64 :no-merge)")
            self.said += (f"(set ({function} {n}) {v})" for n, v in values.items())
        return self.constants[text]

    def _known(self, e: Expr) -> Number | bool | None:
        """An expression that mentions no free variable: as a number or a truth that egglog can look up, None where it is neither for
        some kernel."""
        values: dict[int, int] = {}
        kinds = set()
        for n, env in self.envs.items():
            try:
                value = evaluate(e, env)
            except Unanswerable:
                return None
            if not isinstance(value, int) or abs(value) >= LIMIT:
                return None
            kinds.add(type(value) is bool)
            values[n] = int(value)
        if len(kinds) != 1:
            return None
        if kinds == {True} and len(set(values.values())) == 1:
            return bool(next(iter(values.values())))
        of_kernel = any(isinstance(x, Ref) or (isinstance(x, Call) and x.name not in MACHINE) for x in walk(e))
        one = set() if of_kernel else set(values.values())
        text = str(one.pop()) if len(one) == 1 else self._constant(str(e), values)
        return Number(text, min(values.values()), max(values.values()), kinds == {True})

    def _text(self, name: str) -> str:
        """The egglog variable that stands for ?name."""
        own = self.free[name]
        if own is not None:
            return own.text
        bound = next((k for k, e in self.match.attrs if isinstance(e, Ref) and e.name == name and k in WORDS), None)
        return f"v_{name}" if bound is None else f"q{COLUMNS.index(bound)}"

    def _word(self, key: str, e: Expr, env: Env) -> str:
        try:
            return str(self.words.code(str(evaluate(e, env))))
        except Unanswerable as x:
            raise RuleError(f"{key}: {e} is no word here ({x})", where=self.rule.where_text) from None

    def _number(self, key: str, e: Expr) -> str:
        try:
            return str(evaluate(e, Env({})))
        except Unanswerable as x:
            raise RuleError(f"{key}: {e} is no number here ({x})", where=self.rule.where_text) from None

    def _value(self, key: str, e: Expr) -> str:
        """The column `key` of the right side."""
        if isinstance(e, Ref) and self.free.get(e.name, e) is None:
            return self._text(e.name)
        if key in WORDS:
            return self._word(key, e, next(iter(self.envs.values())))
        try:
            n = number(e, self.free, self._known)
            if self.free and not isinstance(e, Ref):
                self._bound(key, n)
            return n.text
        except Unstated as x:
            raise RuleError(f"{key}: {e} is no whole number here ({x})", where=self.rule.where_text) from None

    def _bound(self, key: str, n: Number) -> None:
        """A rule that computes a column makes nothing of a tile without elements or larger than its axes."""
        limits = self._limits(ROLE[key]) if key in ROLE else dict.fromkeys(self.envs, WIDEST)
        low = 1 if key in COUNTED else 0
        self.facts += [f"(= (bool-<= {low} {n.text}) true)"] if n.low < low else []
        if n.high > min(limits.values()):
            self.facts.append(f"(= (bool-<= {n.text} {self._constant(f'most {ROLE.get(key, key)}', limits)}) true)")

    def _conditions(self, c: Expr) -> list[tuple[Expr, Need | None]]:
        """One of `where`; of `fits(tile)` what it stands for here."""
        if not is_room(c):
            return [(c, None)]
        if self.rule.phase != "tiling":
            raise RuleError(f"{c}: a {self.rule.phase} rule does not say the whole tile", where=self.rule.where_text,
                            hint="write it in the tiling rule; targets refuse what does not fit")  # fmt: skip
        return [(n.holds, n) for n in needs(self.rule, self.entries[0].roles.form)]

    def result(self) -> KernelRule:
        for key, e in self.rhs.attrs:
            role = ROLE.get(key, key)
            empty = role in TILES and not any(axes_of(self.entries[0].roles, role))
            self.row[COLUMNS.index(role)] = "0" if empty else self._value(key, e)
        conditions = [x for c in self.rule.where for x in self._conditions(c)]
        varies = [bool(variables_of(e, self.free)) or is_legal(e) for e, _ in conditions]
        same = [Condition(e, "", (), need) for (e, need), v in zip(conditions, varies) if not v]  # for every choice
        never = {n: next((why for c in same if (why := c.why_not(env))), "") for n, env in self.envs.items()}
        at = {n: self.carried.index(self._text(n)) for n in self.free}
        out = KernelRule(self.rule, self.n, at, (), self.fixed, frozenset(self.spoken), never, self.choices)
        if all(never.values()):  # nobody asks its other conditions
            return out
        open_ = (replace(condition(e, self.free, self._known), need=need) for (e, need), v in zip(conditions, varies) if v)
        out = replace(out, conditions=tuple(open_))
        rules = tuple(self._guards(out))
        live = (f"(live_{self.n} {n})" for n, why in never.items() if not why)
        return replace(out, commands=(*self.commands, *rules), facts=(*self.said, *live))

    def _guards(self, out: KernelRule) -> Iterator[str]:
        """A choice is recorded where a condition refuses it (`no_`) or before isl is asked (`at_`), not wherever it passes: rows are what
        takes time, a million `at_` of DenseNet-121's 75,000 schedules."""
        self.carried = ["kernel", *self.carried]
        sorts, row = " ".join("i64" for _ in self.carried), " ".join(self.row)
        here = " ".join(self.facts)
        for i, some in out.together():
            if is_legal(some[0].expr):  # joined with what each size cuts: egglog would try all sizes first
                at = f"at_{self.n}_{i}"
                yield f"(relation {at} ({sorts}))"
                yield self._rule(f"pass_{self.n}_{i}", here, _fact(at, self.carried))
                here = _fact(at, self.carried)
            here, no = yield from self._decision(out, i, some, here)
            yield f"(relation {out.refusal(i)} ({sorts}))"
            yield self._rule(out.refusal(i), no, _fact(out.refusal(i), self.carried))
        yield self._rule(f"make_{self.n}", here, f"(union (Body kernel) (Tile kernel {row})) (set (made kernel {row}) {self.n})")

    def _decision(self, out: KernelRule, i: int, some: Sequence[Condition], here: str) -> _Decision:
        """Yields commands; returns the bodies that hold where all of some conditions do, and where one does not."""
        if some[0].text:
            yes = " ".join(f"(= {c.text} true)" for c in some)
            return f"{here} {yes}", f"{here} (= {reduce(lambda a, b: f'(and {a} {b})', (c.text for c in some))} false)"
        (c,) = some
        if is_legal(c.expr):
            return (yield from self._legality(i, here))
        names = ["kernel", *(self._text(v) for v in c.variables)]
        sorts = " ".join("i64" for _ in names)
        yield f"(relation {out.question(i)} ({sorts}))"
        yield f"(function {out.answer(i)} ({sorts}) i64 :no-merge)"
        yield self._rule(out.question(i), here, _fact(out.question(i), names))
        says = _fact(out.answer(i), names)
        return f"{here} (= {says} 1)", f"{here} (= {says} 0)"

    def _legality(self, i: int, here: str) -> _Decision:
        """First which axes the sizes cut, then whether these cuts are legal: asked once for each set of axes of a kernel."""
        relation, mask = f"cuts_{self.n}_{i}", reduce(lambda a, b: f"(| {a} {b})", (f"cut{k}" for k, _ in enumerate(TILES)))
        cuts = [f"(= cut{k} (cut kernel {k} {self.row[k]}))" for k, _ in enumerate(TILES)]
        yield f"(relation {relation} ({' '.join('i64' for _ in (*self.carried, mask))}))"
        yield self._rule(f"cut_{self.n}_{i}", here, " ".join(f"(ask_cut kernel {k} {self.row[k]})" for k, _ in enumerate(TILES)))
        yield self._rule(relation, " ".join((here, *cuts)), f"{_fact(relation, (*self.carried, mask))} (ask_legal kernel {mask})")
        fact = _fact(relation, (*self.carried, "mask"))
        return f"{fact} (= (legal kernel mask) 1)", f"{fact} (= (legal kernel mask) 0)"

    def _rule(self, name: str, body: str, head: str) -> str:
        mentioned = set(OWN.findall(f"{body} {head}"))
        text = " ".join((body, *(fact for variable, fact in self.asked.items() if variable in mentioned)))
        return f'(rule ({text}) ({head}) :ruleset schedules :name "{name}")'
