"""A whole program on the model of its chip's machine: real numbers, no times (those are the cost model's)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.runtime.program import Program
from autocomp.simulate.ascend_model import AscendExecutor
from autocomp.simulate.compiler import WHERE, compiler
from autocomp.simulate.simt_model import WAVE, ModelExecutor, compile_model

MODELLED = (*WAVE, "ascend")


def check_target(name: str) -> None:
    """Raises AutocompError where there is no model of a target's machine, BuildError where no compiler builds one."""
    if name.partition(":")[0] not in MODELLED:
        raise AutocompError(f"there is no model of target {name}: {', '.join(MODELLED)} have one", where=WHERE,
                            hint="without --simulate it runs on this machine, where that is of the target's kind")  # fmt: skip
    compiler()


@contextmanager
def simulated(program: Program) -> Iterator[None]:
    """The program runs on the model of its machine: `run` and `verify` work as on the device, `profile` does not.

    Raises UnsupportedOp for a kernel without generated code, BuildError where no compiler is here or it refuses a kernel, and from
    `run` ModelFailure with what the model saw.
    """
    target = program.target.name
    check_target(target)
    if opaque := [c.kernel.name for c in program.calls.calls if c.kernel.opaque]:
        raise UnsupportedOp(f"{len(opaque)} kernels have no generated code, so there is nothing to simulate: {', '.join(opaque[:4])}",
                            where=program.name, hint="`autocomp explain` says which operators these are")  # fmt: skip
    kept, made = program._executor, None
    with tempfile.TemporaryDirectory(prefix="autocomp-simulate-") as folder:
        there = Path(folder)
        made = AscendExecutor(program, there) if target == "ascend" else ModelExecutor(program, there, compile_model(there))
        executor: Any = made
        program.executor = executor
        try:
            yield
        finally:
            program._executor = kept
