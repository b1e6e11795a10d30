"""Masks that hold in the whole of a tile are not evaluated there (directive `skip_masks`; FlashAttention: blocks below the diagonal).

    before   serial r1                          after   serial r1
               s1 = map where(i - r1, s, -inf)            s1 = map where(i - r1, s, -inf)
                                                            | not masked in tiles that lie inside
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autocomp.targets.simt.facts import Facts

from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Map
from autocomp.ir.masks import asked
from autocomp.tile.program import Stmt
from autocomp.tile.steps import Over, Scheme, Step, Steps, sayings, stmt_of, told


@dataclass(frozen=True)
class Unmasked(Scheme):
    """A map of a mask is its first value wherever these are not negative in the whole of a tile."""

    dst: str
    mask: Expr
    guards: tuple[Aff, ...]

    says = "not masked in tiles that lie inside"


def skip_masks(steps: Steps, facts: Facts) -> Steps:
    """Says so of maps in loops over an axis that their mask is about."""

    def change(n: Step, looped: frozenset[str]) -> Step:
        if isinstance(n, Over):
            more = n.loop.axes if n.loop and n.loop.kind != "grid" else ()
            return replace(n, body=tuple(change(m, looped | set(more)) for m in n.body))
        s = stmt_of(n)
        guards = _guards(s) if s and s.dst not in facts.place.late else ()
        return told(n, Unmasked(s.dst, s.expr.args[0], guards)) if s and any(looped & g.names() for g in guards) else n  # type: ignore[union-attr]

    return tuple(change(n, frozenset()) for n in steps)


def unmasked(steps: Steps) -> dict[tuple[str, Expr], tuple[Aff, ...]]:
    """The guards of the values and masks that the pass said so of."""
    return {(x.dst, x.mask): x.guards for x in sayings(steps) if isinstance(x, Unmasked)}


def _guards(s: Stmt) -> tuple[Aff, ...]:
    """What a mask asks to be at least 0; () where there is no mask, or one of anything but indices."""
    if not (s.op == "map" and isinstance(s.expr, Map) and s.expr.fn == "where"):
        return ()
    guards = asked(s.expr.args[0])
    return guards if all(isinstance(a, str) for g in guards for a, _ in g.terms) else ()
