"""Printed Ascend C kernels on the CPU model of include/ascend: compiled for this host, run on poisoned outputs, faults reported."""

from __future__ import annotations

import ctypes
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.ir.reference import input_sizes
from autocomp.runtime.executor import constants_of, shape_of
from autocomp.simulate.compiler import ModelFailure, compile_all, found, include, kept_object, new_library, of_target, quick_link
from autocomp.targets.ascend.api import architecture, fact, rows
from autocomp.targets.ascend.blocks import HEADER as BLOCKS
from autocomp.targets.ascend.blocks import by_blocks
from autocomp.targets.source import KernelSource

MODEL = include() / "ascend"
HEADER = of_target("ascend") / "autocomp_ascend.h"
INTERFACE = MODEL / "kernel_operator.h"  # what the target's device headers include
INCLUDE = [f"-I{MODEL}", f"-I{HEADER.parent}"]
COMPILER = " ".join(found())
NATIVE = ["-mf16c"] if platform.machine() == "x86_64" else []
FLAGS = ["-std=c++17", "-O0", *NATIVE, "-Wall", "-Wno-unused-variable", "-Wno-unused-function", "-shared", "-fPIC", "-pthread"]
APART = [f for f in FLAGS if f != "-shared"]
PATTERN = 0xFF  # NaN in every floating type


@lru_cache(maxsize=4)
def precompiled(header: Path = HEADER, chip: tuple[str, ...] = ()) -> tempfile.TemporaryDirectory[str]:
    """A folder with the compiled form of a header and of what it includes, under flags that say the `chip`, made once a process: it is most
    of a kernel's build. Raises BuildError."""
    folder = tempfile.TemporaryDirectory(prefix="autocomp-model-")
    outer = Path(folder.name) / header.name
    outer.write_text(f'#include "{header}"\n', encoding="utf-8")
    out = Path(f"{outer}.gch")
    compile_all([[*APART, *INCLUDE, *chip, "-x", "c++-header", str(outer), "-o", str(out)]], [out], Path(folder.name))
    return folder


@lru_cache(maxsize=1)
def _machine() -> tempfile.TemporaryDirectory[str]:
    """A folder with the model itself as an object file, which every library of kernels holds. Raises BuildError."""
    folder = tempfile.TemporaryDirectory(prefix="autocomp-model-")
    kept_object(Path(folder.name) / "model.o", MODEL / "ascend_model.cpp", [*APART, "-O1"], INCLUDE)
    return folder


def compiled_model() -> str:
    """Path of the model's object file, made once a process. Raises BuildError."""
    return str(Path(_machine().name) / "model.o")


class Event(ctypes.Structure):
    """Of the model's header: what a core does, in the order in which it says so."""

    _fields_ = [("kind", ctypes.c_int), ("pipe", ctypes.c_int), ("key", ctypes.c_int), ("name", ctypes.c_char_p),
                *((n, ctypes.c_long) for n in ("amount", "near", "far", "runs", "split", "conflicts")),
                ("place", ctypes.c_int)]  # fmt: skip


WORK, SET, WAIT, CROSS_SET, CROSS_WAIT, BARRIER = range(6)


def longer(a: np.ndarray, bytes_: int) -> np.ndarray:
    """A copy with so many bytes of NaN behind it."""
    raw = np.full(a.nbytes + bytes_, PATTERN, np.uint8)
    out: np.ndarray = raw[: a.nbytes].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def unchanged(text: str) -> str:
    """A text as it is."""
    return text


@dataclass
class AscendExecutor:
    """Runs a program's kernels in order. `edit` changes a kernel's text first (to see faults found), `edit_header` the target's device
    headers; `blocks` overrides the launch."""

    program: Any
    folder: Path
    edit: Callable[[str], str] = unchanged
    edit_header: Callable[[str], str] | None = None
    blocks: int = 0
    library: Any = None
    done: Callable[[KernelSource, AscendExecutor], None] | None = None  # called behind each kernel

    @property
    def architecture(self) -> str:
        """Of the program's chip."""
        return architecture(self.program.target.toolchain.arch)

    def run(self, feed: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Outputs by name; every tensor that no input fills is poisoned first."""
        calls = self.program.calls
        values = input_sizes(calls.source, feed)
        tensors = {n.attrs["name"]: np.ascontiguousarray(feed[n.attrs["name"]]) for n in calls.source.inputs} | constants_of(calls)
        for c in calls.calls:
            source = self.program.printed[c.kernel.name]
            for a in (*source.inputs, *source.outputs):
                n = c.args[a]
                if n not in tensors:
                    t = calls.tensors[n]
                    raw = np.full(int(np.prod(shape_of(t, values))) * t.dtype.bytes, PATTERN, np.uint8)
                    tensors[n] = raw.view(t.dtype.numpy).reshape(shape_of(t, values))
            self.start(source, [tensors[c.args[a]] for a in (*source.inputs, *source.outputs)], values)
        return {name: tensors[t].copy() for name, t in calls.outputs}

    def start(self, source: KernelSource, arrays: list[np.ndarray], values: Mapping[str, int]) -> None:
        """One kernel. Raises ModelFailure with what the model saw, BuildError where it is no text for this model."""
        assert source.launch is not None
        if source.launch.workspace:
            arrays = [*arrays, np.full(source.launch.workspace, 0xFF, np.uint8)]
        if self.library is None:
            self.library = self.build()
        run = getattr(self.library, f"run_{source.entry}")
        run.restype = ctypes.c_char_p
        behind = fact("behind") if by_blocks(self.program.target.chip) else 0
        given = arrays
        if behind:  # what lies there is read, and never used
            arrays = [longer(a, behind) for a in given]
        most = [ctypes.c_long(rows()["memories"][n][self.architecture]) for n in ("VECCALC", "A1", "CO1")]
        self.library.model_chip(*most, ctypes.c_long(behind))
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        self.library.model_allow(pointers, (ctypes.c_long * len(arrays))(*(a.nbytes for a in arrays)), len(arrays))
        sizes = (ctypes.c_int64 * max(1, len(source.sizes)))(*(values[s] for s in source.sizes))
        said = run(pointers, self.blocks or source.launch.blocks(values)[0], sizes).decode()
        for a, full in list(zip(given, arrays))[len(source.inputs) :]:  # inputs may be parameters, which nobody writes
            if a is not full:
                a[...] = full
        if said:
            raise ModelFailure(said.strip(), where=f"kernel {source.name}")
        if self.done is not None:
            self.done(source, self)

    def events(self) -> list[list[Event]]:
        """Of the last kernel: what each core of its first group did (the cube core first, where both kinds work)."""
        out = []
        for core in range(3):
            first = ctypes.POINTER(Event)()
            n = self.library.model_events(core, ctypes.byref(first))
            out.append([Event.from_buffer_copy(first[i]) for i in range(n)])
        return [x for x in out if x]

    def build(self) -> Any:
        """All kernels of the program as one library."""
        sources = {s.entry: s for s in self.program.printed.values()}
        path = self.folder / "kernels.cpp"
        own = any(BLOCKS in source.headers for source in sources.values())  # headers look at the architecture
        names = [INTERFACE.name] if self.edit_header or own else []  # its compiled form is taken in front of all else
        names += dict.fromkeys(h for source in sources.values() for h in source.headers)
        path.write_text("\n".join([*(f'#include "{h}"' for h in names), *map(self.text, sources.values())]), encoding="utf-8")
        out = new_library(self.folder)
        if self.edit_header:
            for name in names[1:]:
                text = self.edit_header((HEADER.parent / name).read_text(encoding="utf-8"))
                (self.folder / name).write_text(text, encoding="utf-8")
        chip = (f"-D__NPU_ARCH__={self.architecture}",) if own else ()
        folders = [str(self.folder), precompiled(INTERFACE, chip).name] if names[0] == INTERFACE.name else [precompiled().name]
        where = [*(f"-I{p}" for p in folders), *INCLUDE, *chip]
        compile_all([[*FLAGS, *quick_link(), *where, str(path), compiled_model(), "-o", str(out)]], [out], self.folder)
        return ctypes.CDLL(str(out))

    def text(self, source: KernelSource) -> str:
        """A kernel, changed by `edit`, and what starts it."""
        comment, end, code = source.text.partition("*/")
        return f'''{comment}{end}{self.edit(code)}
extern "C" const char *run_{source.entry}(GM_ADDR *a, int blocks, int64_t *sizes) {{
  {started(source)}
  return model::said();
}}
'''


def started(source: KernelSource) -> str:
    """C++ that runs a kernel on `blocks` blocks; `a` has its pointers."""
    assert source.launch is not None
    n = len(source.inputs + source.outputs)
    given = [*(f"a[{i}]" for i in range(n + bool(source.launch.workspace))), *(f"sizes[{i}]" for i in range(len(source.sizes)))]
    pointers = ", ".join(given)
    mixed, cube = ("true" if f"KERNEL_TYPE_{t}" in source.text else "false" for t in ("MIX", "AIC_ONLY"))
    memory = f"a[{n}], {source.launch.workspace}" if source.launch.workspace else "nullptr, 0"
    return f"model::launch(blocks, {mixed}, {cube}, {memory}, [&] {{ {source.entry}({pointers}); }});"


def build_folder(program: Any, folder: Path, build: Path) -> Path:
    """The launcher of a saved folder, with the model in place of CANN: its generated headers start the kernels of the folder.

    Returns the executable, which exits 3 with what the model saw where a kernel is at fault. Raises BuildError.
    """
    for file, source in zip(program.printed, program.printed.values()):
        n = len(source.inputs + source.outputs) + bool(source.launch.workspace)
        assert not source.sizes, "the launcher's model passes no sizes"
        (build / f"aclrtlaunch_{source.entry}.h").write_text(f'''#pragma once
#include "{folder / file}.cpp"
#define ACLRT_LAUNCH_KERNEL(name) aclrtlaunch_##name
template <typename... P> int aclrtlaunch_{source.entry}(int blocks, void *, P... pointers) {{
  static_assert(sizeof...(P) == {n}, "arguments of {source.entry}");
  GM_ADDR a[] = {{(GM_ADDR)pointers...}};
  {started(source)}
  if (model::told("{source.entry}")) exit(3);
  return 0;
}}
''', encoding="utf-8")
    out = build / "program"
    flags = [*(f for f in FLAGS if f not in ("-shared", "-fPIC")), f"-I{build}", f"-I{folder}", INCLUDE[0]]
    if any(BLOCKS in source.headers for source in program.printed.values()):
        flags.append(f"-D__NPU_ARCH__={architecture(program.target.toolchain.arch)}")
    compile_all([[*flags, str(folder / "launcher.cpp"), compiled_model(), "-o", str(out)]], [out], build)
    return out
