"""Chips as data: a YAML file a chip, a source beside every number, read into a frozen record.

`cost_models/<name>.yaml` are the shipped ones; a path names a user's own file. The entry `cpu` starts from generic numbers,
takes caches, cores and vector width from the machine it runs on (`cost.host`), and is replaced by the file that
`autocomp calibrate` wrote on that machine (`cost.calibrate`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from autocomp.cost.chip_file import read_chip
from autocomp.cost.derived import FILE, Numbers, constant
from autocomp.cost.host import HostFacts, calibrated_file, facts
from autocomp.errors import ChipError
from autocomp.files import read_given
from autocomp.forks import kept_property
from autocomp.ir.types import DTYPES

F32 = DTYPES["f32"].bytes


@dataclass(frozen=True)
class Memory:
    """One level, far to near. Bytes, bytes/s of the whole chip; `core_bandwidth` is what one core alone can draw.

    per     chip | core | block: how many of them there are
    cache   tensors that fit in half of it are still there when the next kernel reads them
    line    bytes of the unit of transfer; `align` bytes that a transfer's address must be a multiple of
    """

    name: str
    capacity: float
    bandwidth: float
    per: str = "chip"
    core_bandwidth: float = 0.0
    line: int = 64
    align: int = 1
    cache: bool = False


@dataclass(frozen=True)
class Registers:
    """The register file: `count` registers of `bytes` each, per thread (CPU), core or block."""

    count: int
    bytes: int
    per: str = "thread"


class Limits(dict[str, float]):
    """A chip's limits by name. One that is asked for and not there is a ChipError: no target can do without it."""

    def __init__(self, numbers: Mapping[str, float], chip: str) -> None:
        super().__init__(numbers)
        self.chip = chip

    def __missing__(self, name: str) -> float:
        raise ChipError(f"no limit '{name}', which its target asks for", where=f"chip {self.chip}",
                        hint=f"limits: {{{name}: {{value: .., source: ..}}}} in the chip's file (docs/targets.md)")  # fmt: skip

    def __reduce__(self) -> Any:
        return Limits, (dict(self), self.chip)


@dataclass(frozen=True)
class Chip:
    """What a target's hardware can do. Rates are per second for the whole chip (all `cores`), times in seconds.

    matrix, vector   operations/s by dtype (a multiply-add counts two in `matrix`, an operation one in `vector`)
    special          exp, log, division, sqrt and the like, /s
    granule          rows, columns, depth that one matrix instruction computes at least
    vector_bytes     bytes of one vector register (of a wave on a GPU)
    launch           time from one kernel's end to the next one's start; latency: first byte of main memory
    numbers          the limits and what is derived for those that the file leaves out (`cost.derived`)
    limits           named numbers that targets and rules ask for (threads per block, events, ...); `units` has the unit of those that
                     are times ("s") or rates ("1/s")
    untried          those of `features` whose kernels no device has run: they are for who names the chip (`tried`)
    """

    name: str
    title: str
    target: str
    arch: str
    cores: int
    clock: float
    launch: float
    latency: float
    vector_bytes: int
    matrix: Mapping[str, float]
    vector: Mapping[str, float]
    special: float
    granule: tuple[int, int, int]
    registers: Registers
    memories: tuple[Memory, ...]
    features: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    levels: tuple[tuple[float, str, float, float], ...] = field(default=(), init=False, compare=False, repr=False)
    numbers: Mapping[str, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", Limits(self.limits, self.name))
        basics = {"launch": self.launch, "latency": self.latency, "clock": self.clock, "cores": self.cores, "lanes": self.lanes(),
                  "fma_rate": self.vector["f32"] / (self.cores * self.clock) / self.lanes()}  # fmt: skip
        levels = {f"{m.name}_{n}": x for m in self.memories for n, x in (("bytes", m.capacity), ("rate", m.bandwidth))}
        object.__setattr__(self, "numbers", Numbers({**basics, **levels, **self.limits}, self.name))
        near = [m for m in reversed(self.memories) if m.cache]
        far = self.memories[0]
        rows = [(self.numbers["held_part"] * self.total(m), m.name, 1 / m.bandwidth, 1 / (m.core_bandwidth or m.bandwidth)) for m in near]
        rows.append((float("inf"), far.name, 1 / far.bandwidth, 1 / (far.core_bandwidth or far.bandwidth)))
        object.__setattr__(self, "levels", tuple(rows))

    def __hash__(self) -> int:
        return hash((self.name, self.cores, self.launch, self.memories))

    def tried(self) -> Chip:
        """The chip without what no device has run: a program that is compiled for the device that happens to be here takes none of it."""
        return replace(self, features=tuple(f for f in self.features if f not in self.untried), untried=()) if self.untried else self

    def total(self, m: Memory) -> float:
        """Bytes of a level over the whole chip."""
        return m.capacity * (self.cores if m.per != "chip" else 1)

    def memory(self, name: str) -> Memory:
        """A level by name. Raises ChipError naming those that exist."""
        found = self._by_name.get(name)
        if found is None:
            raise ChipError(f"no memory '{name}'", where=f"chip {self.name}", hint=f"it has {', '.join(m.name for m in self.memories)}")
        return found

    @kept_property
    def _by_name(self) -> dict[str, Memory]:
        return {m.name: m for m in reversed(self.memories)}

    @kept_property
    def runs_blocks(self) -> bool:
        """Whether tiles are blocks of threads that share a memory (GPUs)."""
        return any(m.name == "shared" for m in self.memories)

    @property
    def shared_of_core(self) -> tuple[float, float]:
        """Bytes of shared memory that the blocks of a core share out, and how many of them the chip keeps for itself in each block."""
        reserved = self.numbers["shared_reserved"]
        return self.memory("shared").capacity + reserved, reserved

    @property
    def on_chip(self) -> float:
        """Bytes near one core that can hold a row or a tile between two uses (the largest level that is per core or block)."""
        return max((m.capacity for m in self.memories if m.per != "chip"), default=self.memories[-1].capacity)

    def matrix_rate(self, dtype: str) -> float:
        """Operations/s of contractions of a type; one the chip lacks goes at the vector unit's rate of f32 (half for f64)."""
        if dtype in self.matrix:
            return self.matrix[dtype]
        if f"no_products_of_{dtype}" in self.features:
            return 2 * self.vector["f32"]
        return self.matrix.get("f32", 2 * self.vector["f32"]) / (2 if dtype == "f64" else 1)

    def clusters(self, blocks: int) -> int:
        """Clusters of so many blocks, a core each, that run at once: as the device says, else as many as the cores make."""
        return int(self.limits.get(f"clusters_of_{blocks}", self.cores // blocks))

    def lanes(self, bytes_: int = F32) -> int:
        """Elements of this size (bytes) in one vector register."""
        return max(1, self.vector_bytes // bytes_)

    def with_cores(self, n: int) -> Chip:
        """The same chip when n of its cores are used: rates shrink, shared levels give at most n times one core's share."""
        if n <= 0 or n >= self.cores:
            return self
        f = n / self.cores
        scale = lambda t: {k: v * f for k, v in t.items()}
        mems = tuple(
            replace(
                m,
                bandwidth=min(m.bandwidth, m.core_bandwidth * n)
                if m.core_bandwidth
                else m.bandwidth * (f if m.per != "chip" else 1),
            )
            for m in self.memories
        )
        return replace(
            self, cores=n, matrix=scale(self.matrix), vector=scale(self.vector), special=self.special * f, memories=mems
        )

    def faster(self, times: float) -> Chip:
        """The same chip with every rate `times` as high and every time as short: everything on it takes 1 / `times` as long."""
        up = lambda t: {k: v * times for k, v in t.items()}
        power = {"s": 1 / times, "1/s": times}
        limits = {k: v * power.get(self.units.get(k, ""), 1.0) for k, v in self.limits.items()}
        memories = tuple(replace(m, bandwidth=m.bandwidth * times, core_bandwidth=m.core_bandwidth * times) for m in self.memories)
        return replace(self, clock=self.clock * times, launch=self.launch / times, latency=self.latency / times, matrix=up(self.matrix),
                       vector=up(self.vector), special=self.special * times, memories=memories, limits=limits)  # fmt: skip

    @property
    def key(self) -> str:
        """A digest of every number: schedules are memoised under it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


HALVES = ("f16", "bf16")


def chip_names() -> tuple[str, ...]:
    """The shipped chips."""
    return tuple(
        sorted(p.name.removesuffix(".yaml") for p in files("autocomp.cost_models").iterdir() if p.name.endswith(".yaml") and p.name != FILE)
    )


def load_chip(name: str, path: str | Path | None = None) -> Chip:
    """A chip by name ("cpu", "h200"), or from a user's file (`path`, or a name that ends in .yaml).

    Raises ChipError: unknown name, or file:line:column of what is wrong in the file.
    """
    if path is not None or name.endswith((".yaml", ".yml")):
        return _from_file(Path(path if path is not None else name))
    if name not in chip_names():
        raise ChipError(f"no chip '{name}'", hint=f"known are {', '.join(chip_names())}; a path to a chip file works too")
    if name == "cpu":
        return _host()
    return shipped(name)


def chip_of(data: Mapping[str, Any]) -> Chip:
    """A Chip from checked fields (`chip_file.read_chip`)."""
    d = dict(data)
    d["memories"] = tuple(Memory(**m) for m in d["memories"])
    d["registers"] = Registers(**d["registers"])
    halves = [t for t in HALVES if t in d["matrix"]]
    if halves and "f32" in d["matrix"]:  # a unit of products that lacks one of them
        d["features"] = (*d.get("features", ()), *(f"no_products_of_{t}" for t in HALVES if t not in halves))
    return Chip(**d)


@lru_cache(maxsize=64)
def shipped(name: str) -> Chip:
    """A chip of `cost_models/`."""
    file = files("autocomp.cost_models") / f"{name}.yaml"
    return chip_of(read_chip(file.read_text(encoding="utf-8"), f"cost_models/{name}.yaml"))


def _from_file(path: Path) -> Chip:
    try:
        text = read_given(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ChipError(f"cannot be read: {e}", where=str(path), hint="give the path of a chip file (docs/targets.md)") from None
    shown = [shipped(n) for n in chip_names()]
    known = {"limits": {n for c in shown for n in c.limits}, "features": {n for c in shown for n in c.features}}
    return chip_of(read_chip(text, str(path), known))


def adapt(chip: Chip, here: HostFacts) -> Chip:
    """The generic chip with this machine's cores, caches and vector width; its rates grow in proportion."""
    factor = here.cores * here.vector_bytes / chip.vector_bytes
    scale = lambda t: {k: v * factor for k, v in t.items()}
    units = chip.limits["half_units"] if here.halves else 1.0
    pairs = here.arch == "x86-64-v3" and not here.dot_bytes
    dots = chip.limits["dot_bytes"] if here.dot_bytes else chip.limits["pair_bytes"] if pairs else 1.0
    size = {"l1": here.l1, "l2": here.l2, "l3": here.l3}
    mems = tuple(
        replace(
            m,
            capacity=float(size.get(m.name) or m.capacity),
            bandwidth=m.bandwidth * (here.cores * here.vector_bytes / chip.vector_bytes if m.per == "core" else 1.0),
        )
        for m in chip.memories
    )
    mems = tuple(
        replace(m, bandwidth=min(m.core_bandwidth * here.cores, constant("core_share") * m.bandwidth)) if m.core_bandwidth else m
        for m in mems
    )
    return replace(
        chip,
        arch=here.arch,
        features=(*chip.features, *(("short_pairs",) if pairs else ())),
        cores=here.cores,
        vector_bytes=here.vector_bytes,
        matrix={k: v * (dots if k in ("i8", "u8") else units) for k, v in scale(chip.matrix).items()},
        vector=scale(chip.vector),
        special=chip.special * factor,
        granule=(1, here.vector_bytes // F32, 1),
        registers=replace(chip.registers, count=here.registers, bytes=here.vector_bytes),
        memories=mems,
        title=f"{here.model}, {here.cores} cores",
    )


@lru_cache(maxsize=1)
def _host() -> Chip:
    here = facts()
    own = calibrated_file(here)
    if own is not None:
        return _from_file(own)
    return adapt(shipped("cpu"), here)


def forget_host() -> None:
    """Look at the machine again (after a calibration)."""
    _host.cache_clear()
