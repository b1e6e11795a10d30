"""The terms of an e-graph while rules are applied to it, and what is known of each: its type, whether it is constant or one number.

Facts of terms become facts of classes (an e-class analysis): what one form knows holds for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from autocomp.egraph.engine import Engine
from autocomp.ir.node import Attrs
from autocomp.ir.ops import OPS
from autocomp.ir.scalar import SCALAR, convert
from autocomp.ir.types import BOOL, TensorType, holds_symbol, same_number
from autocomp.rewrite.functions import Operand
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env

DEAR = 8  # additions that a function of floats stands for (`SCALAR`) from which on a table of its values is cheaper, if it
TABLE = 2**18  # has at most so many bytes, which stay near the cores: a quotient of places 35 us for 21 (price), 2048 rows of 4800
INJECTIVE = frozenset(name for name, op in OPS.items() if op.injective)


@dataclass
class Match:
    """A row for which the rule's conditions hold: its variables, the names of its tensors, its root, and the tensors between
    (of a rule of siblings)."""

    env: Env
    names: dict[str, int]
    root: int
    inner: tuple[int, ...] = ()


@dataclass
class Terms:
    """The terms in the engine, with type and known facts of each.

    uniform: the number that all elements are, if it is known. constant: computable from parameters and constants alone,
    before the program runs, so that no symbolic size is in it. fixed: none is in its own type and attributes.
    indexed: a cheap map of indices alone, or one number in another shape: cheaper to compute than to load, so never folded.
    decides: a rounding or a comparison is computed from it. least: its elements are 0 or of at least that magnitude, as far as the graph
    says it. After `settle` all but `fixed` and `indexed` are facts of classes: what one
    form knows holds for all of them; of `uniform` and `constant` also for what is computed from them.
    users: the terms that have it as an operand. settled: the classes as of the last `settle`. united: classes met since then.
    fired: each time that a rule did, with the terms that it made: from the first to before the second.
    """

    engine: Engine
    foldable: int  # bytes of a constant at most
    types: list[TensorType] = field(default_factory=list)
    uniform: list[float | None] = field(default_factory=list)
    constant: list[bool] = field(default_factory=list)
    fixed: list[bool] = field(default_factory=list)
    indexed: list[bool] = field(default_factory=list)
    decides: list[bool] = field(default_factory=list)
    least: list[float | None] = field(default_factory=list)
    users: list[list[int]] = field(default_factory=list)
    injective: list[int] = field(default_factory=list)  # terms of injective ops
    settled: list[int] = field(default_factory=list)
    united: bool = False
    fired: list[tuple[Rule, Match, int, int]] = field(default_factory=list)

    def add(self, op: str, attrs: Attrs, args: tuple[int, ...], type: TensorType, why: str, decides: bool = False, least: float | None = 0.0
            ) -> int:  # fmt: skip
        n = self.engine.add(op, attrs, args, why)
        if n == len(self.types):
            self.decides.append(decides)
            self.least.append(least)
            self.types.append(type)
            self.users.append([])
            for a in dict.fromkeys(args):
                self.users[a].append(n)
            if op in INJECTIVE:
                self.injective.append(n)
            self.fixed.append(not holds_symbol(type) and not holds_symbol(attrs))
            self.uniform.append(self._uniform(n))
            self.constant.append(self._constant(n))
            plain = [a for a in args if self.uniform[a] is None and self.engine.terms[a].op != "const"]
            maps = op in SCALAR or op in ("broadcast", "reshape", "transpose")
            spread = op in ("broadcast", "reshape", "transpose") and self.uniform[n] is not None
            dear = op in SCALAR and SCALAR[op].flops >= DEAR and type.dtype.is_float and type.bytes <= TABLE
            self.indexed.append(op == "iota" or spread or (maps and not dear and bool(plain) and all(self.indexed[a] for a in plain)))
        return n

    def _constant(self, n: int) -> bool:
        t = self.engine.terms[n]
        if t.op in ("param", "const", "input"):
            return self.fixed[n] and t.op != "input"
        return self.fixed[n] and self.types[n].bytes <= self.foldable and all(self.constant[a] for a in t.args)

    def _uniform(self, n: int) -> float | None:
        t = self.engine.terms[n]
        if t.op == "const" and not isinstance(t.attrs["value"], bool):
            return float(t.attrs["value"])
        if t.op in ("broadcast", "reshape", "transpose"):
            return self.uniform[t.args[0]]
        if t.op == "cast" and self.uniform[t.args[0]] is not None and self.types[n].dtype != BOOL:
            return float(convert(self.uniform[t.args[0]], self.types[n].dtype))
        return None

    def settle(self) -> None:
        """Join the facts of every class's forms, and pass them on to the users, until nothing changes: in turns over the classes in the
        order of their names, of which those are looked at that have other forms than before or of whose operands more is known."""
        if not self.united:  # a term alone has its facts from the start
            return
        self.united = False
        classes, before, self.settled = self.engine.classes, self.settled, self.engine.classes
        members: dict[int, list[int]] = {}
        for n, c in enumerate(classes):
            members.setdefault(c, []).append(n)
        todo = sorted({(0, c) for b, c in zip(before, classes) if b != c} | {(0, c) for c in classes[len(before) :]})  # (turn, class)
        for _, c in todo:
            names = members[c]
            decides, all_ = any(self.decides[n] for n in names), [self.least[n] for n in names]
            least = None if None in all_ else max(x for x in all_ if x is not None)
            for n in names:
                self.decides[n], self.least[n] = decides, least
        waiting = set(todo)
        while todo:
            turn, c = heappop(todo)
            if self._join(members[c]):
                for user in {classes[u] for n in members[c] for u in self.users[n]}:
                    at = (turn + (user <= c), user)
                    if at not in waiting:
                        waiting.add(at)
                        heappush(todo, at)

    def _join(self, names: Sequence[int]) -> bool:
        """Give all forms of a class what is known of one of them or of its operands; whether that says more of any."""
        known = next((u for n in names if (u := self.uniform[n]) is not None or (u := self._uniform(n)) is not None), None)
        constant = any(self.constant[n] or self._constant(n) for n in names)
        changed = [n for n in names if not same_number(self.uniform[n], known) or self.constant[n] != constant]
        for n in changed:
            self.uniform[n], self.constant[n] = known, constant
        return bool(changed)

    def cancel(self) -> bool:
        """Unite what an injective op maps to one tensor; whether anything was united. Congruence alone never says it: T(a) = T(b)
        would leave a and b apart, and rules that go on from each of them make the same tensors again without end."""
        first: dict[tuple[str, Attrs, int], int] = {}
        joined = False
        for n in self.injective:
            t = self.engine.terms[n]
            a = first.setdefault((t.op, t.attrs, self.engine.classes[n]), t.args[0])
            if not self.engine.equal(a, t.args[0]):
                self.engine.union(a, t.args[0])
                joined = self.united = True
        return joined

    def operand(self, n: int) -> Operand:
        return Operand(self.types[n], self.constant[n], self.uniform[n], self.decides[n], self.least[n])


def typed(op: str, attrs: Attrs, t: TensorType) -> Attrs:
    """Leaves carry their type, so that equal texts are equal tensors."""
    return Attrs({**attrs, "type": str(t)}) if op in ("input", "param", "const") else attrs
