"""What of a chip's file the printed text is written for: refused before the work where a file says otherwise."""

from __future__ import annotations

from autocomp.targets.ascend.api import architecture, rows

from autocomp.cost.chip import Chip
from autocomp.errors import ChipError

POSITIONS = {"ub": "VECCALC", "l1": "A1", "l0a": "A2", "l0b": "B2", "l0c": "CO1"}  # as api.yaml calls them
FRACTAL = 16  # rows and columns of a fractal, and depth in halves
REPEAT = 256  # bytes of a repeat of a vector instruction


def flag_of(chip: Chip) -> str:
    """The compiler's flag of the chip's architecture, one of its features. Raises ChipError where it has not one known flag, a memory is
    missing or larger than programs may use there (api.yaml), or cores have another form than the printed text: a fractal's sides, bytes of
    a repeat, vector cores beside a cube core."""

    def refuse(what: str, hint: str) -> ChipError:
        return ChipError(what, where=f"chip {chip.name}", hint=hint)

    known = [a["flag"] for a in rows()["architectures"].values()]
    flags = [f for f in chip.features if f.startswith("dav-")]
    if len(flags) != 1 or flags[0] not in known:
        raise refuse(f"features name the architectures [{', '.join(flags)}], and kernels are printed for one of {', '.join(known)}",
                     f"features: [{known[0]}, ..], the compiler's flag")  # fmt: skip
    if missing := [m for m in ("l2", *POSITIONS) if m not in {x.name for x in chip.memories}]:
        raise refuse(f"there is no memory {', '.join(missing)}", f"memories: dram, l2, {', '.join(POSITIONS)} (docs/targets.md)")
    if tuple(chip.granule) != (FRACTAL,) * 3:
        raise refuse(f"granule is {' x '.join(map(str, chip.granule))}, and fractals are printed {FRACTAL} x {FRACTAL} x {FRACTAL}",
                     f"granule: {{m: {FRACTAL}, n: {FRACTAL}, k: {FRACTAL}, source: ..}}")  # fmt: skip
    if chip.vector_bytes != REPEAT:
        raise refuse(f"vector_bytes is {chip.vector_bytes}, and a repeat of a vector instruction is printed as {REPEAT}",
                     f"vector_bytes: {{value: {REPEAT}, source: ..}}")  # fmt: skip
    most = rows()["memories"]
    for name, position in POSITIONS.items():
        here = most[position][architecture(flags[0])] if isinstance(most[position], dict) else most[position]
        if chip.memory(name).capacity > here:
            raise refuse(f"memory {name} has {chip.memory(name).capacity:.0f} bytes, and programs for {flags[0]} may use {here}",
                         f"what is beyond is the library's, or there is none: capacity: {{value: {here}, source: ..}}")  # fmt: skip
    beside = 1 if "one_core_kind" in chip.features else 2
    if chip.limits["vector_cores"] != beside:
        raise refuse(f"vector_cores is {chip.limits['vector_cores']:g}, and kernels are printed for {beside} beside a cube core",
                     "2 with cores of two kinds, 1 with the feature one_core_kind, whose cores have both units")  # fmt: skip
    return flags[0]
