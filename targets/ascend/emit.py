"""TileProgram -> one Ascend C kernel with its launch."""

from __future__ import annotations

from math import prod

from autocomp.targets.ascend.geometry import Geometry, extent, tile_of
from autocomp.targets.ascend.signals import plan, printed
from autocomp.targets.ascend.tables import place, stored
from autocomp.targets.ascend.vector import VectorPart
from autocomp.targets.cpu.names import c_name
from autocomp.targets.source import KernelSource, Launch

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.tile.agents import Again, Body
from autocomp.tile.program import Loop, Stmt, TileProgram, walk
from autocomp.tile.text import show

HEADER = "autocomp_ascend.h"


def emit(p: TileProgram, chip: Chip, header: tuple[str, ...]) -> KernelSource:
    """The kernel of a tile program. Raises UnsupportedOp for what has no instruction here, DoesNotFit with the bytes of a memory."""
    grid = p.body[0].axes if p.body and isinstance(p.body[0], Loop) and p.body[0].kind == "grid" else ()
    inner = p.body[0].body if grid and isinstance(p.body[0], Loop) else p.body
    if any(s.op == "mma" for s, _ in walk(p.body)):
        raise UnsupportedOp("a contraction is not printed for cube cores yet", where=p.name, hint="choose target cpu")
    if any(isinstance(n, Loop) for n in inner):
        raise UnsupportedOp("a reduced axis in chunks", where=p.name, hint="choose a schedule that keeps reduced rows whole")
    statements = tuple(n for n in inner if isinstance(n, Stmt))
    vector = VectorPart(p, geometry(p, statements), place("ub", chip), "round % 2", starts(p, grid), counts(p, grid))
    vector.run(statements)
    tiles = total(p, grid)
    body = (*vector.loads, *vector.works)
    head = ("uint32_t round = 0;", f"for (uint32_t tile = GetBlockIdx(); tile < {tiles}; tile += GetBlockNum(), ++round) {{")
    loop = Again("tile", (*head, *("  " + x for x in (*origin(p, grid), *vector.declarations))), body, ("}",))
    parts: dict[str, Body] = {"vector": (loop,)}
    signalled, notes = plan(parts, vector.depth, chip)
    lines = ["KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);", "TPipe pipe;", "TBuf<TPosition::VECCALC> ub;",
             f"pipe.InitBuffer(ub, {vector.ub.top});", "pipe.Destroy();", *globals_(p), *printed(signalled["vector"])]  # fmt: skip
    notes = [*notes, f"ub: {vector.ub.top} of {vector.ub.capacity} bytes"]
    blocks = min(tiles, chip.cores * int(chip.limits["vector_cores"]))
    return source(p, lines, notes, blocks, header)


def source(p: TileProgram, lines: list[str], notes: list[str], blocks: int, header: tuple[str, ...],
           workspace: int = 0) -> KernelSource:  # fmt: skip
    """The function around its lines, with its comment and its launch: `blocks` blocks on cores."""
    name = c_name(p.name)
    comment = "\n".join(f" * {line}".rstrip() for line in (*header, "", *show(p).splitlines(), "", *notes))
    inputs, outputs = (tuple(dict.fromkeys(t.buffer for t in ts)) for ts in (p.inputs, p.outputs))
    arguments = [f"GM_ADDR {c_name(b)}" for b in (*inputs, *outputs)] + (["GM_ADDR workspace"] if workspace else [])
    signature = f'extern "C" __global__ __aicore__ void {name}({", ".join(arguments)}) {{'
    text = "\n".join([f"/*\n{comment.replace('*/', '* /')}\n */", signature,
                      *("  " + x for x in lines), "}", ""])  # fmt: skip
    launch = Launch((((blocks, 1),),), 1, workspace=workspace)
    return KernelSource(p.name, text, name, inputs, outputs, (), (HEADER,), "cpp", launch=launch)


def globals_(p: TileProgram) -> list[str]:
    """Tensors in memory."""
    out = {t.buffer: stored(t.dtype, p.name) for t in p.inputs + p.outputs}
    return [x for b, e in out.items() for x in (f"GlobalTensor<{e}> {b}_g;", f"{b}_g.SetGlobalBuffer((__gm__ {e} *){c_name(b)});")]


def geometry(p: TileProgram, statements: tuple[Stmt, ...], rows: dict[str, int] | None = None) -> Geometry:
    """Lanes run along the reduced axis, or along the last axis of the result."""
    reduced = [s.axis for s in statements if s.op == "reduce"]
    if any("," in a for a in reduced):
        raise UnsupportedOp(f"a reduction over axes {reduced[0]} at once", where=p.name, hint="vector cores fold one axis")
    if len(set(reduced)) > 1:
        names = ", ".join(sorted(set(reduced)))
        raise UnsupportedOp(f"reductions over axes {names} in one kernel", where=p.name, hint="split the operator")
    axes = list(dict.fromkeys(a for t in p.outputs + p.inputs for a in t.axes))
    order = [a for a, _ in p.axes if a in axes]
    lane = reduced[0] if reduced else p.outputs[0].axes[-1] if p.outputs[0].axes else ""
    if not lane:
        raise UnsupportedOp("a kernel of a single number", where=p.name)
    return Geometry(tuple((a, (rows or {}).get(a, tile_of(p, a))) for a in order if a != lane), lane, tile_of(p, lane))


def starts(p: TileProgram, grid: tuple[str, ...]) -> dict[str, str]:
    return {a: f"s_{a}" if a in grid and tile_of(p, a) < extent(p, a) else "0" for a, _ in p.axes}


def counts(p: TileProgram, grid: tuple[str, ...]) -> dict[str, str]:
    return {a: f"n_{a}" if a in grid and extent(p, a) % tile_of(p, a) else str(tile_of(p, a)) for a, _ in p.axes}


def origin(p: TileProgram, grid: tuple[str, ...]) -> list[str]:
    """First index and true count of a tile along each grid axis."""
    lines, behind = [], 1
    for a in reversed(grid):
        e, t = extent(p, a), tile_of(p, a)
        n = -(-e // t)
        if n > 1:
            at = "tile" if behind == 1 else f"tile / {behind}"
            lines.append(f"const uint32_t s_{a} = {at if n * behind >= total(p, grid) else f'{at} % {n}'} * {t};")
        if e % t:
            lines.append(f"const uint32_t n_{a} = s_{a} + {t} <= {e} ? {t} : {e} - s_{a};")
        behind *= n
    return lines


def total(p: TileProgram, grid: tuple[str, ...]) -> int:
    """Tiles of the grid."""
    return prod(-(-extent(p, a) // tile_of(p, a)) for a in grid)
