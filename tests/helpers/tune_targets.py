"""Targets whose candidates crash, hang, are wrong or cannot be built."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from autocomp.targets.cpu.target import CpuTarget
from autocomp.targets.cpu.toolchain import Toolchain
from autocomp.targets.cuda.target import CudaTarget
from autocomp.targets.source import KernelSource

from autocomp.errors import BuildError, DoesNotFit
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.tune.key import schedule_text

IN_C = {
    "crash": "{ volatile int *volatile nowhere = 0; *nowhere = 1; }",
    "hang": "for (volatile int turn = 0;;) turn++;",
    "nothing written": "return;",
}


class Quick(Toolchain):
    """Compiles without optimising: these tests wait for builds and measure nothing of interest."""

    def _run(self, command: list[str], folder: Path) -> None:
        super()._run(["-O0" if c == "-O3" else c for c in command], folder)


@dataclass(frozen=True)
class FaultyCpu(CpuTarget):
    """`faults`: (tile of i0, 0 for none; what goes wrong). The choice of a schedule is not disturbed."""

    toolchain: Toolchain = field(default_factory=Quick)
    faults: tuple[tuple[int, str], ...] = ()

    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        fault = dict(self.faults).get(dict(schedule.tile).get("i0", 0), "")
        source = super().emit(kernel, schedule, header)
        if fault == "build crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "build hangs":
            time.sleep(1000)
        if fault == "build fails":
            raise BuildError("cc failed with exit code 1: no such register")
        if fault == "does not fit":
            raise DoesNotFit("the tile is too large", needed=100, available=10)
        if fault == "last element":
            return replace(source, text=source.text.rstrip().removesuffix("}") + f"  {_last(source.text)}\n}}\n")
        if fault in IN_C:
            head, brace, body = source.text.partition(") {\n")
            return replace(source, text=f"{head}{brace}  {IN_C[fault]}\n{body}")
        return source

    def admit(self, kernel: Kernel, schedule: Schedule) -> None:
        """Every schedule, whatever becomes of it."""


IN_CUDA = {
    "crash": "*(volatile int *)16 = 1;",
    "hang": "for (volatile int turn = 0;;) turn = turn + 1;",
    "nothing written": "return;",
}


@dataclass(frozen=True)
class FaultyCuda(CudaTarget):
    """`faults`: (text of a schedule, what goes wrong on the device)."""

    faults: tuple[tuple[str, str], ...] = ()

    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        source = super().emit(kernel, schedule, header)
        fault = dict(self.faults).get(schedule_text(schedule), "")
        if not fault:
            return source
        before, entry, after = source.text.partition("__global__")
        head, brace, body = after.partition(") {\n")
        return replace(source, text=f"{before}{entry}{head}{brace}  {IN_CUDA[fault]}\n{body}")

    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str]:
        """The directives that take effect. Raises what `emit` would."""
        return frozenset(super().emit(kernel, schedule).applied)


def _last(text: str) -> str:
    """A statement that spoils one element of the output (the pointer that is not const)."""
    head = text.partition("void ")[2].partition(")")[0]
    pointer = next(a.split("restrict ")[1] for a in head.split(",") if "restrict" in a and "const" not in a)
    return f"{pointer}[7] += 1;"
