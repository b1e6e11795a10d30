"""Tile program + schedule -> a warp-specialised kernel for sm_90a: placement, capacity checks, text."""

from __future__ import annotations

from autocomp.targets.cuda import tcgen05
from autocomp.targets.cuda.team_placer import TEAM, TeamPlacer
from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter
from autocomp.targets.simt.capacity import check_block, check_capacity, check_shared, registers_of
from autocomp.targets.simt.emit import check_grid, overlap_pays, source
from autocomp.targets.simt.placed import Placement
from autocomp.targets.source import KernelSource, Planned

from autocomp.cost.chip import Chip
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.body import Contract, Map, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import SHORT_FLOATS
from autocomp.tile.instruction import Instruction
from autocomp.tile.order import behind_products
from autocomp.tile.program import TileProgram

OPERANDS = 26  # registers that ptxas wants for an instruction beside its accumulator: 154 for m64n256 (C7602, NVRTC 13.0)


def planned_specialised(p: TileProgram, schedule: Schedule, chip: Chip, table: tuple[Instruction, ...], plain: Instruction,
                        headers: tuple[str, ...] = (), narrow: bool = False) -> Planned:  # fmt: skip
    """The statements of the plan with one producing warpgroup and `schedule.workers` consuming ones, where a block holds all that they
    place: rings (`fitted_specialised`), then what an epilogue stages, what reductions exchange, and the registers that values have beside
    factors which are packed and operands which came early. `narrow`: the kernel's graph rounds products to half types.

    Raises UnsupportedOp where the chip or the views do not allow it, DoesNotFit with the numbers of shared memory or registers.
    """
    p = behind_products(p)
    check_block(p, TEAM * (schedule.workers + 1), schedule.cluster, chip)
    printer = (tcgen05.placed if "tensor_memory" in chip.features else placed)(p, schedule, chip, table, plain)
    at, placer, printer.narrow = printer.place, printer.placer, narrow
    printer.streaming = (int(chip.limits.get("streams_from", 1)), int(chip.limits.get("streams_to", 0)))
    blocks = chip.cores * schedule.resident if printer.persistent else 0
    printer.overlaps = printer.wants("pdl", overlap_pays(p, chip, blocks))
    if blocks and printer.growing:
        raise UnsupportedOp("blocks that stay would take equal numbers of unequal tiles", where=f"kernel {p.name}",
                            hint="one block a tile, the longest first")  # fmt: skip
    printer.statements()
    at.bytes = max(at.bytes, placer.reach)
    check_capacity(p, at, printer.room, *printer.holds(chip, schedule))

    def write(header: tuple[str, ...]) -> KernelSource:
        at.cluster = schedule.cluster
        return source(p, at, printer, TEAM * (schedule.workers + 1), header, headers, "cu", tuple(placer.maps),
                      "".join(printer.wrappers.values()), blocks, schedule.resident,
                      printer.stream.workspace if printer.stream else 0)  # fmt: skip

    return Planned(printer, write)


def placed(p: TileProgram, schedule: Schedule, chip: Chip, table: tuple[Instruction, ...], plain: Instruction) -> WarpSpecialisedPrinter:
    """The printer of products that warpgroups start."""
    at, placer, shared = fitted_specialised(p, schedule, chip, table, plain)
    return WarpSpecialisedPrinter(p, at, placer, cluster=schedule.cluster, blocks=chip.cores * schedule.resident,
                                  teams=schedule.workers // placer.workers, room=shared, directives=schedule.directives)  # fmt: skip


def fitted_specialised(p: TileProgram, schedule: Schedule, chip: Chip, table: tuple[Instruction, ...],
                       plain: Instruction) -> tuple[Placement, TeamPlacer, float]:  # fmt: skip
    """Where the values of `behind_products(p)` lie, and the bytes of shared memory that a block has, if they hold the rings and the
    instructions find registers. What an epilogue stages and the registers that it holds come on top (`planned_specialised`). Raises
    UnsupportedOp where the chip or the views do not allow it, DoesNotFit with the numbers."""
    if "warpgroups" not in chip.features or not table:
        raise UnsupportedOp(f"{chip.name} ({chip.arch}) has no warpgroup instructions", where=f"kernel {p.name}")
    workers = 1 if schedule.ping_pong else schedule.workers  # of a tile
    at = Placement(TEAM * workers, chip.lanes(4), schedule.stages)
    placer = TeamPlacer(p, table, plain, at, workers, schedule.resident, schedule.instruction)
    placer.run()
    if not placer.bulk:
        raise UnsupportedOp("no product reads a factor that is copied in bulk", where=f"kernel {p.name}")
    _check_instructions(p, at, schedule, chip)
    shared, reserved = chip.shared_of_core
    shared = shared // schedule.resident - reserved
    check_shared(p, max(at.bytes, placer.reach), shared)
    check_grid(p)
    return at, placer, shared


def rounds_products(kernel: Kernel) -> bool:
    """Whether the graph that a kernel computes rounds its products to half types before anything else is done with them."""
    inside = [x for s in kernel.stores for x in postorder(s.value)]
    casts = {id(x.args[0]) for x in inside if isinstance(x, Map) and x.fn == "cast" and x.dtype in SHORT_FLOATS}
    return bool(inside) and all(id(x) in casts for x in inside if isinstance(x, Contract))


def _check_instructions(p: TileProgram, at: Placement, schedule: Schedule, chip: Chip) -> None:
    """Raises DoesNotFit where a product's instruction needs more registers than a block of so many threads starts with: these are all
    that ptxas counts on for it, whatever warpgroups claim later."""
    have = registers_of(chip, TEAM * (schedule.workers + 1), schedule.resident)
    needed = max(x.instruction.n // 2 + OPERANDS for x in at.products.values())
    if needed > have:
        raise DoesNotFit("registers of a thread when its block starts", needed=needed, available=have, where=f"kernel {p.name}",
                         hint="use narrower tiles or fewer workers")  # fmt: skip
