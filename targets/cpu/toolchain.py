"""The system's C compiler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from autocomp.targets.cpu.precompiled import begins_with_it, for_sources

from autocomp import commands
from autocomp.errors import BuildError

FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fno-builtin-pow",  # GCC's vectoriser takes pow(x, 0.5) for a root, which is NaN for -inf
    "-fno-builtin-powf",
    "-fno-strict-aliasing",  # vectors of 32-bit integers go through the functions for f32: their elements are stored as floats
    "-fPIC",
    "-w",
)
# gcc 12 and 13 turn the conditions of a loop into masks and then read one of two complementary masked loads as zeros (14 does not); our
# own vectors are printed as such, so gcc's are those of short rows, where the option costs nothing that was measured
GCC_LOOPS = "-fno-tree-loop-if-convert"
# tuned for a Zen, gcc takes the multiply-adds of a single chain of 256 bits apart: another tile of the same product would round otherwise
GCC_FMA = "--param=avoid-fma-max-bits=0"
GCC = re.compile(r"\S+ \([^)]*\) \d+\.")  # `gcc (Debian 12.2.0-14) 12.2.0`: a compiler that knows the option; clang refuses it
NO_OPENMP = ("'omp.h' file not found", "omp.h: No such file", "-lomp", "-lgomp", "unsupported option '-fopenmp'")
CANDIDATES = ("cc", "gcc", "clang")
PLAN = "plan.c"  # it calls kernels and computes nothing


HINT = "install one, e.g. `apt-get install gcc`, or set $CC"


def _found(wanted: str) -> tuple[tuple[str, ...], str]:
    """(command, what tells its version) of the compiler: `wanted` may have options or a launcher in front, as $CC may for make. Raises
    BuildError with what to install. It is looked for every time: it may have gone, or be another one by now."""
    try:
        words = [shlex.split(wanted), [wanted]] if wanted.strip() else [[n] for n in CANDIDATES]
    except ValueError as e:  # an open quotation mark: the name of a file may have one
        words = [[wanted]]
        why = f"$CC is '{wanted}', which cannot be read as a command ({e})"
    else:
        why = f"$CC names '{wanted}', which is not found" if wanted else "no C compiler found"
    found = next(([p, *n[1:]] for n in words if n and n[0] and (p := shutil.which(n[0]))), None)
    if found is None:
        raise BuildError(why, where="target cpu", hint=HINT)
    version = _version(tuple(found), commands.identity(found[0]))
    if isinstance(version, BuildError):
        raise version
    return tuple(found), version


@lru_cache(maxsize=8)
def _version(command: tuple[str, ...], identity: str) -> str | BuildError:
    """Its first line about itself, with what else tells one compiler from another; or why it does not answer, which is not asked twice.
    Raises BuildError where it cannot be started, which says nothing about the next time."""
    (asked,) = commands.run([[*command, "--version"]], where="target cpu", limit=commands.ASKED)
    if asked.late:
        return commands.failure(asked, asked.why, "target cpu", hint="is $CC a C compiler?")
    return f"{next(iter((asked.out or asked.err).splitlines()), command[0])} {identity}"


@dataclass(frozen=True)
class Toolchain:
    """Compiles C files, side by side, into one shared library or program.

    command: the compiler, else $CC, else the first of cc, gcc and clang. machine: options that say for which instruction set, which must
    have the vectors of the chip that kernels are printed for. more: options behind all others, of compiler and linker (`-O1`, `-g`,
    `-fsanitize=address`, `-static`). precompiled: whether sources may find the runtime header precompiled; the result is the same.
    """

    command: str = ""
    machine: tuple[str, ...] = ("-march=native",)
    more: tuple[str, ...] = ()
    precompiled: bool = True

    def compiler(self) -> str:
        """The command that compiles, as a shell reads it."""
        return shlex.join(_found(self.command or os.environ.get("CC", ""))[0])

    def missing(self) -> str:
        """Why nothing can be built here, "" if it can."""
        try:
            self.compiler()
        except BuildError as e:
            return e.what
        return ""

    def key(self) -> str:
        """What the result depends on besides the sources."""
        command, version = _found(self.command or os.environ.get("CC", ""))
        return "\n".join((*command, version, _cpu_flags(), *_flags(version), *self.machine, *self.more, *_headers()))

    def compile(self, folder: Path, names: Sequence[str], out: Path, jobs: int = 2, program: bool = False) -> None:
        """Objects side by side, then one link: a library, or a `program` (with a main). Raises BuildError with the compiler's log."""
        cc, version = _found(self.command or os.environ.get("CC", ""))
        objects = [folder / (n[:-2] + ".o") for n in names]
        with as_file(files("autocomp.targets.cpu").joinpath("include")) as include:
            options = [*_flags(version), *self.machine, f"-I{include}", *self.more]
            compiles = [[*cc, *options, *(("-O0",) if n == PLAN else ()), "-c", n, "-o", o.name] for n, o in zip(names, objects)]
            shared = for_sources(folder, names, cc, f"{version} {_cpu_flags()}", options, include, _headers()) if self.precompiled else None
            ready = shared.ready(folder) if shared else None
            if ready is None or not _succeed([[*c, *ready] if begins_with_it(folder / n) else c for c, n in zip(compiles, names)], objects,
                                             folder, jobs):  # fmt: skip
                if shared and ready is not None:
                    shared.refused(folder)
                commands.build(compiles, objects, folder, where="target cpu", jobs=jobs, error=_error)
                if shared and ready is None:
                    shared.built()
        kind = () if program else ("-shared",)
        link = [*cc, *kind, "-fopenmp", *[o.name for o in objects], "-o", out.name, "-lm", *self.more]
        commands.build([link], [out], folder, where="target cpu", error=_error)
        for o in objects:
            o.unlink(missing_ok=True)


def _flags(version: str) -> tuple[str, ...]:
    """Options of every compilation by the compiler that tells this version."""
    return (*FLAGS, GCC_LOOPS, GCC_FMA) if GCC.match(version) else FLAGS


def _succeed(compiles: Sequence[Sequence[str]], objects: Sequence[Path], folder: Path, jobs: int) -> bool:
    """Run a compiler's commands; whether all made their objects. BuildError where one did not end, as it would not without the header."""
    done = commands.run(compiles, folder, where="target cpu", jobs=jobs)
    if late := next((e for e in done if e.late), None):
        raise _error(late, late.why, "target cpu")
    return not any(e.why for e in done) and all(o.exists() and o.stat().st_size for o in objects)


def _headers() -> list[str]:
    """The texts of the headers that sources include."""
    folder = files("autocomp.targets.cpu").joinpath("include")
    return [f.read_text(encoding="utf-8") for f in sorted(folder.iterdir(), key=lambda f: f.name)]


def _error(e: commands.Ended, what: str, where: str, hint: str = "") -> BuildError:
    """As `commands.failure`; a compiler without OpenMP is told what it lacks."""
    if not any(sign in e.said for sign in NO_OPENMP):
        return commands.failure(e, what, where, hint)
    return commands.failure(e, "has no OpenMP here", where, hint="install it (for clang e.g. `apt-get install libomp-dev` of its version), "
                            "or set $CC to a compiler that has it, e.g. CC=gcc")  # fmt: skip


@lru_cache(maxsize=1)
def _cpu_flags() -> str:
    """The instruction sets that -march=native means on this machine."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
