"""C for writes at indices: `scatter_nd` and `scatter_elements`.

The tensor is copied, then updates are written in their order, so that of two for one element the last stays and sums have all of them in
that order on any number of threads: each thread writes the places of its own. An index outside writes nothing, and the call says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from autocomp.targets.cpu.expressions import CTYPE
from autocomp.targets.cpu.names import entry_name
from autocomp.targets.source import KernelSource, comment

from autocomp.ir.kernel import Kernel
from autocomp.ir.types import SHORT_FLOATS, Dim, DType, Sym

ALONE = 1 << 14  # elements that one thread moves before others have begun


def print_scatter(kernel: Kernel, header: tuple[str, ...] = ()) -> KernelSource:
    """long NAME(const T *in0, const I *in1, const T *in2, T *out0, long sizes..): in0 with in2 written at in1. -1 where an index is outside
    of in0."""
    x, index, new = (a.type for a in kernel.inputs)
    sizes = tuple(dict.fromkeys(d.name for t in (x, index, new) for d in t.shape if isinstance(d, Sym)))
    name, t, how = entry_name(kernel.name), CTYPE[x.dtype.name], kernel.attrs["reduction"]
    args = [f"const {t} *restrict in0", f"const {CTYPE[index.dtype.name]} *restrict in1", f"const {t} *restrict in2", f"{t} *restrict out0"]
    body = _tuples(kernel) if kernel.opaque == "scatter_nd" else _along(kernel)
    outside = "__atomic_store_n(&said, -1, __ATOMIC_RELAXED);"
    body = [line.replace("WRITE", _written(x.dtype, how)).replace("OUTSIDE", outside) for line in body]
    head = f"long {name}({', '.join([*args, *(f'long {s}' for s in sizes)])}) {{"
    text = [comment(header), head, "  long said = 0;", *body, "  return said;", "}", ""]
    return KernelSource(kernel.name, "\n".join(text), name, ("in0", "in1", "in2"), ("out0",), sizes, ("autocomp_cpu.h",), heap=True,
                        threads="own")  # fmt: skip


def _tuples(kernel: Kernel) -> list[str]:
    """Rows at tuples of indices: a thread writes those of its range of places."""
    x, index, _ = (a.type for a in kernel.inputs)
    many = int(index.shape[-1])  # type: ignore[arg-type]
    at = [f"      i = (long)in1[u * {many} + {k}];" + _inside(x.shape[k], "p = p * {n} + i;") for k in range(many)]
    return [
        f"  const long updates = {count(index.shape[:-1])}, places = {count(x.shape[:many])}, width = {count(x.shape[many:])};",
        f"  #pragma omp parallel if ((updates + places) * width > {ALONE})",
        "  {",
        "    const long team = omp_get_num_threads(), me = omp_get_thread_num();",
        "    const long first = places * me / team, last = places * (me + 1) / team;",
        "    memcpy(out0 + first * width, in0 + first * width, (last - first) * width * sizeof *out0);",
        "    for (long u = 0; u < updates; u++) {",
        "      long p = 0, i;",
        *at,
        "      if (p < first || p >= last) continue;",
        "      for (long j = 0; j < width; j++) { const long y = p * width + j, v = u * width + j; WRITE }",
        "    }",
        "  }",
    ]


def _along(kernel: Kernel) -> list[str]:
    """Elements along an axis: a thread has a range of what stands in front of the axis, or of what stands behind it."""
    x, index, _ = (a.type for a in kernel.inputs)
    axis = kernel.attrs["axis"]
    lead, behind = index.shape[:axis], index.shape[axis + 1 :]
    return [
        f"  const long outer = {count(lead)}, many = {count(index.shape[axis : axis + 1])}, inner = {count(behind)};",
        f"  const long length = {count(x.shape[axis : axis + 1])}, row = {count(x.shape[axis + 1 :])}, all = {count(x.shape)};",
        f"  #pragma omp parallel if (all + outer * many * inner > {ALONE})",
        "  {",
        "    const long team = omp_get_num_threads(), me = omp_get_thread_num(), begin = all * me / team;",
        "    const int rows = outer >= inner;",
        "    const long o0 = rows ? outer * me / team : 0, o1 = rows ? outer * (me + 1) / team : outer;",
        "    const long k0 = rows ? 0 : inner * me / team, k1 = rows ? inner : inner * (me + 1) / team;",
        "    memcpy(out0 + begin, in0 + begin, (all * (me + 1) / team - begin) * sizeof *out0);",
        "    #pragma omp barrier",
        "    for (long o = o0; o < o1; o++) {",
        f"      const long front = {place_within('o', lead, x.shape[:axis])} * length * row;",
        "      for (long j = 0; j < many; j++)",
        "        for (long k = k0; k < k1; k++) {",
        "          const long v = (o * many + j) * inner + k;",
        "          long i = (long)in1[v];" + _inside(x.shape[axis], ""),
        f"          const long y = front + i * row + {place_within('k', behind, x.shape[axis + 1 :])};",
        "          WRITE",
        "        }",
        "    }",
        "  }",
    ]


def _inside(n: Dim, then: str) -> str:
    """A negative index counts from the end; one outside belongs to nobody."""
    size = count((n,))
    return f" i += i < 0 ? {size} : 0; if (i < 0 || i >= {size}) {{ OUTSIDE continue; }} {then.format(n=size)}".rstrip()


def count(shape: Sequence[Dim]) -> str:
    """C text of how many elements a shape has."""
    return " * ".join([d.name if isinstance(d, Sym) else f"{d}L" for d in shape]) or "1L"


def place_within(number: str, of: Sequence[Dim], within: Sequence[Dim]) -> str:
    """Where element `number` of one shape stands in another one that is as large or larger along each dimension."""
    if tuple(of[1:]) == tuple(within[1:]):
        return number
    terms = []
    for k, d in enumerate(of):
        digit = f"{number} / ({count(of[k + 1 :])})" + (f" % ({count((d,))})" if k else "")
        terms.append(f"({digit}) * ({count(within[k + 1 :])})")
    return f"({' + '.join(terms)})"


def _written(dtype: DType, how: str) -> str:
    """The statement that makes `out0[y]` what it is with the update `in2[v]`."""
    if how == "none":
        return "out0[y] = in2[v];"
    short = dtype.name if dtype in SHORT_FLOATS else ""
    real = "float" if short else CTYPE[dtype.name]
    load = f"s_from_{short}({{}})" if short else "{}"
    a, b = load.format("out0[y]"), load.format("in2[v]")
    wide = "uint64_t" if dtype.bits == 64 else "uint32_t"
    if dtype.name == "bool":
        value = "a | b" if how in ("add", "max") else "a & b"
    elif how in ("max", "min"):
        value = f"a {'>' if how == 'max' else '<'} b || a != a ? a : b"
    else:
        sign = "+" if how == "add" else "*"
        value = f"a {sign} b" if dtype.is_float else f"({real})(({wide})a {sign} ({wide})b)"
    stored = f"s_to_{short}({value})" if short else value
    return f"{{ const {real} a = {a}, b = {b}; out0[y] = {stored}; }}"
