"""What each phase's rules may say: ops of patterns, functions of conditions with what they mean, and words.

Graph phases speak of the op table; `fusion` of bodies (checked for each cut); `tiling`, `scheduling` and `directives` of one kernel.
What a function computes lives with the stage that evaluates it (`functions.py` for the graph phases, `egraph/rows.py` for fusion,
`egraph/choose.py` for the kernel phases).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache

from autocomp.ir.directives import DIRECTIVES
from autocomp.ir.ops import OPS
from autocomp.ir.types import DTYPES
from autocomp.options import Options

GRAPH_PHASES = ("shapes", "algebra", "layout", "precision", "idioms", "monoids")
BODY_PHASES = ("fusion",)
KERNEL_PHASES = ("tiling", "scheduling", "directives")
PHASES = GRAPH_PHASES + BODY_PHASES + KERNEL_PHASES
ANY = 4096  # as many operands as concat takes


def arity_rule(op: str) -> str:
    """The name under which an associative op of too many operands is split (`egraph/arity.py`); "" for other ops."""
    return f"arity/{op}" if op in OPS and OPS[op].associative else ""


@dataclass(frozen=True)
class Function:
    """How many arguments a function of conditions takes, and what it says. `words`: what its first argument may be, where it is a word."""

    least: int
    most: int
    means: str
    words: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Vocabulary:
    """arity: op -> least and most operands; attrs: op -> its attributes; means: op -> one line; functions, words: of conditions."""

    arity: Mapping[str, tuple[int, int]]
    attrs: Mapping[str, frozenset[str]]
    functions: Mapping[str, Function]
    words: frozenset[str]
    means: Mapping[str, str] = field(default_factory=dict)


OPTION_NAMES = frozenset(f.name for f in fields(Options))
LISTS = {
    "len": Function(1, 1, "elements of a list"),
    "product": Function(1, 1, "product of a list of sizes"),
    "min": Function(1, ANY, "the least of its arguments"),
    "max": Function(1, ANY, "the greatest of its arguments"),
    "abs": Function(1, 1, "a number without its sign"),
    "option": Function(1, 1, "the value of an option of optimize()"),
}
TENSORS = {
    "rank": Function(1, 1, "axes of a tensor"),
    "shape": Function(1, 1, "its extents, as a list"),
    "dim": Function(2, 2, "dim(?x, i): extent of axis i"),
    "dtype": Function(1, 1, "its type of elements, such as f32"),
    "elements": Function(1, 1, "how many elements it has"),
    "bytes": Function(1, 1, "of a tensor, or of one element of a dtype"),
    "is_constant": Function(1, 1, "a parameter, or computed from parameters alone"),
    "is_uniform": Function(1, 1, "all elements are one known number"),
    "value": Function(1, 1, "that number"),
    "decides": Function(1, 1, "a rounding, a comparison or an integer is computed from it, so that its last bit may decide"),
    "invertible": Function(2, 2, "invertible(d, ?x): the graph says that in dtype d no reciprocal of its elements but of 0 overflows"),
    "near_zero": Function(2, 2, "near_zero(d, ?x): the graph does not say so"),
    "is_float": Function(1, 1, "its elements are of a floating point type"),
    "is_int": Function(1, 1, "its elements are of an integer type"),
    "beside_others": Function(2, 2, "beside_others(?x, i): elements along axis i are no neighbours in memory, or all there are: i is not "
                                    "the last axis, or the others are known to have one element"),
    "is_static": Function(1, 1, "no extent is a named dimension"),
    "compose": Function(2, 2, "compose(q, p): the permutation of transpose(transpose(x, perm=p), perm=q)"),
    "inverse": Function(1, 1, "the inverse of a permutation"),
    "permuted": Function(2, 2, "permuted(xs, p): a list in the order p"),
    "mapped": Function(2, 2, "mapped(axes, p): where a permutation p puts axes, sorted"),
    "padded": Function(2, 2, "padded(shape, rank): ones in front up to a rank"),
    "range": Function(1, 2, "the list 0 .. n-1, or a .. b-1"),
    "repeat": Function(2, 2, "repeat(v, n): a list of n times v"),
    "sorted": Function(1, 1, "a list in ascending order"),
    "replaced": Function(3, 3, "replaced(xs, i, v): a list with v at place i"),
    "zeros": Function(1, 1, "a list with a zero for each axis of a tensor"),
    "ones": Function(1, 1, "a list with a one for each axis of a tensor"),
    "on_axis": Function(3, 3, "on_axis(?x, i, v): a list with v for axis i of a tensor (-1: the last) and zeros for the others"),
    "along": Function(3, 3, "along(?x, i, n): a shape with n along axis i of a tensor (-1: the last) and ones for the others"),
    "with_axis": Function(3, 3, "with_axis(?x, i, v): a tensor's shape with v at axis i (-1: the last)"),
    "inserted": Function(3, 3, "inserted(xs, i, v): a list with v in front of place i"),
    "without": Function(2, 2, "without(xs, axes): a list less the places in axes"),
    "kept": Function(2, 2, "kept(xs, axes): a list with ones at the places in axes"),
    "contains": Function(2, 2, "contains(xs, v): v is in a list"),
    "last_over": Function(2, 2, "the place of the last element of a list that is above a number"),
    "suffix": Function(2, 2, "suffix(xs, n): the last n of a list"),
    "normal": Function(2, 2, "normal(axes, rank): axes counted from 0, sorted"),
    "sum": Function(1, 1, "sum of a list of sizes"),
    "broadcast": Function(2, 2, "the shape to which two shapes broadcast"),
    "batched": Function(2, 2, "the same of all but their last two axes"),
    "winograd_inputs": Function(3, 3, "winograd_inputs(m, r, points): Winograd's F(m, r), its table of inputs, m + r - 1 rows of as many"),
    "winograd_taps": Function(3, 3, "winograd_taps(m, r, points): that of weights, r rows of m + r - 1"),
    "winograd_results": Function(3, 3, "winograd_results(m, r, points): that of results, m rows of m + r - 1"),
    "close": Function(2, 3, "close(a, b, d): two numbers agree as dtype d rounds them; close(a, b): to 4 digits (small ones to 3)"),
    "sqrt": Function(1, 1, "square root of a number"),
    "int": Function(1, 1, "a number as a whole one"),
    "power_of_two": Function(1, 1, "a number is one, so that dividing by it is exact"),
    "negative_zero": Function(1, 1, "a number is -0.0, which a sum with it changes nothing of"),
    "holds": Function(2, 2, "holds(d, v): dtype d holds the number v as it is"),
    "normal_number": Function(2, 2, "normal_number(d, v): in dtype d the number v neither overflows nor loses digits near zero"),
    "widens": Function(2, 2, "widens(a, b): dtype b holds every value of dtype a"),
    "offset": Function(2, 2, "offset(?w, axis): where this one's part begins among its siblings"),
    "feature": Function(1, 1, 'feature("word"): the chip has that word among its features'),
    "channels_last": Function(1, 1, "the permutation NCHW -> NHWC of a rank"),
    "channels_first": Function(1, 1, "its inverse"),
    "keeps_order": Function(2, 2, "keeps_order(shape, p): the permutation moves axes of extent 1 only"),
    "rotated": Function(1, 1, "the permutation of a rank that puts the last axis first"),
    "dim_at": Function(2, 2, "dim_at(xs, i): element i of a list"),
    "missing": Function(2, 2, "missing(n, grain): from n to the next multiple of grain"),
    "ceil_div": Function(2, 2, "ceil_div(n, d): a size over a number, rounded up; the size may be open"),
    "round_up": Function(2, 2, "round_up(n, grain): the next multiple of grain; n may be open"),
    "largest": Function(1, 1, "the most that a size may be"),
    "gcd": Function(2, 2, "the greatest common divisor of two whole numbers"),
}
ATTRIBUTE_WORDS = frozenset({"nchw", "nhwc", "nhwc_ohwi"})  # values that attributes of the op table's entries have
BODY = {
    "kind": Function(1, 1, "kind(?k): elementwise, statistic, normalised, contraction, chain or online"),
    "ops": Function(1, 1, "operations in the body, views not counted"),
    "users": Function(1, 1, "how many read its result"),
    "elements": Function(1, 1, "elements of its result"),
    "bytes": Function(1, 1, "bytes of its result"),
    "gigabytes": Function(1, 1, "the same in 10^9 bytes"),
    "reads": Function(1, 1, "bytes of the tensors that it reads"),
    "dtype": Function(1, 1, "its result's type of elements"),
    "rank": Function(1, 1, "axes of its result"),
    "shape": Function(1, 1, "its result's extents"),
    "dim": Function(2, 2, "dim(?k, i): extent of axis i of its result"),
    "level": Function(1, 1, "reductions and contractions that stand behind each other in it"),
    "windowed": Function(1, 1, "it reads windows that overlap, as convolutions and poolings do"),
}
BESIDE = {"shared": Function(2, 2, "shared(?j, ?k), of kernels beside each other: bytes of the tensors that both read")}
BODY_WORDS = frozenset({"elementwise", "statistic", "normalised", "contraction", "chain", "online", "alone", "opaque"})
CONSUMERS = {
    "map": "an element-wise op: map(?f, .., ?rest...)",
    "reduce": "a reduction: reduce(?m, .., ?rest...)",
    "contract": "a contraction of two factors: contract(?a, ?b)",
    "online": "an online contraction of scores and values: online(?s, ?v)",
    "view": "a transpose, reshape, slice, ..: view(..)",
}
ROLE = {"m": "rows", "n": "cols", "k": "depth", "b": "batch", "t": "taps", "i": "rows", "j": "cols", "c": "still", "y": "high",
        "x": "wide"}  # fmt: skip
FIELDS = (  # whole numbers of a schedule
    "threads", "stages", "grouped", "workers", "cluster", "cluster_split_k", "resident", "softmax_overlap",
    "rescale_threshold", "persistent", "ping_pong", "stream_k", "scan", "split",
)  # fmt: skip
COUNTED = frozenset((*ROLE, "threads", "stages", "workers", "cluster", "cluster_split_k", "resident"))  # 1 or more, the others 0 or more
WORDS = ("roles", "instruction")  # and words
FORMS = {  # of a kernel: what a tiling rule matches, with the roles of its axes, and one line
    "contract": ("mnkbt", "a contraction: rows m, columns n, depth k, batch b, taps t of a window"),
    "chain": ("mnkbt", "contractions behind each other"),
    "online": ("mnkbt", "attention's form: scores that never leave the chip"),
    "reduce": ("ijkbcyx", "reductions: outer axes i (x, y: those along which windows slide, c: the others; b: few points that share the "
                          "largest operand), the row j that is kept, the row k that is folded"),
    "scan": ("ijk", "running reductions: outer axes i, the row j that is kept and folded (k) up to each of its elements"),
    "map": ("ij", "element-wise: outer axes i, the innermost one j"),
}  # fmt: skip
MOVES = {  # of recurrences: op -> fields
    "recurrence": ("time", "space"),
    "skew": ("time", "space", "factor"),
    "interchange": ("time", "space"),
    "reverse": ("space",),
}
MEMORIES = frozenset({"L1", "L2", "L3", "l1", "l2", "l3", "shared", "registers", "l0a", "l0b", "l0c", "ub"})  # of some chip
KERNEL = {
    "legal": Function(1, 3, "isl allows it: legal(tile), legal(split), legal(tile, time, space)"),
    "fits": Function(1, 2, "fits(tile): a block, or a vector core, may hold the tile; fits(L2, bytes): a memory of the chip holds them, or "
                           "half of a cache, or the registers of a core", MEMORIES | {"tile"}),
    "kind": Function(0, 0, "the kernel's form: contract, chain, online, reduce, scan or map"),
    "extent": Function(1, 1, "extent(m): the product of a role's extents"),
    "bytes": Function(1, 1, "of one element of a dtype"),
    "factor": Function(0, 0, "dtype of a contraction's factors"),
    "scores": Function(0, 0, "dtype that a model rounds the product to which an online contraction's scores are; then it may mask them by "
                             "indices, or add what is of this type"),
    "choices": Function(0, 0, "how many tensors of truth values choose among such scores"),
    "factor_bytes": Function(0, 0, "bytes of one of their elements"),
    "input_bytes": Function(0, 0, "the fewest bytes of one element of an input"),
    "makes_bytes": Function(0, 0, "integers of one byte are computed, stored or on the way"),
    "taps": Function(0, 0, "the products of the window's innermost 1, 2, .. axes"),
    "windows": Function(0, 0, "the same of a reduction whose windows slide"),
    "folds": Function(0, 0, "the products of a reduction's innermost 0, 1, .. axes, less than all"),
    "open_rows": Function(0, 0, "a folded axis is a named dimension"),
    "masks_sums": Function(0, 0, "a mask of indices takes none of its sums in some tiles"),
    "chooses_turns": Function(0, 0, "a sum takes in what a condition on a row's number chooses, for all its columns"),
    "folds_alike": Function(0, 0, "results along the innermost axis share their reductions"),
    "cores": Function(0, 0, "cores of the chip"),
    "lanes": Function(0, 0, "elements that the chip's unit takes side by side"),
    "wave": Function(0, 0, "threads of a wave (GPUs)"),
    "feature": Function(1, 1, 'feature("word"): the chip has that word among its features'),
    "power_of_two": Function(1, 1, "a number is one"),
}
KERNEL_WORDS = frozenset({"tile", "split", "time", "space", *ROLE, *FORMS, "recurrence", *MEMORIES})


def _times(low: int, high: int) -> str:
    return f"{low} or more" if high >= ANY else str(low) if low == high else f"{low} to {high}"


def spoken(phase: str) -> list[dict[str, str]]:
    """Rows for `autocomp rules words`: kind (op, function, word), name, and what each takes and means."""
    v = vocabulary(phase)
    ops = [{"kind": "op", "name": n, "operands": _times(*v.arity[n]), "attributes": ", ".join(sorted(v.attrs[n])), "means": v.means[n]}
           for n in sorted(v.arity)]  # fmt: skip
    functions = [{"kind": "function", "name": n, "arguments": _times(f.least, f.most), "means": f.means} for n, f in v.functions.items()]
    return [*ops, *functions, *({"kind": "word", "name": w} for w in sorted(v.words - OPTION_NAMES))]


@cache
def vocabulary(phase: str) -> Vocabulary:
    """The vocabulary of a phase. Raises KeyError for a phase that is none of PHASES."""
    words = OPTION_NAMES | frozenset(DTYPES)
    if phase in GRAPH_PHASES:
        arity = {n: o.arity for n, o in OPS.items()} | {"const": (0, 0)}
        attrs = {n: frozenset(o.attrs) for n, o in OPS.items()} | {"const": frozenset({"value", "dtype"})}
        means = {n: o.doc for n, o in OPS.items()} | {"const": "a number"}
        return Vocabulary(arity, attrs, {**LISTS, **TENSORS}, words | ATTRIBUTE_WORDS, means)
    if phase in BODY_PHASES:
        means = {**CONSUMERS, "load": "load(store(?k)): what the producer stored", "store": "see load",
                 "beside": "beside(store(?j), store(?k)): kernels over one domain of which neither needs the other"}  # fmt: skip
        functions = {**LISTS, **BODY, **BESIDE}
        return Vocabulary({n: (1, ANY) for n in means}, dict.fromkeys(means, frozenset()), functions, words | BODY_WORDS, means)
    if phase == "directives":
        means = {"tile": "a schedule: its fields"} | {d.name: d.what for d in DIRECTIVES.values()}
        attrs = dict.fromkeys(means, frozenset[str]()) | {"tile": frozenset({*FIELDS, *WORDS})}
        functions = {n: f for n, f in {**LISTS, **KERNEL}.items() if n != "input_bytes"}  # which is about tiles
        return Vocabulary(dict.fromkeys(means, (0, 0)), attrs, functions, words | KERNEL_WORDS, means)
    if phase in KERNEL_PHASES:
        attrs = {form: frozenset(roles) for form, (roles, _) in FORMS.items()} | {move: frozenset(f) for move, f in MOVES.items()}
        attrs["tile"] = frozenset({*ROLE, *FIELDS, *WORDS, "time", "space"})
        means = {form: text for form, (_, text) in FORMS.items()} | {"tile": "a schedule: sizes of tiles by role, and its other fields"}
        means |= {"recurrence": "a value carried through time", "skew": "(t, i) -> (t, i + factor*t)",
                  "interchange": "the loops change places", "reverse": "a loop runs the other way"}  # fmt: skip
        return Vocabulary(dict.fromkeys(attrs, (0, 0)), attrs, {**LISTS, **KERNEL}, words | KERNEL_WORDS, means)
    raise KeyError(phase)
