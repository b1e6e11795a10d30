"""Each transformation accepted where it keeps every dependence and refused, with two iterations, where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocomp.errors import IllegalTransform
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis
from autocomp.ir.schedule import Schedule
from autocomp.loops import legality
from autocomp.loops.legality import check, require
from autocomp.loops.nest import Access, LoopNest, Rows, Statement
from autocomp.loops.schedules import fused, legal, legal_transform
from autocomp.loops.transforms import (
    Fuse,
    Interchange,
    Parallel,
    Pipeline,
    Reverse,
    Skew,
    SplitReduction,
    Tile,
    Transform,
    Unimodular,
    UnrollAndJam,
    Vectorize,
)
from tests.helpers.nests import carried, matmul, scan, softmax, stencil

MATMUL = fused(matmul())


ACCEPTED = [
    (MATMUL, [Interchange("n", "k")]),
    (MATMUL, [Tile(("m", "n", "k"), (32, 32, 8))]),
    (MATMUL, [Tile(("m", "n", "k"), (96, 40, 7))]),
    (MATMUL, [Tile(("m", "n", "k"), (None, None, None))]),
    (MATMUL, [Reverse("m")]),
    (MATMUL, [Parallel("m"), Parallel("n")]),
    (MATMUL, [Vectorize("n", 8)]),
    (MATMUL, [UnrollAndJam("m", 4)]),
    (MATMUL, [Pipeline("k", 3, 3)]),
    (MATMUL, [Pipeline("k", 3, 2, load_first=False)]),
    (MATMUL, [Unimodular(("m", "n"), ((0, 1), (1, 0)))]),
    (LoopNest.of(matmul()), [Fuse(("m", "n"))]),
    (LoopNest.of(softmax()), [Fuse(("m",)), Parallel("m")]),
    (carried(1, -1), [Skew("j", "i", 1), Interchange("i", "j")]),
    (carried(0, 4), [Vectorize("j", 4)]),
    (carried(1, 1), [Tile(("i", "j"), (5, 3))]),
    (carried(1, 0), [Reverse("j")]),
    (carried(1, -1), [UnrollAndJam("j", 2)]),
]


@pytest.mark.parametrize(("nest", "steps"), ACCEPTED, ids=lambda x: " ".join(map(str, x)) if isinstance(x, list) else "")
def test_accepted(nest: LoopNest, steps: list[Transform]) -> None:
    answer = check(nest, steps, reassociate=False)
    assert answer.ok, str(answer)
    assert not answer.reassociates


REFUSED = [
    (carried(1, -1), [Interchange("i", "j")],
     "S[i=0, j=1] must run before S[i=1, j=0]: write then read of A[0, 1]; it would run after it"),
    (carried(1, -1), [Tile(("i", "j"), (4, 4))], "S[i=0, j=4] must run before S[i=1, j=3]"),
    (carried(1, 0), [Reverse("i")], "S[i=0, j=0] must run before S[i=1, j=0]"),
    (carried(1, 1), [Skew("j", "i", -2), Interchange("i", "j")], "S[i=0, j=0] must run before S[i=1, j=1]"),
    (carried(1, 0), [Parallel("i")], "the iterations of i are to run at once"),
    (carried(0, 4), [Vectorize("j", 8)], "both would be lanes of j_lane"),
    (carried(1, -1), [UnrollAndJam("i", 2)], "S[i=0, j=1] must run before S[i=1, j=0]"),
    (carried(1, -1), [Unimodular(("i", "j"), ((0, 1), (1, 0)))], "S[i=0, j=1] must run before S[i=1, j=0]"),
    (MATMUL, [Pipeline("k", 3, 2)], "U0[m=0, n=0, k=0] must run before L_U0[m=0, n=0, k=2]: read then write of buf_U0[0, 0, 0]"),
    (MATMUL, [SplitReduction("k", 4)], "U0[m=0, n=0, k=0] must run before U0[m=0, n=0, k=8]"),
    (MATMUL, [Reverse("k")], "U0[m=0, n=0, k=0] must run before U0[m=0, n=0, k=1]: write then read of r0[0, 0]"),
]


@pytest.mark.parametrize(("nest", "steps", "text"), REFUSED, ids=lambda x: " ".join(map(str, x)) if isinstance(x, list) else "")
def test_refused_showing_two_iterations(nest: LoopNest, steps: list[Transform], text: str) -> None:
    answer = check(nest, steps, reassociate=False)
    assert not answer.ok
    assert text in str(answer.witness)
    with pytest.raises(IllegalTransform, match="must run before"):
        require(nest, steps, reassociate=False, where="rules/tiling.yaml:3 rule 'x'")


def test_fusion_of_a_maximum_with_what_needs_it_is_refused() -> None:
    """The sum of exponentials reads the finished maximum: no fusion inside the column loop without the online rewrite."""
    nest = LoopNest.of(softmax())
    rows = tuple(replace(r, beta=(-1, *r.beta[1:])) if s.role == "init" else r
                 for s, r in zip(nest.statements, nest.rows, strict=True))
    answer = check(nest.with_rows(rows), Fuse(("m", "j"), ("U0", "U1")))
    assert not answer
    assert "U0[m=0, j=" in str(answer.witness)
    assert "must run before U1[m=0, j=0]: write then read of r0[0]" in str(answer.witness)


def test_regrouping_a_reduction_needs_leave() -> None:
    for step in (Reverse("k"), SplitReduction("k", 4), Vectorize("k", 8)):
        assert check(MATMUL, step).reassociates
        assert not check(MATMUL, step, reassociate=False)


def test_a_parallel_reduction_loop_is_refused_even_with_leave() -> None:
    """Regrouping gives each part a cell only through SplitReduction; plainly parallel updates of one cell race."""
    assert not check(MATMUL, Parallel("k"))
    assert check(MATMUL, SplitReduction("k", 4))


def test_an_epilogue_half_way_through_a_reversed_reduction_is_refused() -> None:
    """Relaxed order is memory based: every update, not only the last, precedes the cell's readers."""
    nest = MATMUL
    rows = list(nest.rows)
    update, store = nest.statements.index(nest.statement("U0")), nest.statements.index(nest.statement("S0"))
    reverse = Reverse("k").apply(nest).rows[update]
    rows[update] = reverse
    rows[store] = type(reverse)((*reverse.beta[:-1], 1), (*nest.rows[store].loops, type(reverse.loops[0])("k", aff(-31))))
    assert not check(nest.with_rows(tuple(rows)), [])


def test_two_dependent_statements_at_one_instant_are_refused() -> None:
    """Nothing says which of them is first."""
    i, cell = Axis("i", 8), Access("t", (aff("i"),))
    nest = LoopNest.make((Statement("A", "store", (i,), writes=(cell,)), Statement("B", "store", (i,), reads=(cell,))))
    together = nest.with_rows((Rows((0, 0), nest.rows[0].loops),) * 2)
    answer = check(together, [])
    assert not answer
    assert "nothing would keep them in order" in str(answer.witness)


def test_a_cell_that_is_written_anew_after_a_reduction_waits_for_all_of_its_updates() -> None:
    """The order among updates may go, theirs with a later plain write may not."""
    i, cell = Axis("i", 8), Access("t", ())
    update = Statement("U", "update", (i,), (Access("x", (aff("i"),)), cell), (cell,), cell, reassociable=True)
    nest = LoopNest.make((update, Statement("W", "store", (), writes=(cell,))))
    assert check(nest, Reverse("i")).reassociates
    first = nest.with_rows((Rows((1, 0), nest.rows[0].loops), Rows((0,), ())))
    assert not check(first, [])


def test_structural_refusals_say_what_is_missing() -> None:
    assert "no statement has the loops q" in check(MATMUL, Reverse("q")).why
    assert "determinant 2" in check(MATMUL, Unimodular(("m", "n"), ((2, 0), (0, 1)))).why
    assert "no reduced axis" in check(MATMUL, SplitReduction("m", 2)).why
    assert "fewer than two nests" in check(MATMUL, Fuse(("q",))).why


def test_all_matmuls_are_one_class() -> None:
    assert LoopNest.of(matmul(64, 48, 32)).nest_class() == LoopNest.of(matmul(4096, 4096, 777)).nest_class()


def test_legal_of_rules() -> None:
    k = matmul(4096, 4096, 4096)
    assert legal_transform(k, "tile", ("m", "n", "k"))
    assert legal_transform(k, "vectorize", ("n",), 16)
    assert not legal_transform(k, "parallel", ("k",))
    assert not legal_transform(stencil(100, 9), "tile", ("t", "i0"))
    assert "no loop transformation" in legal_transform(k, "shuffle", ("m",)).why


def test_legal_of_whole_schedules() -> None:
    k = matmul(4096, 4096, 4096)
    good = Schedule.make({"m": 64, "n": 64, "k": 32}, vector=("n", 16), parallel=("m", "n"))
    assert legal(k, good, exact=True)
    assert not legal(k, Schedule.make({"m": 64, "k": 32}, parallel=("k",)))
    assert legal(k, Schedule.make({"m": 64, "n": 64}, split=("k", 4))).reassociates
    assert not legal(k, Schedule.make({"m": 64, "n": 64}, split=("k", 4)), exact=True)
    assert "is no axis" in legal(k, Schedule.make({"z": 4})).why
    assert legal(softmax(), Schedule.make({"m": 4, "j": 8}, parallel=("m",), vector=("n", 8)), exact=True)


def test_a_thousand_candidates_cost_a_few_questions() -> None:
    from time import process_time
    k = matmul(4096, 4096, 4096)
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 96]
    legal(k, Schedule.make({"m": 8, "n": 8, "k": 8}))
    t = process_time()
    assert all(legal(k, Schedule.make({"m": a, "n": b, "k": c})) for a in sizes for b in sizes for c in sizes)
    assert process_time() - t < 0.5


def test_scan_is_serial_in_time_and_free_across() -> None:
    k = scan(64, 8)
    assert not legal_transform(k, "parallel", ("t",))
    assert legal_transform(k, "parallel", ("b",))
    assert legal_transform(k, "vectorize", ("b",), 8)
    assert legal_transform(k, "interchange", ("t", "b"))
    assert not legal_transform(k, "reverse", ("t",))


@pytest.mark.parametrize("size", [0, -3])
def test_a_tile_has_elements(size):
    with pytest.raises(IllegalTransform, match=f"a tile of {size} elements"):
        Tile(("m", "n"), (8, size)).apply(MATMUL)


def test_two_iterations_are_looked_for_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find them takes longer than to say no, and of most schedules that are refused nobody reads them."""
    asked, found = list[LoopNest](), legality._witness
    monkeypatch.setattr(legality, "_witness", lambda nest, *of: asked.append(nest) or found(nest, *of))
    legality.verdict.cache_clear()
    answer = check(carried(1, -1), [Interchange("i", "j")])
    assert not answer and not asked
    assert "must run before" in str(answer) and str(answer.witness) in str(answer)
    assert len(asked) == 1
