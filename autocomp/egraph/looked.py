"""Which matches of a phase are still to be looked at. The e-graph keeps all of them, round after round, and few are new.

A match is new again when one of its tensors goes by another name, as classes met, or when what is known of one has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autocomp.egraph.queries import Query
from autocomp.egraph.terms import Terms

if TYPE_CHECKING:
    from egglog.bindings import Value

Raw = tuple["Value", ...]  # a match as the e-graph has it
Named = tuple[object, ...]  # names of its tensors, then texts of its attributes
Facts = tuple[bool, float | None]


class Looked:
    """`take_up` is called once a round, when facts are settled; `note` for each match that is looked at."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._known: dict[Value, tuple[int, Facts]] = {}  # of each class in this round
        self._done: dict[str, set[Raw]] = {}  # by relation: looked at, and nothing has changed since
        self._seen: dict[str, set[Named]] = {}  # by relation: what was looked at, with the facts of then

    def take_up(self) -> None:
        """Note what is known of each class now; matches of which something else was known are no longer done."""
        constant, uniform, before = self._terms.constant, self._terms.uniform, self._known
        self._known = {v: (n, (constant[n], uniform[n])) for v, n in self._terms.engine.names.items()}
        if changed := {v for v, known in before.items() if self._known.get(v) != known}:
            self._done = {relation: {m for m in done if changed.isdisjoint(m)} for relation, done in self._done.items()}

    def new(self, q: Query, found: Iterable[Raw]) -> list[tuple[Named, Named, Raw]]:
        """Of these matches those to look at, in the order of their text, which never depends on hashing: each with its facts and as it
        was found."""
        done, seen = self._done.setdefault(q.relation, set()), self._seen.setdefault(q.relation, set())
        tensors, out = sum(sort == "T" for _, sort in q.variables), list[tuple[Named, Named, Raw]]()
        for m in found:
            if m not in done:
                known = [self._known[v] for v in m[:tensors]]
                row = (*[n for n, _ in known], *map(self._terms.engine.text_of, m[tensors:]))
                facts = (*row, *[f for _, f in known])
                if facts in seen:  # the same classes by other numbers of the e-graph
                    done.add(m)
                else:
                    out.append((row, facts, m))
        return sorted(out, key=lambda x: str(x[0]))

    def note(self, q: Query, facts: Named, m: Raw) -> None:
        self._seen[q.relation].add(facts)
        self._done[q.relation].add(m)
