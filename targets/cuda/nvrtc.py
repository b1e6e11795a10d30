"""What runs in a process of its own: one call of NVRTC, which may hang or crash."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files


@lru_cache(maxsize=1)
def headers() -> dict[str, str]:
    """The target's device headers and those that GPU targets share, by name."""
    folders = [files(f"autocomp.targets.{t}").joinpath("include") for t in ("simt", "cuda")]
    return {f.name: f.read_text(encoding="utf-8") for folder in folders for f in sorted(folder.iterdir(), key=lambda f: f.name)}


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


def compiled(arch: str, name: str, text: str) -> bytes | str:
    """The cubin of a kernel's text for `arch`, or what NVRTC says against it."""
    from cuda.bindings import nvrtc

    known = headers()
    status, program = nvrtc.nvrtcCreateProgram(
        text.encode(), f"{name}.cu".encode(), len(known), [t.encode() for t in known.values()], [n.encode() for n in known]
    )
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return f"it cannot begin: {status}"
    options = [f"--gpu-architecture={arch}", "--std=c++17", "--device-as-default-execution-space"]
    if include := _toolkit_include():
        options.append(f"--include-path={include}")
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
            nvrtc.nvrtcGetProgramLog(program, log)
            return log.decode(errors="replace").rstrip("\0 \n")
        code = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
        nvrtc.nvrtcGetCUBIN(program, code)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code if code.strip() else "it ended well but gave no device code"
