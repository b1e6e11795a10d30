"""TileProgram -> one device kernel with its launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autocomp.targets.cpu.names import entry_name
from autocomp.targets.simt import min_blocks
from autocomp.targets.simt.capacity import check_block, check_capacity, pressure, registers_of
from autocomp.targets.simt.common_values import common_values
from autocomp.targets.simt.coordinates import most
from autocomp.targets.simt.placed import Placement, tile_of
from autocomp.targets.simt.placement import place
from autocomp.targets.simt.printer import Printer, parameters
from autocomp.targets.source import BLOCKS, KernelSource, Launch, Planned, TensorMap, comment

from autocomp.cost.blocks import direct_resident
from autocomp.cost.chip import Chip
from autocomp.errors import ChipError, DoesNotFit, UnsupportedOp
from autocomp.ir.directives import complete
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import Dim, dim_hint
from autocomp.tile.instruction import Instruction
from autocomp.tile.program import Loop, TileProgram
from autocomp.tile.text import show


def check_chip(chip: Chip, lanes: int) -> None:
    """Raises ChipError where a chip's file has no shared memory, or its waves are not of the `lanes` lanes that a target's header and
    instructions are written for."""
    if "shared" not in {m.name for m in chip.memories}:
        raise ChipError("there is no memory shared, which blocks of threads exchange values by", where=f"chip {chip.name}",
                        hint="memories: dram, l2, shared (docs/targets.md)")  # fmt: skip
    if chip.lanes(4) != lanes:
        raise ChipError(f"a wave has {chip.lanes(4)} lanes (vector_bytes: {chip.vector_bytes}), and kernels of {chip.target} are printed "
                        f"for {lanes}", where=f"chip {chip.name}", hint=f"vector_bytes is a wave of 4-byte lanes: {4 * lanes}")  # fmt: skip


def emit(p: TileProgram, schedule: Schedule, chip: Chip, instructions: Sequence[Instruction], plain: Instruction,
         header: tuple[str, ...], headers: tuple[str, ...], language: str, exact: bool = False,
         counted: bool = False) -> KernelSource:  # fmt: skip
    """The kernel of a tile program for a chip of waves of `vector_bytes / 4` lanes.

    Raises UnsupportedOp for what has no layout or no device function, DoesNotFit with the numbers of shared memory or registers.
    """
    return planned(p, schedule, chip, instructions, plain, headers, language, exact, counted).write(header)


def planned(p: TileProgram, schedule: Schedule, chip: Chip, instructions: Sequence[Instruction], plain: Instruction,
            headers: tuple[str, ...] = (), language: str = "", exact: bool = False, counted: bool = False) -> Planned:  # fmt: skip
    """The statements of the kernel's plan, where a block holds all that they place: what values need (`fitted`), then what statements need
    beside (a reduction's or a scan's exchanges, a ring of a thread's own). Raises as `emit` does."""
    p, at = fitted(p, schedule, chip, instructions, plain, counted)
    printer = Printer(p, at, exact, schedule.directives)
    printer.streaming = (int(chip.limits.get("streams_from", 1)), int(chip.limits.get("streams_to", 0)))
    printer.overlaps = printer.wants("pdl", overlap_pays(p, chip))
    printer.statements()
    check_capacity(p, at, chip.memory("shared").capacity, registers_of(chip, schedule.threads))  # what spills as blocks share is priced
    products = {s.dst: {x.a, x.b} for s, x in at.products.items() if x.instruction.load == "direct"}
    sums = sum(at.layouts[x].registers for x in products)
    ring, made = schedule.stages > 1 and len(products) == 1, any(x & at.late for x in products.values())
    kept = len(products) > 1 or (bool(products) and not (ring or made))
    held = max(0, pressure(p, at, {}) - sums) if kept else 0
    least = printer.wants("min_blocks", min_blocks.pays(p, at)) or held > 0
    direct = schedule.instruction == "direct"
    resident = direct_resident(schedule, chip, sums, blocks_hinted(p), at.bytes, held, made) if direct else 1
    return Planned(printer, lambda header: source(p, at, printer, schedule.threads, header, headers, language, resident=resident,
                                                  least=least))  # fmt: skip


def placed(p: TileProgram, schedule: Schedule, chip: Chip, instructions: Sequence[Instruction], plain: Instruction,
           counted: bool = False) -> Placement:  # fmt: skip
    """Where the values of a tile program lie, in blocks whose threads all do the same."""
    stages = max([int(x.opt("stages", "1")) for x in _loops(p.body)], default=1)  # of the deepest ring
    threads = schedule.threads * schedule.cluster
    strips = "window_strips" in schedule.directives
    return place(p, instructions, plain, threads, chip.lanes(4), stages, schedule.cluster, schedule.instruction, strips,
                 counted, "peel_tail" in schedule.directives)  # fmt: skip


def fitted(p: TileProgram, schedule: Schedule, chip: Chip, instructions: Sequence[Instruction], plain: Instruction,
           counted: bool = False) -> tuple[TileProgram, Placement]:  # fmt: skip
    """The program with its common values named, and where its values lie, if a block's shared memory and a thread's registers hold them.
    What reductions exchange through shared memory comes on top (`planned`). Raises UnsupportedOp, DoesNotFit with the numbers."""
    check_block(p, schedule.threads, schedule.cluster, chip)
    if any(x.opt("parts") for x in _loops(p.body)):
        raise UnsupportedOp("blocks of one role do not share out a tile's depth", where=f"kernel {p.name}",
                            hint="specialise warps: roles: 'warp_specialise'")  # fmt: skip
    place = lambda x: placed(x, schedule, chip, instructions, plain, counted)
    p, at = common_values(p, place) if "common_values" in schedule.directives else (p, place(p))
    check_capacity(p, at, chip.memory("shared").capacity, registers_of(chip, schedule.threads))
    check_grid(p)
    return p, at


def check_grid(p: TileProgram) -> None:
    """Raises DoesNotFit where a grid has more blocks than can be numbered, symbols at the size that is expected of them: no bounds are
    stated for most, and calls count theirs (`Launch.blocks`)."""
    if (blocks := blocks_hinted(p)) > BLOCKS:
        raise DoesNotFit("blocks of a grid", needed=blocks, available=BLOCKS, where=f"kernel {p.name}", hint="use larger tiles")


def grid_of(p: TileProgram) -> tuple[tuple[Dim, int], ...]:
    """(extent, tile) of each grid axis."""
    first = p.body[0] if p.body else None
    return tuple((p.extent(a), tile_of(p, a)) for a in first.axes) if isinstance(first, Loop) and first.kind == "grid" else ()


def blocks_of(p: TileProgram) -> int:
    """The most blocks of a grid with one a tile."""
    return prod(-(-most(extent) // tile) for extent, tile in grid_of(p))


def blocks_hinted(p: TileProgram) -> int:
    """Blocks of a grid with one a tile, symbols at the size that is expected of them."""
    return prod(-(-dim_hint(extent) // tile) for extent, tile in grid_of(p))


def overlap_pays(p: TileProgram, chip: Chip, at_most: int = 0) -> bool:
    """Whether a launch may start while the one before it ends, and gains more by that than its blocks lose by waiting one by one."""
    if "launches_overlap" not in chip.features:
        return False
    blocks = min(blocks_of(p), at_most) if at_most else blocks_of(p)
    return -(-blocks // chip.cores) * chip.limits.get("launch_wait", 0.0) <= chip.limits.get("launch_gain", 0.0)


def source(p: TileProgram, at: Placement, printer: Printer, threads: int, header: tuple[str, ...], headers: tuple[str, ...], language: str,
           maps: tuple[TensorMap, ...] = (), prelude: str = "",
           at_most: int = 0, resident: int = 1, workspace: int = 0, least: bool = False) -> KernelSource:  # fmt: skip
    """The plan ordered, checked and spelt, as a function with its comment and its launch. `least`: bounds name the least blocks of a
    core, be it one."""
    name = entry_name(p.name)
    scratch = ["unsigned char *__restrict__ scratch"] if workspace else []
    arguments = [*parameters(p, printer), *scratch] + [f"const __grid_constant__ ac_tensor_map map{i}" for i in range(len(maps))]
    bounds = f"{threads}, {resident}" if resident > 1 or least else str(threads)
    signature = f'extern "C" __global__ void __launch_bounds__({bounds}) {name}({", ".join(arguments)}) {{'
    said = comment((*header, "", *show(p).splitlines(), "", *_places(at)))
    text = "\n".join([said, signature, *printer.text(), "}", ""])
    check_grid(p)
    grid = grid_of(p)
    inputs, outputs = (tuple(dict.fromkeys(t.buffer for t in ts)) for ts in (p.inputs, p.outputs))
    together = ((at.cluster, 1),) if at.cluster > 1 else ((at_most, 1),) if workspace else ()  # few tiles have pieces for many blocks
    launch = Launch(((*grid, *together),), threads, at.bytes, cluster=at.cluster, at_most=at_most, workspace=workspace, maps=maps,
                    overlaps=printer.overlaps)  # fmt: skip
    return KernelSource(p.name, text, name, inputs, outputs, printer.sizes, headers, language, prelude=prelude, launch=launch,
                        applied=complete(printer.applied))  # fmt: skip


def _loops(body: tuple[object, ...]) -> list[Loop]:
    found = [n for n in body if isinstance(n, Loop)]
    return found + [x for n in found for x in _loops(n.body)]


def _places(at: Placement) -> list[str]:
    """Comment lines: where every value lies."""
    lines = [f"{n}: {layout}" for n, layout in at.layouts.items()]
    for n, x in at.shared.items():
        stages = at.depth(n) if x.view is not None else 1
        lines.append(f"{n}: shared, {x.bytes} bytes {x.buf.dtype.name}, ring of {stages}")
    lines += [f"{s.dst}: {p.instruction.name}, {p.repeat[0]} x {p.repeat[1]} a wave, {p.steps} steps" for s, p in at.products.items()]
    return lines
