"""Options of `optimize`, with the names people know and the stated defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """max_fusion_depth: kernel-to-kernel merges of contractions and reductions in one body (not single ops).
    fusion_threshold_gb: an intermediate above this many GB is not recomputed in its consumers.
    inline_threshold: a value of at most this many elements may be inlined into any number of consumers.
    min_speedup: measured schedules are used where they make the whole program at least this many times faster than the untuned ones;
    below it the program keeps its baseline, the untuned schedules.
    bw_util, occupancy, spill_ratio: limits beyond which `autocomp tune` points at a kernel.
    search_configurations, search_keep: schedules that a search measures at most for a kernel, and how many of the best it keeps.
    tuned: use measured schedules where the tuning database has them; tuning_database: its file, "" for the one in the cache folder.
    cache: take the compiled program from the cache folder if it is there, and keep it there if it is not.
    """

    fuse_conv_relu: bool = True
    fuse_bn_add: bool = True
    max_fusion_depth: int = 4
    max_body_ops: int = 64
    fusion_threshold_gb: float = 0.1
    inline_threshold: int = 1024
    tile_heuristic: str = "model-driven"
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
    exact: bool = False
    threads: int = 0
    without: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    cache: bool = True
    tuned: bool = True
    tuning_database: str = ""
    phase_iterations: int = 40
    phase_nodes: int = 200_000
    phase_seconds: float = 10.0
