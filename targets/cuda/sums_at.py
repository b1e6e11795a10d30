"""CUDA C++ for sums at indices that data give (`sum_at`), one kernel: a thread adds updates, four neighbours at
once where they have one index, to zeros by atomics.

They are added in the order in which memory takes them: sums of floats may differ in their last digits from call to call. An index that is
negative counts from the end, one outside adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autocomp.targets.cpu.names import entry_name
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.source import KernelSource, Launch, comment

from autocomp.cost.sums_at import run_of
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import F32, dim_hint

THREADS, ELEMENTS = 256, 4  # of a block; updates of a thread, whose loads are under way at once
FOUR, FOURS = 4, "sm_90"  # floats that one instruction adds, and from which architecture on


def print_sum_at(kernel: Kernel, header: Sequence[str], headers: tuple[str, ...], fours: bool) -> KernelSource:
    """The kernel `NAME(const I *in0, const U *in1, T *out0)`: updates in1 added to out0, which is zero before, at the indices in0. `fours`:
    the chip adds four floats at once."""
    index, updates, out, axis = kernel.inputs[0].type, kernel.inputs[1].type, kernel.outputs[0].type, kernel.attrs["axis"]
    shape = [dim_hint(d) for d in updates.shape]  # static, as the rules ask
    inner, many, all_, size = prod(shape[axis + 1 :]), shape[axis], prod(shape), kernel.attrs["size"]
    wide = FOUR if fours and out.dtype == F32 and run_of(index, updates, axis) % FOUR == 0 else 1
    name, made = entry_name(kernel.name), STORED[out.dtype.name]
    each = ELEMENTS // wide
    of_row = index.elements == many and index.elements < all_
    number = "unsigned" if max(all_, out.elements) < 1 << 31 else "unsigned long long"
    in_front = f" + at / {inner * many} * {size * inner}" if all_ > inner * many else ""
    place, step = f"at / {inner} % {many}" if of_row else "at", THREADS * wide
    text = [
        comment(header),
        f'extern "C" __global__ void __launch_bounds__({THREADS}) {name}(const {STORED[index.dtype.name]} *__restrict__ in0, '
        f"const {STORED[updates.dtype.name]} *__restrict__ in1, {made} *__restrict__ out0) {{",
        f"  const {number} first = ({number})blockIdx.x * {each * step} + threadIdx.x * {wide};",
        f"  long long i[{each}];",
        f"  {made} u[{each}][{wide}];",
        "#pragma unroll",
        f"  for (int q = 0; q < {each}; ++q) {{",
        f"    const {number} at = first + q * {step};",
        "    i[q] = -1;",
        f"    if (at >= {all_}) continue;",
        f"    i[q] = in0[{place}];",
        f"    i[q] += i[q] < 0 ? {size} : 0;",
        f"    ac_load<{wide}>(u[q], in1 + at);",
        "  }",
        "#pragma unroll",
        f"  for (int q = 0; q < {each}; ++q) {{",
        f"    const {number} at = first + q * {step};",
        f"    if (i[q] >= 0 && i[q] < {size}) ac_add_to<{wide}>(out0 + (({number})i[q] * {inner} + at % {inner}{in_front}), u[q]);",
        "  }",
        "}",
        "",
    ]
    launch = Launch((((all_, each * step),),), THREADS, zeroed=("out0",))
    return KernelSource(kernel.name, "\n".join(text), name, ("in0", "in1"), ("out0",), (), headers, "cu", launch=launch)
