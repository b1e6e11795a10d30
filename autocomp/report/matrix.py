"""Kernels by targets: each of matrix.yaml compiled for a CPU, an NVIDIA GPU, a MetaX GPU and an NPU, run there or on the model of its
machine, and compared with the float64 reference; what is refused says why. Which rules fired where stands beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from autocomp import commands
from autocomp.errors import AutocompError, BuildError, DoesNotFit, UnsupportedOp, VerificationError
from autocomp.files import own_table
from autocomp.options import Options
from autocomp.simulate.compiler import ModelFailure
from autocomp.simulate.program import MODELLED, simulated
from autocomp.store import package_stamp

TARGETS = ("cpu", "cuda:h200", "maca:c500", "ascend:910b")


@dataclass(frozen=True)
class Cell:
    """One kernel on one target.

    outcome   right | refused | wrong
    note      how it was found out, or what the refusal says
    rules     that fired, and those that made a kernel's schedule
    """

    outcome: str
    note: str
    rules: tuple[str, ...] = ()


def kernels() -> dict[str, str]:
    """Name -> the text of a graph."""
    rows: dict[str, Any] = own_table("autocomp.report", "matrix.yaml")
    text = lambda row: "\n".join(["graph g", *(f"input {x}" for x in row["inputs"]), *row["body"],
                                  f"output y = {row['body'][-1].split(' ')[0]}", ""])  # fmt: skip
    return {name: text(row) for name, row in rows.items()}


def chosen(only: str) -> dict[str, str]:
    """The kernels whose names hold one of the words. Raises AutocompError where there is none."""
    words = [w for w in only.split(",") if w] or [""]
    found = {n: t for n, t in kernels().items() if any(w in n for w in words)}
    if not found:
        hint = f"kernels: {', '.join(kernels())}"
        raise AutocompError(f"no kernel of the matrix is called like '{only}'", where="explain --matrix", hint=hint)
    return found


def cell(text: str, target: str, optimize: Callable[..., Any]) -> Cell:
    """A kernel on a target: compiled, run where that is possible (on a model else) and verified."""
    try:
        program = optimize(text, target=target, options=Options(tuned=False))
    except (DoesNotFit, UnsupportedOp) as e:
        return Cell("refused", e.what)
    tiled = {r for e in program.trace.of("schedule") if "/" in (r := e.data.get("rule", ""))}
    rules = tuple(sorted({e.name for e in program.trace.of("rule")} | tiled))
    modelled = program.target.name in MODELLED and not program.runnable
    try:
        built = _built(program)
        with simulated(program) if modelled else nullcontext():
            found = program.verify()
    except (DoesNotFit, UnsupportedOp) as e:
        return Cell("refused", e.what, rules)
    except (VerificationError, ModelFailure) as e:
        return Cell("wrong", e.what, rules)
    except BuildError as e:
        if e.machine:
            raise
        return Cell("wrong", f"does not compile: {e.what}", rules)
    where = "on the model" if modelled else "run"
    far = f"error {found.worst / found.tolerance:.2f} of its tolerance" if found.worst else "equal"
    return Cell("right", f"{built}{where}, {far}", rules)


def _built(program: Any) -> str:
    """For CUDA: compiled for the chip, where a compiler is here. Raises BuildError where it refuses the text."""
    if program.target.runtime != "cuda":
        return ""
    if not program.target.toolchain.missing():
        program.build()
        return "compiled by NVRTC, "
    nvcc = which("nvcc")
    if nvcc is None:
        return "not compiled (neither NVRTC nor nvcc is here), "
    with TemporaryDirectory(prefix="autocomp-matrix-") as folder:
        program.save(folder)
        files = [Path(folder) / f for f in program.sources]
        arch = program.target.chip.arch
        commands.build([[nvcc, f"-arch={arch}", "-std=c++17", "-cubin", f"-I{folder}", str(f), "-o", f"{f}.cubin"] for f in files],
                       [Path(f"{f}.cubin") for f in files], Path(folder), where="explain --matrix")  # fmt: skip
    return "compiled by nvcc, "


def matrix(only: str, optimize: Callable[..., Any], kept: Path | None = None,
           told: Callable[[str], None] = lambda _: None) -> Iterator[tuple[str, dict[str, Cell]]]:  # fmt: skip
    """Each kernel's row, as it is done. `kept`: a file of lines of JSON where each cell is kept as it is done; what it has is not run
    again. `told`: takes how far it is."""
    found, done = chosen(only), _kept(kept)
    for k, (name, text) in enumerate(found.items()):
        row = {}
        for t in TARGETS:
            if (text, t) not in done:
                told(f"[{k + 1}/{len(found)}] {name} on {t}")
                done[text, t] = cell(text, t, optimize)
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as f:
                        made = {"version": package_stamp(), "kernel": name, "text": text, "target": t}
                        f.write(json.dumps(made | vars(done[text, t])) + "\n")
            row[t] = done[text, t]
        yield name, row


def _kept(file: Path | None) -> dict[tuple[str, str], Cell]:
    """Cells of this very code by the kernel's text and target: an edit makes all run again. A line that was cut
    off is as if it were not there."""
    out = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else ():
        try:
            row = json.loads(line)
            if row["version"] == package_stamp():
                out[row["text"], row["target"]] = Cell(row["outcome"], row["note"], tuple(row["rules"]))
        except (ValueError, KeyError):
            continue
    return out


def row_lines(name: str, row: dict[str, Cell]) -> Iterator[str]:
    """A kernel's outcome on each target, then the rules that fired on all of them, and those of each alone."""
    yield f"{name}"
    for t, c in row.items():
        yield f"  {t:12s} {c.outcome}: {c.note}"
    fired = {t: set(c.rules) for t, c in row.items() if c.outcome != "refused"}
    common = set.intersection(*fired.values()) if fired else set()
    yield f"  {'rules':12s} {', '.join(sorted(common)) or 'none on all'}"
    for t, rules in fired.items():
        if more := sorted(rules - common):
            yield f"    {t:10s} {', '.join(more)}"


def summary(rows: dict[str, dict[str, Cell]]) -> str:
    """How many are right and refused on each target."""
    said = []
    for t in TARGETS:
        outcomes = [r[t].outcome for r in rows.values()]
        said.append(f"{t} {', '.join(f'{outcomes.count(o)} {o}' for o in ('right', 'refused', 'wrong') if o in outcomes)}")
    return f"{len(rows)} kernels: {'; '.join(said)}"
