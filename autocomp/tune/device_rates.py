"""A CUDA device's numbers by microbenchmarks (`targets/cuda/microbenchmarks.yaml`), into a chip file with `source: measured by ..`.

Each one is a kernel of its own, runs alone, and may fail: its number then stays what it was, and the report says why. A kernel runs with
n and with 2n turns; what it takes longer is the turns' own, whatever starts and ends it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Protocol

import numpy as np
import yaml

from autocomp.cost.chip import Chip, load_chip
from autocomp.cost.chip_file import read_chip
from autocomp.cost.derived import Numbers, formula
from autocomp.errors import AutocompError, BuildError
from autocomp.files import own_table, user_folder, write_atomic

TIMES = 7  # runs of each length
SECONDS = 100.0  # for all of them; what is left over then keeps its number
STEADY = 0.2  # part of the median that the middle half of the runs may spread over
WORDS = 1 << 26  # of memory that kernels read
QUEUED = 10  # times that as much is written while launches are queued
KERNEL = """extern "C" __global__ void __launch_bounds__(1024) measured(long long *out, unsigned *data, float *sink, int n) {
  __shared__ alignas(128) unsigned s[4096];
  const int t = threadIdx.x, b = blockIdx.x;
  float x[16]; unsigned u[16];
  for (int k = 0; k < 16; ++k) { x[k] = 1.0f + t + k; u[k] = t * 17 + k; s[(t + k) & 4095] = k; }
  %(before)s
  __syncthreads();
  long long t0, t1, c0 = clock64(); asm volatile("mov.u64 %%0, %%globaltimer;" : "=l"(t0));
  #pragma unroll 4
  for (int i = 0; i < n; ++i) { %(loop)s }
  __syncthreads();
  long long c1 = clock64(); asm volatile("mov.u64 %%0, %%globaltimer;" : "=l"(t1));
  float f = 0.0f; unsigned w = 0u;
  for (int k = 0; k < 16; ++k) { f += x[k]; w ^= u[k]; }
  if (f == 0.123f || w == 0x12345678u) sink[t] = f + w + s[t];
  if (t == 0) { out[4 * b] = c0; out[4 * b + 1] = c1; out[4 * b + 2] = t0; out[4 * b + 3] = t1; }
}
"""


@dataclass(frozen=True)
class Micro:
    """One microbenchmark. `number` is the place in the chip file of what `value` gives, "" where it is only told."""

    name: str
    number: str
    n: int
    value: str
    loop: str = ""
    each: str = ""  # in place of a loop: once for each k of 16
    before: str = ""
    blocks: str = "1"  # or "all": one for each core
    threads: int = 32
    launches: int = 1
    chase: int = 0  # bytes that a cycle of words goes through, `stride` words apart
    stride: int = 0
    cold: bool = False  # no cache has anything of the data when it begins
    needs: str = "sm_80"

    @property
    def text(self) -> str:
        loop = self.loop or "\n    #pragma unroll\n    for (int k = 0; k < 16; ++k) { " + self.each + " }\n  "
        return KERNEL % {"before": self.before, "loop": loop}


class Device(Protocol):
    """What runs kernels. `run` gives [launches, blocks, 4]: of each block the core's clock before and after, the device's timer (ns)."""

    arch: str
    name: str
    cores: int

    def run(self, m: Micro, blocks: int, n: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Measured:
    """A number's median over runs, the part of it that the middle half spreads over; or why there is none."""

    micro: Micro
    value: float = 0.0
    spread: float = 0.0
    why: str = ""


@dataclass
class Report:
    """What was measured, and the chip file that holds it."""

    device: str
    rows: list[Measured] = field(default_factory=list)
    path: Path = Path()

    def data(self) -> dict[str, Any]:
        return {"path": str(self.path), "machine": self.device, "figures": {r.micro.name: r.value for r in self.rows if not r.why},
                "failed": {r.micro.name: r.why for r in self.rows if r.why}}  # fmt: skip

    def text(self) -> str:
        told = lambda r: f"no figure: {r.why}" if r.why else f"{r.value:.4g}, spread {100 * r.spread:.1f} %"
        rows = [f"  {r.micro.name:48s} {r.micro.number or '-':28s} {told(r)}" for r in self.rows]
        return "\n".join([f"measured on {self.device}", *rows])


def micros() -> tuple[Micro, ...]:
    """The table."""
    rows: Any = own_table("autocomp.targets.cuda", "microbenchmarks.yaml")
    return tuple(Micro(**r) for r in rows)


def has(arch: str, needs: str) -> bool:
    """Whether code that `needs` an architecture runs on this one; a letter behind the digits names one version only."""
    if not needs[-1].isdigit():
        return arch == needs
    digits = lambda a: int("".join(c for c in a if c.isdigit()))
    return digits(arch) >= digits(needs)


def measure(device: Device, chip: Chip, rows: Sequence[Micro] | None = None, clock: Callable[[], float] = time.monotonic) -> list[Measured]:
    """Every microbenchmark that the device has, one after another, each with what those before it found. None raises."""
    end, out = clock() + SECONDS, []
    known = {k: v for k, v in chip.numbers.items()} | {"cores": float(device.cores), "matrix_f16": chip.matrix_rate("f16")}
    for m in micros() if rows is None else rows:
        if not has(device.arch, m.needs):
            continue
        if clock() > end:
            out.append(Measured(m, why=f"{SECONDS:g} s were over before its turn"))
            continue
        try:
            found = _figure(device, m, Numbers(known, device.name))
        except Exception as e:  # whatever fails here, the others and the file go on
            what = e.what if isinstance(e, AutocompError) else f"{type(e).__name__}: {e}"
            found = Measured(m, why=(what.splitlines() or [type(e).__name__])[0][:200])
        out.append(found)
        if not found.why and m.number:
            known[m.number.removeprefix("limits.").replace(".", "_")] = found.value
    return out


def _figure(device: Device, m: Micro, known: Mapping[str, float]) -> Measured:
    blocks = device.cores if m.blocks == "all" else int(m.blocks)
    sizes = {"blocks": blocks, "threads": m.threads, "warps": m.threads / 32}
    device.run(m, blocks, m.n)  # once for nothing: caches, clocks
    values = []
    for _ in range(TIMES):
        one, two = device.run(m, blocks, m.n), device.run(m, blocks, 2 * m.n)
        values.append(formula(m.value, {**known, **sizes, **turn(one, two, max(1, m.n))}))
    middle = median(values)
    if not np.isfinite(middle) or middle <= 0:
        return Measured(m, why=f"{middle:g} is no figure: the turns take no longer than what is around them")
    low, _, high = quantiles(values, n=4)
    spread = (high - low) / middle
    return Measured(m, middle, spread, f"runs spread over {100 * spread:.0f} % of {middle:.4g}" if spread > STEADY else "")


def turn(one: np.ndarray, two: np.ndarray, n: int) -> dict[str, float]:
    """`clocks` and `seconds` of a turn of the loop, of readings with n and with 2n turns; `between`: seconds from one
    launch's end to the next one's start."""
    clocks = lambda r: float(np.mean(r[..., 1] - r[..., 0]))
    seconds = lambda r: float(np.mean(r[..., 3].max(-1) - r[..., 2].min(-1))) * 1e-9
    gaps = two[1:, :, 2].min(-1) - two[:-1, :, 3].max(-1)
    between = float(np.mean(gaps)) * 1e-9 if len(gaps) else 0.0
    return {"clocks": (clocks(two) - clocks(one)) / n, "seconds": (seconds(two) - seconds(one)) / n, "between": between}


def chip_file(text: str, found: Sequence[Measured], device: str, day: str) -> str:
    """The chip file `text` with what was measured in place. Raises ChipError where the outcome is no chip."""
    data: dict[str, Any] = yaml.safe_load(text)
    places = {r.micro.number: r for r in found if r.micro.number and not r.why}
    for number, r in places.items():
        source = f"measured by autocomp calibrate: {r.micro.name}; {device}, {day}; spread {100 * r.spread:.1f} %"
        new: dict[str, Any] = {"value": float(f"{r.value:.5g}"), "source": source}
        top, _, rest = number.partition(".")
        if top == "memories":
            level, _, what = rest.partition(".")
            next(m for m in data["memories"] if m["name"] == level)[what] = new
        elif rest:
            data[top][rest] = {**data[top].get(rest, {}), **new}
        else:
            data[top] = new
    for r in (r for r in found if r.why and r.micro.number):
        entry = data["limits"].get(r.micro.number.removeprefix("limits."))
        if isinstance(entry, dict):
            entry["source"] += f" ({r.micro.name} gave no figure on {day}: {r.why})"
    lines = "".join(_lines(k, v) for k, v in data.items())
    read_chip(lines, "calibrated")
    return lines


def _lines(name: str, value: Any) -> str:
    """A field of the file: tables of numbers and lists of memories an entry a line, all else in one."""
    flow = lambda v: yaml.safe_dump(v, default_flow_style=True, width=10**6, sort_keys=False).strip()
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"{name}:\n" + "".join(f"  - {flow(v)}\n" for v in value)
    if isinstance(value, dict) and all(isinstance(v, dict) for v in value.values()):
        return f"{name}:\n" + "".join(f"  {flow({k: v})[1:-1]}\n" for k, v in value.items())
    return f"{flow({name: value})[1:-1]}\n"


def calibrate_device(name: str = "") -> Report:
    """Measure the CUDA device here and write its chip file, `NAME.yaml` in the user's folder of settings; a target takes it by its path.

    name: the shipped chip that the device is ("h200"), "" for the one it is most like. Raises BuildError with what is missing: a device,
    a driver, CUDA's packages.
    """
    from importlib.resources import files

    from autocomp.targets import load_target

    target = load_target(f"cuda:{name}" if name else "cuda")
    missing = target.why_not_runnable()
    if missing:
        raise BuildError(f"no CUDA device can be measured here: {missing}", where="calibrate --target cuda",
                         hint="run it where the device is; `autocomp doctor` says what this machine lacks")  # fmt: skip
    device = CudaDevice(target.chip.arch)
    chip = load_chip(target.chip.name)
    rows = measure(device, chip)
    text = (files("autocomp.cost_models") / f"{chip.name}.yaml").read_text(encoding="utf-8")
    path = user_folder("config") / f"{chip.name}.yaml"
    write_atomic(path, chip_file(text, rows, device.name, datetime.date.today().isoformat()))
    return Report(device.name, rows, path)


class CudaDevice:
    """The first device, through cuda-core."""

    def __init__(self, arch: str) -> None:
        from cuda.core import Device as Cuda

        from autocomp.targets.cuda.toolchain import Toolchain

        self.device = Cuda()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.toolchain = Toolchain(arch).here()
        self.arch, self.name, self.cores = arch, str(self.device.name), int(self.device.properties.multiprocessor_count)
        self.data, self.spare, self.sink = (self.device.allocate(n, stream=self.stream) for n in (4 * WORDS, 4 * WORDS, 4096 * 4))
        self.kernels: dict[str, Any] = {}
        self.cycle = (0, 0)

    def run(self, m: Micro, blocks: int, n: int) -> np.ndarray:
        """See `Device`."""
        from cuda.bindings import driver
        from cuda.core import LaunchConfig, ObjectCode, launch

        from autocomp.runtime.device_array import check

        if m.name not in self.kernels:
            cubin = self.toolchain.compile_object("measured", m.text)
            self.kernels[m.name] = ObjectCode.from_cubin(cubin).get_kernel("measured")
        if m.chase and self.cycle != (m.chase, m.stride):
            words = chased(m.chase // 4, m.stride)
            check(driver.cuMemcpyHtoD(int(self.data.handle), words.ctypes.data, words.nbytes), "fill memory")
            self.cycle = m.chase, m.stride
        out = np.zeros((m.launches, blocks, 4), np.int64)
        room = self.device.allocate(out.nbytes, stream=self.stream)
        config, at = LaunchConfig(grid=blocks, block=m.threads), int(room.handle)
        # what is written last is what caches hold; and several launches wait behind it, so that the host's own time is not theirs
        for _ in range(QUEUED if m.launches > 1 else int(m.cold)):
            check(driver.cuMemsetD8Async(int(self.spare.handle), 0, 4 * WORDS, self.stream.handle), "write memory")
        for i in range(m.launches):
            arguments = (at + out[i].nbytes * i, int(self.data.handle), int(self.sink.handle), np.int32(n))
            launch(self.stream, config, self.kernels[m.name], *arguments)
        self.stream.sync()
        check(driver.cuMemcpyDtoH(out.ctypes.data, at, out.nbytes), "read clocks")
        room.close()
        return out


def chased(words: int, stride: int) -> np.ndarray:
    """A cycle through `words` words in steps of `stride`: of each that it comes by the next one's place (u32)."""
    at = np.arange(0, words, stride, dtype=np.uint32)
    out = np.zeros(words, np.uint32)
    out[at] = np.roll(at, -1)
    return out
