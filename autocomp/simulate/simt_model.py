"""Printed GPU programs on the CPU model of include/simt: one fiber a thread, asynchronous copies and products late or early."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.ir.kernel import Call
from autocomp.ir.reference import input_sizes
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym, dtype_of
from autocomp.runtime.executor import constants_of, shape_of
from autocomp.runtime.plan import size_of
from autocomp.runtime.program import Program
from autocomp.runtime.repeated import Repeated, Rows, repeated
from autocomp.simulate.compiler import ModelFailure, compile_all, found, include, kept_object, new_library, of_target, quick_link
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.source import KernelSource, TensorMap

MODEL = include() / "simt"
INCLUDE = {"cuda": [MODEL, of_target("simt")], "maca": [MODEL / "maca", MODEL, of_target("maca"), of_target("simt")]}
# Arrays' bounds and alignment trap; nothing else of the sanitizer costs compile time here.
OWN = ["-std=c++17", "-fPIC", "-w", "-ffp-contract=off"]
FLAGS = [*OWN, "-O1", "-fsanitize=bounds,alignment", "-fsanitize-undefined-trap-on-error", "-ftrivial-auto-var-init=pattern"]
# every access of a kernel is told to the model, which has the functions that are called so; a frame touches each of its pages in order, so
# that one which is too large for a thread's stack meets the page below it
WATCHED = ["-fsanitize=thread", "-fno-threadsafe-statics", "-fstack-clash-protection"]
COMPILER = " ".join(found())
WAVE = {"cuda": 32, "maca": 64}
HEADERS = {"cuda": "autocomp_cuda.cuh", "maca": "autocomp_maca.h"}
SHARED = "extern __shared__ __align__(1024) unsigned char smem[];"  # the model has a declaration of its own
PATTERN = 0xFF  # NaN in every floating type


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
        ("sample", ctypes.c_int),
    ]


class _Map(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dims", ctypes.c_long * 5), ("strides", ctypes.c_long * 5), ("box", ctypes.c_int * 5),
                ("steps", ctypes.c_int * 5),
                ("rank", ctypes.c_int), ("size", ctypes.c_int), ("swizzle", ctypes.c_int), ("pad", ctypes.c_int * 13)]  # fmt: skip


FACTORS = STORED | {"tf32": "ac_tf32"}  # of a warpgroup's products


def compile_model(folder: Path) -> Path:
    """The model itself as an object file in a folder. It is the same for all programs: it is compiled once, and kept in the cache."""
    out = folder / "simt_model.o"
    kept_object(out, MODEL / "simt_model.cpp", [*OWN, "-O2"], [f"-I{MODEL}"])
    return out


def compile_to(out: Path, arguments: list[str]) -> None:
    """A file by the C++ compiler, with the flags that all of the model is built with. Raises BuildError."""
    compile_all([[*FLAGS, *arguments, "-o", str(out)]], [out], out.parent)


@lru_cache(maxsize=len(HEADERS))
def _precompiled(target: str) -> tempfile.TemporaryDirectory[str]:
    """A folder with the compiled form of a target's header, made once a process: it is most of a small kernel's build. clang looks for none
    of that name and reads the header itself."""
    folder = tempfile.TemporaryDirectory(prefix="autocomp-model-")
    header = next(path for p in INCLUDE[target] if (path := p / HEADERS[target]).exists())
    (outer := Path(folder.name) / header.name).write_text(f'#include "{header}"\n', encoding="utf-8")
    if "clang" not in COMPILER:
        where = [f"-I{p}" for p in INCLUDE[target]]
        compile_to(Path(f"{outer}.gch"), [*WATCHED, *where, "-x", "c++-header", str(outer)])
    return folder


def team_products(prelude: str) -> str:
    """The warpgroup products that a kernel's prelude spells as PTX, by the model's."""
    lines = []
    for name, n, kinds, a, tb, sums in re.findall(r"void (ac_wgmma_n(\d+)_(\w+)_(r|s[01])([01]))\(int keep, (float|int) ", prelude):
        first, _, second = kinds.partition("_")
        types = f"{FACTORS[first]}, {FACTORS[second or first]}, {sums}"
        form = f"AC_TEAM_REGISTERS({name}, {n}, {types}, {tb})" if a == "r" else f"AC_TEAM_SHARED({name}, {n}, {types}, {a[1]}, {tb})"
        lines.append(form)
    for name, n, kind, tb in re.findall(r"void (ac_wgmma_n(\d+)_(\w+)_r([01])_sums)\(int keep, float ", prelude):
        for part, wide in (("d", int(n) - 8), ("s", 8)):
            lines.append(f"AC_TEAM_REGISTERS({name}_{part}, {wide}, {STORED[kind]}, {STORED[kind]}, float, {tb})")
        lines.append(f"AC_DEVICE void {name}(int keep, float *d, float *s, const unsigned *a, unsigned long long b) {{ "
                     f"{name}_d(keep, d, a, b); {name}_s(keep, s, a, ac_descriptor_second(b)); }}")  # fmt: skip
    return "\n".join(lines)


def load(texts: Mapping[str, str], target: str, folder: Path, model: Path, jobs: int = 1) -> Any:
    """A library of kernels with the model: bodies of files by name, with SIMT_KERNEL(entry) for each kernel; `jobs` compilers at a time.
    Raises BuildError."""
    where = [f"-I{p}" for p in (_precompiled(target).name, *INCLUDE[target])]
    objects, commands = [], []
    for name, text in texts.items():
        (path := folder / f"{name}.cpp").write_text(f'#include "{HEADERS[target]}"\n{text}', encoding="utf-8")
        objects.append(path.with_suffix(".o"))
        commands.append([*FLAGS, "-c", *WATCHED, *where, str(path), "-o", str(objects[-1])])
    compile_all(commands, objects, folder, jobs=jobs)
    out = new_library(folder)
    compile_to(out, ["-shared", *quick_link(), *map(str, objects), str(model)])
    library = ctypes.CDLL(str(out))
    library.simt_allocate.restype = ctypes.c_void_p
    library.simt_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
    library.simt_release.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.simt_follow.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.simt_give.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    return library


def launch(library: Any, entry: str, arguments: list[ctypes.c_void_p], followed: list[tuple[int, int, bool]], *,
           grid: tuple[int, ...], block: int, wave: int, shared: int = 0, late: bool = True, cluster: int = 1, ordered: bool = False,
           overlaps: bool = False, sample: int = 0, given: Sequence[tuple[str, int, int]] = ()) -> str:  # fmt: skip
    """Runs a kernel of a library. `followed`: address and bytes of each array that it writes, and whether nobody has written it before;
    `given`: name, address and bytes of each that it may touch, and of none it touches more. What the model says, "" where all was well."""
    table = (ctypes.c_void_p * max(1, len(arguments)))(*[a.value for a in arguments])
    how = _Launch((ctypes.c_uint * 3)(*grid), block, wave, shared, late, cluster, ordered, overlaps, sample)
    for at, size, empty in followed:
        library.simt_follow(at, size, empty)
    for name, at, size in given:
        library.simt_give(at, size, name.encode())
    run = getattr(library, f"run_{entry}")
    run.restype = ctypes.c_char_p
    said = run(ctypes.byref(how), table)
    library.simt_forget()
    return said.decode() if said else ""


@dataclass
class ModelExecutor:
    """An `Executor` on the model, for a program that a GPU target printed. `late`, `sample`: see simt_model.cpp and simt_model.h."""

    program: Program
    folder: Path
    model: Path
    late: bool = True
    sample: int = 0
    library: Any = field(init=False)
    scratch: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        target = self.program.target.name
        texts = {
            name: f"{team_products(s.prelude)}\n{s.text.replace(SHARED, '')}\nSIMT_KERNEL({s.entry})\n"
            for name, s in self.program.printed.items()
        }
        self.library = load(texts, target, self.folder, self.model)

    def run(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Outputs by name; every tensor that no input fills is poisoned first."""
        calls = self.program.calls
        values = with_computed(input_sizes(calls.source, feed), calls.computed)
        fixed = {n.attrs["name"]: np.ascontiguousarray(feed[n.attrs["name"]]) for n in calls.source.inputs} | constants_of(calls)
        names = {t for c in calls.calls for t in c.args.values() if t not in calls.places(c)} | {t for _, t in calls.outputs}
        names |= {t for x in calls.loops.values() for t in x.touched}
        loops = {first: (name, last) for name, (first, last) in calls.spans.items()}
        with self._tensors(names, fixed, values) as tensors:
            i = 0
            while i < len(calls.calls):
                name, last = loops.get(i, ("", i + 1))
                mine, i = calls.calls[i:last], last
                if name:
                    self._repeat(repeated(calls, name, values), mine, tensors, values)
                else:
                    self._start(mine[0], self.program.printed[mine[0].kernel.name], tensors, values)
            return {name: tensors[t].copy() for name, t in calls.outputs}

    def _repeat(self, loop: Repeated, calls: Sequence[Call], tensors: Mapping[str, np.ndarray], values: Mapping[str, int]) -> None:
        """The calls of a loop, once a step."""
        pointers = {n: x.ctypes.data for n, x in tensors.items()}
        _copy_rows(loop.begins, pointers)
        for step in range(loop.trips):
            here = dict(tensors)
            for name, at in loop.addresses(pointers, step).items():
                t = self.program.calls.tensors[name]
                raw = np.ctypeslib.as_array((ctypes.c_uint8 * max(1, size_of(t, values))).from_address(at))
                here[name] = raw[: size_of(t, values)].view(t.dtype.numpy).reshape(shape_of(t, values))
            for c in calls:
                self._start(c, self.program.printed[c.kernel.name], here, values)
        _copy_rows(loop.ends, pointers)

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
        how = source.launch
        assert how is not None
        for z in how.zeroed:
            tensors[call.args[z]][...] = 0
        pointers = [ctypes.c_void_p(tensors[call.args[a]].ctypes.data) for a in (*source.inputs, *source.outputs)]
        sizes = [ctypes.c_long(values[s]) for s in source.sizes]
        maps = [_map(m, tensors[call.args[m.argument]].ctypes.data, values) for m in how.maps]
        scratch = self.scratch.setdefault(source.name, np.zeros(max(16, how.workspace + 15), np.uint8))
        scratch = scratch[-scratch.ctypes.data % 16 :]
        extra = [ctypes.c_void_p(scratch.ctypes.data)] if how.workspace else []
        by_reference = [ctypes.cast(ctypes.pointer(x), ctypes.c_void_p) for x in sizes]
        by_value = [ctypes.c_void_p(ctypes.addressof(m)) for m in maps]
        read = {call.args[a] for a in (*source.inputs, *how.zeroed)}
        written = {call.args[a]: tensors[call.args[a]] for a in source.outputs}
        followed = [(x.ctypes.data, x.nbytes, name not in read) for name, x in written.items()]
        followed.append((scratch.ctypes.data, how.workspace, True))
        given = [(call.args[a], tensors[call.args[a]].ctypes.data, tensors[call.args[a]].nbytes) for a in (*source.inputs, *source.outputs)]
        given.append(("the workspace", scratch.ctypes.data, how.workspace))
        said = launch(self.library, source.entry, [*pointers, *by_reference, *extra, *by_value], followed,
                      grid=(*how.blocks(values), 1, 1)[:3], block=how.block, wave=WAVE[self.program.target.name], shared=how.shared,
                      late=self.late, cluster=how.cluster, ordered=how.workspace > 0,  # its blocks may wait for those started before them
                      overlaps=how.overlaps, sample=self.sample, given=given)  # fmt: skip
        if said:
            raise ModelFailure(said, where=f"kernel {source.name}")


def _copy_rows(copies: Sequence[Rows], pointers: Mapping[str, int]) -> None:
    for x in copies:
        for k in range(x.rows):
            ctypes.memmove(pointers[x.to] + k * x.to_apart, pointers[x.of] + x.at + k * x.of_apart, x.width)


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
