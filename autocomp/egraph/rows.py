"""Fusion rules as admission rows of the cut enumerator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autocomp.egraph.grammar import Record, load_grammar
from autocomp.ir.types import TensorType
from autocomp.options import Options
from autocomp.quick import quick
from autocomp.rewrite.functions import tensor_functions
from autocomp.rewrite.laws import is_sibling, is_stored
from autocomp.rewrite.pattern import Apply
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Answer, Env, holds


@quick
@dataclass(frozen=True)
class Body:
    """What a condition may ask about the producer's body ?k. `reads`: bytes of the tensors that it loads."""

    record: Record
    ops: int
    type: TensorType
    users: int
    reads: int


@dataclass(frozen=True)
class Row:
    """`consumer`: map, view, reduce, contract or online; `position`: which operand, None for any."""

    rule: Rule
    consumer: str
    position: int | None


@dataclass
class Rows:
    """The rows in force. Answers are remembered: a condition is evaluated once for each distinct body."""

    rows: Sequence[Row]
    options: Options
    functions: dict[str, Callable[..., Any]] = field(init=False)
    _memo: dict[tuple[Any, ...], tuple[str | None, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = body_functions(self.options)

    def admit(self, consumer: str, position: int, body: Body) -> tuple[str | None, str]:
        """(name of the row that admits it, "") or (None, the rejected row and its failed condition)."""
        key = (consumer, position, body.record.kind, body.record.windowed, body.ops, body.type, body.users, body.reads)
        if key not in self._memo:
            self._memo[key] = self._ask(consumer, position, body)
        return self._memo[key]

    def _ask(self, consumer: str, position: int, body: Body) -> tuple[str | None, str]:
        refused = ""
        for row in self.rows:
            if row.consumer == consumer and row.position in (None, position):
                answer = self._holds(row, body)
                if answer:
                    return row.rule.name, ""
                refused = refused or f"{row.rule.name}: {answer.reason}"
        return None, refused or f"no row lets a {consumer} take a {load_grammar().names[body.record.kind]} as operand {position}"

    def _holds(self, row: Row, body: Body) -> Answer:
        return holds(row.rule.where, Env({"k": body}, self.functions))


def body_functions(options: Options) -> dict[str, Callable[..., Any]]:
    """What conditions of fusion rules may ask of a body ?k."""
    return tensor_functions(options) | {
        "kind": lambda k: load_grammar().names[k.record.kind], "ops": lambda k: k.ops, "users": lambda k: k.users,
        "elements": lambda k: k.type.elements, "gigabytes": lambda k: k.type.bytes / 1e9, "bytes": lambda k: k.type.bytes,
        "dtype": lambda k: k.type.dtype.name, "rank": lambda k: k.type.rank, "level": lambda k: k.record.levels,
        "reads": lambda k: k.reads, "windowed": lambda k: k.record.windowed,
    }  # fmt: skip


def compile_rows(rules: Sequence[Rule], options: Options) -> Rows:
    """Rows of fusion rules, each an instance of load(store(?k)) = ?k (`rewrite.laws`); those of siblings are for `siblings`."""
    return Rows(tuple(_row(r) for r in rules if not is_sibling(r)), options)


def _row(r: Rule) -> Row:
    assert isinstance(r.lhs, Apply)
    operands = [a for a in r.lhs.args]
    if r.lhs.op in ("map", "reduce") and operands and not isinstance(operands[0], Apply):
        operands = operands[1:]
    at = [i for i, a in enumerate(operands) if is_stored(a)]
    rest = any(getattr(a, "rest", False) for a in operands)
    return Row(r, r.lhs.op, None if rest else at[0])
