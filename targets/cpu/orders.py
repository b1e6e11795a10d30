"""C for orders of rows: `topk` of any length, which a sort is too.

Each element of a row has a key, an unsigned number that is the smaller the earlier the element stands; keys are sorted with their places
digit by digit (a stable radix sort, the last digit first; digits that all keys share are left out), so equal elements stay as they stood.
Where few of a row are asked for, what lies behind them by its first two digits is left out before; where at most IN_FRONT are, the best so
far stay in order, and a row is compared with the last of them, BESIDE elements at once.
"""

from __future__ import annotations

from autocomp.targets.cpu.expressions import CTYPE
from autocomp.targets.cpu.names import entry_name
from autocomp.targets.cpu.scatters import ALONE, count
from autocomp.targets.source import KernelSource, comment

from autocomp.cost.derived import constant
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import DType, Sym, dim_hint

SHORT = int(constant("order_short"))  # elements of a row that are put in one after the other
IN_FRONT = int(constant("order_in_front"))  # elements at most that are kept in order
BESIDE = 32  # elements of which none or some is in front of the last that is kept
FEW = int(constant("order_few"))  # times as many elements as are asked for, from which on those behind are left out first


def print_order(kernel: Kernel, header: tuple[str, ...] = ()) -> KernelSource:
    """long NAME(const T *in0, R *out0, long sizes..): the first k of each row's order (all where k is an open size), as values or
    as places. Returns the bytes that a thread had not."""
    x, out = kernel.inputs[0].type, kernel.outputs[0].type
    axis, largest = kernel.attrs["axis"], kernel.attrs["largest"]
    k = x.shape[axis] if isinstance(kernel.attrs["k"], Sym) else kernel.attrs["k"]
    n, length = count((x.shape[axis],)), dim_hint(x.shape[axis])
    sizes = tuple(dict.fromkeys(d.name for d in x.shape if isinstance(d, Sym)))
    some = 0 if isinstance(k, Sym) else k  # 0: all of an open size
    wanted = count((k,)).removesuffix("L")
    name, key = entry_name(kernel.name), "uint64_t" if x.dtype.bits == 64 else "uint32_t"
    few = 0 < some <= IN_FRONT and length >= FEW * some
    cut = not isinstance(k, Sym) and length >= FEW * max(k, SHORT)
    pair = f"{name}_pair"
    args = [f"const {CTYPE[x.dtype.name]} *restrict in0", f"{CTYPE[out.dtype.name]} *restrict out0", *(f"long {s}" for s in sizes)]
    row = [f"      {pair} p[{some}];", f"      {name}_kept(p, row, n, inner);"] if few else [
        f"      for (long j = 0; j < n; j++) {{ held[j].key = {name}_key(row[j * inner]); held[j].at = j; }}",
        f"      const {pair} *p = {name}_sorted(held, held + n, {f'{name}_first(held, n)' if cut else 'n'});",
    ]
    found = "p[j].at" if kernel.attrs["part"] == "indices" else "row[p[j].at * inner]"
    text = [
        comment(header),
        f"typedef struct {{ {key} key; {'int64_t' if key == 'uint64_t' else 'int32_t'} at; }} {pair};",
        f"static {key} {name}_key({CTYPE[x.dtype.name]} x) {{",
        *_key(x.dtype, key),
        f"  return {'~u' if largest else 'u'};",
        "}",
        *(_kept(name, pair, key, some, CTYPE[x.dtype.name]) if few else _sorts(name, pair, key, some if cut else None)),
        f"long {name}({', '.join(args)}) {{",
        f"  const long outer = {count(x.shape[:axis])}, n = {n}, inner = {count(x.shape[axis + 1 :])};",
        f"  const long need = {0 if few else 2} * n * sizeof({pair});",
        "  long lacks = 0;",
        f"  #pragma omp parallel if (outer * inner > 1 && outer * inner * n > {ALONE // 4})",
        "  {",
        f"    {pair} *held = malloc(need ? need : 1);",
        "    if (!held) {",
        "      #pragma omp atomic write",
        "      lacks = need;",
        "    }",
        "    #pragma omp for",
        "    for (long r = 0; r < outer * inner; r++) {",
        "      if (!held) continue;",
        f"      const {CTYPE[x.dtype.name]} *row = in0 + r / inner * n * inner + r % inner;",
        *row,
        f"      for (long j = 0; j < {wanted}; j++) out0[(r / inner * {wanted} + j) * inner + r % inner] = {found};",
        "    }",
        "    free(held);",
        "  }",
        "  return lacks;",
        "}",
        "",
    ]
    return KernelSource(kernel.name, "\n".join(text), name, ("in0",), ("out0",), sizes, ("autocomp_cpu.h",), heap=True,
                        threads="own")  # fmt: skip


def _sorts(name: str, pair: str, key: str, k: int | None) -> list[str]:
    """A function that sorts pairs, digit by digit, and one that leaves out those behind the k-th, if k is given."""
    return [
        f"static {pair} *{name}_sorted({pair} *p, {pair} *q, long n) {{",
        f"  if (n <= {SHORT}) {{",
        f"    for (long i = 1; i < n; i++) {{ {pair} e = p[i]; long j = i; "
        "for (; j && p[j - 1].key > e.key; j--) p[j] = p[j - 1]; p[j] = e; }",
        "    return p;",
        "  }",
        f"  for (int shift = 0; shift < {64 if key == 'uint64_t' else 32}; shift += 8) {{",
        "    long count[257] = {0};",
        "    for (long i = 0; i < n; i++) count[(p[i].key >> shift & 255) + 1]++;",
        "    if (count[(p[0].key >> shift & 255) + 1] == n) continue;",
        "    for (int d = 0; d < 256; d++) count[d + 1] += count[d];",
        "    for (long i = 0; i < n; i++) q[count[p[i].key >> shift & 255]++] = p[i];",
        f"    {pair} *r = p; p = q; q = r;",
        "  }",
        "  return p;",
        "}",
        *(() if k is None else _first(name, pair, key, k)),
    ]


def _kept(name: str, pair: str, key: str, k: int, t: str) -> list[str]:
    """A function that puts the first k of a row in order: each element that is in front of the last of them moves up, and that one goes."""
    put = (f"{{ const {key} u = {name}_key(row[(i) * inner]); if (u < p[{k - 1}].key) {{ long j = {k - 1}; "
           f"for (; j && p[j - 1].key > u; j--) p[j] = p[j - 1]; p[j].key = u; p[j].at = i; }} }}")  # fmt: skip
    return [
        f"static void {name}_kept({pair} *p, const {t} *row, long n, long inner) {{",
        "  long i = 0;",
        f"  for (; i < {k}; i++) {{",
        f"    const {key} u = {name}_key(row[i * inner]);",
        "    long j = i;",
        "    for (; j && p[j - 1].key > u; j--) p[j] = p[j - 1];",
        "    p[j].key = u;",
        "    p[j].at = i;",
        "  }",
        f"  for (; i + {BESIDE} <= n; i += {BESIDE}) {{",
        f"    const {key} last = p[{k - 1}].key;",
        f"    {key} some = 0;",
        f"    for (long l = 0; l < {BESIDE}; l++) some |= {name}_key(row[(i + l) * inner]) < last;",
        f"    if (some) for (const long end = i + {BESIDE}, first = i; i < end || (i = first, 0); i++) {put}",
        "  }",
        f"  for (; i < n; i++) {put}",
        "}",
    ]


def _first(name: str, pair: str, key: str, k: int) -> list[str]:
    """A function that keeps the pairs whose first two digits are not behind those of the k-th, in their order; how many they are."""
    top = 64 if key == "uint64_t" else 32
    return [
        f"static long {name}_first({pair} *p, long n) {{",
        f"  {key} head = 0;",
        f"  for (long shift = {top - 8}, left = {k}; shift >= {top - 16}; shift -= 8) {{",
        "    long count[256] = {0}, d = 0;",
        f"    for (long i = 0; i < n; i++) count[p[i].key >> shift & 255] += shift == {top - 8} || p[i].key >> {top - 8} == head;",
        "    for (; left > count[d]; d++) left -= count[d];",
        "    head = head << 8 | d;",
        "  }",
        "  long kept = 0;",
        f"  for (long i = 0; i < n; i++) if (p[i].key >> {top - 16} <= head) p[kept++] = p[i];",
        "  return kept;",
        "}",
    ]


def _key(dtype: DType, key: str) -> list[str]:
    """Statements that make `u`, without a branch: an unsigned number in the order of x. NaN is the largest, and -0 is 0 (a sum's)."""
    x64 = dtype.bits == 64
    top = "0x8000000000000000u" if key == "uint64_t" else "0x80000000u"
    if not dtype.is_float:
        signed = "int64_t" if key == "uint64_t" else "int32_t"
        return [f"  const {key} u = ({key})({signed})x ^ {top};" if dtype.name.startswith("i") else f"  const {key} u = x;"]
    real, signed = ("double", "int64_t") if x64 else ("float", "int32_t")
    value = f"s_from_{dtype.name}(x)" if dtype.bits == 16 else "x"
    return [f"  const {real} f = {value} + 0;", f"  {key} u;", "  memcpy(&u, &f, sizeof u);",
            f"  u ^= ({key})(({signed})u >> {63 if x64 else 31}) | {top};",
            f"  u |= -({key})(f != f);"]  # fmt: skip
