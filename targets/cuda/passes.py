"""Schemes of a kernel with roles, in their order: each is a pass over its steps, in the file of its name."""

from __future__ import annotations

from collections.abc import Callable

from autocomp.targets.cuda.cluster_split_k import cluster_split_k
from autocomp.targets.cuda.exp2_scores import exp2_scores
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.interleave_epilogue import interleave_epilogue
from autocomp.targets.cuda.load_c import load_c
from autocomp.targets.cuda.load_c_halves import load_c_halves
from autocomp.targets.cuda.mma_row_sums import mma_row_sums
from autocomp.targets.cuda.mma_zero_init import mma_zero_init
from autocomp.targets.cuda.multicast import multicast
from autocomp.targets.cuda.pdl import pdl
from autocomp.targets.cuda.ping_pong import ping_pong
from autocomp.targets.cuda.prefetch_constants import prefetch_constants
from autocomp.targets.cuda.prefetch_epilogue import prefetch_epilogue
from autocomp.targets.cuda.short_last_step import short_last_step
from autocomp.targets.cuda.skip_dead_steps import skip_dead_steps
from autocomp.targets.cuda.softmax_overlap import softmax_overlap
from autocomp.targets.cuda.stream_k import stream_k
from autocomp.targets.cuda.third_epilogue_stage import third_epilogue_stage
from autocomp.targets.cuda.tma_store import tma_store
from autocomp.targets.cuda.unroll_ring import unroll_ring
from autocomp.targets.cuda.warp_specialise import warp_specialise
from autocomp.targets.cuda.warpgroup_order import warpgroup_order
from autocomp.targets.simt.skip_masks import skip_masks
from autocomp.targets.simt.thread_partials import thread_partials

from autocomp.tile.steps import Steps

Pass = Callable[[Steps, Facts], Steps]
PASSES: tuple[Pass, ...] = (
    ping_pong,
    stream_k,
    cluster_split_k,
    thread_partials,
    softmax_overlap,
    unroll_ring,
    warpgroup_order,
    mma_row_sums,
    exp2_scores,
    load_c,
    load_c_halves,
    warp_specialise,
    multicast,
    pdl,
    prefetch_constants,
    tma_store,
    interleave_epilogue,
    third_epilogue_stage,
    prefetch_epilogue,
    mma_zero_init,
    short_last_step,
    skip_dead_steps,
    skip_masks,
)
