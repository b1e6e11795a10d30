"""TileProgram -> one C function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from autocomp.targets.cpu.build import build
from autocomp.targets.cpu.byte_tables import byte_tables, table_text
from autocomp.targets.cpu.coalesce import coalesce
from autocomp.targets.cpu.expressions import CTYPE
from autocomp.targets.cpu.hoist import hoist
from autocomp.targets.cpu.lower import Nest, lower
from autocomp.targets.cpu.maxima import below_maxima
from autocomp.targets.cpu.names import entry_name
from autocomp.targets.cpu.packing import Panels
from autocomp.targets.cpu.printer import Printer
from autocomp.targets.cpu.shape import shape_of
from autocomp.targets.cpu.stage_windows import stage_windows, stay_near
from autocomp.targets.cpu.storage import share
from autocomp.targets.cpu.tree import Node, contractions
from autocomp.targets.source import KernelSource, Packing, comment

from autocomp.options import Options
from autocomp.tile.program import TileProgram
from autocomp.tile.text import show


def emit(program: TileProgram, lanes: int, header: tuple[str, ...] = (), units: bool = True, registers: int = 16,
         options: Options = Options(), directives: Collection[str] = ()) -> KernelSource:  # noqa: B008  # fmt: skip
    """The function of a tile program. `lanes`: f32 lanes of a vector; `header`: lines of the comment above it; `units`:
    contractions run in register tiles (else as plain reductions); `registers`: vector registers; `directives`: schemes to use where the
    kernel has their form; `options`: parallel_outer, vectorize_inner, register_tile_factor and unroll_factor are read."""
    plain = lower(program)

    def tree_of(nest: Nest) -> tuple[Nest, list[Node], dict[str, bool]]:
        merged = coalesce(nest)
        once = hoist(merged) if "common_values" in directives else merged
        below = below_maxima(once) if "exp_below_maximum" in directives else once
        looked = byte_tables(below, entry_name(program.name)) if "byte_tables" in directives else below
        nest = replace(looked, vectors=options.vectorize_inner, rows=options.register_tile_factor, lanes=lanes,
                       schemes=frozenset(directives))  # fmt: skip
        tree = build(nest, units and options.vectorize_inner)
        share(nest, tree)
        return nest, tree, {"common_values": len(once.slots) > len(merged.slots), "exp_below_maximum": below.body != once.body,
                            "byte_tables": bool(looked.tables)}  # fmt: skip

    nest, tree, done = tree_of(stage_windows(plain) if "stage_windows" in directives else plain)
    if nest.buffers and not stay_near(nest, tree):
        nest, tree, done = tree_of(plain)
    name = entry_name(program.name)
    inputs = tuple(dict.fromkeys(t.buffer for t in program.inputs))
    outputs = tuple(dict.fromkeys(t.buffer for t in program.outputs))
    pointer = {v.tensor: v.pointer for v in nest.views.values()}
    args: list[tuple[str, str]] = []  # C type, name
    for tensors, const, buffers in ((program.inputs, "const ", inputs), (program.outputs, "", outputs)):
        for b in buffers:
            t = next(t for t in tensors if t.buffer == b)
            args.append((f"{const}{CTYPE[t.dtype.name]} *", pointer[t.name]))
    args += [("long ", s) for s in nest.sizes]
    printer = Printer(nest, tree, lanes, registers, options)
    body = printer.body()
    staged = bool(nest.buffers) or any(name == "words" for name, _, _ in printer.heap)
    used = {"stage_windows": staged, **done, **dict.fromkeys(printer.applied, True)}
    text = [
        *(line for t, entries in nest.tables.items() for line in table_text(t, entries)),
        comment((*header, "", *show(program).splitlines())),
        *_function(name, args, printer, body),
    ]
    packs = _packings(nest, tree, name, lanes, registers)
    text = [line for _, lines in packs for line in lines] + text
    return KernelSource(program.name, "\n".join(text) + "\n", name, inputs, outputs, nest.sizes, ("autocomp_cpu.h",),
                        packings=tuple(k for k, _ in packs), heap=bool(printer.heap), threads="shared" if printer.tiled else "",
                        applied=tuple(d for d in directives if used.get(d)))  # fmt: skip


def _function(name: str, args: Sequence[tuple[str, str]], printer: Printer, body: Sequence[str]) -> list[str]:
    """The C function of a kernel; one whose tiles threads share is a loop over them, which each of a team calls (autocomp_cpu_share.h),
    and the function that hands it out."""
    restrict = lambda kind: f"{kind}restrict " if kind.endswith("*") else kind
    head = f"{'long' if printer.heap else 'void'} {name}({', '.join(restrict(kind) + x for kind, x in args)}) {{"
    if printer.tiled is None:
        return [head, *body, "}"]
    fields = " ".join(f"{kind}{x};" for kind, x in args)
    return [
        f"struct ac_of_{name} {{ {fields} long lacks; }};",
        f"static void ac_loop_{name}(void *ac_kernel, ac_share *ac_from) {{",
        f"  struct ac_of_{name} *const ac_k = ac_kernel;",
        *(f"  {restrict(kind)}{'const ' if kind == 'long ' else ''}{x} = ac_k->{x};" for kind, x in args),
        *body,
        "}",
        head,
        f"  struct ac_of_{name} ac_k = {{{', '.join([x for _, x in args] + ['0'])}}};",
        f"  ac_share_out(ac_loop_{name}, &ac_k, {printer.number_of_tiles(printer.tiled)});",
        *(["  return ac_k.lacks;"] if printer.heap else []),
        "}",
    ]


def _packings(nest: Nest, tree: list[Node], name: str, lanes: int, registers: int) -> list[tuple[Packing, list[str]]]:
    """The functions that pack constant factors when the program is loaded, and what a loader must know of them."""
    out = []
    for c in contractions(tree):
        shape = shape_of(nest, c)
        assert shape is not None
        printer = Printer(nest, tree, lanes, registers)
        panels = Panels(printer, c, shape)
        for factor in sorted(panels.ready):
            view = nest.views[factor]
            argument = next(t.buffer for t in nest.inputs if t.name == view.tensor)
            entry = f"{name}_pack_{view.pointer}"
            head = f"void {entry}(const {CTYPE[view.dtype.name]} *restrict {view.pointer}, {panels.kind.element} *restrict out) {{"
            printer.lines = []
            panels.pack_once(factor)
            told = panels.fitting() is not None  # behind the panels, whether pairs fit
            out.append((Packing(argument, entry, (panels.elements(factor) + told) * 4), [head, *printer.lines, "}"]))
    return out
