"""Compilers that come with a vendor's SDK and are started as commands: one kernel's text to one device object."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

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
        return "\n".join((self.compiler(), self.arch, *self.headers().values()))

    def compile_object(self, name: str, text: str) -> bytes:
        """The device object of a kernel. Raises BuildError with the compiler's first error and the path of its log."""
        folder = Path(tempfile.mkdtemp(prefix="autocomp-"))
        for file, content in {**self.headers(), f"{name}.{self.suffix}": text}.items():
            (folder / file).write_text(content)
        command = [self.compiler(), *self.arguments(f"{name}.{self.suffix}"), "-o", f"{name}.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            log = folder / "log.txt"
            log.write_text(" ".join(command) + "\n" + done.stderr)
            first = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr[:200])
            raise BuildError(f"{self.command} refused kernel {name}: {first}", log=str(log), where=f"target {self.target}",
                             hint=f"read {log}")  # fmt: skip
        code = (folder / f"{name}.o").read_bytes()
        shutil.rmtree(folder, ignore_errors=True)
        return code
