"""The graph e-graph on egglog: terms go in by name, classes and matches come out.

Each op of each arity is a constructor over one sort T; its attributes are one string (their canonical text). Every term
that we make has a number in the table `named`, so a class always has a name to speak of it. Commands are parsed one at a
time: every syntax node keeps a copy of its whole source text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autocomp.egraph.kept import Pool
from autocomp.egraph.native import check, egglog
from autocomp.errors import RuleError
from autocomp.ir.node import Attrs

if TYPE_CHECKING:
    from egglog import bindings


@dataclass(frozen=True)
class Term:
    """A named term: op of the table (or a leaf), attributes, names of the operands; `why` the rule that made it."""

    op: str
    attrs: Attrs
    args: tuple[int, ...]
    why: str


def execute(eg: bindings.EGraph, text: str, source: str) -> list[Any]:
    """Run commands; what they put out. Raises RuleError at `source`; after a panic the e-graph is to be thrown away."""
    check(eg)
    try:
        return list(eg.run_program(*eg.parse_program(text, source)))
    except egglog().EggSmolError as e:
        raise RuleError(f"egglog refuses it: {str(e).strip().splitlines()[-1]}", where=source) from None
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        raise RuleError(f"egglog stopped: {e}", where=source, hint="report this rule; the e-graph was thrown away") from None


@dataclass
class _Base:
    """An e-graph without terms: its constructors, and what was declared in it, under its name."""

    name: Hashable
    eg: Any
    constructors: set[str]
    groups: dict[tuple[str, ...], str]
    declared: Any


_BASES = Pool()


class Engine:
    """One e-graph. `classes` is valid after `matches` and `rebuild`. What `declare` declares in it, before there are terms, is kept for the
    next engine of the same `name`, or of one that what it has will do for (`serves`), as this takes longer than matching on a small graph;
    `declared` is what it gave."""

    def __init__(self, name: Hashable = None, declare: Callable[[Engine], Any] = lambda engine: None,
                 serves: Callable[[Any], bool] | None = None) -> None:  # fmt: skip
        found = _BASES.take(name) or (_BASES.take_one(lambda base: serves(base.name)) if serves is not None else None)
        self._base: _Base = found or self._fresh(name, declare)
        self._eg, self._constructors, self._groups = self._base.eg, set(self._base.constructors), self._base.groups
        self._run("(push)")
        self.declared = self._base.declared
        self.terms: list[Term] = []
        self._memo: dict[tuple[str, Attrs, tuple[int, ...]], int] = {}
        self._attrs: dict[str, Attrs] = {}
        self.classes: list[int] = []
        self.names: dict[bindings.Value, int] = {}  # egglog's value of a class -> the smallest name in it
        self._texts: dict[bindings.Value, str] = {}
        self._stale = True  # whether terms came or classes met since `classes` was computed
        self._apart = False  # whether `equate` has pairs that are not united yet

    def _fresh(self, name: Hashable, declare: Callable[[Engine], Any]) -> _Base:
        self._eg, self._constructors = egglog().EGraph(), set[str]()
        self._groups = dict[tuple[str, ...], str]()  # relations -> the ruleset of all of them
        for text in ("(sort T)", "(function named (i64) T :no-merge)", "(relation equate (i64 i64))", "(ruleset unite)",
                     "(rule ((equate a b) (= x (named a)) (= y (named b))) ((union x y)) :ruleset unite)"):  # fmt: skip
            self._run(text)
        return _Base(name, self._eg, self._constructors, self._groups, declare(self))

    def _run(self, text: str, source: str = "graph") -> None:
        execute(self._eg, text, source)

    def close(self) -> None:
        """Drop the terms now: an e-graph must die in the thread that made it. An engine that is not closed keeps nothing for the next."""
        self._run("(pop)")
        del self._eg
        _BASES.keep(self._base.name, self._base)

    # ---- terms
    def constructor(self, op: str, arity: int) -> str:
        """The constructor's name; declared on first use."""
        name = f"{op}_{arity}"
        if name not in self._constructors:
            self._constructors.add(name)
            self._run(f"(constructor {name} ({'T ' * arity}String) T)")
        return name

    def add(self, op: str, attrs: Attrs, args: Sequence[int], why: str) -> int:
        """The name of a term (the old name if it was made before)."""
        key = (op, attrs, tuple(args))
        if key not in self._memo:
            self._memo[key] = n = len(self.terms)
            self._stale = True
            self.terms.append(Term(op, attrs, tuple(args), why))
            inner = " ".join(f"(named {a})" for a in args)
            self._run(f"(set (named {n}) ({self.constructor(op, len(args))} {inner} {self.text(attrs)}))")
        return self._memo[key]

    def text(self, attrs: Attrs) -> str:
        """Attributes as an egglog string."""
        s = repr(attrs).replace("\\", "\\\\").replace('"', '\\"')
        self._attrs[repr(attrs)] = attrs
        return f'"{s}"'

    def attrs_of(self, text: str) -> Attrs:
        return self._attrs[text]

    def equal(self, a: int, b: int) -> bool:
        """Whether two names stood for one class when `matches` looked last."""
        return a == b or (max(a, b) < len(self.classes) and self.classes[a] == self.classes[b])

    def union(self, a: int, b: int) -> None:
        """Unite two names before anything is matched again: all at once, as egglog restores congruence after each command."""
        self._run(f"(equate {a} {b})")
        self._apart = True

    def _unite(self) -> None:
        if self._apart:
            self._run("(run-schedule (run unite))")
            self._apart, self._stale = False, True

    def rebuild(self) -> None:
        """Recompute `classes`: name -> the smallest name in its class."""
        self._unite()
        if self._stale:
            rows = self._eg.freeze().functions["named"].rows
            named = sorted(((self._eg.value_to_i64(r.inputs[0]), r.output) for r in rows), key=lambda p: p[0])
            self.names = {}
            self.classes = [self.names.setdefault(value, n) for n, value in named]
            self._stale = False

    # ---- rules
    def rule(self, relation: str, variables: Sequence[tuple[str, str]], body: str, source: str) -> None:
        """Record matches of `body` in a relation over (variable, sort) pairs, when `match` is asked for it."""
        self._run(f"(ruleset {relation}_rule)")
        self._run(f"(relation {relation} ({' '.join(s for _, s in variables)}))", source)
        head = f"({relation} {' '.join(v for v, _ in variables)})"
        self._run(f'(rule ({body}) ({head}) :ruleset {relation}_rule :name "{relation}")', source)

    def together(self, name: str, relations: Sequence[str]) -> None:
        """Left sides that are mostly asked for all at once: one ruleset is run in a fraction of the time of many."""
        if relations:
            self._run(f"(unstable-combined-ruleset {name} {' '.join(f'{r}_rule' for r in relations)})")
            self._groups[tuple(relations)] = name

    def match(self, relations: Iterable[str]) -> None:
        """One round of matching, of the left sides that these relations record."""
        self._unite()
        asked = tuple(relations)
        if runs := self._groups.get(asked) or " ".join(f"(run {r}_rule)" for r in asked):
            self._run(f"(run-schedule {runs})")

    def matches(self, relations: Iterable[str]) -> dict[str, list[tuple[bindings.Value, ...]]]:
        """All rows of each relation: of T values the names are in `names`, of strings the texts in `text_of`. Renews `classes`."""
        self.rebuild()
        functions = self._eg.freeze().functions  # asked once: every look at it copies all rows
        return {relation: [tuple(r.inputs) for r in functions[relation].rows] for relation in relations}

    def text_of(self, value: bindings.Value) -> str:
        known = self._texts.get(value)
        if known is None:
            known = self._texts[value] = self._eg.value_to_string(value)
        return known
