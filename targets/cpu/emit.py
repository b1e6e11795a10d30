"""TileProgram -> one C function."""

from __future__ import annotations

from autocomp.targets.cpu.coalesce import coalesce
from autocomp.targets.cpu.expressions import CTYPE
from autocomp.targets.cpu.lower import lower
from autocomp.targets.cpu.names import c_name
from autocomp.targets.cpu.printer import Printer
from autocomp.targets.cpu.tree import build
from autocomp.targets.source import KernelSource

from autocomp.tile.program import TileProgram
from autocomp.tile.text import show


def emit(program: TileProgram, lanes: int, header: tuple[str, ...] = (), units: bool = True, registers: int = 16) -> KernelSource:
    """The function of a tile program. `lanes`: f32 lanes of a vector; `header`: lines of the comment above it; `units`:
    contractions run in register tiles (else as plain reductions);
    `registers`: vector registers."""
    nest = coalesce(lower(program))
    tree = build(nest, units)
    name = c_name(program.name)
    inputs = tuple(dict.fromkeys(t.buffer for t in program.inputs))
    outputs = tuple(dict.fromkeys(t.buffer for t in program.outputs))
    pointer = {v.tensor: v.pointer for v in nest.views.values()}
    args = []
    for tensors, const, buffers in ((program.inputs, "const ", inputs), (program.outputs, "", outputs)):
        for b in buffers:
            t = next(t for t in tensors if t.buffer == b)
            args.append(f"{const}{CTYPE[t.dtype.name]} *restrict {pointer[t.name]}")
    args += [f"long {s}" for s in nest.sizes]
    comment = "\n".join(f" * {line}".rstrip() for line in (*header, "", *show(program).splitlines()))
    text = [
        f"/*\n{comment.replace('*/', '* /')}\n */",
        f"void {name}({', '.join(args)}) {{",
        *Printer(nest, tree, lanes, registers).body(),
        "}",
    ]
    return KernelSource(program.name, "\n".join(text) + "\n", name, inputs, outputs, nest.sizes, ("autocomp_cpu.h",))
