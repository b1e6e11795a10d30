"""Whether a block's places fit the machine: shared memory in bytes, 32-bit registers of a thread."""

from __future__ import annotations

from collections.abc import Mapping

from autocomp.targets.simt.placed import Placement
from autocomp.targets.simt.strips import multiplied

from autocomp.cost.chip import Chip
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.tile.program import Loop, Stmt, TileProgram

STEP = 8  # registers of a thread are given in such steps (CUDA C++ programming guide; inferred for others)


def registers_of(chip: Chip, threads: int, resident: int = 1) -> int:
    """32-bit registers that a thread may have: what instructions can name, and no more than its part of a core's, which the threads of
    `resident` blocks share, in steps of eight."""
    return min(int(chip.limits["registers"]), int(chip.registers.count) // (threads * resident) // STEP * STEP)


def check_block(p: TileProgram, threads: int, blocks: int, chip: Chip) -> None:
    """Raises DoesNotFit where a block has more threads, or a cluster more blocks, than a launch takes; UnsupportedOp where there are no
    clusters."""
    if blocks > 1 and "clusters" not in chip.features:
        raise UnsupportedOp(f"{chip.name} has no clusters of blocks", where=f"kernel {p.name}")
    for what, needed, most in (("threads of a block", threads, "threads"), ("blocks of a cluster", blocks, "cluster_blocks")):
        if needed > chip.limits.get(most, needed):
            raise DoesNotFit(what, needed=needed, available=chip.limits[most], where=f"kernel {p.name}", hint="take a schedule with fewer")


def check_capacity(p: TileProgram, out: Placement, shared: float, registers: int, more: int = 0,
                   packed: Mapping[str, int] | None = None) -> None:  # fmt: skip
    """Raises DoesNotFit where a block needs more shared memory or a thread more registers than there are.

    more: registers besides those of values; packed: values of which several share a register, or wait elsewhere, and how many.
    """
    check_shared(p, out.bytes, shared)
    held = pressure(p, out, packed or {}) + more
    if held > registers:
        raise DoesNotFit("registers of a thread", needed=held, available=registers, where=f"kernel {p.name}",
                         hint="use more threads or smaller tiles")  # fmt: skip


def check_shared(p: TileProgram, needed: int, available: float) -> None:
    """Raises DoesNotFit where a block needs more bytes of shared memory than there are."""
    if needed > available:
        raise DoesNotFit("shared memory of a block", needed=needed, available=available, where=f"kernel {p.name}",
                         hint="use smaller tiles or fewer stages")  # fmt: skip


def pressure(p: TileProgram, out: Placement, packed: Mapping[str, int]) -> int:
    """32-bit registers of values that a thread holds at once, at the fullest statement; a map may reuse its operand's."""
    order: list[tuple[Stmt, tuple[int, int]]] = []

    def flat(body: tuple[Loop | Stmt, ...]) -> None:
        for n in body:
            if isinstance(n, Stmt):
                order.append((n, (0, 0)))
            elif n.kind != "when":  # rare: what is kept for it may be spilled
                first = len(order)
                flat(n.body)
                for i in range(first, len(order)):
                    s, (lo, hi) = order[i]
                    order[i] = s, (lo, hi) if hi and n.kind == "grid" else (first, len(order) - 1) if n.kind != "grid" else (lo, hi)

    flat(p.body)
    melted = multiplied(p, out)
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for i, (s, (start, end)) in enumerate(order):
        born.setdefault(s.dst, i)
        for x in (*s.srcs, s.dst):  # what was made before a loop and is touched in it lives to its end
            dies[x] = max(dies.get(x, i), end if born.get(x, i) < start else i)

    def size(x: str) -> int:
        if x not in out.layouts or x in out.late:
            return 0
        held = (out.strips.get(x) or out.layouts[x]).registers if x not in melted else 0
        if x in packed:
            return held // packed[x]
        if x in out.words or (x in out.plain and _bytes(p, x) == 1):  # several elements a register
            return held * (p.buf(x) or p.bufs[0]).dtype.bytes // 4
        return held * max(1, _bytes(p, x) // 4)

    most = 0
    for i, (s, _) in enumerate(order):
        live = [x for x in born if x != s.dst and born[x] <= i <= dies.get(x, born[x])]
        kept = [x for x in live if not (dies.get(x) == i and s.op == "map")]
        most = max(most, sum(map(size, kept)) + size(s.dst))
    return most


def _bytes(p: TileProgram, name: str) -> int:
    b = p.buf(name)
    return 4 if b is None else 1 if b.dtype.bytes == 1 and not b.dtype.is_float else max(4, b.dtype.bytes)
