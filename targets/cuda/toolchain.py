"""NVRTC, through NVIDIA's Python packages: no CUDA toolkit needs to be installed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from autocomp.targets.cuda.device import INSTALL, device_here, version_of

from autocomp import commands
from autocomp.errors import BuildError


@lru_cache(maxsize=1)
def _version() -> str:
    """NVRTC's version. Raises BuildError with what to install."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise BuildError("the CUDA packages are not installed", where="target cuda", hint=INSTALL) from None
    try:
        status, major, minor = nvrtc.nvrtcVersion()
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


@lru_cache(maxsize=1)
def headers() -> dict[str, str]:
    """The target's device headers and those that GPU targets share, by name."""
    folders = [files(f"autocomp.targets.{t}").joinpath("include") for t in ("simt", "cuda")]
    return {f.name: f.read_text() for folder in folders for f in sorted(folder.iterdir(), key=lambda f: f.name)}


@lru_cache(maxsize=1)
def _toolkit_include() -> str:
    """The folder of cuda_fp16.h that comes with NVRTC's own packages, or a toolkit's. "" if NVRTC knows it by itself."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory as find
    except ImportError:
        return ""
    try:
        return str(find("cudart") or "")
    except Exception:  # a header set that is not there is no error: NVRTC carries its own
        return ""


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
        return "\n".join(("nvrtc", _version(), self.arch, *headers().values()))

    def compile_object(self, name: str, text: str) -> bytes:
        """The cubin of a kernel. Raises BuildError with the compiler's first error and the path of its log."""
        from cuda.bindings import nvrtc

        known = headers()
        status, program = nvrtc.nvrtcCreateProgram(
            text.encode(), f"{name}.cu".encode(), len(known), [t.encode() for t in known.values()], [n.encode() for n in known]
        )
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise self._failure(name, text, f"it cannot begin: {status}")
        options = [f"--gpu-architecture={self.arch}", "--std=c++17", "--device-as-default-execution-space"]
        if include := _toolkit_include():
            options.append(f"--include-path={include}")
        status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            size = nvrtc.nvrtcGetProgramLogSize(program)[1]
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            raise self._failure(name, text, log.decode(errors="replace").rstrip("\0 \n"))
        size = nvrtc.nvrtcGetCUBINSize(program)[1]
        code = b" " * size
        nvrtc.nvrtcGetCUBIN(program, code)
        nvrtc.nvrtcDestroyProgram(program)
        if not code.strip():
            raise self._failure(name, text, "it ended well but gave no device code")
        return code

    def _failure(self, name: str, text: str, log: str) -> BuildError:
        path = commands.keep_log(f"{log}\n{text}")
        first = next((line for line in log.splitlines() if "error" in line), log[:200])
        return BuildError(f"NVRTC refused kernel {name} for {self.arch}: {first}", log=path, where="target cuda",
                          hint=f"read {path}" if path else "its log could not be kept: is there room for temporary files?")  # fmt: skip
