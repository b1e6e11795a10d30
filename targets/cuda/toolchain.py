"""NVRTC, through NVIDIA's Python packages: no CUDA toolkit needs to be installed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from autocomp.targets.cuda import nvrtc
from autocomp.targets.cuda.device import INSTALL, device_here, version_of

from autocomp import commands
from autocomp.deadline import current
from autocomp.errors import AutocompError, BuildError
from autocomp.workers import Failure, Shared


@lru_cache(maxsize=1)
def _version() -> str:
    """NVRTC's version. Raises BuildError with what to install."""
    try:
        from cuda.bindings import nvrtc as bindings
    except ImportError:
        raise BuildError("the CUDA packages are not installed", where="target cuda", hint=INSTALL) from None
    try:
        status, major, minor = bindings.nvrtcVersion()
    except Exception as e:  # cuda.pathfinder says where it looked, over several lines
        first = next(iter(str(e).splitlines()), type(e).__name__).partition(": No such file")[0]
        raise BuildError(f"NVRTC cannot be loaded: {first}", where="target cuda", hint=INSTALL) from None
    return f"{major}.{minor} {status} {_file()}"


def _file() -> str:
    """What tells NVRTC's releases of one version apart: its file."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib as find

        return commands.identity(str(find("nvrtc").abs_path))
    except Exception:  # it is loaded all the same: a toolkit's own, found by the system
        return ""


PROCESSES = Shared(nvrtc.__name__, where="target cuda")


@dataclass(frozen=True)
class Toolchain:
    """Compiles one kernel's text for `arch` (sm_80, sm_90a, ...)."""

    arch: str

    def here(self) -> Toolchain:
        """What compiles for the device here. A cubin runs within one major version alone: text that is printed for an older one is
        compiled for the device's own, which has all that it asks for. `sm_90a` and its like stay, they run on their own version only."""
        if not self.arch[-1].isdigit():
            return self
        major, minor = device_here().capability
        return Toolchain(f"sm_{major}{minor}") if major > version_of(self.arch)[0] else self

    def missing(self) -> str:
        """Why nothing can be compiled here, "" if it can."""
        try:
            _version()
        except BuildError as e:
            return f"{e.what} ({e.hint})"
        return ""

    def key(self) -> str:
        """What the result depends on besides the text."""
        return "\n".join(("nvrtc", _version(), self.arch, *nvrtc.headers().values()))

    def compile_object(self, name: str, text: str) -> bytes:
        """The cubin of a kernel, by a process that is ended where NVRTC hangs or crashes. Raises BuildError with the compiler's first error
        and the path of its log, or with the seconds that it was given."""
        if commands.supervised():
            answer = nvrtc.compiled(self.arch, name, text)
        else:
            limit = commands.build_limit()
            try:
                answer = PROCESSES.run(nvrtc.compiled, self.arch, name, text, limit=limit)
            except AutocompError as e:
                raise BuildError(e.what, where="target cuda", hint=e.hint, machine=True) from None
            if isinstance(answer, Failure):
                raise self._ended(name, text, answer, limit)
        if isinstance(answer, str):
            raise self._failure(name, text, answer)
        return bytes(answer)

    def _ended(self, name: str, text: str, how: Failure, limit: float) -> BuildError:
        """It gave no answer."""
        path = commands.keep_log(f"{how.reason}\n{text}")
        what, step = f"gave no code for kernel {name} for {self.arch}: {how.reason}", "try another release of NVRTC"
        if how.late:
            what = f"did not end with kernel {name} for {self.arch} in {round(limit, 2):g} s and was killed"
            step = "give it a later --deadline" if current().over else f"set ${commands.SECONDS} if it needs longer"
        steps = (step, f"its text is in {path}" if path else "")
        return BuildError(f"NVRTC {what}", log=path, where="target cuda", hint="; ".join(s for s in steps if s), late=how.late)

    def _failure(self, name: str, text: str, log: str) -> BuildError:
        path = commands.keep_log(f"{log}\n{text}")
        first = next((line for line in log.splitlines() if "error" in line), log[:200])
        return BuildError(f"NVRTC refused kernel {name} for {self.arch}: {first}", log=path, where="target cuda",
                          hint=f"read {path}" if path else "its log could not be kept: is there room for temporary files?")  # fmt: skip
