"""What a measured kernel makes of its chip: bandwidth used, occupancy, spills, each with the limit below (above) which it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autocomp.cost.chip import Chip
from autocomp.cost.estimate import demand_of
from autocomp.ir.kernel import Kernel
from autocomp.options import Options

WARP = 128  # bytes of a register across a warp, by which registers are handed out
GRAIN = 256  # registers


@dataclass(frozen=True)
class Monitors:
    """bandwidth: unavoidable bytes a second over what the memory level that holds them gives. occupancy: resident threads over
    those that a core can hold, None where there are none. spilled: share of a thread's values that lie in local memory, None
    where it is not known."""

    bandwidth: float
    level: str
    occupancy: float | None = None
    spilled: float | None = None

    def warnings(self, bound: str, options: Options) -> list[str]:
        """What is beyond the options' limits. Bandwidth counts for kernels that memory binds."""
        out = []
        if bound == self.level and self.bandwidth < options.bw_util:
            out.append(f"uses {self.bandwidth:.0%} of the bandwidth of {self.level} (below bw_util, {options.bw_util:.0%})")
        if self.occupancy is not None and self.occupancy < options.occupancy:
            out.append(f"occupancy {self.occupancy:.0%} of a core's threads (below occupancy, {options.occupancy:.0%})")
        if self.spilled is not None and self.spilled > options.spill_ratio:
            out.append(f"spills {self.spilled:.0%} of its values (above spill_ratio, {options.spill_ratio:.0%})")
        return out


def monitors_of(kernel: Kernel, chip: Chip, seconds: float, figures: Mapping[str, float]) -> Monitors:
    """From a launch's seconds and the compiled kernel's figures (registers and local bytes a thread, shared bytes and threads a block)."""
    work = demand_of(kernel).work
    moved = work.read + work.written
    _, level, seconds_a_byte, _ = next(x for x in chip.levels if moved <= x[0])
    share = moved * seconds_a_byte / seconds if seconds else 0.0
    if "registers" not in figures:
        return Monitors(share, level)
    own = figures["registers"] * chip.registers.bytes
    return Monitors(share, level, occupancy(chip, figures), figures["local"] / max(1.0, own + figures["local"]))


def occupancy(chip: Chip, figures: Mapping[str, float]) -> float | None:
    """Resident threads over those that a core can hold: what registers, shared memory and the count of blocks allow.

    CUDA C++ programming guide, hardware multithreading: registers are handed out to warps by `GRAIN`, shared memory to blocks with a
    reserved part. None where the chip's file does not say how many threads a core holds.
    """
    if "resident_threads" not in chip.limits:
        return None
    lanes = WARP // chip.registers.bytes
    warps = -(-int(figures["threads"]) // lanes)
    a_warp = -(-int(figures["registers"]) * lanes // GRAIN) * GRAIN
    shared, reserved = chip.shared_of_core
    blocks = min(chip.limits["resident_threads"] // (warps * lanes), chip.registers.count // max(1, a_warp * warps),
                 shared // (figures["shared"] + reserved), chip.limits["resident_blocks"])  # fmt: skip
    return blocks * warps * lanes / chip.limits["resident_threads"]
