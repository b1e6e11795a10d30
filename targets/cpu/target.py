"""The CPU target: C sources, built and run here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from autocomp.targets.cpu.toolchain import Toolchain
from autocomp.targets.source import KernelSource
from autocomp.targets.symbols import sizes_apart

from autocomp.cost.chip import Chip
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.options import Options


def threads_of_openmp() -> int:
    """What $OMP_NUM_THREADS (a number, or one a level of nesting) asks the OpenMP runtime for; 0 where it leaves all cores."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() else 0


@dataclass(frozen=True)
class CpuTarget:
    """Target by the contract of `targets.load_target`."""

    chip: Chip
    name: str = "cpu"
    language: str = "C"
    runtime: str = "host"
    toolchain: Toolchain = field(default_factory=Toolchain)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Schedules are chosen and bounds are told for the cores that will run."""
        object.__setattr__(self, "chip", self.chip.with_cores(self.options.threads or threads_of_openmp()))

    @property
    def lanes(self) -> int:
        """f32 lanes of a vector."""
        return max(4, self.chip.vector_bytes // 4)

    @sizes_apart
    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        """The C function of a kernel under a schedule."""
        if kernel.opaque:
            from autocomp.targets.cpu.orders import print_order
            from autocomp.targets.cpu.scatters import print_scatter

            return (print_order if kernel.opaque == "topk" else print_scatter)(kernel, header)
        from autocomp.targets.cpu.emit import emit  # a program from the cache does without their imports
        from autocomp.targets.cpu.recurrence import print_recurrence

        from autocomp.loops.recurrences import recurrence_of
        from autocomp.tile.derive import derive

        if recurrence_of(kernel) is not None:
            r = print_recurrence(kernel, schedule)
            inputs, outputs = tuple(a.name for a in kernel.inputs), tuple(a.name for a in kernel.outputs)
            return KernelSource(kernel.name, r.text, r.name, inputs, outputs, scratch=r.scratch_bytes, threads="own")
        return emit(derive(kernel, schedule, joined=False), self.lanes, header, registers=self.chip.registers.count, options=self.options,
                    directives=schedule.directives)  # fmt: skip

    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str]:
        """The directives that take effect. Every schedule of a rule can be printed."""
        return frozenset(self.emit(kernel, schedule).applied if schedule.directives else ())

    def preamble(self, sources: list[KernelSource]) -> str:
        """Text in front of a file of kernels."""
        return f'#define AC_LANES {self.lanes}\n#include "autocomp_cpu.h"\n\n'

    def why_not_runnable(self) -> str:
        """Why programs cannot run here, "" if they can."""
        return self.toolchain.missing()
