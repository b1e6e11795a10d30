"""Writes at indices (`scatter_nd`, `scatter_elements`) on vector cores: each takes chunks of the tensor and does there what updates say.

    y = x with u at i   ->   a chunk of x into unified buffer; for all indices: where one names it, its update is written or folded there;
                             the chunk to memory

Updates come in their order, so that of two for one place the last stays and sums do not depend on what came first. Wide rows are folded by
vector instructions, in single precision those of halves; of narrow ones each element by the scalar unit. A number outside writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from autocomp.targets.ascend.blocks import BLOCK, SPARE, blocks_text, by_blocks, shifts
from autocomp.targets.ascend.blocks import HEADER as BLOCKS
from autocomp.targets.ascend.element import element
from autocomp.targets.ascend.tables import table
from autocomp.targets.cpu.names import entry_name
from autocomp.targets.cpu.scatters import place_within
from autocomp.targets.source import KernelSource, Launch, comment

from autocomp.cost.chip import F32, Chip
from autocomp.cost.scatters import Chunks, chunks
from autocomp.errors import DoesNotFit
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import I32

HEADERS = ("autocomp_ascend.h", "autocomp_ascend_scalar.h", "autocomp_ascend_words.h")


def emit_scatter(kernel: Kernel, chip: Chip, header: tuple[str, ...]) -> KernelSource:
    """The kernel of a scatter of known sizes. Raises DoesNotFit where one place has more bytes than unified buffer."""
    return _Printer(kernel, chip).source(header)


class _Printer:
    def __init__(self, kernel: Kernel, chip: Chip) -> None:
        self.kernel, self.chip = kernel, chip
        self.x, self.index, self.new = (a.type for a in kernel.inputs)
        self.c: Chunks = chunks(kernel.opaque, kernel.attrs, [self.x, self.index, self.new], chip)
        self.how, self.size = str(kernel.attrs["reduction"]), self.x.dtype.bytes
        short = self.how != "none" and self.size < F32
        self.type = "half" if short else element(self.x.dtype)  # of a chunk as it lies in memory
        self.computed = "float" if short else self.type
        self.top = 0

    def source(self, header: tuple[str, ...]) -> KernelSource:
        c, name = self.c, entry_name(self.kernel.name)
        kind = "AICORE" if "one_core_kind" in self.chip.features else "AIV_ONLY"
        places = [*self.places()]
        top, room = self.top, int(self.chip.memory("ub").capacity) - (SPARE if by_blocks(self.chip) else 0)
        if top > room:
            raise DoesNotFit(f"{c.each} places of {c.width} elements in ub", needed=top, available=room, where=self.kernel.name,
                             hint="rules/scattering.yaml has other forms of a scatter")  # fmt: skip
        lines = [f"KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{kind});", *self.tensors(), "TPipe pipe;", "TBuf<TPosition::VECCALC> ub;",
                 f"pipe.InitBuffer(ub, {top});", "pipe.Destroy();", *places, "GlobalTensor<uint8_t> out0_bytes;",
                 "out0_bytes.SetGlobalBuffer((__gm__ uint8_t *)out0);", "ac_read_anew(out0_bytes);",
                 f"for (uint32_t chunk = GetBlockIdx(); chunk < {c.count}; chunk += GetBlockNum()) {{", *("  " + x for x in self.chunk()),
                 "}"]  # fmt: skip
        headers: tuple[str, ...] = HEADERS
        if by_blocks(self.chip):
            lines, headers = blocks_text(lines, top, self.kernel.name), (*HEADERS, BLOCKS)
        signature = f'extern "C" __global__ __aicore__ void {name}(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out0) {{'
        text = "\n".join([comment(header), signature, *("  " + x for x in lines), "}", ""])
        cores = min(c.count, self.chip.cores * int(self.chip.limits["vector_cores"]))
        return KernelSource(self.kernel.name, text, name, ("in0", "in1", "in2"), ("out0",), (), headers, "cpp",
                            launch=Launch((((cores, 1),),), 1))  # fmt: skip

    # ---- memories
    def tensors(self) -> Iterator[str]:
        bits = self.type if self.c.wide else element(self.x.dtype)
        for n, e in (("in0", self.type), ("in1", table()["integers"][self.index.dtype.name]), ("in2", bits), ("out0", self.type)):
            yield f"GlobalTensor<{e}> {n}_g;"
            yield f"{n}_g.SetGlobalBuffer((__gm__ {e} *){n});"

    def places(self) -> Iterator[str]:
        """Where a chunk lies as memory has it, where it is computed with, an update's row, and words beside."""
        c = self.c
        yield self.room("held", self.type, self.elements_held, self.size)
        if self.computed != self.type:
            yield self.room("sums", self.computed, self.elements_held, F32)
        if c.wide and self.how != "none":
            yield self.room("row", self.type, c.pitch, self.size)
            if self.computed != self.type:
                yield self.room("new_row", self.computed, c.pitch, F32)
            for k in range(self.beside()):
                yield self.room(f"t{k}", "int32_t", c.pitch, F32)

    def room(self, name: str, type_: str, n: int, size: int) -> str:
        bytes_, at = -(-n * size // BLOCK) * BLOCK, self.top
        self.top += bytes_
        return f"const LocalTensor<{type_}> {name} = ac_at<{type_}>(ub, {bytes_}, {at});"

    def beside(self) -> int:
        """Words that a function of words needs beside its operands."""
        row = table()["words"][self.how] if self.x.dtype == I32 else {}
        return int(row.get("temps", 0)) + (0 if shifts(self.chip) else int(row.get("by_masks", 0)))

    # ---- a chunk
    def chunk(self) -> Iterator[str]:
        c = self.c
        yield f"const uint32_t first = chunk * {c.each}, n = ac_least({c.each}, {c.places} - first);"
        rows = f"ac_copy(n, {c.width * self.size}, 0, 0)" if c.wide else f"ac_copy(1, n * {c.width * self.size}, 0, 0)"
        back = rows
        if c.columns:
            far, gap = f"({c.places} - n) * {self.size}", f"({c.each * self.size} - (n * {self.size} + 31) / 32 * 32) / 32"
            rows, back = (f"ac_copy({c.columns}, n * {self.size}, {g})" for g in (f"{far}, {gap}", f"{gap}, {far}"))
        yield f"DataCopyPad(held, in0_g[uint64_t(first) * {c.width}], {rows}, {{false, 0, 0, 0}});"
        here = "MTE2" if c.wide and self.how == "none" else "V" if c.wide else "S"  # who writes updates
        if self.computed != self.type:
            yield from (*flag("MTE2", "V"), f"Cast(sums, held, RoundMode::CAST_NONE, {self.elements_held});")
            yield from ["PipeBarrier<PIPE_V>();"] if here == "V" else flag("V", here)
        elif here != "MTE2":
            yield from flag("MTE2", here)
        yield from self.updates()
        if self.computed != self.type:
            yield from ["PipeBarrier<PIPE_V>();"] if here == "V" else flag(here, "V")
            yield f"Cast(held, sums, RoundMode::CAST_RINT, {self.elements_held});"
            here = "V"
        yield from flag(here, "MTE3")
        yield f"DataCopyPad(out0_g[uint64_t(first) * {c.width}], held, {back});"
        yield from flag("MTE3", "MTE2")

    @property
    def elements_held(self) -> int:
        """Of a chunk on chip."""
        return (self.c.columns or self.c.each) * self.c.pitch

    def of_columns(self) -> Iterator[str]:
        """Loops over the indices of a chunk's columns."""
        axis, c = self.kernel.attrs["axis"], self.c
        yield f"for (uint32_t j = 0; j < {self.index.shape[axis]}; ++j) for (uint32_t k = first; k < first + n; ++k) {{"
        yield f"  const uint64_t u = j * {c.places}ull + k;"
        yield f"  const int64_t p = ac_place(0, in1_g.GetValue(u), {c.columns});"
        yield f"  if (p >= 0) {self.written(f'p * {c.pitch} + k - first', 'u')}"
        yield "}"

    def updates(self) -> Iterator[str]:
        """Loops over the indices that may name a place of the chunk."""
        if self.c.columns:
            yield from self.of_columns()
            return
        shape, of = [[int(d) for d in x.shape] for x in (self.x, self.index)]  # type: ignore[arg-type]
        if self.kernel.opaque == "scatter_nd":
            yield f"for (uint32_t u = 0; u < {prod(of[:-1])}; ++u) {{"
            yield "  int64_t p = 0;"
            yield from (f"  p = ac_place(p, in1_g.GetValue(u * {of[-1]}ull + {k}), {shape[k]});" for k in range(of[-1]))
            inner = self.row() if self.c.wide else self.elements(self.c.width)
        else:
            axis = self.kernel.attrs["axis"]
            many, behind, row = of[axis], prod(of[axis + 1 :]), prod(shape[axis + 1 :])
            block = shape[axis] * row
            whole = of[:axis] == shape[:axis]  # else what stands in front has places without updates
            ends = (f"first / {block}", f"(first + n - 1) / {block} + 1") if whole else ("0", str(prod(of[:axis])))
            yield f"const uint32_t begin = {ends[0]}, end = {ends[1]};"
            yield f"for (uint32_t o = begin; o < end; ++o) for (uint32_t j = 0; j < {many}; ++j) for (uint32_t k = 0; k < {behind}; ++k) {{"
            yield f"  const uint64_t u = (o * {many}ull + j) * {behind} + k;"
            yield f"  int64_t p = ac_place(0, in1_g.GetValue(u), {shape[axis]});"
            front = f"{place_within('o', of[:axis], shape[:axis])} * {block}ll"
            yield f"  p = p < 0 ? p : {front} + p * {row} + {place_within('k', of[axis + 1 :], shape[axis + 1 :])};"
            inner = iter((self.written("p - first", "u"),))
        yield "  if (p >= first && p < first + n) {"
        yield from ("    " + x for x in inner)
        yield from ("  }", "}")

    def row(self) -> Iterator[str]:
        """A row's update."""
        c = self.c
        comes = f"in2_g[u * {c.width}ull], ac_copy(1, {c.width * self.size}, 0, 0), {{false, 0, 0, 0}});"
        if self.how == "none":
            yield "PipeBarrier<PIPE_MTE2>();"
            yield f"DataCopyPad(held[(p - first) * {c.pitch}], {comes}"
            return
        yield from (f"DataCopyPad(row, {comes}", *flag("MTE2", "V"))
        to, new = "held", "row"
        if self.computed != self.type:
            yield from (f"Cast(new_row, row, RoundMode::CAST_NONE, {c.pitch});", "PipeBarrier<PIPE_V>();")
            to, new = "sums", "new_row"
        form = table()["words"] if self.x.dtype == I32 else table()["binary"]
        beside = "".join(f"t{k}, " for k in range(self.beside()))
        place = f"{to}[(p - first) * {c.pitch}]"
        yield f"{form[self.how]['call']}({place}, {place}, {new}, {beside}{c.pitch});"
        yield from ("PipeBarrier<PIPE_V>();", *flag("V", "MTE2"))

    def elements(self, width: int) -> Iterator[str]:
        yield f"for (uint32_t j = 0; j < {width}; ++j) {self.written(f'(p - first) * {width} + j', f'u * {width}ull + j')}"

    def written(self, at: str, of: str) -> str:
        """An element's update by the scalar unit."""
        if self.how == "none":
            return f"held.SetValue({at}, in2_g.GetValue({of}));"
        to = "sums" if self.computed != self.type else "held"
        new = f"ac_read<ac_{self.x.dtype.name}>(in2_g.GetValue({of}))" if self.computed != self.type else f"in2_g.GetValue({of})"
        return f"{to}.SetValue({at}, ac_folded_{self.how}({to}.GetValue({at}), {new}));"


def flag(of: str, to: str) -> tuple[str, str]:
    """One pipe waits for another."""
    return f"SetFlag<HardEvent::{of}_{to}>(0);", f"WaitFlag<HardEvent::{of}_{to}>(0);"
