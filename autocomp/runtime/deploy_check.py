"""What a saved folder is checked with: inputs, the outputs that the float64 reference makes of them, and how far results may be off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autocomp.cost.demand import demand_of
from autocomp.deadline import current
from autocomp.ir.orders import in_memory_order
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import Tolerance
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.verify import allowed

MOST = 1e10  # operations of a program whose reference is computed while it is saved: seconds
SEED = 0


@dataclass(frozen=True)
class Expected:
    """files: name -> bytes, of inputs as callers' arrays lie, of outputs as float64; tolerances by output. why_not: "" or what kept the
    outputs from being computed."""

    files: dict[str, bytes] = field(default_factory=dict)
    tolerances: dict[str, Tolerance] = field(default_factory=dict)
    why_not: str = ""


def expected(program: Any, named: Any) -> Expected:
    """The check of a program at its hinted sizes, files named by `named`; seeded random inputs."""
    work = [demand_of(c.kernel).work for c in program.calls.calls]
    operations = sum(w.matrix + w.vector + w.special for w in work)
    if operations > MOST:
        return Expected(why_not=f"{operations:.2g} operations, and the reference is computed for at most {MOST:.0e}")
    if current().over:
        return Expected(why_not="the deadline had passed")
    feed = random_inputs(program.graph, SEED)
    want = evaluate(program.graph, feed)
    inside = in_memory_order(feed, program.graph.input_orders)
    found = in_memory_order(want, program.graph.output_orders)
    files = {f"{named(n)}.bin": np.ascontiguousarray(x).tobytes() for n, x in inside.items()}
    files |= {f"{named(n)}.expected.bin": np.ascontiguousarray(found[n]).astype(np.float64).tobytes() for n, _ in program.calls.outputs}
    return Expected(files, allowed(program, feed, want))
