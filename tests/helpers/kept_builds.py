"""Kernels that a run of the suite has built for a model before: many tests run the same text on other numbers.

What a compiler makes follows from its command and from the files that it reads, and all of these are in the key, however they are called:
the sources, what is linked, and headers that a test has written. Each test gets a copy: the same file loaded twice would be one library.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from autocomp import commands
from autocomp.files import digest
from autocomp.simulate import compiler
from autocomp.simulate.compiler import compile_all

HEADERS = (".h", ".cuh")


def kept(root: Path, arguments: Sequence[Sequence[str]], makes: Sequence[Path], folder: Path, jobs: int = 1) -> None:
    """`compile_all`, which is asked for what is not in `root` yet."""
    places = {Path(out): root / _key(a, Path(out)) for a, out in zip(arguments, makes, strict=True)}
    new = [(a, out) for a, out in zip(arguments, makes) if not _copied(places[Path(out)], Path(out))]
    compile_all([a for a, _ in new], [out for _, out in new], folder, jobs=jobs)
    for _, out in new:
        own = places[Path(out)].with_suffix(f".{os.getpid()}")
        shutil.copyfile(out, own)
        own.replace(places[Path(out)])


def _copied(place: Path, out: Path) -> bool:
    """Whether there was something to copy. What stood there before may be a library in use, which keeps its file."""
    try:
        shutil.copyfile(place, own := out.with_name(f"{out.name}.kept"))
    except FileNotFoundError:
        return False
    own.replace(out)
    return True


def _key(arguments: Sequence[str], out: Path) -> str:
    """Of a command: its words, and for those that name a file or a folder what lies there."""
    command = compiler.compiler()
    words = [*command, commands.identity(command[0])]
    for word in arguments:
        path = Path(word.removeprefix("-I"))
        if word.startswith("-I"):
            words += ["-I", *(x for f in sorted(path.iterdir()) if f.suffix in HEADERS for x in (f.name, _text(f)))]
        elif path == out or not path.is_file():
            words.append("the result" if path == out else word)
        else:
            words += [path.suffix, _text(path)]
    return digest(words)


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")
