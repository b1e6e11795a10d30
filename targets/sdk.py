"""Compilers that come with a vendor's SDK and are started as commands: one kernel's text to one device object."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from autocomp import commands
from autocomp.errors import BuildError


@dataclass(frozen=True)
class SdkToolchain(ABC):
    """`arch` as the compiler names it. A target says where its compiler is, with which headers and flags it runs."""

    arch: str
    target: ClassVar[str]
    command: ClassVar[str]
    suffix: ClassVar[str]

    @abstractmethod
    def compiler(self) -> str:
        """Path of the compiler. Raises BuildError with what to install."""

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Device headers by name."""

    @abstractmethod
    def arguments(self, source: str) -> list[str]:
        """What the command gets in front of -o."""

    def missing(self) -> str:
        """Why nothing can be compiled here, "" if it can."""
        try:
            self.compiler()
        except BuildError as e:
            return f"{e.what} ({e.hint})"
        return ""

    def key(self) -> str:
        """What the result depends on besides the text."""
        return "\n".join((commands.identity(self.compiler()), self.arch, *self.headers().values()))

    def compile_object(self, name: str, text: str) -> bytes:
        """The device object of a kernel. Raises BuildError with the compiler's first error and the path of its log."""
        where = f"target {self.target}"
        try:
            with tempfile.TemporaryDirectory(prefix="autocomp-", ignore_cleanup_errors=True) as made:
                folder = Path(made)
                for file, content in {**self.headers(), f"{name}.{self.suffix}": text}.items():
                    (folder / file).write_text(content, encoding="utf-8")
                command = [self.compiler(), *self.arguments(f"{name}.{self.suffix}"), "-o", f"{name}.o"]
                commands.build([command], [folder / f"{name}.o"], folder, where=where, error=_of_kernel(name, text))
                return (folder / f"{name}.o").read_bytes()
        except OSError as e:
            raise BuildError(f"kernel {name} cannot be compiled: {e.strerror} ({e.filename})", where=where,
                             hint="is there room for temporary files ($TMPDIR)?") from None  # fmt: skip


def _of_kernel(name: str, text: str) -> Callable[[commands.Ended, str, str], BuildError]:
    """What a compiler's failure with a kernel is; its source stands in the log, behind what was said."""

    def error(e: commands.Ended, what: str, where: str) -> BuildError:
        return commands.failure(e, f"refused kernel {name}" if e.code > 0 else f"with kernel {name} {what}", where, source=text)

    return error
