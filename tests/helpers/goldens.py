"""The programs of which tests/golden keeps what GPU targets print, by file: those of small graphs and those under schedules or of sizes
that have files of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import autocomp
from autocomp.runtime.program import Program
from tests.helpers import tensor_memory
from tests.helpers.device_graphs import GOLDEN, attention, graph, printed
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import CASES, FEW_ROWS, split, stream


def patch() -> Program:
    """A convolution large enough to keep a tile's patch in shared memory."""
    window = 'lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], layout="nhwc_ohwi"'
    text = graph({"x": "f16[32, 56, 56, 64]", "w": "f16[64, 3, 3, 64]"}, f"%0 = conv(x, w, {window})\n%1 = relu(%0)")
    return autocomp.optimize(text, target="cuda:h200")


def four_warpgroups() -> Program:
    """Attention by blocks that stay, four warpgroups each, whose base lags."""
    program = autocomp.optimize(attention(8, 16, 512, 64), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    rows = {a.name: 256 if a.extent == 512 else 1 for a in kernel.axes if a.extent != 64}
    how = by_hand({**rows, "r1": 64}, stages=4, roles="warp_specialise", workers=4, softmax_overlap=2, rescale_threshold=14,
                  persistent=True)  # fmt: skip
    program.printed[kernel.name] = program.target.emit(kernel, how)
    return program


def order() -> Program:
    """The first 32 of rows that a block holds."""
    rows = graph({"x": "f32[600, 5000]"}, '%0 = topk(x, k=32, axis=1, part="indices")')
    return autocomp.optimize(rows, target="cuda:h200", without=["ordering/ranks*"])


def sums() -> Program:
    """Rows of halves added at indices, four sums at once."""
    rows = graph({"x": "bf16[2368, 256]", "i": "i64[2368, 1]"},
                 '%0 = broadcast(const(0.0, f32), shape=[1000, 256])\n%1 = cast(x, to="f32")\n%2 = scatter_nd(%0, i, %1, reduction="add")')
    return autocomp.optimize(rows, target="cuda:h200")


TARGETS = {"a100": ("cuda:a100", "cuda/{}.a100.cu"), "h200": ("cuda:h200", "cuda/{}.h200.cu"), "c500": ("maca:c500", "maca/{}.maca")}
SMALL: dict[str, Callable[[], Program]] = {
    TARGETS[chip][1].format(n): partial(printed, n, TARGETS[chip][0])
    for chip, names in GOLDEN.items()
    for n in names
}
OTHERS: dict[str, Callable[[], Program]] = {
    "cuda/split_cluster.h200.cu": lambda: split(*CASES["epilogue"]),
    "cuda/split_few_rows.h200.cu": lambda: split(*FEW_ROWS["split"]),
    "cuda/split_stream.h200.cu": lambda: stream("epilogue"),
    "cuda/conv_window.h200.cu": patch,
    "cuda/attention_four_warpgroups.h200.cu": four_warpgroups,
    "cuda/radix_topk.h200.cu": order,
    "cuda/sum_at.h200.cu": sums,
    **{f"cuda/tensor_memory_{n}.b200.cu": partial(tensor_memory.made, case) for n, case in tensor_memory.GOLDEN.items()},
}
