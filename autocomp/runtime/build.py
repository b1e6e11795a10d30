"""Compiling sources to a shared library, once: a content-addressed cache that a killed build, a full disk or a stranger cannot spoil."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path
from secrets import token_hex

from autocomp.errors import AutocompError, BuildError
from autocomp.files import digest
from autocomp.forks import Lock
from autocomp.store import folder, private_folder, read_entry, work_folder, write_entry
from autocomp.trace import Trace

LIBRARY = "autocomp library 1"
OBJECT = "autocomp object 1"
_loaded: dict[str, Path] = {}  # checksum -> the copy that this process has loaded
_lock = Lock()


def build_library(files: Mapping[str, str], toolchain: object, trace: Trace) -> Path:
    """Path of the shared library of these source files, loaded. `toolchain` has `key()` and `compile(folder, names, out)`.

    What is loaded is a copy that belongs to this process, of bytes whose checksum was right: nobody can change them in between. A kept
    library that is damaged or does not load is compiled again. Raises BuildError from the toolchain, with the log kept.
    """
    key = digest([toolchain.key(), *(x for item in sorted(files.items()) for x in item)])  # type: ignore[attr-defined]
    kept = read_entry("build", LIBRARY, key, trace)
    if kept is not None:
        try:
            path = _load(kept)
        except OSError as e:
            trace.add("note", "build cache", text=f"{key} cannot be loaded ({e}); built again")
        else:
            trace.add("note", "build cache", text=f"found {key}")
            return path
    made = _compile(files, toolchain, trace)
    try:
        path = _load(made)
    except OSError as e:
        raise BuildError(f"what {_name(toolchain)} built cannot be loaded: {e}", where="build",
                         hint="is it a compiler for this machine, and may programs run in the cache folder and in $TMPDIR? "
                         "$AUTOCOMP_CACHE names another one") from None  # fmt: skip
    write_entry("build", LIBRARY, key, made, trace)
    return path


def _compile(files: Mapping[str, str], toolchain: object, trace: Trace) -> bytes:
    """The library, built in a folder of its own."""
    try:
        with work_folder("build", trace) as work:
            for name, text in files.items():
                (work / name).write_text(text, encoding="utf-8")
            out = work / "kernels.so"
            toolchain.compile(work, [n for n in sorted(files) if n.endswith(".c")], out)  # type: ignore[attr-defined]
            return out.read_bytes()
    except OSError as e:
        place = e.filename or folder("build")  # a write to an open file has no name
        raise BuildError(f"the sources cannot be written or their library cannot be read: {e.strerror} ({place})", where="build",
                         hint="free space, or set $AUTOCOMP_CACHE to another folder") from None  # fmt: skip


def _name(toolchain: object) -> str:
    command = getattr(toolchain, "compiler", lambda: "the compiler")()
    return Path(command.split()[0]).name


def _load(library: bytes) -> Path:
    """Load a library's bytes; the path of their copy. Equal bytes are loaded once in a process. Raises OSError."""
    checksum = hashlib.sha256(library).hexdigest()
    with _lock.held:
        if checksum not in _loaded:
            try:
                _loaded[checksum] = _load_from(private_folder(), checksum, library)
            except (OSError, AutocompError):  # it is full, or programs may not run there
                _loaded[checksum] = _load_from(folder("build"), checksum, library, keep=False)
        return _loaded[checksum]


def _load_from(place: Path, checksum: str, library: bytes, keep: bool = True) -> Path:
    """Load it from a new file in `place`, under a name that was never used: the system knows what it has loaded by its name, also where
    the file is not kept (debuggers and profilers look into it)."""
    path = place / f"{checksum[:16]}-{token_hex(8)}.so"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with os.fdopen(fd, "wb") as f:
            f.write(library)
        ctypes.CDLL(str(path))
    except OSError:
        keep = False
        raise
    finally:
        if not keep:
            path.unlink(missing_ok=True)
    return path


def build_objects(texts: Mapping[str, str], toolchain: object, trace: Trace, jobs: int | None = None) -> dict[str, bytes]:
    """Device code of each kernel, by name. `toolchain` has `key()` and `compile_object(name, text) -> bytes`.

    Each object is cached by its text, so a changed kernel costs its own compilation alone; kernels compile side by side
    (the compiler must release the interpreter's lock). Raises BuildError from the toolchain, naming the kernel.
    """
    key = toolchain.key()  # type: ignore[attr-defined]
    keys = {name: digest([key, text]) for name, text in texts.items()}
    done = {k: kept for k in set(keys.values()) if (kept := read_entry("objects", OBJECT, k, trace)) is not None}
    found = sum(k in done for k in keys.values())
    missing = {k: name for name, k in keys.items() if k not in done}  # equal texts compile once

    def compile_one(item: tuple[str, str], context: Context) -> None:
        k, name = item
        done[k] = context.run(toolchain.compile_object, name, texts[name])  # type: ignore[attr-defined]
        write_entry("objects", OBJECT, k, done[k], trace)

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        clocks = [copy_context() for _ in missing]  # a thread of its own has no deadline
        for n, _ in enumerate(pool.map(compile_one, missing.items(), clocks), 1):
            trace.progress(f"compiled {n} of {len(missing)} kernels")
    trace.add("note", "build cache", text=f"{found} of {len(texts)} kernels found")
    return {name: done[k] for name, k in keys.items()}
