"""What an emitter returns for one kernel, and what of it is kept until the kernel is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autocomp.errors import DoesNotFit
from autocomp.ir.directives import complete
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import Dim, Sym

BLOCKS = 2**31 - 1  # a block's number is an int


@dataclass(frozen=True)
class TensorMap:
    """A descriptor parameter of a bulk tensor copy engine, made by the launcher over one pointer argument.

    `dims` and `box` are in elements, innermost first; `strides` in bytes for all but the innermost dimension; `swizzle` in
    bytes (0, 32, 64 or 128); `steps`: distance of a box's neighbours along each dimension, () where all are 1; `widened`: bytes (0,
    64, 128 or 256) to which L2 widens its reads of memory. Out-of-range elements of a box read as zero and are not written.
    """

    argument: str
    dtype: str
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    box: tuple[int, ...]
    swizzle: int = 128
    steps: tuple[int, ...] = ()
    widened: int = 0  # 128 and 256 bytes took as long: benchmarks/gpu.py, 10 rows, H200, 2026-11-21


@dataclass(frozen=True)
class Launch:
    """How a kernel with a grid is started.

    grid        per grid dimension (x, y, z) the factors (extent, tile): it has prod(ceil(extent / tile)) blocks
    block       threads of a block (or cores of a group on an NPU)
    shared      bytes of dynamic shared memory
    cluster     blocks of a cluster along x
    at_most     limit on the blocks along x (persistent kernels), 0 for none
    zeroed      outputs that must be zero before the kernel runs (it adds into them)
    workspace   bytes of global scratch: a last pointer parameter, zero-filled once when it is allocated
    maps        descriptor parameters, passed behind the sizes
    overlaps    the kernel waits by itself for the launches before it, so that it may be started while they end
    """

    grid: tuple[tuple[tuple[Dim, int], ...], ...]
    block: int
    shared: int = 0
    cluster: int = 1
    at_most: int = 0
    zeroed: tuple[str, ...] = ()
    workspace: int = 0
    maps: tuple[TensorMap, ...] = ()
    overlaps: bool = False

    def blocks(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The grid, with the symbols' values; rounded up to whole clusters along x. Raises DoesNotFit where blocks cannot be numbered."""
        value = lambda d: sizes[d.name] if isinstance(d, Sym) else d
        out = [prod(-(-value(extent) // tile) for extent, tile in factors) for factors in self.grid]
        if (blocks := prod(out)) > BLOCKS:
            said = ", ".join(f"{d} = {value(d)}" for d in dict.fromkeys(d for f in self.grid for d, _ in f if isinstance(d, Sym)))
            raise DoesNotFit("blocks of a grid", needed=blocks, available=BLOCKS, where=f"a call with {said}",
                             hint="give fewer elements at a time")  # fmt: skip
        if self.at_most:
            out[0] = min(out[0], self.at_most)
        out[0] = -(-out[0] // self.cluster) * self.cluster
        return tuple(out)


@dataclass(frozen=True)
class Packing:
    """A constant argument that the kernel reads in an order of its own: the text also defines
    `void entry(const T *in, T *out)`, which writes that order; the loader calls it once and passes `out` (of `bytes`)."""

    argument: str
    entry: str
    bytes: int


@dataclass(frozen=True)
class KernelSource:
    """`text` defines the function `entry`; its parameters are pointers to the kernel's inputs and outputs (canonical names,
    in this order) and then the sizes (names of symbols) as long (64 bits).

    `headers`: files of the target's include folder that the text needs. `language` is a file suffix (c, cu, cpp).
    `scratch`: bytes of a last `void *` parameter; `prelude`: text that the file needs once in front.
    `launch`: what a launcher must know on targets with grids. `packings`: constant arguments to reorder at load. `heap`: the function
    takes memory or writes at indices; it returns a long, the bytes of a thread that were not there, -1 for an index outside, 0 where all
    was right (others return nothing).
    `applied`: the schedule's directives that took effect, in the order of `ir.directives`.
    `threads`: of a CPU: "shared", a team's threads share its loops; "own": it makes a team of its own; "": the caller alone.
    """

    name: str
    text: str
    entry: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    language: str = "c"
    scratch: int = 0
    prelude: str = ""
    launch: Launch | None = None
    packings: tuple[Packing, ...] = ()
    heap: bool = False
    applied: tuple[str, ...] = ()
    threads: str = ""


def comment(lines: Iterable[str]) -> str:
    """The comment above a function, in any language of the C family."""
    return "\n".join(["/*", *(f" * {line}".rstrip().replace("*/", "* /") for line in lines), " */"])


Write = Callable[[tuple[str, ...]], KernelSource]  # a kernel's source, with these lines above its comment


@dataclass(frozen=True)
class Planned:
    """A kernel whose plan stands and fits: `printer` wrote its statements (None: it has none); `write` orders, checks and spells them."""

    printer: Any
    write: Write

    @property
    def applied(self) -> tuple[str, ...]:
        """The schedule's directives that take effect, in the order of `ir.directives`."""
        return complete(self.printer.applied) if self.printer else ()


def below(source: KernelSource) -> Write:
    """What writes a kernel that is printed without lines above its comment."""
    begin, end = comment(()).split("\n")
    return lambda header: replace(source, text=comment(header).removesuffix(end) + source.text.removeprefix(f"{begin}\n"))


class Admitted:
    """What a target planned to see that it admits schedules: it is written when it is built. Each is handed out once."""

    MOST = 256  # that nobody asked for

    def __init__(self) -> None:
        self._planned: dict[int, tuple[Kernel, Schedule, frozenset[str], Write]] = {}

    def __reduce__(self) -> tuple[type[Admitted], tuple[()]]:
        """Another process plans for itself."""
        return Admitted, ()

    def keep(self, kernel: Kernel, schedule: Schedule, write: Write, used: Iterable[str]) -> frozenset[str]:
        """What writes the source for a schedule, of whose directives the `used` ones took effect, which it gives."""
        used = frozenset(used)
        self._planned[id(kernel)] = kernel, schedule, used.intersection(schedule.directives), write
        if len(self._planned) > self.MOST:
            for first in list(self._planned)[:1]:  # a list is made at once, whatever other threads do
                self._planned.pop(first, None)
        return used

    def take(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...]) -> KernelSource | None:
        """The source with these lines above its comment, if this is the kernel and the schedule that was admitted last, be it without some
        directives that took no effect: a chosen schedule has none of them, a join has those of the whole."""
        mine, asked, used, write = self._planned.pop(id(kernel), (None, schedule, frozenset(), None))
        if write is None or mine is not kernel or replace(asked, directives=schedule.directives) != schedule:
            return None
        return write(header) if used <= {*schedule.directives} <= {*asked.directives} else None
