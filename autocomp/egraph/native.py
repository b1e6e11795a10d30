"""egglog's extension module, and a fresh one in a forked child.

The package around it is not imported: that takes a third of a second, most of it for what prints programs, and asks for the user's home.

The module starts a pool of threads when it is imported. They do not live on in a forked child, where the next use would wait for them for
ever, and nothing in the module starts them again. So a child loads the module once more, from a copy of the file: it has its own pool.
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from autocomp.errors import AutocompError
from autocomp.forks import Lock, in_child, inherited


def _bindings() -> ModuleType:
    """The extension module alone. A program that imports egglog, before or after, has the same one. Raises ImportError."""
    package = find_spec("egglog")
    spec = PathFinder.find_spec("egglog.bindings", package.submodule_search_locations) if package else None
    if "egglog.bindings" in sys.modules or spec is None or spec.loader is None:
        from egglog import bindings

        return bindings
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bindings = _bindings()


@dataclass
class _Here:
    """`left`: the module's threads are those of the process before the fork."""

    module: ModuleType
    left: bool

    def forked(self) -> None:
        self.left = True


_here, _lock = _Here(bindings, inherited(bindings.__name__)), Lock()
in_child(_here.forked)


def egglog() -> ModuleType:
    """The module as this process may use it. Raises AutocompError where it cannot be loaded again in a forked child."""
    with _lock.held:
        if _here.left:
            _here.module, _here.left = _again(Path(str(bindings.__file__))), False
        return _here.module


def check(eg: Any) -> None:
    """Raises AutocompError for an e-graph that was made before this process was forked."""
    if _here.left or not isinstance(eg, _here.module.EGraph):
        raise AutocompError("this compilation began before the process was forked and cannot go on in the child", where="egglog",
                            hint="call optimize in the child from its beginning")  # fmt: skip


def _again(path: Path) -> ModuleType:
    """The extension module from a copy of its file: one file is loaded once a process."""
    try:
        copy = os.memfd_create(path.name, os.MFD_CLOEXEC)
        with os.fdopen(copy, "wb") as out, path.open("rb") as f:
            head = f.read(1 << 16)
            out.write(head + f.read(max(0, _mapped(head) - len(head))))
            out.flush()
            name, place = bindings.__name__, f"/proc/self/fd/{copy}"
            spec = spec_from_file_location(name, place, loader=ExtensionFileLoader(name, place))
            assert spec is not None
            module = module_from_spec(spec)
            ExtensionFileLoader(name, place).exec_module(module)
    except (OSError, ImportError, AttributeError, ValueError, struct.error) as e:
        raise AutocompError(f"egglog's threads do not live on in a forked child, and it cannot be loaded again: {e}", where="egglog",
                            hint="compile before the fork, or start the child by multiprocessing's 'spawn'") from None  # fmt: skip
    return module


def _mapped(head: bytes) -> int:
    """Bytes of an ELF file up to the end of its last segment that is loaded: sections for debuggers behind it, most of the file, are not.

    All of it where it is no ELF file of 64 bits (structures: elf(5)).
    """
    if head[:5] != b"\x7fELF\x02":
        return 1 << 62
    (at,) = struct.unpack_from("<Q", head, 32)  # e_phoff
    size, count = struct.unpack_from("<HH", head, 54)  # e_phentsize, e_phnum
    ends = []
    for i in range(count):
        kind, _, offset, _, _, in_file = struct.unpack_from("<IIQQQQ", head, at + i * size)
        if kind == 1:  # PT_LOAD
            ends.append(offset + in_file)
    return max(ends)
