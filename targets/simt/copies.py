"""Tiles of views into shared memory, as C++: chunk by chunk, asynchronously where memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.simt.access import windows_overlap
from autocomp.targets.simt.digits import along
from autocomp.targets.simt.expressions import STORED, every
from autocomp.targets.simt.placed import Shared

from autocomp.errors import UnsupportedOp
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

COPIES = 16  # of a thread that are unrolled: more only cost compile time
ASYNCHRONOUS = 4  # bytes of the narrowest copy that needs no register on its way
BATCH = 8  # narrower chunks that a thread reads before it writes the first


def of_thread(at: Printer, s: Stmt) -> int:
    """Asynchronous copies of a thread for one tile of an operand."""
    x = at.place.shared[s.dst]
    return -(-(x.rows * x.row // x.vector) // at.place.threads) if chunk_bytes(x) == 16 else 0


def asynchronous_first(at: Printer, together: Sequence[Stmt]) -> list[Stmt]:
    """Copies of one turn in the order in which they are started: those that a thread waits for itself behind the others."""
    narrow = lambda s: chunk_bytes(at.place.shared[s.dst]) < ASYNCHRONOUS
    mixed = len({narrow(s) for s in together}) > 1
    return sorted(together, key=narrow) if at.wants("batch_copies", mixed) else list(together)


def chunk_bytes(x: Shared) -> int:
    """Bytes that one copy moves."""
    return x.vector * x.buf.dtype.bytes


def steady(x: Shared, threads: int) -> bool:
    """Whether a thread's chunks come in the order of the tensor's rows, a constant number of rows, or of places in a row, apart."""
    per_row = x.row // x.vector
    return not _permuted(x) and (threads % per_row == 0 or per_row % threads == 0)


def constant_steps(x: Shared, threads: int) -> bool:
    """Whether the place of each of a thread's chunks in the tensor is a constant away from that of its first one: what a turn adds to the
    number of a row, or of a place in one, changes the outermost of the axes that it combines alone."""
    per_row = x.row // x.vector
    if not steady(x, threads):
        return False
    group, step = (x.outer, threads // per_row) if threads % per_row == 0 else (x.inner, threads * x.vector)
    return step % prod(n for _, n in group[:-1]) == 0


def _permuted(x: Shared) -> bool:
    """Whether chunks are numbered as they lie in shared memory: whole ones that a swizzle permutes."""
    return chunk_bytes(x) == 16 and not x.padding


def to_shared(at: Printer, s: Stmt, when: list[str] | None = None) -> None:
    """A tile of a view into shared memory, chunk by chunk, asynchronously where memory allows.

    Chunks that a swizzle permutes are numbered as they lie in shared memory; it is undone on the side of global memory, so that a wave's
    destinations are dense. Others are numbered as the tensor's rows come: a thread's next one is a constant away.
    """
    x = at.place.shared.get(s.dst) or at.place.staged[s.dst]
    t = x.view
    assert t is not None
    chunks = x.rows * x.row // x.vector
    count = -(-chunks // at.place.threads)
    bytes_ = chunk_bytes(x)
    again = at.place.counted and bytes_ == 16 and bool(chunks % at.place.threads)  # idle waves bring the last chunks once more
    if at.wants("batch_copies", bytes_ < ASYNCHRONOUS and count > 1):
        _in_batches(at, x, count, when)
        return
    unroll = x.vector > 1 or bytes_ >= ASYNCHRONOUS
    kept = "_kept" if bytes_ == 16 and at.wants("cache_windows", windows_overlap(t, {a: at.p.extent(a) for a in t.axes})) else ""

    def one(number: str, turn: str) -> None:
        target, address, inside = _chunk(at, x, *_numbered(at, x, number, turn), when)
        at.put(f"ac_copy{kept}<{bytes_}>({target}, {address}, {inside});")

    whole = count if again else chunks // at.place.threads  # of a thread, whatever its number is: no branch parts one from the next
    if whole:
        with at.block(f"for (int q = 0; q < {whole}; ++q)", unroll=unroll, most=COPIES if whole > COPIES else 0):
            if again:
                one(f"ac_min({at.warp} * {at.place.wave} + q * {at.place.threads}, {chunks - at.place.wave}) + lane", "")
            else:
                one(f"threadIdx.x + q * {at.place.threads}", "q")
    if whole < count:
        with at.block(f"if (threadIdx.x < {chunks - whole * at.place.threads})"):
            one(f"threadIdx.x + {whole * at.place.threads}", f"{whole}")


def _in_batches(at: Printer, x: Shared, count: int, when: list[str] | None) -> None:
    """Chunks too narrow for asynchronous copies: a thread reads several before it writes the first."""
    batches = -(-count // BATCH)
    some, chunks, threads = -(-count // batches), x.rows * x.row // x.vector, at.place.threads
    number = f"threadIdx.x + (q0 + q) * {threads}"
    bounded = [f"{number} < {chunks}"] if batches * some * threads > chunks else []
    with at.block(f"for (int q0 = 0; q0 < {count}; q0 += {some})"):
        at.put(f"ac_pack_of<{x.vector}, {STORED[x.buf.dtype.name]}> held[{some}];")
        with at.block(f"for (int q = 0; q < {some}; ++q)", unroll=True):
            _, address, inside = _chunk(at, x, *_numbered(at, x, number, "(q0 + q)"), [*bounded, *(when or [])])
            at.put(f"held[q] = ac_fetched<{x.vector}>({address}, {inside});")
        with at.block(f"for (int q = 0; q < {some}; ++q)", unroll=True):
            _, chunk, placed = _numbered(at, x, number, "(q0 + q)")
            there = at.element(x, placed, f"{chunk}{f' * {x.vector}' if x.vector > 1 else ''}")
            at.put(f"{f'if ({bounded[0]}) ' if bounded else ''}ac_keep({there}, held[q]);")


def _numbered(at: Printer, x: Shared, number: str, turn: str) -> tuple[str, str, str]:
    """The row of a thread's chunk in this turn, its number in it, and where the row lies; `number`: the chunk's, which is declared here
    unless it is `turn` times a constant."""
    per_row, threads = x.row // x.vector, at.place.threads
    if not steady(x, threads) or not turn:
        at.put(f"const int c = {number};")
        row = f"c / {per_row}"
        return row, f"c % {per_row}", x.placed(row)
    if per_row == threads:
        return turn, "threadIdx.x", x.placed(turn)
    if per_row % threads == 0:
        row = f"{turn} / {per_row // threads}"
        return row, f"(threadIdx.x + {turn} % {per_row // threads} * {threads})", x.placed(row)
    first, step = f"threadIdx.x / {per_row}", threads // per_row
    row = f"{first} + {turn} * {step}"
    placed = x.placed(row)  # what a turn adds is a constant where steps are whole rounds of rows that are apart, or the other way round
    if x.apart > 1 and step % x.apart == 0:
        placed = f"{x.placed(first)} + {turn} * {step // x.apart}"
    elif x.apart > 1 and x.apart % step == 0:
        placed = f"({first} + {turn} % {x.apart // step} * {step}) * {x.rows // x.apart} + {turn} / {x.apart // step}"
    return row, f"threadIdx.x % {per_row}", placed


def _chunk(at: Printer, x: Shared, lies: str, chunk: str, placed: str, when: list[str] | None) -> tuple[str, str, str]:
    """Of a chunk that lies at a place of a row, or one that no swizzle permutes, comes from there and goes to row `placed`: where it goes,
    where it comes from, and the condition under which it is read. Its row and column in the tile are declared here."""
    t = x.view
    assert t is not None
    row, place = (x.number(f"({lies})"), x.chunk(lies, chunk)) if _permuted(x) else (lies, chunk)
    at.put(f"const int row = {row}, col = {place}{f' * {x.vector}' if x.vector > 1 else ''};")
    local: dict[str, str] = {}
    covers = dict((*x.outer, *x.inner))  # sizes with what pads the tile: the outermost axis of a group takes it all
    for var, group, padded in (("row", x.outer, x.rows), ("col", x.inner, x.row)):
        local |= {a: f"({text})" for a, text in along(group, var).items()}
        if group:
            covers[group[-1][0]] = -(-padded // prod(n for _, n in group[:-1]))
    ok: list[str] = list(when or [])
    for a in t.axes:
        if a not in local:
            ok += [c.replace("%s", "0") for c in at.outside(a, 1, at.base.get(a))]
            continue
        ok += [c.replace("%s", local[a]) for c in at.outside(a, covers[a], at.base.get(a))]
    point = lambda a: (f"({at.base[a]} + {local[a]})" if a in at.base else local[a]) if a in local else at.base.get(a, "0")
    ok += at.guards(t.guard, point)
    if t.fill and t.guard:
        raise UnsupportedOp(f"a factor of a product is filled with {t.fill} outside", where=f"kernel {at.p.name}")
    target = f"{at.start(x)} + c * 16" if _permuted(x) else at.element(x, placed, "col")
    return target, at.address(t, point, at_once=True), every(ok)
