"""What is installed, what is missing, and the command that installs it."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, version

EXTRAS = (
    ("onnx", "ONNX models", "onnx"),
    ("torch", "torch models", "torch"),
    ("onnxruntime", "comparisons in the demo", "demo"),
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
    """Rows of what, state, for, next."""
    rows = []
    for package, purpose, extra in EXTRAS:
        try:
            rows.append({"what": package, "state": version(package), "for": purpose, "next": ""})
        except PackageNotFoundError:
            rows.append({"what": package, "state": "missing", "for": purpose, "next": f"pip install 'autocomp[{extra}]'"})
    for names, purpose, hint in TOOLS:
        path = next((p for n in names if (p := shutil.which(n))), None)
        rows.append({"what": "/".join(names), "state": path or "missing", "for": purpose, "next": "" if path else hint})
    return rows
