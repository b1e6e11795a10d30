"""The MACA target: kernels printed by `targets.simt`; programs are written as folders that build where the SDK is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from autocomp.targets.maca.api import check
from autocomp.targets.maca.toolchain import Toolchain
from autocomp.targets.simt.emit import check_chip, emit, planned
from autocomp.targets.simt.printer import Printer
from autocomp.targets.source import Admitted, KernelSource, below
from autocomp.targets.symbols import sizes_apart

from autocomp.cost.chip import Chip
from autocomp.files import own_table
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.tile.derive import derive
from autocomp.tile.instruction import Instruction, read_instructions

HEADER = "autocomp_maca.h"
WAVE = 64  # lanes of a wave: AC_WAVE of the header, and the matrix instructions' layouts


@lru_cache(maxsize=8)
def instructions(types: tuple[str, ...] | None = None) -> tuple[tuple[Instruction, ...], Instruction]:
    """Rows of instructions.yaml: matrix instructions, of factors of some `types` where they are given, and products thread by thread."""
    table: dict[str, Any] = own_table("autocomp.targets.maca", "instructions.yaml")
    plain = read_instructions([{"name": "fma", "types": ["", "", ""], "call": "", **table["plain"]}])[0]
    rows = [row for row in table["matrix"] if types is None or row["types"][0] in types]
    return read_instructions(rows), plain


@dataclass(frozen=True)
class MacaTarget:
    """Target by the contract of `targets.load_target`."""

    chip: Chip
    name: str = "maca"
    language: str = "MACA C"
    runtime: str = ""
    options: Options = field(default_factory=Options)
    toolchain: Toolchain = field(init=False)
    admitted: Admitted = field(init=False, repr=False, compare=False, default_factory=Admitted)

    def __post_init__(self) -> None:
        check_chip(self.chip, WAVE)
        object.__setattr__(self, "toolchain", Toolchain(self.chip.arch, self.options.maca_path))
        self.toolchain.sdk()  # what a user named is looked at before the work

    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        """The kernel under a schedule, of names that the public interface has. Raises UnsupportedOp for another."""
        return self.admitted.take(kernel, schedule, header) or self._printed(kernel, schedule, header)

    @sizes_apart
    def _printed(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        matrix, plain = instructions(tuple(self.chip.matrix))
        out = emit(derive(kernel, schedule, short=True), schedule, self.chip, matrix, plain, header, (HEADER,), "maca", counted=True)
        check(out.text, self.chip.arch, out.name)
        return out

    def fits(self, kernel: Kernel, schedule: Schedule) -> None:
        """Raises DoesNotFit or UnsupportedOp for what `emit` refuses: by all that the statements of its plan place, which is not ordered,
        checked or spelt."""
        self._planned(kernel, schedule)

    def passes(self, kernel: Kernel, schedule: Schedule) -> list[tuple[str, str]]:
        """The kernel's plan behind each pass: (its name, text). Raises what `emit` would."""
        return list(self._planned(kernel, schedule).passes())

    def _planned(self, kernel: Kernel, schedule: Schedule) -> Printer:
        matrix, plain = instructions(tuple(self.chip.matrix))
        return planned(derive(kernel, schedule, short=True), schedule, self.chip, matrix, plain, counted=True).printer

    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str]:
        """The directives that take effect. Raises what `emit` would."""
        out = self._printed(kernel, schedule)
        return self.admitted.keep(kernel, schedule, below(out), out.applied)

    def preamble(self, sources: list[KernelSource]) -> str:
        """Text in front of a file of kernels."""
        return f'#include "{HEADER}"\n'

    def why_not_runnable(self) -> str:
        """Why programs cannot run here."""
        return self.toolchain.missing() or "programs for MetaX GPUs are not started from Python; save the program as a folder and build it"
