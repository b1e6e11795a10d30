"""Every element once: isl's answers about loops over tiles, with an element that is visited twice or never where one is."""

from __future__ import annotations

from autocomp.ir.affine import aff
from autocomp.ir.types import Sym
from autocomp.loops.covering import Target, Visits, folds_once, outside, parts_once, stores_once


def visits(loops=("m", "k"), axes=("m",), folded=("k",), life=1, **tile):
    sizes = {"m": 16, "k": 8} | tile
    named = tuple(dict.fromkeys((*loops, *axes, *folded)))
    extents = tuple((a, {"m": 50, "k": 30, "n": 20}[a]) for a in named)
    return Visits(extents, tuple((a, sizes.get(a, 20)) for a in named), loops, axes, life, folded)


def test_tiles_with_tails_fold_every_element_once():
    assert folds_once(visits()) == ""


def test_a_loop_that_is_missing_leaves_elements_out():
    assert folds_once(visits(loops=("m",))) == "the element [tile of m at 0, m 0, k 8] is never folded"


def test_a_loop_too_many_folds_elements_again():
    why = "the element [tile of m at 0, m 0, k 0] is folded more than once, by iterations n 5 apart"
    assert folds_once(visits(loops=("m", "n", "k"), n=5)) == why


def test_a_result_that_begins_anew_in_every_turn_has_a_part():
    assert "is never folded" in folds_once(visits(life=2))


def test_a_result_of_one_tile_is_not_kept_through_a_loop_over_it():
    assert folds_once(visits(life=0)) == "the result is kept through a loop over m, of which it has one tile"


def test_symbols_have_all_their_values():
    n = Sym("n", 1, 100)
    open_ = Visits((("i", n), ("j", 7)), (("i", 8), ("j", 7)), ("i",), (), 0, ("i", "j"))
    assert folds_once(open_) == ""
    assert "(at n=9) is never folded" in folds_once(Visits((("i", n),), (("i", 8),), (), (), 0, ("i",)))


def store(shape, *index, loops=("m",), **tile):
    return visits(loops, ("m",), (), 0, **tile), Target(shape, index)


def test_stores_write_every_element_once():
    assert stores_once((store((50,), aff("m")),)) == ""
    assert stores_once((store((51,), aff("m")),)) == "the element [dimension 0 50] is never written"
    assert stores_once((store((50,), aff("m")), store((50,), aff("m")))) == "the element [dimension 0 0] is written by two statements"
    again = stores_once((store((50,), aff("m"), loops=("m", "n"), n=5),))
    assert again == "the element [dimension 0 0] is written more than once, by iterations n 5 apart"
    assert stores_once((store((25,), aff("m") // 2),)) == "the element [dimension 0 0] is written more than once, by iterations m 1 apart"


def test_parts_are_the_whole():
    assert parts_once(100, 4, 32) == ""
    assert parts_once(100, 3, 32) == "the element [element 96] is never in a part"


def test_a_guard_excludes_the_tail_or_not():
    extents = {"k": 30, "m": 50}
    assert outside((aff(29) - "k",), "k", extents, 30)
    assert not outside((aff(30) - "k",), "k", extents, 30)
    assert not outside((aff(49) - "m",), "k", extents, 30)
