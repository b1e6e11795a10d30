"""Transposed copies through shared memory: tiles that memory holds in another order than threads read them are written in memory's order
and read in the threads'. Copies that stand side by side are all started first (directive `batch_copies`).

All copies of a body that stand side by side are under way before anybody waits for one of them: the loads that come straight to
registers first, since threads meet before they read a turned tile, and compilers move loads of constants behind that to spare
registers (8192 x 8192 halves, x.T + y: two of four loads of a thread stood there in what ptxas 13.0 made).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autocomp.targets.simt.digits import linear
from autocomp.targets.simt.expressions import STORED

from autocomp.tile.plan import Commit
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


def copy(at: Printer, together: Sequence[Stmt]) -> None:
    """Copies of which some are turned."""
    turned = [s for s in together if s.dst in at.place.staged]
    at.soon = {s.dst for s in together} - {s.dst for s in turned}
    for s in together:
        if s.dst in at.soon:
            at.copy(s)
    for s in turned:
        at.before_write(f"stage of {s.dst}", lands=True)
        at.to_shared(s)
        at.plan(Commit())
    for s in turned:
        _take(at, s)


def _take(at: Printer, s: Stmt) -> None:
    """A turned tile from shared memory into registers."""
    x, layout, name = at.place.staged[s.dst], at.place.layouts[s.dst], at.names.of(s.dst)
    at.before_read(f"stage of {s.dst}")
    with at.over(layout.registers):
        row, col = (linear(group, lambda a: at.local(layout, a, "r")) for group in (x.outer, x.inner))
        at.put(f"{name}[r] = ac_held(*(const {STORED[x.buf.dtype.name]} *)({at.element(x, x.placed(row), col)}));")
