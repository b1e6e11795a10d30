"""Schedules that the user gives: the kernel has them, right results, and refusals with what, where and the next step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import autocomp.targets
import numpy as np
import pytest
import yaml

from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.cost.scalar import SCALAR
from autocomp.errors import AutocompError, DoesNotFit, UnsupportedOp
from autocomp.ir.directives import complete
from autocomp.ir.schedule_text import parse
from autocomp.rewrite.laws import instruction_words
from tests.helpers.command_line import call
from tests.helpers.device_graphs import attention, gemm, graph

CHAIN = graph({"x": "f32[96, 64]", "w": "f32[64, 80]"}, "%0 = matmul(x, w)\n%1 = relu(%0)")


def test_the_kernel_has_the_schedule_and_is_right():
    chosen = autocomp.optimize(CHAIN)
    (k,) = chosen.kernels
    given = autocomp.optimize(CHAIN, schedule={k.name: "tile i0 8, i1 16 | vector i1 8"}, verify=True)
    assert given.kernels[0].schedule == "tile i0 8, i1 16 | vector i1 8" and k.schedule != given.kernels[0].schedule
    assert "given: the schedule" in given.explain(why=k.name)
    x, w = (np.random.default_rng(3).standard_normal(s).astype("f4") for s in ((96, 64), (64, 80)))
    np.testing.assert_allclose(given.run({"x": x, "w": w})["out"], np.maximum(x @ w, 0), rtol=1e-4, atol=1e-5)


def test_a_gpu_kernel_without_directives_has_none_of_their_code():
    (k,) = autocomp.optimize(gemm(512, 512, 512), target="cuda:h200").kernels
    text = "tile i0 128, i1 128, r0 64 | stages 3 | warp_specialise 2"
    plain = autocomp.optimize(gemm(512, 512, 512), target="cuda:h200", schedule={k.name: text})
    stored = autocomp.optimize(gemm(512, 512, 512), target="cuda:h200", schedule={k.name: f"{text} | tma_store"})
    assert "ac_bulk_store(" not in plain.source() and "ac_bulk_store(" in stored.source()


@pytest.mark.parametrize(("schedule", "kind", "said"), [
    ({"matmul_reluu": "stages 2"}, AutocompError, "there is no kernel 'matmul_reluu'"),
    ({"matmul_relu": "tile i7 4"}, AutocompError, "the kernel has no axis 'i7'"),
    ({"matmul_relu": "tile i0 8 | order i0, i0"}, AutocompError, "axis 'i0' stands twice in a clause"),
    ({"matmul_relu": "tile i0 128, i1 128 | warp_specialise 2"}, UnsupportedOp, "matmul_relu"),
    ({"matmul_relu": "tile i0 64, i1 64, r0 32 | instruction tf32"}, UnsupportedOp, "'instruction tf32' rounds factors of f32"),
    ({"matmul_relu": "tile i0 64, i1 64, r0 32 | instruction bogus"}, AutocompError, "no target has an instruction 'bogus'"),
    ({"matmul_relu": "tile i0 64, i1 64, r0 64 | stages 64 | threads 128"}, DoesNotFit, "shared"),
    ("tile i0 4", AutocompError, "schedule wants a text for each kernel"),
    ({"matmul_relu": 7}, AutocompError, "schedule wants a text for each kernel"),
])  # fmt: skip
def test_what_cannot_be_is_refused(schedule, kind, said):
    text = CHAIN.replace("f32", "f16").replace("64", "6400") if kind is DoesNotFit else CHAIN
    with pytest.raises(kind, match=said):
        autocomp.optimize(text, target="cuda:h200", schedule=schedule)


def test_stream_k_of_a_kernel_without_a_product_is_said_to_change_nothing():
    rows = "graph g\ninput x: f32[30, 70]\n%0 = reduce_sum(x, axes=[1])\noutput y = %0\n"
    program = autocomp.optimize(rows, target="cuda:h200", schedule={"reduce_sum": "tile i0 8 | stream_k"})
    assert "of what was given for reduce_sum, this changes nothing: stream_k" in program.explain()


@pytest.mark.parametrize("parts", [2, 5, 72])
def test_parts_of_a_sum_by_hand_are_right_on_a_cpu(parts):
    """The axis of the parts, `r0_part`, is not the variable of that name that a long sum counts its blocks with."""
    x, w = np.random.default_rng(0).standard_normal((2, 72, 72)).astype("f4")
    text = graph({"x": "f32[72, 72]", "w": "f32[72, 72]"}, "%0 = matmul(x, w)")
    for tile in ("", "tile i0 8 | "):
        y = autocomp.optimize(text, schedule={"matmul": f"{tile}split_k r0 {parts}"})(x, w)
        np.testing.assert_allclose(y, x.astype("f8") @ w, rtol=1e-4, atol=1e-4)


def test_an_instruction_that_no_target_has_is_refused_where_none_is_printed():
    text = graph({"x": "f32[64, 80]"}, "%0 = exp(x)")
    with pytest.raises(AutocompError, match="no target has an instruction 'bogus'"):
        autocomp.optimize(text, schedule={"exp": "tile i0 8 | instruction bogus"})


def test_the_words_of_instructions_are_those_of_the_tables():
    targets = Path(autocomp.targets.__file__).parent
    tables = [yaml.safe_load((targets / t / "instructions.yaml").read_text(encoding="utf-8")) for t in ("cuda", "maca")]
    rows = [r for t in tables for key in ("matrix", "warpgroup") for r in t.get(key, ())]
    assert set(instruction_words()) == {SCALAR, *(r["asked"] for r in rows if "asked" in r)}


def test_on_the_command_line(tmp_path):
    (tmp_path / "m.txt").write_text(CHAIN)
    name = autocomp.optimize(CHAIN).kernels[0].name
    code, out, _ = call("explain", str(tmp_path / "m.txt"), "--schedule", f"{name}=tile i0 8, i1 16 | vector i1 8", "--why", name)
    assert code == 0 and "schedule   tile i0 8, i1 16 | vector i1 8" in out


def test_what_changes_nothing_is_said():
    text = "tile i0 64, i1 64, r0 32 | stages 3 | threads 128 | skew 1 0, 0 1 | pdl | load_c | tma_store"
    program = autocomp.optimize(gemm(512, 512, 512), target="cuda:h200", schedule={"matmul": text})
    assert "of what was given for matmul, this changes nothing: skew, " in program.explain()
    program = autocomp.optimize(CHAIN, schedule={"matmul_relu": "tile i0 8 | warp_specialise 2"})
    assert "of what was given for matmul_relu, this changes nothing: warp_specialise" in program.explain()


def test_what_a_directive_saves_is_what_leaving_its_rule_out_costs():
    """All else equal: of one schedule, priced with the directive and without it."""
    program = autocomp.optimize(attention(8, 16, 2048, 64), target="cuda:h200")
    (k,), (c,) = program.kernels, program.calls.calls
    price, schedule = pricer(demand_of(c.kernel), program.target.chip, c.kernel), parse(k.schedule)
    events = {e.data["directive"]: e.data for e in program.trace.of("directive")}
    assert "mma_row_sums" in schedule.directives and events["mma_row_sums"]["saves"] > 0
    for name in schedule.directives:
        less = replace(schedule, directives=complete(set(schedule.directives) - {name}))
        assert events[name]["saves"] == pytest.approx(price(less).seconds - price(schedule).seconds, abs=1e-12)
    assert "mma_row_sums: directives/mma-row-sums, saves " in program.explain(why=k.name)
    without = autocomp.optimize(attention(8, 16, 2048, 64), target="cuda:h200", without=["directives/mma-row-sums"])
    assert without.predicted >= program.predicted


@pytest.mark.parametrize("target", ["cpu", "cuda:h200", "maca:c500", "ascend:910b1"])
def test_the_chosen_schedule_by_hand_has_its_price(target):
    """Also where the chosen one was priced by what is printed: `explain --schedule` compares the two."""
    for text in (CHAIN, graph({"x": "f32[4000, 777]"}, "%0 = tanh(x)")):
        chosen = autocomp.optimize(text, target=target)
        given = autocomp.optimize(text, target=target, schedule={k.name: k.schedule for k in chosen.kernels})
        assert given.predicted == pytest.approx(chosen.predicted, rel=1e-6)
        assert [k.bound for k in given.kernels] == [k.bound for k in chosen.kernels]
