"""Tile programs that a person wrote: in the place of a kernel of a model, once their results are the kernel's, or alone.

    schedule threads 128 | stages 3          what a tile program does not say: threads, roles, directives (may be missing)
    kernel matmul_gelu(in0: f16[i0:4096, r0:4096], ..) -> out0: f16[..]
    ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from hashlib import blake2b

import numpy as np

from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.cost.work import Cost
from autocomp.errors import AutocompError, ModelError, VerificationError
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, bound_axes
from autocomp.ir.builder import Builder
from autocomp.ir.kernel import Arg, Call, Kernel, KernelGraph
from autocomp.ir.node import Attrs
from autocomp.ir.ops.table import OPS, Op, register
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse as parse_schedule
from autocomp.ir.types import F64, Dim, Sym, TensorType
from autocomp.targets import Target
from autocomp.tile.check_written import check
from autocomp.tile.meaning import Wanted, run
from autocomp.tile.program import Loop, Tensor, TileProgram, walk
from autocomp.tile.text import parse, show
from autocomp.trace import Trace
from autocomp.tune.check import deviation, expected, inputs_of

GIVEN = "given"  # in the place of a rule's name
LOUD = 32  # inputs that make unsafe exponentials overflow, and no kernel that takes the maximum off
EXACT = 1e-8  # relative error of two float64 computations of one thing: sums in other orders
WINDOW = 1 << 18, 1e8  # elements and multiply-adds of a kernel that are compared: NumPy runs its tiles in a second or two
MOST_INPUTS = 4096
PAGE = "docs/tile_program.md"
Given = tuple[tuple[str, str], ...]
Schedules = Mapping[str, tuple[Schedule, Cost]]


def is_program(text: str) -> bool:
    """Whether a text is a tile program, and not the clauses of a schedule."""
    return any(line.startswith("kernel ") for line in text.splitlines())


def told_apart(given: Given) -> tuple[Given, Given]:
    """(kernel, clauses) and (kernel, tile program)."""
    return tuple(x for x in given if not is_program(x[1])), tuple(x for x in given if is_program(x[1]))


def read(text: str) -> tuple[Schedule, TileProgram]:
    """A tile program and the schedule that goes with it: its tile, its deepest ring and the clauses of a line `schedule ..` before it.

    Raises ModelError with line and column, or for results that depend on an order (`tile.check_written`);
    AutocompError for a clause that is none or that the program itself says.
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    said = Schedule()
    if lines and lines[first].startswith("schedule "):
        where = f"line {first + 1}:1"
        said, lines[first] = parse_schedule(lines[first].removeprefix("schedule "), where), ""
        if own := next((w for w in ("tile", "order", "split", "skew") if getattr(said, w) != getattr(Schedule(), w)), ""):
            raise ModelError(f"{own} is said by the program below", where=where, hint="leave the clause out")
    p = parse("\n".join(lines))
    if any(isinstance(d, Sym) for d in (*(e for _, e in p.axes), *(n for t in (*p.inputs, *p.outputs) for n in t.shape))):
        raise ModelError("sizes known at run time only", where=f"kernel {p.name}", hint="write a tile program for each size")
    loops = {id(x): x for _, around in walk(p.body) for x in around}.values()
    rings = [int(n) for x in loops if (n := x.opt("stages")).isdecimal()]
    parts = next((int(n) for x in loops if (n := x.opt("parts")).isdecimal()), 1)
    if parts != said.cluster_split_k:
        raise ModelError(f"the loop has {parts} parts, the schedule {said.cluster_split_k}", where=f"kernel {p.name}",
                         hint=f"schedule cluster {parts} | cluster_split_k {parts}")  # fmt: skip
    check(p)
    return replace(said, tile=tuple(sorted(p.tile)), stages=max(rings, default=said.stages)), p


def replaced(calls: KernelGraph, schedules: Schedules, programs: Given, target: Target,
             trace: Trace) -> tuple[KernelGraph, dict[str, tuple[Schedule, Cost]]]:  # fmt: skip
    """Kernels and schedules with tile programs in the place of the kernels that they are given for.

    Raises AutocompError for a kernel that is not there, ModelError for a program that means nothing or reads and writes other tensors,
    VerificationError where its results are not the kernel's, and what the target raises where it does not print it.
    """
    kernels = {c.kernel.name: c.kernel for c in calls.calls if c.kernel.signature in schedules}
    out, new = dict(schedules), {}
    for name, text in programs:
        if name not in kernels:
            near = get_close_matches(name, kernels, 3)
            hint = f"nearest: {', '.join(near)}" if near else "`autocomp explain MODEL` lists them"
            raise AutocompError(f"there is no kernel '{name}' with a schedule", where="schedule", hint=hint)
        k = kernels[name]
        s, p = read(text)
        p = replace(p, name=k.name)
        check_tensors(p, k)
        check_results(p, k)
        mine = with_program(k, p)
        target.admit(mine, s)
        known = {a.name for a in (*k.axes, *(a for v in k.stores for a in bound_axes(v.value)))}
        cost = pricer(demand_of(k), target.chip, k)(replace(s, tile=tuple(x for x in s.tile if x[0] in known)))
        new[k.signature], out[mine.signature] = mine, (s, cost)
        trace.add("schedule", name, signature=mine.signature, rule=GIVEN, seconds=cost.seconds, bound=cost.bound, candidates=1,
                  runners_up=[], made={})  # fmt: skip
        trace.add("note", "schedule", text=f"{name} is a tile program that was written by hand; its results are the kernel's")
    swapped = tuple(replace(c, kernel=new.get(c.kernel.signature, c.kernel)) for c in calls.calls)
    return replace(calls, calls=swapped), out


def with_program(k: Kernel, p: TileProgram) -> Kernel:
    """The kernel, computed by a program."""
    text = show(p)
    return replace(k, program=text, signature=f"{k.signature} | program {blake2b(text.encode(), digest_size=16).hexdigest()}")


def check_tensors(p: TileProgram, k: Kernel) -> None:
    """Raises ModelError where a program's tensors are not the kernel's."""
    where = f"kernel {k.name}"
    for word, tensors, args in (("input", p.inputs, k.inputs), ("output", p.outputs, k.outputs)):
        have = {a.name: a for a in args}
        for t in tensors:
            a = have.get(t.buffer)
            if a is None:
                raise ModelError(f"it has no {word} {t.buffer!r}", where=where, hint=f"it has {', '.join(map(_told, args))}")
            if t.dtype != a.type.dtype or _dense(t.shape) != _dense(a.type.shape):
                is_not = f"{word} {t.buffer} is {a.type}, not {t.dtype}[{', '.join(map(str, t.shape))}]"
                raise ModelError(is_not, where=where, hint="write the tensor as the kernel has it")
            if t.constant and not a.constant:
                raise ModelError(f"{word} {t.buffer} is no constant", where=where, hint="leave out 'const'")
    if lost := [a.name for a in k.outputs if a.name not in {t.buffer for t in p.outputs}]:
        raise ModelError(f"output {lost[0]} is not written", where=where, hint=f"add `store {lost[0]} = value`")


def _told(a: Arg) -> str:
    return f"{a.name}: {a.type}"


def _dense(shape: Iterable[Dim]) -> list[Dim]:
    """Dimensions of one element are nowhere in memory."""
    return [n for n in shape if n != 1]


def check_results(p: TileProgram, k: Kernel) -> None:
    """Raises VerificationError where a program's results on random inputs are not the kernel's: in float64, and in its own types with the
    tiles that may run at once in the other order; and where it overflows on large inputs and the kernel does not.

    Of large kernels a window at the start and one at the end of the domain are compared.
    """
    arrays = inputs_of(k, {}, 0)
    parts = expected(k, arrays, {}, *WINDOW)
    types = {a.name: [d for d in a.type.shape if isinstance(d, int)] for a in k.outputs}
    boxes = [(q.output, [(int(np.min(i)), int(np.max(i))) for i, n in zip(q.index, types[q.output]) if n != 1]) for q in parts]
    for float64 in (True, False):
        with np.errstate(all="ignore"):
            got = run(p, arrays, float64=float64, wanted=_touching(p, boxes), backwards=not float64)
        close = [replace(q, relative=min(q.relative, EXACT)) for q in parts] if float64 else parts
        if why := deviation(close, {n: got[n].reshape(shape) for n, shape in types.items()}):
            means = "" if float64 else ", computed in its own types, tiles from the last to the first"
            raise VerificationError(f"the tile program is not the kernel: {why}{means}", where=f"kernel {k.name}",
                                    hint=f"compare it with the program in the comment of the kernel's source ({PAGE})")  # fmt: skip
    loud = {n: (x * LOUD).astype(x.dtype) if x.dtype.kind not in "biu" else x for n, x in arrays.items()}
    with np.errstate(all="ignore"):
        got = run(p, loud, float64=False, wanted=_touching(p, boxes))
    for q in expected(k, loud, {}, *WINDOW):
        shape = np.broadcast_shapes(q.value.shape, *(np.shape(i) for i in q.index))
        y = got[q.output].reshape(types[q.output])[tuple(np.broadcast_to(i, shape) for i in q.index)]
        if (np.isfinite(q.value) & ~q.skip & ~np.isfinite(y.astype(np.float64))).any():
            raise VerificationError(f"the tile program overflows in {q.output} on inputs {LOUD} times as large, where the kernel does not",
                                    where=f"kernel {k.name}", hint=f"take exponentials of differences to the maximum ({PAGE})")  # fmt: skip


def _touching(p: TileProgram, boxes: list[tuple[str, list[tuple[int, int]]]]) -> Wanted:
    """Whether a tile of the grid stores into one of the boxes."""
    whole = {a: n for a, n in p.axes if isinstance(n, int)}
    tile = {a: min(dict(p.tile).get(a, n), n) for a, n in whole.items()}
    grid = next((n.axes for n in p.body if isinstance(n, Loop) and n.kind == "grid"), ())

    def meets(t: Tensor, at: Mapping[str, int], box: list[tuple[int, int]]) -> bool:
        ends = {a: tile[a] if a in grid else n for a, n in whole.items()}
        ranges = [i.substitute({a: Aff.of(a) + begin for a, begin in at.items()}).range(ends) for i, n in zip(t.index, t.shape) if n != 1]
        return all(low <= last and first <= high for (low, high), (first, last) in zip(ranges, box))

    return lambda at: any(meets(t, at, box) for t in p.outputs for name, box in boxes if t.buffer == name)


# ---------------------------------------------------------------- a program alone
OP = "tile_program"  # the op of a graph that is one tile program: its reference is the program's meaning


def alone(text: str, target: Target) -> tuple[KernelGraph, dict[str, tuple[Schedule, Cost]]]:
    """A graph of one kernel, a tile program, whose inputs and outputs are its buffers; without a price. Raises what `read` does, and what
    the target raises where it does not print it."""
    s, p = read(text)
    p = replace(p, inputs=tuple(replace(t, constant=False) for t in p.inputs))
    _op()
    inputs, outputs = ({t.buffer: TensorType(t.dtype, t.shape) for t in ts} for ts in (p.inputs, p.outputs))
    b = Builder(p.name)
    nodes = [b.input(name, t) for name, t in inputs.items()]
    for name in outputs:
        b.output(name, b.op(OP, *nodes, text=show(p), output=name))
    k = Kernel(p.name, "T", tuple(Axis(a, n) for a, n in p.axes), tuple(Arg(n, t) for n, t in inputs.items()),
               tuple(Arg(n, t) for n, t in outputs.items()), (), "tile program")  # fmt: skip
    k = with_program(k, p)
    target.admit(k, s)
    call = Call(k, {n: n for n in (*inputs, *outputs)}, (OP,), ("given: a tile program",))
    calls = KernelGraph(b.graph(), (call,), {**inputs, **outputs}, tuple(inputs), (), tuple((n, n) for n in outputs))
    return calls, {k.signature: (s, Cost(0.0, "no price"))}


def _op() -> None:
    if OP not in OPS:
        attrs = {"text": ..., "output": ...}
        register(Op(OP, (0, MOST_INPUTS), _infer, _reference, opaque="it was written by hand", attrs=attrs,
                    doc="one output of a tile program over named buffers"))  # fmt: skip


def _infer(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    t = next(t for t in parse(attrs["text"]).outputs if t.buffer == attrs["output"])
    return TensorType(t.dtype, t.shape)


def _reference(arrays: tuple[np.ndarray, ...], attrs: Attrs, type: TensorType) -> np.ndarray:
    p = parse(attrs["text"])
    wide = type.dtype is F64 or any(x.dtype == np.float64 for x in arrays)
    names = dict.fromkeys(t.buffer for t in p.inputs)
    return run(p, dict(zip(names, arrays)), float64=wide)[attrs["output"]]
