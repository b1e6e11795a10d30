"""Other makes of CPU, as `autocomp.cost.host` would describe them: `pytest --as-cpu zen5` prices and prints as on that machine.

Programs still run here, so a make with wider vectors than this machine's is refused. Sizes of caches are per core, the last level's per
complex of cores; sources: the vendors' optimisation guides (AMD 58455 for Zen 5, 56665 for Zen 3; Intel 248966 for the others).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autocomp.cost.chip import Chip, adapt, shipped
from autocomp.cost.host import HostFacts

K, M = 1 << 10, 1 << 20
HOSTS = {
    "xeon": HostFacts("Intel(R) Xeon(R) Platinum 8481C", "x86-64-v4", 2, 64, 32, 48 * K, 2 * M, 105 * M),
    "zen4": HostFacts("AMD EPYC 9454 48-Core Processor", "x86-64-v4", 2, 64, 32, 32 * K, 1 * M, 32 * M, True, True),
    "zen5": HostFacts("AMD EPYC 9755 128-Core Processor", "x86-64-v4", 2, 64, 32, 48 * K, 1 * M, 32 * M),
    "zen3": HostFacts("AMD EPYC 7763 64-Core Processor", "x86-64-v3", 2, 32, 16, 32 * K, 512 * K, 32 * M),
    "skylake": HostFacts("Intel(R) Core(TM) i7-6700 CPU @ 3.40GHz", "x86-64-v3", 4, 32, 16, 32 * K, 256 * K, 8 * M),
    "virtual": HostFacts("QEMU Virtual CPU version 2.5+", "x86-64-v3", 1, 32, 16, 0, 0, 0),  # caches that the system does not tell
}


def cpu_chip(name: str) -> Chip:
    """The chip that `cpu` is on that make, uncalibrated."""
    return adapt(shipped("cpu"), HOSTS[name])


def this_machine(**stated: Any) -> Chip:
    """The chip that `cpu` is here, uncalibrated, with some of the facts stated."""
    from autocomp.cost.host import facts

    return adapt(shipped("cpu"), replace(facts(), **stated))


def price_for(patch: pytest.MonkeyPatch, chip: Chip) -> None:
    """`cpu` is this chip, whatever machine runs the test."""
    patch.setattr("autocomp.cost.chip._host", lambda: chip)


def as_cpu(name: str) -> HostFacts:
    """The facts to go by. Raises ValueError for a name that is not there, or vectors that this machine cannot run."""
    from autocomp.cost.host import facts

    if name not in HOSTS:
        raise ValueError(f"there is no CPU '{name}'; there are {', '.join(HOSTS)}")
    if HOSTS[name].vector_bytes > facts().vector_bytes:
        raise ValueError(f"{name} has vectors of {HOSTS[name].vector_bytes} bytes, this machine of {facts().vector_bytes}")
    return HOSTS[name]
