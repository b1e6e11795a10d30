"""What a schedule may ask of a kernel's code beside its tile: one name for each scheme, given by rules of the phase `directives`.

A directive says that the target shall use a scheme where the kernel has its form. What is not in a schedule is not done; what took no
effect is dropped from the schedule that is chosen (`Target.admit` says which ones did). docs/glossary.md has the same terms beside
those of PTX, CUTLASS and FlashAttention.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Directive:
    """`what`: one line for people; `requires`: directives without which it is not done; `neutral`: why no price knows it, "" where one
    does; `families`: of drawn graphs (`autocomp.check.families`) with kernels that it changes, where its rules are checked first: on most
    kernels a pass finds nothing to do."""

    name: str
    what: str
    requires: tuple[str, ...] = ()
    neutral: str = ""
    families: tuple[str, ...] = ()


_TABLE = (
    Directive("pdl", "programmatic dependent launch: blocks start while the kernel before ends, and wait for what it writes",
              neutral="it shortens what lies between two kernels, and a price is one kernel's"),
    Directive("late_launch", "the next launch starts its blocks behind a kernel's loops, not beside them", ("pdl",),
              neutral="as pdl: it decides where the next kernel's blocks lie", families=("rows", "column_variance")),
    Directive("prefetch_constants", "copies of constants start before the kernel before has ended", ("pdl",),
              neutral="as pdl: its copies run beside the kernel before", families=("residual", "product")),
    Directive("tma_store", "results leave through shared memory by bulk tensor stores", families=("residual", "product")),
    Directive("interleave_epilogue", "maps of an epilogue and stores of its results alternate, box by box", ("tma_store",),
              families=("residual", "product")),
    Directive("third_epilogue_stage", "the last slot of the mainloop's ring is a third place for results to leave from",
              ("interleave_epilogue",), families=("residual", "product")),
    Directive("load_c", "an epilogue's operand as large as the tile arrives by bulk tensor loads", ("tma_store",),
              families=("residual", "product")),
    Directive("load_c_halves", "where it finds no room whole, it arrives in two halves", ("load_c", "interleave_epilogue"),
              neutral="its price is load_c's, of which it is the form for less room", families=("wide_residual",)),
    Directive("prefetch_epilogue", "operands of an epilogue are loaded into registers before the mainloop",
              families=("residual", "product")),
    Directive("prefetch_behind_reduction", "operands that a row's results need are loaded while its reductions meet",
              families=("scaled_rows",)),
    Directive("prefetch_factors", "what a product's factor is computed from is loaded while the product of the turn before runs",
              families=("computed_factor",)),
    Directive("mma_zero_init", "the first matrix instruction of a tile overwrites its accumulator: no zeros are written before",
              families=("residual", "product")),
    Directive("short_last_step", "the last step in depth multiplies no more than there is", families=("residual", "product")),
    Directive("skip_dead_steps", "steps in depth at which a factor is zero in all of a block's tile are not made",
              families=("transposed_convolution",)),
    Directive("unroll_ring", "a loop over a ring's slots is unrolled so that slots are constants", families=("heads", "attention")),
    Directive("warpgroup_order", "warpgroups start a step's products one behind the other", families=("heads", "attention")),
    Directive("mma_row_sums", "sums of a product's first factor are a column of the product", families=("heads", "attention")),
    Directive("exp2_scores", "scores are scaled to base 2 in their product's factor, and their base is left out while none is needed",
              ("mma_row_sums",), families=("heads", "attention")),
    Directive("fused_scale", "scores are scaled by the instruction that takes their maximum off (NPUs)", families=("heads", "attention")),
    Directive("half_scores", "scores leave the matrix unit in half precision, and weights are made in it (NPUs)",
              families=("heads", "attention")),
    Directive("handed_fractals", "factors that vector cores hand to the cube core lie in its fractals (NPUs)",
              families=("heads", "attention")),
    Directive("peel_tail", "whole tiles of a map move whole vectors, and only the tile that an end cuts moves its elements one by one; of "
              "rows that threads keep, only elements that the end may cut are compared with it", families=("line", "rows")),
    Directive("one_load", "a choice between elements of one tensor is one load from a chosen place", families=("joined",)),
    Directive("wide_gathers", "elements of a row whose number a tensor says are read in vectors, and the number is bounded once for them",
              families=("lookup",)),
    Directive("shared_divisors", "quotients by what several elements of a thread share are products with its reciprocal, corrected",
              families=("quantised_rows",)),
    Directive("common_values", "a quotient or another special function that stands twice, or is the same along an axis, is computed once",
              families=("column_variance", "attention")),
    Directive("skip_masked_sums", "sums are not made in tiles where a mask of indices takes none of them", families=("triangle",)),
    Directive("skip_neutral", "turns in which a sum takes in nothing are not run: each lane of a wave looks at one",
              families=("chosen_sums", "scattered")),
    Directive("window_strips", "neighbouring windows of a thread are read as one strip, each element once",
              families=("depthwise", "window")),
    Directive("stage_windows", "elements that several windows read are loaded and mapped once, into a buffer with borders",
              families=("depthwise", "window", "byte_convolution")),
    Directive("unroll_and_jam", "several rows of windows are summed side by side, so that no sum waits for its own last term",
              families=("depthwise", "window", "scan")),
    Directive("jam_columns", "several vectors of columns are folded side by side, so that rows are read on and sums do not wait",
              neutral="which lines of a row a cache still holds when the next columns are walked depends on how its ways are filled",
              families=("columns",)),
    Directive("expand_accumulators", "a long reduction folds into several partial results in turn, and no addition waits for the last one",
              neutral="prices take folds at the rate of additions, as if none waited for another", families=("long_rows", "rows")),
    Directive("unmask_interior", "windows that lie inside of their image are read without masks: edges are asked about once a vector",
              neutral="whether a condition on an index is asked at each element or once a vector is no operation that is counted",
              families=("depthwise",)),
    Directive("prefetch", "lines that a loop reads or writes next are asked for while it computes",
              neutral="prices take data to come as fast as a level gives it; how much of that a processor foresees by itself is no number",
              families=("low_rank", "winograd")),
    Directive("pack_constants", "constant factors lie packed before the first run: no run copies them into panels",
              families=("low_rank", "winograd", "byte_convolution")),
    Directive("read_in_place", "a factor whose rows lie as those of a panel do is read where it lies", families=("batched", "winograd")),
    Directive("strided_taps", "few taps of columns two apart are every other element of two vectors, not rows of a transpose; of bytes, "
              "taps side by side are one read",
              neutral="prices take one time for each element that is gathered into a panel, however that is done", families=("stem",)),
    Directive("lone_column", "the last column, where it has a vector to itself, is summed with the rows of a tile in its lanes",
              ("pack_constants",), families=("byte_convolution",)),
    Directive("short_pairs", "constant bytes of a product lie packed as pairs of 16 bits, the other factor in panels or rows of them",
              ("pack_constants",), families=("byte_convolution",)),
    Directive("byte_pairs", "one instruction sums pairs of products of bytes in 16 bits, where no pair of a constant's bytes saturates",
              ("pack_constants",), neutral="whether a constant's pairs fit 16 bits is known when it is packed, not when a kernel is chosen",
              families=("byte_convolution",)),
    Directive("index_set_split", "a loop over vectors runs apart over each range in which the conditions on its axis are decided",
              neutral="whether a condition on an index is asked at each vector or once a loop is no operation that is counted",
              families=("joined",)),
    Directive("exp_below_maximum", "exponentials of what lies below the maximum of its row are not tested for overflow",
              neutral="one instruction of some twenty of an exponential, less than a price of special functions is exact to",
              families=("rows", "attention")),
    Directive("byte_tables", "bytes that are long functions of one other byte are entries of a table of 256",
              neutral="a chain that a kernel holds is as long in each of its schedules, so its time chooses none",
              families=("functions_of_bytes",)),
    Directive("turned_store",
              "results leave in memory's order where threads or lanes lack neighbours of it: through shared memory, in registers on CPUs",
              families=("depthwise", "batched", "product")),
    Directive("joined_rows", "rows of results that lie one behind the other and are no whole blocks leave as one run, put together by a "
              "look-up (NPUs whose copies are of whole blocks)", families=("window", "short_rows")),
    Directive("cache_windows", "copies of factors whose windows overlap pass through a core's cache, where the next tap finds its elements",
              neutral="how much of a patch is still in a cache beside shared memory depends on what blocks of a core do at once",
              families=("tapped",)),
    Directive("min_blocks", "launch bounds name one block as the least of a core, so that the compiler asks for what a turn loads first",
              families=("depthwise",)),
    Directive("paired_fields", "fields of bytes become halves by the word: a pair's are 16 bits apart, whatever their order in depth",
              neutral="prices take halves that are made of bytes two at a time, wherever registers hold the bytes",
              families=("packed_weights",)),
    Directive("untied_accumulators", "sums leave by way of other registers, so that compilers may hold them in any bank",
              neutral="which registers a compiler gives to sums and to factors, and in which bank they lie, no count of a schedule knows",
              families=("product",)),
    Directive("thread_partials", "a reduction that a loop carries is kept by each thread or lane, and these meet once behind the loop",
              families=("heads", "long_rows", "rows")),
    Directive("skip_masks", "a mask is not evaluated in tiles that lie wholly inside of it", families=("causal_attention",)),
    Directive("batch_copies", "copies that stand side by side are all started before one of them is waited for",
              families=("turned", "short_rows")),
    Directive("evict_first", "a large tensor that is read once does not push others out of L2",
              neutral="on a GPU the kernels behind find more in L2, and a price is one kernel's", families=("few_rows", "streamed")),
)
DIRECTIVES = {d.name: d for d in _TABLE}


def required(name: str) -> set[str]:
    """The directives without which one is nothing."""
    direct = DIRECTIVES[name].requires
    return {*direct, *(x for d in direct for x in required(d))}


def complete(names: Iterable[str]) -> tuple[str, ...]:
    """The directives of `names` in the table's order, less those that require one which is not there."""
    kept: list[str] = []
    wanted = set(names)
    for d in _TABLE:  # what a directive requires stands before it
        if d.name in wanted and set(d.requires) <= set(kept):
            kept.append(d.name)
    return tuple(kept)
