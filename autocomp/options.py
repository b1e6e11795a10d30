"""Options of `optimize`, with the names people know and the stated defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from autocomp.errors import AutocompError

TILE_HEURISTICS = ("model-driven", "first")
AT_LEAST_ONE = ("register_tile_factor", "unroll_factor", "max_body_ops", "phase_iterations", "phase_nodes", "max_schedules")

NOT_NEGATIVE = ("threads", "phase_growth", "deadline", "measure")


def _typed(name: str, value: Any, default: Any) -> Any:
    """The value in the type of the option's default: a list, or one alone, for several; a whole number for a real one."""
    if name == "schedule":
        return _by_kernel(value)
    if isinstance(default, tuple):
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if default is None and value is None:
        return None
    wanted = float if default is None or isinstance(default, float) else type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
        raise AutocompError(f"{name} wants {wanted.__name__}, got {value!r}", where="options")
    return value


def _by_kernel(value: Any) -> tuple[tuple[str, str], ...]:
    """{kernel: text} as pairs in the order of names."""
    pairs = tuple(value.items() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ((value,),))
    if not all(isinstance(p, (tuple, list)) and len(p) == 2 and all(isinstance(x, str) for x in p) for p in pairs):
        raise AutocompError(f"schedule wants a text for each kernel, got {str(value)[:60]!r}", where="options",
                            hint='such as schedule={"matmul": "tile i0 16, i1 64"}')  # fmt: skip
    return tuple(sorted((str(k), str(text)) for k, text in pairs))


@dataclass(frozen=True)
class Options:
    """What a user may set; rules read any of them as `option(name)`, and `requires: [name]` ties a rule to one that is on or off.

    fuse_conv_relu: the maps behind a convolution (bias, relu, residual) are computed where it stores (fusion/convolution-epilogue).
    fuse_bn_add: a batch norm's scale and shift are folded into the filters and the bias (algebra/scale-*).
    max_fusion_depth: kernel-to-kernel merges of contractions and reductions in one body (not single ops).
    max_body_ops: operations in one body, views not counted.
    fusion_threshold_gb: an intermediate above this many GB is not recomputed in its consumers.
    inline_threshold: a value of at most this many elements may be inlined into any number of consumers.
    size_spread: schedules for open sizes are priced at the middle of these (in logarithms), and at sizes that this share of their range
    lies below and above it, by the geometric mean; 0 for the middle alone. Not on GPUs, which count what is printed.
    tile_heuristic: how a schedule is chosen: model-driven (the roofline prices every legal one) or first (the first legal one by text).
    register_tile_factor: rows of a register tile of a contraction at most (CPU). unroll_factor: partial results of a vector
    reduction at most (CPU).
    parallel_outer: tiles run on all threads (CPU). vectorize_inner: innermost loops run in vectors (CPU).
    min_speedup: measured schedules are used where they make the whole program at least this many times faster than the untuned ones;
    below it the program keeps its baseline, the untuned schedules.
    bw_util, occupancy, spill_ratio: limits beyond which `autocomp tune` points at a kernel.
    search_configurations, search_keep: schedules that a search measures at most for a kernel, and how many of the best it keeps.
    measure: the so many best schedules of each kernel by price are raced on the device before one is chosen (docs/tuning.md); 0 for none.
    tuned: use measured schedules where the tuning database has them; tuning_database: its file, "" for the one in the cache folder.
    threads: of a CPU program's calls, for which its schedules are chosen; 0 for what OMP_NUM_THREADS says, else all cores.
    donate: inputs, or globs of inputs, that give their memory to an output computed from them: the program writes there what changes, and
    what the caller passed is overwritten (a cache of keys and values). Refused where the old value is read after the write.
    exact: leave out rules that regroup floating point operations.
    schedule: schedules by kernel, in the place of those that are chosen: {"matmul_gelu": "tile i0 128, i1 128, r0 64 | stages 4"}
    (docs/schedules.md).
    without: names or globs of rules to leave out. rules: files of the user's own, or rules made with `autocomp.rule`.
    allow_tf32: products of f32 may round their factors to tf32 (10 bits of mantissa) on matrix units.
    maca_path: folder of the MACA SDK, in the place of $MACA_PATH; BuildError where it lacks the compiler or the runtime's header.
    cache: take the compiled program from the cache folder if it is there, and keep it there if it is not.
    phase_iterations, phase_growth, phase_nodes: the budget of each phase of the graph's e-graph: rounds, new terms for each term that it
    has, and terms at most.
    max_schedules: schedules of one kernel that rules may make.
    deadline: seconds after which a compilation goes on with what it has, by the clock; 0 for no end, None for 60 and as much again for
    each 1000 operations, once the model is read. Counts end the rules long before; what the deadline cut is said by the trace and kept in
    no cache.
    """

    fuse_conv_relu: bool = True
    fuse_bn_add: bool = True
    max_fusion_depth: int = 4
    max_body_ops: int = 64
    fusion_threshold_gb: float = 0.1
    inline_threshold: int = 1024
    tile_heuristic: str = "model-driven"
    size_spread: float = 0.3
    register_tile_factor: int = 16
    spill_ratio: float = 0.05
    unroll_factor: int = 8
    parallel_outer: bool = True
    vectorize_inner: bool = True
    min_speedup: float = 1.2
    bw_util: float = 0.7
    occupancy: float = 0.5
    search_configurations: int = 1000
    search_keep: int = 3
    donate: tuple[str, ...] = ()
    exact: bool = False
    allow_tf32: bool = False
    threads: int = 0
    schedule: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    maca_path: str = ""
    cache: bool = True
    measure: int = 0
    tuned: bool = True
    tuning_database: str = ""
    phase_iterations: int = 40
    phase_growth: int = 16
    phase_nodes: int = 200_000
    max_schedules: int = 20_000
    deadline: float | None = None

    def __post_init__(self) -> None:
        """Raises AutocompError on a value of another type than the default's, or one that no stage understands."""
        for f in fields(self):
            object.__setattr__(self, f.name, _typed(f.name, getattr(self, f.name), f.default))
        if self.tile_heuristic not in TILE_HEURISTICS:
            raise AutocompError(f"tile_heuristic is '{self.tile_heuristic}'", where="options",
                                hint=f"one of: {', '.join(TILE_HEURISTICS)}")  # fmt: skip
        for name in AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise AutocompError(f"{name} is {getattr(self, name)}, at least 1 is needed", where="options")
        if not 0 <= self.size_spread <= 0.5:
            raise AutocompError(f"size_spread is {self.size_spread}, from 0 to 0.5 is understood", where="options")
        for name in NOT_NEGATIVE:
            if getattr(self, name) is not None and not getattr(self, name) >= 0:
                raise AutocompError(f"{name} is {getattr(self, name)}, no less than 0 is understood", where="options")
