"""What `compare` puts side by side: programs, saved folders, rule files, single schedules, targets, and kernels that were written by hand.

    model.onnx, m.txt             a program                          out/            a saved one
    mine.yaml                     the model with these rules         cuda:h200       the model for this target
    'matmul=tile i0 8, i1 128'    the model with this schedule       plain           the model as it is
    mine.c:gemm, mine.py:gemm     a kernel by hand
    'mine.cu:gemm<<<64,256>>>'    one of CUDA C++ with its launch

A kernel of C or CUDA takes pointers to the inputs, the parameters and the outputs in the model's order; one of Python (NumPy, or torch
where its file imports it, kernels of Triton among them) has arguments that are named as they are. For a CUDA target torch's tensors are on
the device, and times are the device's (`device_sides`).
"""

from __future__ import annotations

import ctypes
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

from autocomp import commands
from autocomp.errors import AutocompError, BuildError
from autocomp.ir.node import Graph
from autocomp.report.device_sides import of_cuda, of_device_program, to_device, torch_on_device
from autocomp.report.saved import prepare_saved
from autocomp.targets import load_target

Run = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Given:
    """A side that was resolved. `program`: None of a saved folder and of a kernel by hand; `prepare`: a call on a feed, where it runs
    here."""

    name: str
    program: Any = None
    folder: Path | None = None
    prepare: Callable[[Graph, Mapping[str, np.ndarray]], Run] | None = None
    sources: dict[str, str] = field(default_factory=dict)
    device: bool = False  # what it makes is on a CUDA device, whose events time it


def resolve(text: str, build: Callable[[str, str, Any], Any], model: str | None, options: Any, target: str,
            run_folders: bool = False) -> Given:  # fmt: skip
    """One side. `build(model, target, options)` compiles. `run_folders`: saved programs of CPUs are compiled and run. Raises AutocompError
    where the text names nothing."""
    path, dot, function = text.rpartition(":")
    if dot and Path(path).suffix in (".c", ".py", ".cu"):
        return by_hand(Path(path), function, target)
    if Path(text).is_dir():
        if not (Path(text) / "manifest.json").is_file():
            raise AutocompError("no manifest.json in this folder", where=text, hint="write one with `autocomp optimize MODEL -o DIR`")
        return Given(text, folder=Path(text), prepare=prepare_saved(Path(text)) if run_folders else None)
    if Path(text).suffix in (".onnx", ".txt", ".ac"):
        return of_program(text, build(text, target, options))
    if model is None:
        raise AutocompError("is no folder of a saved program, and no model is given for it", where=f"compare: {text}",
                            hint="give a folder of a saved program, or the model that both sides compute: --model MODEL")  # fmt: skip
    if text == "plain":
        return of_program(text, build(model, target, options))
    if Path(text).suffix in (".yaml", ".yml"):
        return of_program(text, build(model, target, replace(options, rules=(*options.rules, text))))
    if "=" in text:
        kernel, _, clauses = text.partition("=")
        return of_program(text, build(model, target, replace(options, schedule=(*options.schedule, (kernel, clauses)))))
    return of_program(text, build(model, text, options))


def of_program(name: str, program: Any) -> Given:
    sources = dict(program.sources)
    if there := of_device_program(program):
        return Given(name, program, prepare=there, sources=sources, device=True)
    return Given(name, program, prepare=(lambda graph, feed: lambda: program.run(feed)) if program.runnable else None, sources=sources)


def by_hand(path: Path, function: str, target: str = "cpu") -> Given:
    """A kernel of a source file. Raises AutocompError where the file cannot be read, BuildError where it cannot be compiled."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise AutocompError(f"cannot be read: {e}", where=str(path), hint="give FILE.c:FUNCTION or FILE.py:FUNCTION") from None
    there = target.partition(":")[0] == "cuda"
    torch = torch_on_device() if there else None
    if path.suffix == ".cu":
        if not there:
            raise AutocompError("is for a CUDA device", where=str(path), hint="--target cuda, or cuda:CHIP")
        prepare = of_cuda(path, text, function, load_target(target).toolchain)
    else:
        prepare = _of_c(path, function) if path.suffix == ".c" else _of_python(path, function, torch)
    return Given(f"{path.name}:{function}", prepare=prepare, sources={path.name: text}, device=torch is not None and path.suffix != ".c")


def _operands(graph: Graph, feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs and parameters by name, in the model's order."""
    return {**{n.attrs["name"]: np.ascontiguousarray(feed[n.attrs["name"]]) for n in graph.inputs},
            **{name: np.ascontiguousarray(graph.param(name)) for name in graph.params}}  # fmt: skip


def _of_c(path: Path, function: str) -> Callable[[Graph, Mapping[str, np.ndarray]], Run]:
    from tempfile import mkdtemp

    tools: Any = load_target("cpu").toolchain
    library = Path(mkdtemp(prefix="autocomp-hand-")) / "kernel.so"
    made = ["-shared", "-fPIC", "-o", str(library), str(path.resolve()), "-lm"]
    command = [*shlex.split(tools.compiler()), "-O3", "-march=native", "-fopenmp", *made]
    commands.build([command], [library], library.parent, where=str(path))
    try:
        call = getattr(ctypes.CDLL(str(library)), function)
    except (OSError, AttributeError) as e:
        raise AutocompError(f"has no function '{function}': {e}", where=str(path), hint="give FILE.c:FUNCTION") from None
    call.restype = None

    def prepare(graph: Graph, feed: Mapping[str, np.ndarray]) -> Run:
        operands = _operands(graph, feed)
        _check_call(shlex.split(tools.compiler()), path, function, library.parent, (*operands, *(name for name, _ in graph.outputs)))
        given = list(operands.values())
        made = {name: np.zeros([int(d) for d in n.type.shape], n.type.dtype.numpy) for name, n in graph.outputs}  # type: ignore[arg-type]
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*given, *made.values())]

        def run() -> Mapping[str, Any]:
            call(*pointers)
            return made

        run.kept = given  # type: ignore[attr-defined]  # the arrays that the pointers point to
        return run

    return prepare


def _check_call(compiler: list[str], path: Path, function: str, folder: Path, arguments: tuple[str, ...]) -> None:
    """Ask the compiler for a call with a pointer for each argument. Raises AutocompError: a kernel with other ones would take for its
    arguments what lies where they should be."""
    names = [f"a{n}" for n in range(len(arguments))]
    caller, made = folder / "call.c", folder / "call.o"
    body = f"void ac_call({', '.join(f'void *{a}' for a in names)}) {{ {function}({', '.join(names)}); }}"
    caller.write_text(f'#include "{path.resolve()}"\n{body}\n', encoding="utf-8")
    strict = ["-Werror=int-conversion", "-Werror=implicit-function-declaration"]
    try:
        commands.build([[*compiler, *strict, "-fopenmp", "-c", str(caller), "-o", str(made)]], [made], folder, where=str(path))
    except BuildError as e:
        raise AutocompError(f"does not take {len(arguments)} pointers ({', '.join(arguments)}): {e.what}", where=f"{path}:{function}",
                            hint="inputs, then parameters, then outputs, each a pointer, in the model's order") from None  # fmt: skip


def _of_python(path: Path, function: str, there: Any = None) -> Callable[[Graph, Mapping[str, np.ndarray]], Run]:
    spec = util.spec_from_file_location(f"_by_hand_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        call = getattr(module, function)
    except Exception as e:  # whatever somebody's file raises
        raise AutocompError(f"cannot be used: {type(e).__name__}: {e}", where=f"{path}:{function}", hint="give FILE.py:FUNCTION") from None
    torch = sys.modules.get("torch") if hasattr(module, "torch") else None

    def prepare(graph: Graph, feed: Mapping[str, np.ndarray]) -> Run:
        known = _operands(graph, feed)
        names = list(inspect.signature(call).parameters)
        if missing := [n for n in names if n not in known]:
            raise AutocompError(f"takes '{missing[0]}', which the model has not", where=f"{path}:{function}",
                                hint=f"it has {', '.join(known)}")  # fmt: skip
        given = [to_device(there, known[n]) if there and torch else torch.from_numpy(known[n]) if torch else known[n]
                 for n in names]  # fmt: skip
        outputs = [name for name, _ in graph.outputs]

        def run() -> Mapping[str, Any]:
            made = call(*given)
            return dict(zip(outputs, made if isinstance(made, (tuple, list)) else (made,)))

        return run

    return prepare
