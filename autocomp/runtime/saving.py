"""A program as a folder: sources, plan, weights, manifest, build script. Nothing in it is executed on reading."""

from __future__ import annotations

import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.files import write_atomic

BUILD = """#!/bin/sh
# Builds kernels.so from the sources in this folder.
set -eu
cd "$(dirname "$0")"
${CC:-cc} %s -I. -shared -o kernels.so %s -lm
"""


def save(program: Any, folder: Path) -> Path:
    """Write the folder; each file whole or not at all. Returns it. Raises AutocompError on OS errors."""
    sources = sorted(program.sources)
    for name in sources:
        write_atomic(folder / name, program.sources[name])
    headers = _headers(program.target.name)
    for name, text in headers.items():
        write_atomic(folder / name, text)
    weights = {**{p: program.graph.param(p) for p in program.calls.params}, **program.folded()}
    buffer = io.BytesIO()
    np.savez(buffer, **{f"w{i}": np.ascontiguousarray(weights[n]).view(np.uint8 if weights[n].dtype.kind == "V" else weights[n].dtype)  # type: ignore[arg-type]
                        for i, n in enumerate(sorted(weights))})  # fmt: skip
    write_atomic(folder / "weights.npz", buffer.getvalue())
    write_atomic(folder / "manifest.json", json.dumps(manifest(program, sources, sorted(weights)), indent=1) + "\n")
    if program.target.name == "cpu":
        from autocomp.targets.cpu.toolchain import FLAGS

        write_atomic(folder / "build.sh", BUILD % (" ".join(FLAGS), " ".join(s for s in sources if s.endswith(".c"))))
        (folder / "build.sh").chmod(0o755)
    return folder


def manifest(program: Any, sources: list[str], weights: list[str]) -> dict[str, Any]:
    """What a launcher needs: tensors in order of the pointer table, calls in order, and the table of kernels."""
    g = program.calls
    tensors = {n: {"slot": i, "type": str(g.tensors[n])} for n, i in program.slots.index.items()}
    return {
        "name": program.name, "target": program.target.name, "chip": program.target.chip.name,
        "predicted": program.predicted, "sources": sources,
        "inputs": list(g.inputs), "outputs": {n: t for n, t in g.outputs}, "tensors": tensors,
        "weights": {n: f"w{i}" for i, n in enumerate(weights)},
        "calls": [{"kernel": c.kernel.name, "args": dict(c.args), "rules": list(c.rules)} for c in g.calls],
        "kernels": [{"kernel": k.name, "calls": k.calls, "ops": list(k.ops), "schedule": k.schedule, "predicted": k.predicted,
                     "bound": k.bound, "measured": None, "roofline": None} for k in program.kernels],
    }  # fmt: skip


def _headers(target: str) -> dict[str, str]:
    folder = files(f"autocomp.targets.{target}").joinpath("include")
    return {f.name: f.read_text() for f in sorted(folder.iterdir(), key=lambda f: f.name)} if folder.is_dir() else {}
