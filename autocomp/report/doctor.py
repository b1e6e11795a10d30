"""What is installed, what is missing, and the command that installs it."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, version

from autocomp.cost.chip import load_chip
from autocomp.cost.host import calibrated_file, facts
from autocomp.errors import ChipError
from autocomp.store import cache_root, why_not_ours
from autocomp.targets import load_target

EXTRAS = (
    ("onnx", "ONNX models", "onnx"),
    ("torch", "torch models", "torch"),
    ("onnxruntime", "comparisons in the demo", "demo"),
    ("cuda-core", "running CUDA kernels", "cuda"),
    ("cuda-bindings", "running CUDA kernels", "cuda"),
    ("nvidia-cuda-nvrtc", "compiling CUDA kernels", "cuda"),
    ("scipy", "exact covers (ILP)", "ilp"),
    ("z3-solver", "rule proofs", "proof"),
)
TOOLS = (
    (("cc", "gcc", "clang"), "building C kernels", "install a C compiler, e.g. `apt-get install gcc`"),
    (("mxcc",), "building MACA kernels", "install the MACA SDK and put mxgpu_llvm/bin on PATH"),
    (("bisheng", "ccec"), "building Ascend kernels", "install CANN and source its set_env.sh"),
    (("clang++-19", "clang++"), "type-checking MACA sources without the SDK", "`apt-get install clang-19`"),
)


def checkup() -> list[dict[str, str]]:
    """Rows of what, state, for, next: packages, tools, then this machine."""
    rows = []
    for package, purpose, extra in EXTRAS:
        try:
            rows.append({"what": package, "state": version(package), "for": purpose, "next": ""})
        except PackageNotFoundError:
            rows.append({"what": package, "state": "missing", "for": purpose, "next": f"pip install 'autocomp[{extra}]'"})
    for names, purpose, hint in TOOLS:
        path = next((p for n in names if (p := shutil.which(n))), None)
        rows.append({"what": "/".join(names), "state": path or "missing", "for": purpose, "next": "" if path else hint})
    return [*rows, _gpu(), _cpu(), _cache()]


def _gpu() -> dict[str, str]:
    cuda = load_target("cuda")
    missing = cuda.why_not_runnable()
    state = "none" if missing else f"found, as cuda:{cuda.chip.name} ({cuda.chip.title})"
    return {"what": "CUDA device", "state": state, "for": "running CUDA kernels", "next": missing}


def _cpu() -> dict[str, str]:
    """Whether the cost model knows this machine by measurement. A damaged file of measurements is replaced by new ones."""
    row = {"what": "this CPU", "for": "choosing schedules for it"}
    try:
        known = "calibrated" if calibrated_file(facts()) else "by data sheets"
        row["state"] = f"{load_chip('cpu').title}, {known}"
    except ChipError as e:
        return {**row, "state": "damaged calibration", "next": f"{e.what} ({e.where}): `autocomp calibrate` writes it anew"}
    return {**row, "next": "" if known == "calibrated" else "`autocomp calibrate` measures it"}


def _cache() -> dict[str, str]:
    root = cache_root()
    there = next(p for p in (root, *root.parents) if p.exists())
    why = why_not_ours(root) or ("" if os.access(there, os.W_OK) else "cannot be written")
    return {
        "what": "cache folder",
        "state": f"{root} {why}" if why else str(root),
        "for": "compiled programs, measured schedules",
        "next": "set AUTOCOMP_CACHE to a folder of yours" if why else "",
    }
