"""Measuring this machine's ceilings with small C kernels, into a chip file that is used from then on."""

from __future__ import annotations

import ctypes
import datetime
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autocomp import commands
from autocomp.cost.chip import forget_host, load_chip
from autocomp.cost.host import calibration_path, facts, fingerprint
from autocomp.errors import AutocompError, BuildError
from autocomp.files import write_atomic

SOURCE = """
#include <math.h>
#include <omp.h>
typedef float vf __attribute__((vector_size(LANES * 4)));
/* independent chains of multiply-adds: the arithmetic peak; returns operations done */
double fma_peak(long rounds, float *sink) {
  double ops = 0;
#pragma omp parallel reduction(+ : ops)
  {
    vf a[12], x = (vf){} + 1.0001f, y = (vf){} + 1e-6f;
    for (int i = 0; i < 12; i++) a[i] = (vf){} + (float)i;
    for (long r = 0; r < rounds; r++)
      for (int i = 0; i < 12; i++) a[i] = a[i] * x + y;
    vf s = a[0];
    for (int i = 1; i < 12; i++) s += a[i];
    sink[omp_get_thread_num() % 64] = s[0];
    ops += 2.0 * LANES * 12 * rounds;
  }
  return ops;
}
/* two multiply-adds an element on data in the first cache: loads, operations, stores; returns elements done */
double maps(long rounds, float *data, long n) {
  double done = 0;
#pragma omp parallel reduction(+ : done)
  {
    float *x = data + omp_get_thread_num() * n;
    for (long r = 0; r < rounds; r++) {
      for (long i = 0; i < n; i++) x[i] = x[i] * 1.0001f + 1e-6f;
      __asm__ volatile("" ::: "memory");
    }
    done += (double)rounds * n;
  }
  return done;
}
void copy(const float *restrict x, float *restrict y, long n) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < n; i++) y[i] = x[i];
}
void empty(int n) {
  for (int i = 0; i < n; i++) {
#pragma omp parallel
    __asm__ volatile("" ::: "memory");
  }
}
void threads(int n) { omp_set_num_threads(n); }
"""


@dataclass(frozen=True)
class Calibration:
    """What was measured. `figures`: name -> (value, unit)."""

    path: Path
    figures: dict[str, tuple[float, str]]
    machine: str

    def data(self) -> dict[str, Any]:
        return {"path": str(self.path), "machine": self.machine, "figures": {k: v for k, (v, _) in self.figures.items()}}

    def text(self) -> str:
        lines = [f"measured on {self.machine}"]
        return "\n".join(lines + [f"  {k:28s} {v:.3g} {u}" for k, (v, u) in self.figures.items()])


def calibrate() -> Calibration:
    """Measure and write the chip file. Raises BuildError without a C compiler, AutocompError where it cannot be written."""
    if not calibration_path().is_absolute():
        raise AutocompError("there is no folder for this user's settings", where=str(calibration_path()), hint="set $HOME")
    here = facts()
    lib = _library(here.vector_bytes // 4)
    sink = np.zeros(64, np.float32)
    cores = here.cores
    small = max(1024, (here.l1 or 32768) // 16)
    data = np.zeros(small * cores, np.float32)
    peak = _rate(lambda: lib.fma_peak(ctypes.c_long(400_000), sink.ctypes.data_as(ctypes.c_void_p)))
    elements = _rate(lambda: lib.maps(ctypes.c_long(4000), data.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(small)))
    x, y = np.ones(1 << 24, np.float32), np.ones(1 << 24, np.float32)

    def copied() -> float:
        lib.copy(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(x.size))
        return 8.0 * x.size

    everyone = _rate(copied)
    lib.threads(1)
    alone = _rate(copied)
    lib.threads(cores)

    def forked() -> float:
        lib.empty(2000)
        return 2000.0

    region = 1 / _rate(forked)
    figures = {
        "f32 multiply-adds": (peak, "operations/s"),
        "f32 maps in the first cache": (2 * elements, "operations/s"),
        "copy, all cores": (everyone, "bytes/s"),
        "copy, one core": (alone, "bytes/s"),
        "parallel region": (region, "s"),
    }
    path = calibration_path()
    write_atomic(path, _chip_file(here, figures))
    forget_host()
    load_chip("cpu")
    return Calibration(path, figures, fingerprint(here))


def measure_ceilings(threads: int) -> tuple[float, float]:
    """(f32 multiply-adds in operations/s, copy in bytes/s read and written) on this many threads, now; nothing is written."""
    lib = _library(facts().vector_bytes // 4)
    lib.threads(threads)
    sink, x, y = np.zeros(64, np.float32), np.ones(1 << 24, np.float32), np.ones(1 << 24, np.float32)
    at = lambda a: a.ctypes.data_as(ctypes.c_void_p)

    def copied() -> float:
        lib.copy(at(x), at(y), ctypes.c_long(x.size))
        return 8.0 * x.size

    return _rate(lambda: float(lib.fma_peak(ctypes.c_long(400_000), at(sink)))), _rate(copied)


def _rate(run: Callable[[], float]) -> float:
    """Best units a second over at least five runs and a quarter of a second."""
    run()
    best, spent, n = 0.0, 0.0, 0
    while n < 5 or spent < 0.25:
        t = time.perf_counter()
        units = run()
        dt = time.perf_counter() - t
        best, spent, n = max(best, units / dt), spent + dt, n + 1
    return best


def _library(lanes: int) -> ctypes.CDLL:
    cc = next((p for n in ("cc", "gcc", "clang") if (p := shutil.which(n))), None)
    if cc is None:
        raise BuildError("no C compiler found", where="calibrate", hint="install one, e.g. `apt-get install gcc`")
    flags = ["-O3", "-march=native", "-fopenmp", "-ffp-contract=fast", f"-DLANES={lanes}", "-fPIC", "-shared"]
    try:
        with tempfile.TemporaryDirectory(prefix="autocomp-calibrate-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            (folder / "c.c").write_text(SOURCE, encoding="utf-8")
            commands.build([[cc, *flags, "-o", "c.so", "c.c", "-lm"]], [folder / "c.so"], folder, where="calibrate")
            lib = ctypes.CDLL(str(folder / "c.so"))
    except OSError as e:
        raise BuildError(f"the measuring kernels cannot be built or loaded: {e.strerror or e}", where="calibrate",
                         hint="is there room for temporary files ($TMPDIR), and may programs run there?") from None  # fmt: skip
    lib.fma_peak.restype = lib.maps.restype = ctypes.c_double
    return lib


def _chip_file(here: Any, figures: dict[str, tuple[float, str]]) -> str:
    """The generic chip adapted to this machine, with the measured ceilings in place."""
    from autocomp.cost.chip import adapt, shipped

    base = adapt(shipped("cpu"), here)
    when = datetime.date.today().isoformat()
    value = lambda v, source: f'{{value: {v:.6g}, source: "{source}"}}'
    measured = lambda k: value(figures[k][0], f"measured {when}: {k}")
    keep = "generic, adapted to this machine"
    maps = figures["f32 maps in the first cache"][0]
    mems = []
    for m in base.memories:
        bw = measured("copy, all cores") if m.name == "dram" else value(max(m.bandwidth, figures["copy, all cores"][0]), keep)
        one = f", core_bandwidth: {measured('copy, one core')}" if m.name == "dram" else ""
        cache = ", cache: true" if m.cache else ""
        mems.append(
            f"  - {{name: {m.name}, per: {m.per}, line: {m.line}{cache}, capacity: {value(m.capacity, keep)}, bandwidth: {bw}{one}}}"
        )
    peak = figures["f32 multiply-adds"][0]
    return "\n".join([
        f"# measured on: {fingerprint(here)}", "name: cpu", f"title: \"{base.title}\"", "target: cpu", f"arch: {base.arch}",
        f"cores: {value(base.cores, 'usable cores')}", f"clock: {value(base.clock, keep)}",
        f"launch: {measured('parallel region')}", f"latency: {value(base.latency, keep)}",
        f"vector_bytes: {value(base.vector_bytes, 'widest vector unit')}",
        "matrix:", f"  f32: {measured('f32 multiply-adds')}",
        *(f"  {k}: {value(peak * v / base.matrix['f32'], 'f32, in proportion to the generic file')}" for k, v in base.matrix.items()
          if k != "f32"),
        "vector:", f"  f32: {measured('f32 maps in the first cache')}",
        f"special: {value(maps / 8, 'inferred: eight operations a polynomial')}",
        f"granule: {{m: 1, n: {base.granule[1]}, k: 1, source: \"one vector of f32\"}}",
        f"registers: {{count: {base.registers.count}, bytes: {base.registers.bytes}, per: thread, source: \"instruction set\"}}",
        f"features: [{', '.join(base.features)}]", "memories:", *mems,
        "limits:", *(f"  {n}: {value(v, keep)}" for n, v in base.limits.items()), "",
    ])  # fmt: skip
