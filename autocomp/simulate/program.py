"""A whole program on the model of its chip's machine: real numbers, no times (those are the cost model's)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from math import prod
from pathlib import Path
from typing import Any

from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate
from autocomp.cost.reference import coded_cost
from autocomp.cost.scalar import FALLBACK
from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule_text import parse
from autocomp.ir.types import dim_hint
from autocomp.runtime.program import Program
from autocomp.simulate import ascend_timeline, simt_timeline
from autocomp.simulate.ascend_model import AscendExecutor
from autocomp.simulate.compiler import WHERE, compiler
from autocomp.simulate.simt_model import WAVE, ModelExecutor, compile_model
from autocomp.simulate.timeline import Picture
from autocomp.targets.source import KernelSource

MODELLED = (*WAVE, "ascend")


def check_target(name: str) -> None:
    """Raises AutocompError where there is no model of a target's machine, BuildError where no compiler builds one."""
    if name.partition(":")[0] not in MODELLED:
        raise AutocompError(f"there is no model of target {name}: {', '.join(MODELLED)} have one", where=WHERE,
                            hint="without --simulate it runs on this machine, where that is of the target's kind")  # fmt: skip
    compiler()


def check_model(program: Program) -> str:
    """A program verified on the model of its machine, in a sentence for its folder. Raises VerificationError, ModelFailure, and what
    `simulated` does."""
    with simulated(program):
        found = program.verify()
    far = f"{found.worst / found.tolerance:.2g} of its tolerance" if found.worst else "0"
    return (f"On {date.today().isoformat()} all {len(program.kernels)} kernels ran on a CPU model of the machine of "
            f"{program.target.chip.title} (seed {found.seed}): the largest error is {far}.")  # fmt: skip


@dataclass
class Seen:
    """What the pipes of a program's kernels do, a picture a kernel: on an NPU of its first launch on the model, else by its plan."""

    program: Program
    found: dict[str, Picture] = field(default_factory=dict)

    def launched(self, source: KernelSource, executor: AscendExecutor) -> None:
        """A kernel has run on the model of an NPU."""
        if source.name in self.found:
            return
        kernel, program = self._kernel(source.name), self.program
        info = next(k for k in program.kernels if k.name == source.name)
        if info.bound == FALLBACK:
            cost = estimate(kernel, parse(info.schedule), program.target.chip)
            self.found[source.name] = simt_timeline.of_price(source.name, cost)
            return
        assert source.launch is not None
        sizes = {d.name: dim_hint(d) for a in (*kernel.inputs, *kernel.outputs) for d in a.type.shape if not isinstance(d, int)}
        bytes_ = lambda arguments: float(sum(prod(map(dim_hint, a.type.shape)) * a.type.dtype.bytes for a in arguments))
        self.found[source.name] = ascend_timeline.timeline(
            source.name, executor.events(), program.target.chip, source.launch.blocks(sizes)[0], demand_of(kernel).work.matrix_dtype,
            (bytes_(kernel.inputs), bytes_(kernel.outputs)), "SetL2CacheHint" in source.text)  # fmt: skip

    def pictures(self) -> list[Picture]:
        """Of every kernel, in the order of their first calls."""
        if self.program.target.name != "ascend":
            chip = self.program.target.chip
            for k in self.program.kernels:
                if (kernel := self._kernel(k.name)).coded:
                    self.found[k.name] = simt_timeline.of_price(k.name, coded_cost(kernel, chip))
                    continue
                schedule = parse(k.schedule)
                work = simt_timeline.issued_of(self.program.target, kernel, schedule)
                self.found[k.name] = simt_timeline.timeline(k.name, work, estimate(kernel, schedule, chip), chip)
        order = dict.fromkeys(c.kernel.name for c in self.program.calls.calls)
        return [self.found[n] for n in order if n in self.found]

    def _kernel(self, name: str) -> Kernel:
        return next(c.kernel for c in self.program.calls.calls if c.kernel.name == name)


@contextmanager
def simulated(program: Program) -> Iterator[Seen]:
    """The program runs on the model of its machine: `run` and `verify` work as on the device, `profile` does not. Gives what is seen.

    Raises UnsupportedOp for a kernel without generated code, BuildError where no compiler is here or it refuses a kernel, and from
    `run` ModelFailure with what the model saw.
    """
    target = program.target.name
    check_target(target)
    if opaque := [c.kernel.name for c in program.calls.calls if c.kernel.by_reference]:
        raise UnsupportedOp(f"{len(opaque)} kernels have no generated code, so there is nothing to simulate: {', '.join(opaque[:4])}",
                            where=program.name, hint="`autocomp explain` says which operators these are")  # fmt: skip
    kept, made, seen = program._executor, None, Seen(program)
    with tempfile.TemporaryDirectory(prefix="autocomp-simulate-") as folder:
        there = Path(folder)
        ascend = target == "ascend"
        made = AscendExecutor(program, there, done=seen.launched) if ascend else ModelExecutor(program, there, compile_model(there))
        executor: Any = made
        program.executor = executor
        try:
            yield seen
        finally:
            program._executor = kept
