"""Compiling sources to a shared library, once: a content-addressed cache that a killed build or a full disk cannot spoil."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autocomp.files import cache_root, digest, write_atomic
from autocomp.trace import Trace


def writable_folder(name: str, trace: Trace) -> Path:
    """A folder in the cache, or a temporary one (noted in the trace) where the cache cannot be written."""
    root = cache_root() / name
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root):
            return root
    except OSError as e:
        folder = Path(tempfile.mkdtemp(prefix="autocomp-"))
        trace.add("note", "cache", text=f"{root} cannot be written ({e.strerror}); built in {folder}")
        return folder


def build_library(files: Mapping[str, str], toolchain: object, trace: Trace) -> Path:
    """Path of the shared library of these source files. `toolchain` has `key()` and `compile(folder, names, out)`.

    Sources are written and compiled in a temporary folder that is renamed into place when it is complete, so nobody ever
    sees half a build. Raises BuildError from the toolchain, with the log kept.
    """
    key = digest([toolchain.key(), *(x for item in sorted(files.items()) for x in item)])  # type: ignore[attr-defined]
    root = writable_folder("build", trace)
    final = root / key
    library = final / "kernels.so"
    if library.is_file():
        trace.add("note", "build cache", text=f"found {key}")
        return library
    work = Path(tempfile.mkdtemp(dir=root, prefix=".building-"))
    try:
        for name, text in files.items():
            (work / name).write_text(text)
        toolchain.compile(work, [n for n in sorted(files) if n.endswith(".c")], work / "kernels.so")  # type: ignore[attr-defined]
        try:
            os.replace(work, final)
        except OSError:  # somebody else finished the same build first
            if not library.is_file():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return library


def build_objects(texts: Mapping[str, str], toolchain: object, trace: Trace, jobs: int | None = None) -> dict[str, bytes]:
    """Device code of each kernel, by name. `toolchain` has `key()` and `compile_object(name, text) -> bytes`.

    Each object is cached by its text, so a changed kernel costs its own compilation alone; kernels compile side by side
    (the compiler must release the interpreter's lock). Raises BuildError from the toolchain, naming the kernel.
    """
    root = writable_folder("objects", trace)
    key = toolchain.key()  # type: ignore[attr-defined]
    paths = {name: root / digest([key, text]) for name, text in texts.items()}
    found = {name: p.read_bytes() for name, p in paths.items() if p.is_file()}
    missing = {paths[n]: n for n in texts if n not in found}  # equal texts compile once

    def compile_one(item: tuple[Path, str]) -> None:
        path, name = item
        write_atomic(path, toolchain.compile_object(name, texts[name]))  # type: ignore[attr-defined]

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for done, _ in enumerate(pool.map(compile_one, missing.items()), 1):
            trace.progress(f"compiled {done} of {len(missing)} kernels")
    trace.add("note", "build cache", text=f"{len(found)} of {len(texts)} kernels found")
    return {name: found.get(name) or paths[name].read_bytes() for name in texts}
