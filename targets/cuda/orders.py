"""CUDA C++ for the first k of each row in order (`radix_topk`), one kernel.

A team of threads has a row: a warp where rows are short, else a block. An element's key is an unsigned number that is the smaller the
earlier the element stands, made from its bits; keys stay in registers where these hold a row, else they are made again in each pass. The
last key that is wanted is found bit by bit from the top: the team counts the keys below a bound. Where more are equal to it than wanted,
the place up to which they are is found in the same way. Of rows that registers do not hold, the k-th of the threads' first keys comes
before: what is behind it is not among the first k, and where few are left they are sorted as they are. What is chosen meets in shared
memory, where a bitonic network sorts by key and place: equal elements stay as they stood, and results do not depend on what came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autocomp.targets.cpu.names import entry_name
from autocomp.targets.cpu.scatters import count
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.source import KernelSource, Launch, comment

from autocomp.cost.selection import MOST, WARP, team_of
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import Dim, DType, Sym, dim_hint

FEW = 128  # pairs that one warp sorts
ROOM = 4096  # pairs that are sorted where the first k are among them

RAW = {8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}
_INFINITY = {"f16": "0x7c00u", "bf16": "0x7f80u", "f32": "0x7f800000u", "f64": "0x7ff0000000000000ull"}
_CHOSEN = "u < bound || (u == bound && j < first)"


@dataclass(frozen=True)
class Rows:
    """What the text of a kernel is made of: the first `k` of `n` elements a row; `team` threads a row, `beside` rows a block, `held` keys a
    thread (0 where a row is too long for that)."""

    name: str
    n: int
    k: int
    bits: int
    team: int
    beside: int
    held: int

    @property
    def key(self) -> str:
        return RAW[max(32, self.bits)]

    @property
    def pair(self) -> int:
        """Bytes of a key with its place."""
        return 16 if self.bits == 64 else 8

    @property
    def near(self) -> bool:
        """Whether the threads' first keys say what is not wanted."""
        return not self.held and self.k <= self.team

    @property
    def places(self) -> int:
        """Pairs of a row in shared memory, a power of two."""
        return ROOM if self.near else 1 << (self.k - 1).bit_length()

    @property
    def sorters(self) -> int:
        """Threads of a row that sort."""
        return WARP if self.places <= FEW else self.team

    @property
    def last(self) -> str:
        """The key that is behind all."""
        return f"~({self.key})0"

    def each(self, body: str, indent: str = "  ", placed: bool = True) -> list[str]:
        """Lines that do something for each key `u` of a thread and, if it is `placed`, for its place `j`."""
        if self.held:
            place = [f"  const int j = lane + i * {self.team};"] if placed else []
            head = ["#pragma unroll", f"for (int i = 0; i < {self.held}; ++i) {{", *place, "  const auto u = h[i];"]
        else:
            load = f"  const auto u = {self.name}_key(row[(long long)j * inner]);"
            head = ["#pragma unroll 8", f"for (int j = lane; j < n; j += {self.team}) {{", load]
        return [line if line.startswith("#") else indent + line for line in (*head, f"  {body}", "}")]


def print_selection(kernel: Kernel, header: Sequence[str], headers: tuple[str, ...]) -> KernelSource:
    """The kernel `NAME(const T *in0, R *out0, long sizes..)`: the first k of each row's order, as values or as places."""
    x, out, axis = kernel.inputs[0].type, kernel.outputs[0].type, kernel.attrs["axis"]
    rest, inner = (*x.shape[:axis], *x.shape[axis + 1 :]), count(x.shape[axis + 1 :])
    sizes = tuple(dict.fromkeys(d.name for d in rest if isinstance(d, Sym)))
    n, bits = int(x.shape[axis]), 8 * x.dtype.bytes  # type: ignore[arg-type]
    r = Rows(entry_name(kernel.name), n, kernel.attrs["k"], bits, *team_of(n, max(1, bits // 32)))
    threads, raw = r.team * r.beside, RAW[bits]
    indices = kernel.attrs["part"] == "indices"
    result = "long long" if indices else raw
    args = [f"const {STORED[x.dtype.name]} *__restrict__ in0", f"{STORED[out.dtype.name]} *__restrict__ out0"]
    text = [
        comment(header),
        f"struct __align__({r.pair}) {r.name}_pair {{ {r.key} key; int at; }};",
        f"AC_DEVICE {r.key} {r.name}_key({raw} x) {{",
        *key_of(x.dtype, r.key, kernel.attrs["largest"]),
        "}",
        *together(r),
        f'extern "C" __global__ void __launch_bounds__({threads}, {MOST // threads}) '
        f"{r.name}({', '.join([*args, *(f'long {s}' for s in sizes)])}) {{",
        "  extern __shared__ __align__(1024) unsigned char smem[];",
        f"  const long long rows = {count(rest)}, inner = {inner};",
        f"  const int n = {n}, k = {r.k}, lane = threadIdx.x % {r.team};",
        f"  const long long r = (long long)blockIdx.x * {r.beside} + threadIdx.x / {r.team};",
        "  if (r >= rows) return;",
        f"  const {raw} *row = reinterpret_cast<const {raw} *>(in0) + r / inner * n * inner + r % inner;",
        f"  {r.name}_pair *p = reinterpret_cast<{r.name}_pair *>(smem) + threadIdx.x / {r.team} * {r.places};",
        f"  int *part = reinterpret_cast<int *>(smem + {r.beside * r.places * r.pair});",
        *_held(r),
        *_chosen(r),
        *_sorted(r),
        f"  {result} *to = reinterpret_cast<{result} *>(out0) + r / inner * k * inner + r % inner;",
        f"  for (int s = lane; s < k; s += {r.sorters}) "
        f"to[(long long)s * inner] = {'p[s].at' if indices else 'row[(long long)p[s].at * inner]'};",
        "}",
        "",
    ]
    shared = r.beside * r.places * r.pair + (8 * r.team // WARP if r.team > WARP else 0)
    launch = Launch((_blocks(rest, r.beside),), threads, shared)
    return KernelSource(kernel.name, "\n".join(text), r.name, ("in0",), ("out0",), sizes, headers, "cu", launch=launch)


def _blocks(rest: Sequence[Dim], beside: int) -> tuple[tuple[Dim, int], ...]:
    """Factors of a grid with at least a block for so many rows beside each other."""
    factors: list[Dim] = [prod(d for d in rest if isinstance(d, int)), *(d for d in rest if isinstance(d, Sym))]
    widest = max(range(len(factors)), key=lambda i: dim_hint(factors[i]))
    return tuple((d, beside if i == widest else 1) for i, d in enumerate(factors))


def _held(r: Rows) -> list[str]:
    """The keys of a thread; behind the row's end the last of all, which no bound is above."""
    if not r.held:
        return []
    return [
        f"  {r.key} h[{r.held}];",
        "#pragma unroll",
        f"  for (int i = 0; i < {r.held}; ++i) {{",
        f"    const int j = lane + i * {r.team};",
        f"    h[i] = j < n ? {r.name}_key(row[(long long)j * inner]) : {r.last};",
        "  }",
    ]


def _chosen(r: Rows) -> list[str]:
    """`many` pairs in p, k or more, the first k of the order among them; behind them pairs that are behind all, up to a power of two."""
    sum_ = lambda value: f"{r.name}_sum({value}, part, turn)"
    counted = ["int mine = 0;", *r.each(f"mine += {_CHOSEN};", "")]
    exact = [*_bits(r, ["int mine = 0;", *r.each("mine += u < c;", "", placed=False)], sum_("mine")), *_tied(r, sum_("mine"))]
    many = f"const int many = k, places = {r.places};"
    if r.k == r.n:
        lines = [f"const {r.key} bound = {r.last};", "const int first = n;", "int turn = 0;", *counted, many]
    elif not r.near:
        lines = [f"{r.key} bound = 0;", "int first = 0, below = 0, turn = 0;", *exact, *counted, many]
    else:
        lines = [
            f"{r.key} bound = 0, least = {r.last};",
            "int first = 0, below = 0, turn = 0;",
            *r.each("least = u < least ? u : least;", "", placed=False),
            *_bits(r, [], sum_("least < c")),
            "if (below < k) first = n;",
            *counted,
            f"int many = {sum_('mine')}, places = {1 << (r.k - 1).bit_length()};",
            f"if (many > {ROOM}) {{",
            "  bound = 0, first = 0, below = 0, many = k;",
            *_in(exact),
            "  mine = 0;",
            *r.each(f"mine += {_CHOSEN};"),
            "}",
            "while (places < many) places *= 2;",
        ]
    return _in([
        *lines,
        f"int slot = {r.name}_before(mine, part, turn);",
        *r.each(f"if ({_CHOSEN}) p[slot++] = {r.name}_pair{{u, j}};", ""),
        f"for (int s = many + lane; s < places; s += {r.team}) p[s] = {r.name}_pair{{{r.last}, 0x7fffffff}};",
        "ac_wave_sync();" if r.team == WARP else "__syncthreads();",
    ])  # fmt: skip


def _in(lines: Sequence[str]) -> list[str]:
    return [line if line.startswith("#") else f"  {line}" for line in lines]


def _bits(r: Rows, counted: Sequence[str], all_: str) -> list[str]:
    """`bound`: the largest number that no more than k keys are below, or the first found that just k are below; `below`: how many are."""
    return [
        f"for ({r.key} bit = ({r.key})1 << {r.bits - 1}; bit && below < k; bit >>= 1) {{",
        f"  const {r.key} c = bound | bit;",
        *_in(counted),
        f"  const int all = {all_};",
        "  if (all <= k) bound = c, below = all;",
        "}",
    ]


def _tied(r: Rows, all_: str) -> list[str]:
    """`first`: of the keys that equal `bound`, where more do than are wanted, those at places below it are as many as are wanted."""
    return [
        "const int less = below;",
        f"for (int bit = {1 << (r.n.bit_length() - 1)}; bit && below < k; bit >>= 1) {{",
        "  const int c = first | bit;",
        "  int mine = 0;",
        *r.each("mine += u == bound && j < c;"),
        f"  const int all = less + {all_};",
        "  if (all <= k) first = c, below = all;",
        "}",
    ]


def together(r: Rows) -> list[str]:
    """A number's sum over a team, and over the threads of it in front of one."""
    warps = r.team // WARP
    take = [
        f"  part += (turn++ & 1) * {warps};",
        f"  if (threadIdx.x % {WARP} == 0) part[threadIdx.x / {WARP}] = all;",
        "  __syncthreads();",
    ]
    among = [*take, f"  all = ac_wave_sum(threadIdx.x % {WARP} < {warps} ? part[threadIdx.x % {WARP}] : 0);"]
    total = [
        "// warps leave their parts in one of two places by turns, so that one barrier is enough",
        f"AC_DEVICE int {r.name}_sum(int x, int *part, int &turn) {{",
        "  int all = ac_wave_sum(x);",
        *(among if warps > 1 else ()),
        "  return all;",
        "}",
    ]
    return [
        *(total if r.k < r.n else ()),
        f"AC_DEVICE int {r.name}_before(int x, int *part, int &turn) {{",
        "  int all = x, before = 0;",
        f"  for (int m = 1; m < {WARP}; m *= 2) {{",
        "    const int other = ac_shuffle_xor(all, m);",
        "    before += threadIdx.x & m ? other : 0;",
        "    all += other;",
        "  }",
        *([*take, f"  for (int w = 0; w < threadIdx.x / {WARP}; ++w) before += part[w];"] if warps > 1 else ()),
        "  return before;",
        "}",
    ]


def _sorted(r: Rows) -> list[str]:
    """A bitonic network over a power of two of pairs; a few are one warp's."""
    return [
        *([f"  if (threadIdx.x >= {WARP}) return;"] if r.sorters < r.team else ()),
        "  for (int size = 2; size <= places; size *= 2)",
        "    for (int gap = size / 2; gap; gap /= 2) {",
        f"      for (int s = lane; s < places / 2; s += {r.sorters}) {{",
        "        const int a = 2 * s - (s & gap - 1), b = a + gap;",
        f"        const {r.name}_pair x = p[a], y = p[b];",
        "        if ((x.key > y.key || (x.key == y.key && x.at > y.at)) == !(a & size)) p[a] = y, p[b] = x;",
        "      }",
        f"      {'ac_wave_sync();' if r.sorters == WARP else '__syncthreads();'}",
        "    }",
    ]


def key_of(dtype: DType, key: str, largest: bool) -> list[str]:
    """Statements that return the key of an element's bits: NaN is the largest, and -0 equals 0."""
    bits, end = 8 * dtype.bytes, "ull" if dtype.bits == 64 else "u"
    top, every = f"{1 << (bits - 1):#x}{end}", f"{(1 << bits) - 1:#x}{end}"
    if dtype.is_float:
        order = [
            f"  const {key} size = x & {top} - 1;",
            f"  const {key} u = size > {_INFINITY[dtype.name]} ? {every} : size == 0 || !(x & {top}) ? size | {top} : ~({key})x & {every};",
        ]
    else:
        order = [f"  const {key} u = x{f' ^ {top}' if dtype.name.startswith('i') else ''};"]
    return [*order, f"  return {f'u ^ {every}' if largest else 'u'};"]
