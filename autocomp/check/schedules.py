"""Is a kernel's schedule right? Four questions, each answered apart from the rule that made it.

    order      isl: dependences are kept where tiles cut and parts run at once (`loops.schedules`)
    visits     isl: every output element is written once, every reduced element folded once, tails masked (`tile.check_once`)
    capacity   what a step must hold at least is there, and the target does not need far more than there is
    signals    the target prints it or says why not, and its own check of the plan holds: barriers and waits order all accesses
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from autocomp.cost.chip import Chip
from autocomp.cost.roles import roles_of
from autocomp.cost.scalar import SCALAR
from autocomp.errors import AutocompError, DoesNotFit, UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, Contract, Reduce, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import Pieces, pieces, together
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import DTYPES, dim_hint
from autocomp.loops.covering import parts_once, runs_once
from autocomp.loops.recurrences import recurrence_of
from autocomp.loops.schedules import legal, scheduled_recurrence
from autocomp.tile import check_once
from autocomp.tile.check_program import check as check_program
from autocomp.tile.derive import derive
from autocomp.tile.program import Buf, Stmt, TileProgram, walk

if TYPE_CHECKING:
    from autocomp.targets import Target

FAR = 4.0  # rules estimate what a schedule takes, without halos and slots of a printer's own; the target knows. This far off is no guard
NARROW = 2  # bytes of an element that a copy may be narrowed to, where several products may have other factors


@dataclass(frozen=True)
class Checked:
    """`fault`: what is wrong, "" if nothing is; `refused`: why the target does not print it, "" if it does (or was not asked). `applied`:
    the directives that change what is printed."""

    fault: str = ""
    refused: str = ""
    applied: frozenset[str] = frozenset()


def check_schedule(kernel: Kernel, schedule: Schedule, machine: Target, printed: bool = True) -> Checked:
    """The first fault of a schedule. `printed`: the target is asked too, which takes ten times as long as the rest."""
    if recurrence_of(kernel) is not None:
        return Checked(_recurrence(kernel, schedule))
    if why := order(kernel, schedule):
        return Checked(f"order: {why}")
    try:
        own = pieces(kernel, schedule)
        if why := _parts(kernel, schedule, own):
            return Checked(f"visits: {why}")
        for k, s in own:
            if why := _piece(k, s, machine.chip):
                return Checked(why)
    except UnsupportedOp as e:
        return Checked(refused=e.what)
    applied: set[str] = set()
    try:
        for k, s in own if printed else ():
            applied.update(machine.admit(k, s) or ())
            machine.emit(k, s)  # a plan that is admitted is ordered and checked when it is written
    except DoesNotFit as e:
        if e.needed >= FAR * e.available:
            return Checked(f"capacity: {e.what}")
        return Checked(refused=e.what)
    except UnsupportedOp as e:
        return Checked(refused=e.what)
    except AutocompError as e:
        return Checked(f"signals: {e.what}")
    except (ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError, StopIteration) as e:
        return Checked(f"signals: the target's printer fails on it with {type(e).__name__}: {e}")
    return Checked(applied=frozenset(applied))


def order(kernel: Kernel, schedule: Schedule, exact: bool = False) -> str:
    """Which two iterations of a kernel that is no recurrence run in the wrong order, "" if none do. `exact`: sums stay as written."""
    verdict = legal(kernel, replace(schedule, split=None), exact)
    if verdict.ok and schedule.split is not None:
        if not schedule.split[0]:
            return "it has no reduction that can be done in parts"
        verdict = legal(together(kernel, schedule.split[0]), Schedule(split=schedule.split), exact)
    return "" if verdict.ok else verdict.why or str(verdict.witness)


def _recurrence(kernel: Kernel, schedule: Schedule) -> str:
    """Of a recurrence the nest itself is the program."""
    verdict = legal(kernel, schedule)
    if not verdict.ok:
        return f"order: {verdict.why or verdict.witness}"
    why = runs_once(scheduled_recurrence(kernel, schedule))
    return f"visits: {why}" if why else ""


def _parts(kernel: Kernel, schedule: Schedule, own: Pieces) -> str:
    """Whether the parts of a reduction that is split are its elements, each once; a part that is too long is masked by its kernel."""
    if schedule.split is None:
        return ""
    axis = schedule.split[0]
    part = {a.name: a.extent for a in (*own[0][0].axes, *_reduced(own[0][0]))}
    extent = next(a.extent for a in _reduced(together(kernel, axis)) if a.name == axis)
    count, length = part.get(f"{axis}_part"), part.get(axis, 1)
    if not (isinstance(extent, int) and isinstance(count, int) and isinstance(length, int)):
        return f"the parts of {axis} are not known"
    return parts_once(extent, count, length)


def _reduced(kernel: Kernel) -> list[Axis]:
    return [a for s in kernel.stores for e in postorder(s.value) if isinstance(e, (Reduce, Contract)) for a in e.axes]


def _piece(kernel: Kernel, schedule: Schedule, chip: Chip) -> str:
    p = derive(kernel, schedule)
    check_program(p)
    if found := check_once.problems(p):
        return f"visits: {found[0]}"
    why = _capacity(kernel, schedule, p, chip)
    return f"capacity: {why}" if why else ""


def _capacity(kernel: Kernel, schedule: Schedule, p: TileProgram, chip: Chip) -> str:
    if schedule.instruction == SCALAR:  # an element at a time
        return ""
    roles = roles_of(kernel)
    factor = max(NARROW, DTYPES[roles.factor].bytes) if roles.form == "contract" else NARROW
    needed, level, what = least(p, schedule, chip, factor)
    room = next((m.capacity for m in chip.memories if m.name == level), needed)
    return f"{what} at least {needed:.0f} bytes of {level}, which has {room:.0f}" if needed > room else ""


def too_large(kernel: Kernel, schedule: Schedule, chip: Chip) -> str:
    """Why what a kernel's schedule needs at least does not fit, "" if it does."""
    try:
        return next((why for k, s in pieces(kernel, schedule) if (why := _capacity(k, s, derive(k, s), chip))), "")
    except UnsupportedOp:
        return ""


def least(p: TileProgram, schedule: Schedule, chip: Chip, factor: int = NARROW) -> tuple[float, str, str]:
    """(bytes that a step needs at least, the level that has to hold them, what needs them), whatever the printer does. `factor`: bytes of
    an element of a product's factors where it is multiplied.

    blocks share a memory     shared   the ring of a product's factors
    cores have caches         l2       what a step's product makes, where another step adds to it, and takes of what is there already; a
                                       factor from memory (of several products where it passes by in parts of the depth)
    a matrix unit's buffers   l1       the two factors of a product's step, once
    a vector unit's buffer    ub       where nothing is multiplied: the largest tile that comes and the largest that goes
    """
    tile = {a: min(dict(p.tile).get(a, dim_hint(n)), dim_hint(n)) for a, n in p.axes}
    made = {s.dst: s for s, _ in walk(p.body) if s.op == "copy"}
    have = {m.name for m in chip.memories}
    if "shared" in have:
        slots = f"{schedule.resident} blocks of {schedule.stages} slots hold"
        return schedule.resident * _ring(p, schedule, made, tile, factor), "shared", slots
    bytes_ = lambda name: _elements(p, _buf(p, name), made.get(name), tile) * _buf(p, name).dtype.bytes
    products = [s for s, _ in walk(p.body) if s.op == "mma"]
    if "ub" not in have:
        kept = {a for s, _ in walk(p.body) if s.op == "store" for n in s.srcs for a in _buf(p, n).axes}
        cut = {a for a, n in p.axes if tile[a] < dim_hint(n)} - kept
        parts = lambda n: len(products) == 1 or bool(cut & {*_buf(p, n).axes})
        comes = [bytes_(n) for s in products for n in s.srcs if n in made and parts(n)]
        depth = {s.dst: len(loops) for s, loops in walk(p.body) if s.op in ("copy", "mma")}
        begun = {s.dst: len(loops) for s, loops in reversed(list(walk(p.body)))}  # where a value is first written
        own = lambda s, n: n not in made or depth[n] < depth[s.dst]  # copied in front of the loop
        again = lambda s: begun[s.dst] < depth[s.dst]  # sums that one step alone makes leave as they are made
        stays = [sum(bytes_(n) for n in (*s.srcs, s.dst) if (again(s) if n == s.dst else own(s, n))) for s in products]
        return max((*comes, *stays), default=0.0), "l2", "a step holds"
    if products:
        return max(sum(bytes_(n) for n in s.srcs if n in made) for s in products), "l1", "the factors of a step take"
    goes = [bytes_(n) for s, _ in walk(p.body) if s.op == "store" for n in s.srcs]
    return max(map(bytes_, made), default=0.0) + max(goes, default=0.0), "ub", "what comes and what goes take"


def _buf(p: TileProgram, name: str) -> Buf:
    b = p.buf(name)
    assert b is not None, name
    return b


def _ring(p: TileProgram, schedule: Schedule, made: dict[str, Stmt], tile: dict[str, int], factor: int) -> float:
    """Bytes of the factors that one product reads from shared memory, in all their slots. Of several products the most: what one reads
    may take the place of what another has read. Beside a window that slides over its tile the other factor may have one slot."""
    most, looped = 0.0, {s.dst for s, loops in walk(p.body) if any(n.kind == "pipelined" for n in loops)}
    for s, _ in walk(p.body):
        if s.op != "mma":
            continue
        if schedule.instruction == "direct":
            most = max(most, schedule.stages * _own_ring(p, s, made, tile))
            continue
        factors = [b for n in s.srcs if (b := p.buf(n)) is not None and b.scope == "block" and n in made]
        slides = any(_elements(p, b, made[b.name], tile) < _elements(p, b, None, tile) for b in factors)
        slots = {b.name: schedule.stages if b.name in looped and not slides else 1 for b in factors}
        most = max(most, sum(slots[b.name] * _elements(p, b, made[b.name], tile) * min(b.dtype.bytes, factor) for b in factors))
    return most


def _own_ring(p: TileProgram, s: Stmt, made: dict[str, Stmt], tile: dict[str, int]) -> float:
    """Bytes of a slot of what threads copy for themselves: of two factors that are copied, the one with more elements in memory."""
    views = {n: p.tensor(made[n].srcs[0]) for n in s.srcs if n in made}
    if len(views) < 2:
        return 0.0
    name = max(views, key=lambda n: prod(map(dim_hint, t.shape)) if (t := views[n]) is not None else 0)
    return _elements(p, _buf(p, name), made[name], tile) * _buf(p, name).dtype.bytes


def _elements(p: TileProgram, b: Buf, copy: Stmt | None, tile: dict[str, int]) -> float:
    """Elements of a value's tile; of a copy that reads some twice (windows), the box of memory that they lie in if it is less."""
    n = 1.0
    for a in b.axes:
        n *= tile[a]
    t = p.tensor(copy.srcs[0]) if copy is not None else None
    if t is None:
        return n
    box = 1.0
    for i in t.index:
        box *= _span(i, tile)
    return min(n, box)


def _span(i: Aff, tile: dict[str, int]) -> int:
    low, high = i.range({a: tile.get(a, 1) for a in i.names()})
    return high - low + 1
