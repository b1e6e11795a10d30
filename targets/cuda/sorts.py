"""CUDA C++ for rows that are put in order as a whole, or most of one (`radix_topk` of many): a radix sort, one kernel.

A block has a row, and goes through the bits of its keys from the lowest, eight at a time. A warp has a piece of the row, one behind the
other's, of which it takes as many keys at once as it has lanes. It counts how many of its keys have each digit; sums of these counts over
digits, then warps, are places; each key goes to the next place of its warp and digit behind those of lower lanes that have the digit too,
so that equal ones stay as they stood. Keys with their places pass to and fro between two buffers of the block's workspace; the last pass
writes the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autocomp.targets.cpu.names import entry_name
from autocomp.targets.cpu.scatters import count
from autocomp.targets.cuda.orders import RAW, Rows, key_of, print_selection, together
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.source import KernelSource, Launch, comment

from autocomp.cost.selection import DIGIT, MOST, UNDER_WAY, WARP
from autocomp.ir.coded import SELECTED
from autocomp.ir.kernel import Kernel

DIGITS, WARPS = 1 << DIGIT, MOST // WARP
AHEAD = 4  # keys that a thread loads before it looks at the first


def print_order(kernel: Kernel, header: Sequence[str], headers: tuple[str, ...]) -> KernelSource:
    """The kernel for the first k of each row's order: by a selection where they are few, else by a sort."""
    return (print_selection if kernel.attrs["k"] <= SELECTED else _print_sort)(kernel, header, headers)


def _print_sort(kernel: Kernel, header: Sequence[str], headers: tuple[str, ...]) -> KernelSource:
    """The kernel `NAME(const T *in0, R *out0, scratch)`, of static shapes."""
    x, out, axis = kernel.inputs[0].type, kernel.outputs[0].type, kernel.attrs["axis"]
    rest, inner = (*x.shape[:axis], *x.shape[axis + 1 :]), count(x.shape[axis + 1 :])
    n, k, bits, rows = int(x.shape[axis]), kernel.attrs["k"], 8 * x.dtype.bytes, prod(map(int, rest))  # type: ignore[arg-type]
    r = Rows(entry_name(kernel.name), n, n, bits, MOST, 1, 0)
    raw, pair = RAW[bits], f"{r.name}_pair"
    indices = kernel.attrs["part"] == "indices"
    result = "long long" if indices else raw
    each = DIGITS * WARPS // MOST  # counts that a thread adds up
    piece, pitch = -(-n // MOST) * WARP, DIGITS + 1  # counts of a warp begin in the bank behind those of the one before
    text = [
        comment(header),
        f"struct __align__({r.pair}) {pair} {{ {r.key} key; int at; }};",
        f"AC_DEVICE {r.key} {r.name}_key({raw} x) {{",
        *key_of(x.dtype, r.key, kernel.attrs["largest"]),
        "}",
        *together(r),
        f"AC_DEVICE int {r.name}_at(int i) {{ return i % {WARPS} * {pitch} + i / {WARPS}; }}  // digits, of each all warps",
        "// lanes with the same digit, of those whose key there is",
        f"AC_DEVICE ac_lanes {r.name}_alike(int digit, bool there) {{",
        "  ac_lanes all = ac_holds(there);",
        "#pragma unroll",
        f"  for (int b = 0; b < {DIGIT}; ++b) {{",
        "    const bool set = digit >> b & 1;",
        "    const ac_lanes lanes = ac_holds(set);",
        "    all &= set ? lanes : ~lanes;",
        "  }",
        "  return all;",
        "}",
        f'extern "C" __global__ void __launch_bounds__({MOST}) {r.name}(const {STORED[x.dtype.name]} *__restrict__ in0, '
        f"{STORED[out.dtype.name]} *__restrict__ out0, unsigned char *scratch) {{",
        "  extern __shared__ __align__(1024) unsigned char smem[];",
        f"  const long long inner = {inner};",
        f"  const int n = {n}, k = {k}, lane = threadIdx.x % {WARP}, first = threadIdx.x / {WARP} * {piece};",
        f"  const int end = first + {piece} < n ? first + {piece} : n;",
        f"  int *counts = reinterpret_cast<int *>(smem), *own = counts + threadIdx.x / {WARP} * {pitch}, *part = counts + {WARPS * pitch};",
        f"  {pair} *from = reinterpret_cast<{pair} *>(scratch) + (long long)blockIdx.x * {2 * n}, *to = from + n;",
        "  int turn = 0;",
        f"  for (long long r = blockIdx.x; r < {rows}; r += gridDim.x) {{",
        f"    const {raw} *row = reinterpret_cast<const {raw} *>(in0) + r / inner * n * inner + r % inner;",
        f"    {result} *out = reinterpret_cast<{result} *>(out0) + r / inner * k * inner + r % inner;",
        f"    for (int bit = 0; bit < {bits}; bit += {DIGIT}) {{",
        f"      for (int d = lane; d < {DIGITS}; d += {WARP}) own[d] = 0;",
        "      ac_wave_sync();",
        *_each(r, ["if (there && alike == 0) own[digit] += ac_how_many(all);"]),
        "      __syncthreads();",
        "      int mine = 0;",
        f"      for (int q = 0; q < {each}; ++q) mine += counts[{r.name}_at(threadIdx.x * {each} + q)];",
        f"      int place = {r.name}_before(mine, part, turn);",
        f"      for (int q = 0; q < {each}; ++q) {{",
        f"        const int i = {r.name}_at(threadIdx.x * {each} + q), c = counts[i];",
        "        counts[i] = place, place += c;",
        "      }",
        "      __syncthreads();",
        *_each(r, [
            "const int slot = there ? own[digit] + alike : k;",
            "ac_wave_sync();",
            "if (there && alike == 0) own[digit] += ac_how_many(all);",
            f"if (there && bit + {DIGIT} < {bits}) to[slot] = e[q];",
            f"else if (slot < k) out[(long long)slot * inner] = {'e[q].at' if indices else 'row[(long long)e[q].at * inner]'};",
        ]),
        "      __syncthreads();",
        f"      {pair} *other = from;",
        "      from = to, to = other;",
        "    }",
        "  }",
        "}",
        "",
    ]  # fmt: skip
    shared = 4 * WARPS * pitch + 8 * WARPS
    launch = Launch((((rows, 1),),), MOST, shared, at_most=UNDER_WAY, workspace=min(rows, UNDER_WAY) * 2 * n * r.pair)
    return KernelSource(kernel.name, "\n".join(text), r.name, ("in0",), ("out0",), (), headers, "cu", launch=launch)


def _each(r: Rows, body: Sequence[str]) -> list[str]:
    """Lines that do something for each pair `e[q]` of a warp's piece, if it is `there`: `all` lanes that have its digit, how many of them,
    `alike`, are lower ones. The first pass makes the keys."""
    return [
        f"      for (int j = first; j < end; j += {AHEAD * WARP}) {{",
        f"        {r.name}_pair e[{AHEAD}];",
        "#pragma unroll",
        f"        for (int q = 0; q < {AHEAD}; ++q) {{",
        f"          const int i = j + q * {WARP} + lane;",
        f"          if (i < end) e[q] = bit ? from[i] : {r.name}_pair{{{r.name}_key(row[(long long)i * inner]), i}};",
        "        }",
        "#pragma unroll",
        f"        for (int q = 0; q < {AHEAD}; ++q) {{",
        f"          const bool there = j + q * {WARP} + lane < end;",
        f"          const int digit = there ? (int)(e[q].key >> bit & {DIGITS - 1}) : 0;",
        f"          const ac_lanes all = {r.name}_alike(digit, there);",
        "          const int alike = ac_how_many(all & ((ac_lanes)1 << lane) - 1);",
        *(f"          {line}" for line in body),
        "          ac_wave_sync();",
        "        }",
        "      }",
    ]
