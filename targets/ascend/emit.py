"""TileProgram -> one Ascend C kernel with its launch: for vector cores alone, cube cores alone, or groups of one and two."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from autocomp.targets.ascend import bf16, blocks, words
from autocomp.targets.ascend.ahead import Late, ahead, factors_first
from autocomp.targets.ascend.columns import named, narrowed
from autocomp.targets.ascend.coupled import CORE, coupled, one_core
from autocomp.targets.ascend.cube import Cube
from autocomp.targets.ascend.frames import Frame
from autocomp.targets.ascend.geometry import counts, extent, geometry, origin, starts, tile_of, trips, walked
from autocomp.targets.ascend.half_scores import half_scores
from autocomp.targets.ascend.joined import joined
from autocomp.targets.ascend.operand import LONG
from autocomp.targets.ascend.packed import DIRECTIVE as JOINED
from autocomp.targets.ascend.pairs import pairs
from autocomp.targets.ascend.partials import partials
from autocomp.targets.ascend.row_sums import row_sums
from autocomp.targets.ascend.signals import plan, printed
from autocomp.targets.ascend.split import Split
from autocomp.targets.ascend.tables import RING, interface_of, loaded, place, table
from autocomp.targets.ascend.vector import VectorPart
from autocomp.targets.ascend.whole import whole
from autocomp.targets.cpu.names import c_name, entry_name
from autocomp.targets.simt.access import read_once
from autocomp.targets.source import KernelSource, Launch, comment

from autocomp.cost.chip import Chip
from autocomp.cost.pipes import pass_by
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.directives import complete
from autocomp.ir.types import dim_hint
from autocomp.tile.agents import Again, Body, flat
from autocomp.tile.program import Loop, Stmt, TileProgram, walk, without_scans, without_when
from autocomp.tile.text import show

HEADER, CUBE_HEADER, COUPLED_HEADER = "autocomp_ascend.h", "autocomp_ascend_cube.h", "autocomp_ascend_coupled.h"
TYPES = {("vector",): "AIV_ONLY", ("cube",): "AIC_ONLY", ("cube", "vector"): "MIX_AIC_1_2", ("one",): "AICORE"}


def emit(p: TileProgram, chip: Chip, header: tuple[str, ...], directives: Collection[str] = ()) -> KernelSource:
    """The kernel of a tile program under some directives.

    Raises UnsupportedOp for what has no instruction here, DoesNotFit with the bytes of a memory."""
    kernel, planned = fitted(p, chip, directives)
    return kernel.source(planned, header)


def fitted(p: TileProgram, chip: Chip, directives: Collection[str] = ()) -> tuple[Kernel, Planned]:
    """The first share of rows whose tiles the memories of a core hold and whose queues find flags, with its plan, which is not spelt.
    Raises as `emit` does."""
    check_products(p, chip)
    p = pairs(narrowed(named(replace(p, body=without_when(p.body)))), blocks.converts(chip, LONG))
    joins = blocks.by_blocks(chip) and JOINED in directives
    if blocks.by_blocks(chip):
        blocks.check_blocks(p)
        blocks.check_results(p, {f"{t.buffer}_g" for t in p.outputs} if joins else ())
    if "half_scores" in directives and half_scores(p) is None:
        directives = [d for d in directives if d != "half_scores"]
    if "mma_row_sums" in directives and (beside := row_sums(p)) is not p:
        try:
            return attempt(beside, chip, directives)
        except DoesNotFit:
            pass  # there is no room beside the product
    return attempt(p, chip, directives)


def attempt(p: TileProgram, chip: Chip, directives: Collection[str]) -> tuple[Kernel, Planned]:
    """The same of a program that says how rows are summed."""
    halves = "half_scores" in directives
    p, partial = partials(p) if halves or "thread_partials" in directives else (p, frozenset())
    p, late = ahead(factors_first(p))
    short: DoesNotFit | None = None
    by = late.by
    spare = ((by + 1, 0), (by + 2, 1), (by + 1, 1), (by + 1, 2), (by, 0), (by - 1, 0)) if by else ((0, 0),)
    past = past_l2(p, chip) if "evict_first" in directives and "SetL2CacheHint" in interface_of(chip).classes["GlobalTensor"] else ()
    taken = (0,) if coupled(chip) else shares(p)
    for rows, slots, (more, tight), apart in product(taken, (RING, 1) if late.statements else (RING,), spare, (True, False)):
        if not (rows or apart):
            continue  # nothing arrives from a cube core
        try:
            kernel = Kernel(p, chip, rows, past, late, slots, more, "fused_scale" in directives, apart, partial,
                            "handed_fractals" in directives, tight, halves, blocks.by_blocks(chip) and JOINED in directives)
            planned = kernel.planned()
            if kernel.joins:
                blocks.check_results(p, planned.split.vector.joined)
            return kernel, planned
        except DoesNotFit as e:
            short = short if more > late.by else short or e  # spare slots are no need
    assert short is not None
    raise short


def past_l2(p: TileProgram, chip: Chip) -> tuple[str, ...]:
    """Inputs of a kernel without products that are read once, where they and the results do not fit into L2."""
    size = lambda t: float(prod(dim_hint(n) for n in t.shape) * t.dtype.bytes)
    if any(s.op == "mma" for s, _ in walk(p.body)):
        return ()
    total = sum(size(t) for t in {t.buffer: t for t in p.inputs}.values())
    if not pass_by(total, sum(map(size, p.outputs)), chip):
        return ()
    return tuple(t.buffer for t in p.inputs if read_once(p, t, lambda a: str(trips(p, (a,)))))


def check_products(p: TileProgram, chip: Chip) -> None:
    """Raises UnsupportedOp where the table of matrix instructions has no row for a product's types, or the chip no rate."""
    without_scans(p, "ascend")
    types = {b.name: b.dtype.name for b in p.bufs}
    known = [list(row["types"]) for row in table()["matrix"]]
    for s, _ in walk(p.body):
        if s.op == "mma" and [a := types[s.srcs[0]], b := types[s.srcs[1]], c := types[s.dst]] not in known:
            raise UnsupportedOp(f"no matrix instruction for {a} times {b} into {c}", where=p.name,
                                hint=f"cube cores take {'; '.join(', '.join(k) for k in known)}")  # fmt: skip
        if s.op == "mma" and a not in chip.matrix:
            raise UnsupportedOp(f"the matrix unit of {chip.name} has no products of {a}", where=p.name,
                                hint=f"`matrix` of its file has {', '.join(chip.matrix)}")  # fmt: skip


def shares(p: TileProgram) -> Iterator[int]:
    """Rows of a tile that a vector core takes at once, the most first; 0: all, there is no cube core."""
    row = shared_row(p)
    if not any(s.op == "mma" for s, _ in walk(p.body)):
        yield 0
        return
    half = -(-tile_of(p, row) // 2) if row else 1
    yield half
    while in_rounds(p) and half > 1:
        half //= 2
        yield half


def longest_first(p: TileProgram, grid: tuple[str, ...]) -> str:
    """The axis of a grid along which tiles have the more rounds of a loop the further behind they lie, "" for none: cores that take tiles
    in turn have as much to do as each other where the longest come first."""
    ends = {x.until[0] for _, loops in walk(p.body) for x in loops if x.until is not None}
    return next((a for a in grid if ends == {a} and tile_of(p, a) < extent(p, a)), "")


def shared_row(p: TileProgram) -> str:
    """The axis whose tiles the vector cores of a group share; "" where there is one row. Raises UnsupportedOp for two such axes."""
    wide = [a for a, t in geometry(p, {}).rows if t > 1]
    if len(wide) > 1 and any(s.op == "mma" for s, _ in walk(p.body)):
        raise UnsupportedOp(f"rows along {' and '.join(wide)} in one tile of a matrix product", where=p.name, hint="smaller tiles")
    return wide[0] if wide else ""


def in_rounds(p: TileProgram) -> bool:
    """Whether all that vector cores do lies behind the products: then they may take their rows in rounds."""
    sums = {s.dst for s, _ in walk(p.body) if s.op == "mma"}
    factors = {v for s, _ in walk(p.body) if s.op == "mma" for v in s.srcs}
    return all(s.op in ("mma", "copy") and (s.op == "mma" or s.dst in factors) for s, loops in walk(p.body)
               if any(x.kind != "grid" for x in loops)) and not any(
        s.op == "map" and s.dst in sums | factors for s, _ in walk(p.body))  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """What the cores do (`parts`), with its flags (`signalled`) and lines that say so, for `tiles` tiles."""

    split: Split
    parts: dict[str, Body]
    signalled: dict[str, Body]
    notes: list[str]
    tiles: int


@dataclass
class Kernel:
    """One attempt: `rows` a vector core takes at once (0: there is no cube core); tensors `past_l2` are not kept there; `late` works run
    some rounds behind the others. `slots`: of rings in L0C and unified buffer. Where there are late works two products take turns, so with
    one slot each a sum leaves beside the other product, and arrives beside the instructions that do not read it. `more`: slots in L1 of
    factors in a loop with late works, which may be read some rounds after they have come. `fused`: directive fused_scale. `apart`: what
    arrives from the cube core has banks of its own, which takes some room. `partial`: sums by lanes (partials.py). `fractals`: what
    vector cores hand over lies as the cube core wants it (fractals.py). `tight`: with few slots in L1 (split.py). `halves`: scores
    are in half precision (half_scores.py). `joins`: directive joined_rows."""

    p: TileProgram
    chip: Chip
    rows: int
    past_l2: tuple[str, ...] = ()
    late: Late = Late()
    slots: int = RING
    more: int = 0
    fused: bool = False
    apart: bool = True
    partial: frozenset[str] = frozenset()
    fractals: bool = False
    tight: int = 0
    halves: bool = False
    joins: bool = False

    def planned(self) -> Planned:
        """Raises DoesNotFit where a memory or the flags of a queue are short."""
        p = self.p
        grid = p.body[0].axes if p.body and isinstance(p.body[0], Loop) and p.body[0].kind == "grid" else ()
        inner = p.body[0].body if grid and isinstance(p.body[0], Loop) else p.body
        split = self.split(inner)
        tiles = trips(p, grid)
        parts = self.parts(split, tuple(origin(p, grid, "tile", longest_first(p, grid))), tiles)
        spans = {n: s for m in (*split.cube.places.values(), split.vector.ub) for n, s in m.spans.items()}
        signalled, notes = plan(parts, {**split.cube.depth, **split.vector.depth}, self.chip, spans)
        return Planned(split, parts, signalled, notes, tiles)

    def source(self, planned: Planned, header: tuple[str, ...]) -> KernelSource:
        p, split, parts, signalled, tiles = self.p, planned.split, planned.parts, planned.signalled, planned.tiles
        notes = list(planned.notes)
        kind = TYPES[("one",) if coupled(self.chip) else tuple(sorted(parts))]
        lines = [f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});", *globals_(p)]
        lines += [f"{b}_g.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);" for b in self.past_l2]
        groups = min(tiles, self.chip.cores * (1 if "cube" in parts else int(self.chip.limits["vector_cores"])))
        total = 0
        for s in split.scratches:
            lines += [f"GlobalTensor<{s.element}> {s.name}_g;", f"{s.name}_g.SetGlobalBuffer((__gm__ {s.element} *)(scratch + {total}));"]
            total += s.bytes * s.slots * groups
        for name in sorted(parts):
            body = [*self.memories(name, split, set(_loops(signalled[name]))), *printed(signalled[name])]
            lines += body if len(parts) == 1 else [f"if ASCEND_IS_AI{'C' if name == 'cube' else 'V'} {{", *("  " + x for x in body), "}"]
        used = {**split.cube.places, "ub": split.vector.ub}
        notes += [f"{n}: {x.top} of {x.capacity} bytes" for n, x in used.items() if x.top]
        applied = split.vector.applied | ({"evict_first"} if self.past_l2 else set())
        cubes = (CUBE_HEADER,) if "cube" in parts else (CUBE_HEADER, COUPLED_HEADER) if CORE in parts else ()
        by_words = whole(p).words or any(c in x for x in lines for c in ("ac_longs(", "ac_joined("))
        headers = (HEADER, *cubes, *((words.HEADER,) if by_words else ()))
        headers = (*headers, bf16.HEADER) if any("_bf16(" in x for x in lines) else headers
        if blocks.by_blocks(self.chip):
            lines, headers = blocks.blocks_text(lines, split.vector.ub.top, p.name), (*headers, blocks.HEADER)
        return source(p, lines, notes, groups, header, total, complete(applied), headers)

    def split(self, inner: tuple[Loop | Stmt, ...]) -> Split:
        """Both parts of a tile's statements."""
        p, axes = self.p, walked(self.p)
        row = shared_row(p)
        start, true = starts(p, axes), counts(p, axes)
        mixed = self.rows > 0
        chunked = mixed and in_rounds(p)
        tile = Frame("tile", "round")
        rows = Frame("rows", "rows_round") if chunked else tile
        g = geometry(p, {row: self.rows} if mixed and row else {})
        own, have = (start | {row: "o_row"}, true | {row: "c_row"}) if mixed and row else (start, true)
        ub = place("ub", self.chip)
        ub = replace(ub, capacity=ub.capacity - blocks.SPARE) if blocks.by_blocks(self.chip) else ub
        vector = VectorPart(p, g, ub if self.apart else replace(ub, row=0), own, have, rows, tile, self.slots,
                            "if (own)" if mixed and not chunked else "", self.late.kept, self.late.by, self.fused,
                            blocks.rounds(self.chip), blocks.shifts(self.chip), self.partial, row, self.joins,
                            blocks.converts(self.chip, bf16.BF16))  # fmt: skip
        cube = Cube(p, self.chip, true, RING, self.slots)
        frame = tile if coupled(self.chip) and any(s.op == "mma" for s, _ in walk(p.body)) else Frame("tile", "round")
        split = Split(p, cube, vector, start, row, frame, chunked, self.late.statements, self.late.by, self.more,
                      self.late.joined, self.fractals, self.tight, half_scores(p) if self.halves else None)  # fmt: skip
        split.body(inner)
        return split

    def parts(self, split: Split, where: tuple[str, ...], tiles: int) -> dict[str, Body]:
        """The loops over tiles of both kinds of cores."""
        if split.joined:
            return {name: (joined(frame, where, tiles),) for name, frame in (("cube", split.frame), ("vector", self.vector_frame(split)))}
        first = "GetBlockIdx()" if not self.rows else "group"
        head = (f"for (uint32_t tile = {first}; tile < {tiles}; tile += GetBlockNum(), ++round) {{", *("  " + x for x in where))
        out: dict[str, Body] = {}
        if split.one:
            return {CORE: one_core((Again("tile", (*head, *("  " + d for d in split.frame.declarations)), split.frame.body, ("}",)),))}
        for name, frame in (("cube", split.frame), ("vector", self.vector_frame(split))):
            if frame.body:
                out[name] = (Again("tile", (*head, *("  " + d for d in frame.declarations)), frame.body, ("}",)),)
        return out

    def vector_frame(self, split: Split) -> Frame:
        """The vector cores' loop over tiles, with their share of the rows."""
        v = split.vector
        if not self.rows or not v.frame.body:
            return v.frame
        row = split.row
        count = split.cube.true[row] if row else "1"
        begin = split.start[row] if row else "0"
        share = ["const uint32_t sub = GetSubBlockIdx();", f"const uint32_t own = ({count} + 1 - sub) / 2;"]
        mine = [f"const uint32_t w_row = sub * (({count} + 1) / 2){' + done' if split.chunked else ''};"]
        mine += [f"const uint32_t o_row = {begin} + w_row;"] if row else []
        if not split.chunked:
            mine += ["const uint32_t c_row = own;"] if row else []
            return replace(v.frame, declarations=[*share, *mine, *v.frame.declarations])
        mine += [f"const uint32_t c_row = ac_least({self.rows}, own - done);"] if row else []
        head = [f"for (uint32_t done = 0; done < own; done += {self.rows}, ++rows_round) {{"]
        head += ["  " + x for x in (*mine, *v.frame.declarations)]
        inner = Again("rows", tuple(head), v.frame.body, ("}",))
        return Frame("tile", "round", [*share, *v.outer.declarations], v.outer.loads, [*v.outer.works, inner])

    def memories(self, name: str, split: Split, loops: set[str]) -> list[str]:
        """Buffers on chip of a core, and counters of its `loops`."""
        used = {n: x.top for n, x in split.cube.places.items()} if name in ("cube", CORE) else {}
        used |= {"ub": split.vector.ub.top} if name != "cube" else {}
        lines = ["TPipe pipe;"]
        for n, top in used.items():
            lines += [f"TBuf<TPosition::{table()['places'][n]['position']}> {n};", f"pipe.InitBuffer({n}, {top});"]
        lines.append("pipe.Destroy();")
        lines += (split.before if name != "vector" else []) + (split.vector.before if name != "cube" else [])
        if self.rows:
            lines.append("const uint32_t group = GetBlockIdx();" if name == "cube" else "const uint32_t group = GetBlockIdx() / 2;")
        own = {split.frame.joint.name} if split.frame.joint is not None else set()
        counters = [f"{x}_round = 0" for x in (*split.loops, "rows") if x in loops - own]
        counters = counters if own else ["round = 0", *counters]
        return [*lines, *(["uint32_t " + ", ".join(counters) + ";"] if counters else [])]


def _loops(body: Body) -> Iterator[str]:
    for n, _ in flat(body):
        if isinstance(n, Again):
            yield from (n.name, *_loops(n.body))


def source(p: TileProgram, lines: list[str], notes: list[str], blocks: int, header: tuple[str, ...], scratch: int,
           applied: tuple[str, ...], headers: tuple[str, ...]) -> KernelSource:  # fmt: skip
    """The function around its lines, with its comment and its launch: `blocks` blocks on cores."""
    name = entry_name(p.name)
    inputs, outputs = (tuple(dict.fromkeys(t.buffer for t in ts)) for ts in (p.inputs, p.outputs))
    arguments = [f"GM_ADDR {c_name(b)}" for b in (*inputs, *outputs)] + (["GM_ADDR scratch"] if scratch else [])
    signature = f'extern "C" __global__ __aicore__ void {name}({", ".join(arguments)}) {{'
    text = "\n".join([comment((*header, "", *show(p).splitlines(), "", *notes)), signature, *("  " + x for x in lines), "}", ""])
    launch = Launch((((blocks, 1),),), 1, workspace=scratch)
    return KernelSource(p.name, text, name, inputs, outputs, (), headers, "cpp", launch=launch, applied=applied)


def globals_(p: TileProgram) -> list[str]:
    """Tensors in memory."""
    out = {t.buffer: table()["integers"].get(t.dtype.name) or loaded(t.dtype, p.name) for t in p.inputs + p.outputs}
    return [x for b, e in out.items() for x in (f"GlobalTensor<{e}> {b}_g;", f"{b}_g.SetGlobalBuffer((__gm__ {e} *){c_name(b)});")]
