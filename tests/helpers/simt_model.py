"""Printed GPU programs on the CPU model of tests/helpers/simt: one fiber a thread, asynchronous copies and products late or early."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.source import KernelSource, TensorMap

from autocomp.ir.kernel import Call
from autocomp.ir.reference import input_sizes
from autocomp.ir.types import Sym, dtype_of
from autocomp.runtime.executor import constants_of, shape_of
from autocomp.runtime.program import Program

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "helpers" / "simt"
INCLUDE = {"cuda": [MODEL], "maca": [MODEL / "maca", MODEL, ROOT / "targets" / "maca" / "include"]}
# Arrays' bounds and alignment trap; nothing else of the sanitizer costs compile time here.
FLAGS = ["-std=c++17", "-fPIC", "-O1", "-w", "-ffp-contract=off", "-fsanitize=bounds,alignment", "-fsanitize-undefined-trap-on-error"]
# every access of a kernel is told to the model, which has the functions that are called so
WATCHED = ["-fsanitize=thread", "-fno-threadsafe-statics"]
COMPILER = shutil.which("g++") or shutil.which("clang++-19") or shutil.which("clang++") or ""
WAVE = {"cuda": 32, "maca": 64}
SHARED = "extern __shared__ __align__(1024) unsigned char smem[];"  # the model has a declaration of its own
PATTERN = 0xFF  # NaN in every floating type


class ModelFailure(AssertionError):
    """The model ended a launch: a hang, divergence, an access outside of a buffer, ..."""


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_int),
        ("wave", ctypes.c_int),
        ("shared", ctypes.c_int),
        ("late", ctypes.c_int),
        ("cluster", ctypes.c_int),
        ("ordered", ctypes.c_int),
        ("overlaps", ctypes.c_int),
    ]


class _Map(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dims", ctypes.c_long * 5), ("strides", ctypes.c_long * 5), ("box", ctypes.c_int * 5),
                ("steps", ctypes.c_int * 5),
                ("rank", ctypes.c_int), ("size", ctypes.c_int), ("swizzle", ctypes.c_int), ("pad", ctypes.c_int * 13)]  # fmt: skip


def compile_model(folder: Path) -> Path:
    """The model itself as an object file."""
    out = folder / "simt_model.o"
    _compile(["-c", str(MODEL / "simt_model.cpp"), f"-I{MODEL}", "-o", str(out)])
    return out


def _compile(arguments: list[str]) -> None:
    done = subprocess.run([COMPILER, *FLAGS, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def _team_products(prelude: str) -> str:
    """The warpgroup products that a kernel's prelude spells as PTX, by the model's."""
    lines = []
    for name, n, kinds, a, tb, sums in re.findall(r"void (ac_wgmma_n(\d+)_(\w+)_(r|s[01])([01]))\(int keep, (float|int) ", prelude):
        first, _, second = kinds.partition("_")
        types = f"{STORED[first]}, {STORED[second or first]}, {sums}"
        form = f"AC_TEAM_REGISTERS({name}, {n}, {types}, {tb})" if a == "r" else f"AC_TEAM_SHARED({name}, {n}, {types}, {a[1]}, {tb})"
        lines.append(form)
    for name, n, kind, tb in re.findall(r"void (ac_wgmma_n(\d+)_(\w+)_r([01])_sums)\(int keep, float ", prelude):
        for part, wide in (("d", int(n) - 8), ("s", 8)):
            lines.append(f"AC_TEAM_REGISTERS({name}_{part}, {wide}, {STORED[kind]}, {STORED[kind]}, float, {tb})")
        lines.append(f"AC_DEVICE void {name}(int keep, float *d, float *s, const unsigned *a, unsigned long long b) {{ "
                     f"{name}_d(keep, d, a, b); {name}_s(keep, s, a, ac_descriptor_second(b)); }}")  # fmt: skip
    return "\n".join(lines)


@dataclass
class ModelExecutor:
    """An `Executor` on the model, for a program that a GPU target printed. `late`: see simt_model.cpp."""

    program: Program
    folder: Path
    model: Path
    late: bool = True
    library: Any = field(init=False)
    scratch: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        target = self.program.target.name
        headers = {"cuda": "autocomp_cuda.cuh", "maca": "autocomp_maca.h"}
        out = self.folder / "kernels.so"
        parts = []
        for name, s in self.program.printed.items():
            body = s.text.replace(SHARED, "")
            text = f'#include "{headers[target]}"\n{_team_products(s.prelude)}\n{body}\nSIMT_KERNEL({s.entry})\n'
            parts.append(self.folder / f"{name}.cpp")
            parts[-1].write_text(text)
        include = [f"-I{p}" for p in (*INCLUDE[target], ROOT / "targets" / "simt" / "include")]
        objects = [str(p.with_suffix(".o")) for p in parts]
        for p, o in zip(parts, objects, strict=True):
            _compile(["-c", *WATCHED, *include, str(p), "-o", o])
        _compile(["-shared", *objects, str(self.model), "-o", str(out)])
        self.library = ctypes.CDLL(str(out))
        self.library.simt_allocate.restype = ctypes.c_void_p
        self.library.simt_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
        self.library.simt_release.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def run(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Outputs by name; every tensor that no input fills is poisoned first."""
        calls = self.program.calls
        values = input_sizes(calls.source, feed)
        fixed = {n.attrs["name"]: np.ascontiguousarray(feed[n.attrs["name"]]) for n in calls.source.inputs} | constants_of(calls)
        names = {t for c in calls.calls for t in c.args.values()} | {t for _, t in calls.outputs}
        with self._tensors(names, fixed, values) as tensors:
            for c in calls.calls:
                assert not c.kernel.opaque, f"{c.kernel.name} has no generated code"
                self._start(c, self.program.printed[c.kernel.name], tensors, values)
            return {name: tensors[t].copy() for name, t in calls.outputs}

    @contextmanager
    def _tensors(self, names: set[str], fixed: Mapping[str, np.ndarray], values: Mapping[str, int]) -> Iterator[dict[str, np.ndarray]]:
        """Arrays between pages that may not be touched."""
        constants = constants_of(self.program.calls)
        blocks = []
        out = {}
        for n in sorted(names):
            t = self.program.calls.tensors[n]
            shape = shape_of(t, values)
            size = max(1, int(np.prod(shape)) * t.dtype.bytes)
            at = self.library.simt_allocate(size, int(n in constants))
            blocks.append((at, size))
            ctypes.memset(at, PATTERN, size)
            raw = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(at))
            out[n] = raw[: int(np.prod(shape)) * t.dtype.bytes].view(t.dtype.numpy).reshape(shape)
            if n in fixed:
                out[n][...] = fixed[n]
        try:
            yield out
        finally:
            out.clear()  # a failed test shows what its frames hold
            for at, size in blocks:
                self.library.simt_release(at, size)

    def _start(self, call: Call, source: KernelSource, tensors: Mapping[str, np.ndarray], values: Mapping[str, int]) -> None:
        launch = source.launch
        assert launch is not None
        for z in launch.zeroed:
            tensors[call.args[z]][...] = 0
        pointers = [ctypes.c_void_p(tensors[call.args[a]].ctypes.data) for a in (*source.inputs, *source.outputs)]
        sizes = [ctypes.c_long(values[s]) for s in source.sizes]
        maps = [_map(m, tensors[call.args[m.argument]].ctypes.data, values) for m in launch.maps]
        scratch = self.scratch.setdefault(source.name, np.zeros(max(16, launch.workspace + 15), np.uint8))
        scratch = scratch[-scratch.ctypes.data % 16 :]
        extra = [ctypes.c_void_p(scratch.ctypes.data)] if launch.workspace else []
        by_reference = [ctypes.cast(ctypes.pointer(x), ctypes.c_void_p) for x in sizes]
        by_value = [ctypes.c_void_p(ctypes.addressof(m)) for m in maps]
        arguments = [*pointers, *by_reference, *extra, *by_value]
        table = (ctypes.c_void_p * max(1, len(arguments)))(*[a.value for a in arguments])
        grid = (*launch.blocks(values), 1, 1)[:3]
        wave = WAVE[self.program.target.name]
        ordered = int(launch.workspace > 0)  # its blocks may wait for those that are started before them
        how = _Launch((ctypes.c_uint * 3)(*grid), launch.block, wave, launch.shared, int(self.late), launch.cluster, ordered,
                      int(launch.overlaps))  # fmt: skip
        run = getattr(self.library, f"run_{source.entry}")
        run.restype = ctypes.c_char_p
        said = run(ctypes.byref(how), table)
        if said:
            raise ModelFailure(f"kernel {source.name}: {said.decode()}")


def _map(m: TensorMap, pointer: int, values: Mapping[str, int]) -> Any:
    """A descriptor, in memory aligned to 64 bytes."""
    number = lambda d: values[d.name] if isinstance(d, Sym) else d
    size = dtype_of(m.dtype).bytes
    raw = (ctypes.c_uint8 * (ctypes.sizeof(_Map) + 64))()
    out = _Map.from_buffer(raw, -ctypes.addressof(raw) % 64)
    out.data, out.rank, out.size, out.swizzle = pointer, len(m.dims), size, m.swizzle
    for i, d in enumerate(m.dims):
        out.dims[i], out.box[i], out.steps[i] = number(d), m.box[i], m.steps[i] if m.steps else 1
        out.strides[i] = size if i == 0 else number(m.strides[i - 1])
    return out
