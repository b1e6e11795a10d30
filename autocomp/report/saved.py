"""A saved program of a CPU as a side that runs: its sources are compiled by our own toolchain in a folder of our own, its plan is called.

Its build script is never run, but its sources become code of this process: `compare` does this only where it is asked to (--run-folders).
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from autocomp.errors import AutocompError
from autocomp.ir.node import Graph
from autocomp.ir.types import DTYPES
from autocomp.runtime.library import NO_MEMORY, NO_STACK, OUTSIDE

ALIGNED = 64  # bytes
_TYPE = re.compile(r"(\w+)\[([\d, ]*)\]")
_SCRATCH = re.compile(r"case \d+: .*\bscratch\b")


def prepare_saved(folder: Path) -> Callable[[Graph, Mapping[str, np.ndarray]], Callable[[], Mapping[str, Any]]]:
    """What runs the program of a folder on a feed. Raises AutocompError where it cannot be run here, with the reason; BuildError where it
    cannot be compiled."""
    refuse = lambda what: AutocompError(what, where=str(folder), hint="compare it without --run-folders: by prediction")
    try:
        m = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        tensors = {str(n): (int(t["slot"]), *_shape(str(t["type"]))) for n, t in m["tensors"].items()}
        if lost := [t for t in m["outputs"].values() if t not in tensors] + [n for n in (*m["inputs"], *m["weights"]) if n not in tensors]:
            raise ValueError(f"it has no tensor '{lost[0]}'")
        calls, packed = len(m["calls"]), [(int(p["slot"]), int(p["bytes"])) for p in m["packed"]]
        inputs, outputs, weights = [str(n) for n in m["inputs"]], dict(m["outputs"]), dict(m["weights"])
        if m["target"] != "cpu":
            raise refuse(f"is a program for {m['target']}, and only those of CPUs run from a folder")
        if any(k["bound"] == "opaque" for k in m["kernels"]):
            raise refuse("has an operation that runs through its reference, which the folder has not")
        if m["orders"]:
            raise refuse("takes tensors that lie in another order of their dimensions")
        slots = [s for s, *_ in tensors.values()] + [s for s, _ in packed]
        if not slots or sorted(slots) != list(range(len(slots))):
            raise refuse("has a plan whose table of pointers has holes")
        if _SCRATCH.search((folder / "plan.c").read_text(encoding="utf-8")):
            raise refuse("repeats a step over time, whose memory the folder does not say")
        data = np.load(folder / "weights.npz")
        constants = {n: np.ascontiguousarray(data[w]) for n, w in weights.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as e:
        raise AutocompError(f"cannot read the saved program: {type(e).__name__} {e}", where=str(folder), hint="save it again") from None
    run, pack = _compiled(folder, [str(s) for s in m["sources"]], refuse)

    def prepare(graph: Graph, feed: Mapping[str, np.ndarray]) -> Callable[[], Mapping[str, Any]]:
        if missing := [n for n in inputs if n not in feed]:
            raise AutocompError(f"takes '{missing[0]}', which the model has not", where=str(folder), hint=f"it has {', '.join(feed)}")
        wanted = [prod(shape) * DTYPES[dtype].bytes for _, dtype, shape in tensors.values()] + [n for _, n in packed]
        try:
            room = [_room(n) for n in wanted]
        except (MemoryError, ValueError):
            raise refuse(f"needs {sum(wanted)} bytes: not enough memory") from None
        table = (ctypes.c_void_p * len(slots))()
        for slot, r in zip(slots, room, strict=True):
            table[slot] = r.ctypes.data
        views = {n: r for n, r in zip(tensors, room)}
        for n, x in (*((n, feed[n]) for n in inputs), *constants.items()):
            given = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
            if given.size != views[n].size:
                raise AutocompError(f"'{n}' has {given.size} bytes, the folder's tensor {views[n].size}", where=str(folder),
                                    hint="both sides compute one model")  # fmt: skip
            views[n][:] = given
        for i in range(len(packed)):
            pack(i, table)
        sizes, said = (ctypes.c_long * 1)(), (ctypes.c_long * 4)()
        made = {name: views[t].view(DTYPES[tensors[t][1]].numpy).reshape(tensors[t][2]) for name, t in outputs.items()}

        def call() -> Mapping[str, Any]:
            ended = run(table, sizes, None, 0, calls, 0, said)
            if ended == OUTSIDE:
                raise AutocompError("an index is outside of the tensor that it writes to", where=str(folder), hint="look at the feed")
            if ended in (NO_STACK, NO_MEMORY):
                raise AutocompError("had not the memory that its threads need", where=str(folder), hint="fewer threads: OMP_NUM_THREADS")
            return made

        call.kept = room  # type: ignore[attr-defined]  # what the table points to
        return call

    return prepare


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """'f32[2, 3]' -> ('f32', (2, 3)). Raises ValueError for anything else, sizes that are symbols too."""
    m = _TYPE.fullmatch(text)
    if m is None or m[1] not in DTYPES:
        raise ValueError(f"'{text}' is no type of known sizes")
    return m[1], tuple(int(d) for d in m[2].split(",") if d.strip())


def _room(size: int) -> np.ndarray:
    """Bytes at an aligned address."""
    raw = np.zeros(size + ALIGNED, np.uint8)
    at = -raw.ctypes.data % ALIGNED
    return raw[at : at + size]


def _compiled(folder: Path, sources: list[str], refuse: Callable[[str], AutocompError]) -> tuple[Any, Any]:
    """(ac_run, ac_pack) of the folder's sources and headers, built elsewhere."""
    from autocomp.targets.cpu.toolchain import Toolchain

    with TemporaryDirectory(prefix="autocomp-saved-") as built:
        for name in {*sources, *(h.name for h in folder.glob("*.h"))}:
            path = folder / name
            if Path(name).name != name or path.is_symlink() or not path.is_file():
                raise refuse(f"'{name}' is no file of this folder")
            (Path(built) / name).write_bytes(path.read_bytes())
        library = Path(built) / "kernels.so"
        Toolchain(precompiled=False).compile(Path(built), [s for s in sources if s.endswith(".c")], library)
        loaded = ctypes.CDLL(str(library))
    loaded.ac_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    return loaded.ac_run, getattr(loaded, "ac_pack", None)  # None: no constant is packed
