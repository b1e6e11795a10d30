"""A program as a folder: sources, plan, weights, manifest, build script. Nothing in it is executed on reading."""

from __future__ import annotations

import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.ir.kernel import Loop
from autocomp.ir.places import places_of, short
from autocomp.runtime import deploy, deploy_acl
from autocomp.runtime.deploy_check import expected
from autocomp.runtime.library import packings
from autocomp.runtime.plan import arena
from autocomp.version import __version__

MANIFEST = "manifest.json"
BUILD = """#!/bin/sh
# Builds kernels.so from the sources in this folder.
set -eu
cd "$(dirname "$0")"
gcc="%s"  # against wrong code of gcc 12 and 13, and multiply-adds that round twice
${CC:-cc} $gcc -E -x c /dev/null >/dev/null 2>&1 || gcc=
${CC:-cc} %s $gcc -I. -shared -o kernels.so %s -lm
"""


def save(program: Any, folder: Path) -> Path:
    """Write the folder; each file whole or not at all, the manifest last: a folder that has one was saved to its end. Returns it.
    Raises AutocompError on OS errors."""
    sources = sorted(program.sources)
    weights = {**{p: program.graph.param(p) for p in program.calls.params}, **program.folded()}
    buffer = io.BytesIO()
    np.savez(buffer, **{f"w{i}": np.ascontiguousarray(weights[n]).view(np.uint8 if weights[n].dtype.kind == "V" else weights[n].dtype)  # type: ignore[arg-type]
                        for i, n in enumerate(sorted(weights))})  # fmt: skip
    content: dict[str, str | bytes] = {**program.sources, **_headers(program.target.name), "weights.npz": buffer.getvalue()}
    if program.target.name == "cpu":
        from autocomp.targets.cpu.toolchain import FLAGS, GCC_FMA, GCC_LOOPS

        flags = " ".join((*FLAGS, *program.target.toolchain.machine))
        content["build.sh"] = BUILD % (f"{GCC_LOOPS} {GCC_FMA}", flags, " ".join(s for s in sources if s.endswith(".c")))
    elif not why_no_launcher(program):
        of_target = deploy_acl if program.target.name == "ascend" else deploy
        content |= of_target.files(program, expected(program, deploy.plain))
    else:
        content["README.md"] = f"# No launcher\n\nThe sources are here, but {why_no_launcher(program)}.\n"
    _unfinished(folder)
    for name, data in content.items():
        write_atomic(folder / name, data, mode=0o777 if name.endswith(".sh") else 0o666)
    write_atomic(folder / MANIFEST, json.dumps(manifest(program, sources, sorted(weights)), indent=1) + "\n")
    return folder


def _unfinished(folder: Path) -> None:
    """What an earlier program left here is no saved program from now on."""
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as e:
        raise AutocompError(f"cannot be replaced: {e.strerror}", where=str(folder / MANIFEST), hint="choose another folder") from None


def why_no_launcher(program: Any) -> str:
    """What keeps a program from having a launcher in its folder; "" where nothing does."""
    return deploy_acl.why_no_launcher(program) if program.target.name == "ascend" else deploy.why_no_launcher(program)


def manifest(program: Any, sources: list[str], weights: list[str]) -> dict[str, Any]:
    """What a launcher needs: tensors in order of the pointer table, calls in order, and the table of kernels."""
    g = program.calls
    offsets, total = arena(g, program.slots, deploy.hints(g))
    tensors = {n: {"slot": i, "type": str(g.tensors[n])} for n, i in program.slots.index.items()}
    return {
        "version": __version__, "name": program.name, "target": program.target.name, "chip": program.target.chip.name,
        "predicted": program.predicted, "sources": sources,
        "inputs": list(g.inputs), "outputs": {n: t for n, t in g.outputs}, "tensors": tensors,
        "orders": {n: list(o) for n, o in (*g.source.input_orders.items(), *g.source.output_orders.items())},  # of callers' arrays
        "weights": {n: f"w{i}" for i, n in enumerate(weights)},
        "packed": [vars(x) for x in packings(g, program.slots, program.printed)],  # slots that `ac_pack` fills once from weights
        "memory": {"sizes": deploy.hints(g), "bytes": total, "offsets": dict(sorted(offsets.items()))},
        "no_launcher": "" if program.target.name == "cpu" else why_no_launcher(program),
        "loops": {n: {"first": a, "last": b, **_loop(g.loops[n])} for n, (a, b) in g.spans.items()},
        "calls": [{"kernel": c.kernel.name, "args": dict(c.args), "rules": list(c.rules),
                   "model": [short(p) for p in places_of(g.source, c.computes)]} for c in g.calls],
        "kernels": [{"kernel": k.name, "calls": k.calls, "ops": list(k.ops), "schedule": k.schedule, "predicted": k.predicted,
                     "bound": k.bound, "measured": None, "roofline": None, "operations": k.operations, "bytes": k.moved, "terms": k.terms,
                     "matrix": k.matrix, "rules": k.rules,
                     "makes": program.makes(k.signature)} for k in program.kernels],
        "launches": {n: {"grid": list(map(str, s.launch.grid)), "block": s.launch.block, "shared": s.launch.shared}
                     for n, s in sorted(program.printed.items()) if s.launch is not None},
    }  # fmt: skip


def _loop(x: Loop) -> dict[str, Any]:
    """`condition`: tensors in which the truth value that a step wants lies in turns, and where it lies before the first."""
    return {"trips": str(x.trips), "ends": [[e.to, e.of, e.first] for e in x.ends],
            "places": {t: [list(p.memory), p.before] for t, p in x.places.items()},
            **({"condition": [list(x.condition.memory), x.condition.before]} if x.condition else {})}  # fmt: skip


def _headers(target: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for name in (target,) if target in ("cpu", "ascend") else ("simt", target):
        folder = files(f"autocomp.targets.{name}").joinpath("include")
        if folder.is_dir():
            out |= {f.name: f.read_text(encoding="utf-8") for f in sorted(folder.iterdir(), key=lambda f: f.name)}
    return out
