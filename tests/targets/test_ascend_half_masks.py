"""Steps between scores in half precision and their maximum on Ascend: masks by indices, additions, keys that fill no fractals."""

from __future__ import annotations

from math import prod

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.cost.estimate import estimate
from autocomp.cost.roles import roles_of
from autocomp.ir.schedule import Schedule
from autocomp.simulate import ascend_timeline
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph, prepared
from tests.helpers.repeats import repeating, repeats

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
INDICES = "%r = iota(shape=[{m}, {k}], axis=0)\n%c = iota(shape=[{m}, {k}], axis=1)\n"
STEPS = {  # what is done to the scores %s, inputs beside them
    "causal": (INDICES + "%m = ge(%r, %c)\n%w = where(%m, %s, const(-inf, f16))\n", {}),
    "lowest": (INDICES + "%m = lt(%r, %c)\n%w = where(%m, const(-65504.0, f16), %s)\n", {}),
    "behind": (INDICES + "%d = add(%r, const(40, i64))\n%m = le(%c, %d)\n%w = where(%m, %s, const(-inf, f16))\n", {}),
    "window": (INDICES + "%d = sub(%r, const(21, i64))\n%n = gt(%c, %d)\n%g = ge(%r, %c)\n%m = and(%g, %n)\n"
                         "%w = where(%m, %s, const(-inf, f16))\n", {}),
    "bias": ("%w = add(%s, z)\n", {"z": "f16[{b}, {m}, {k}]"}),
    "one bias": ("%w = add(z, %s)\n", {"z": "f16[{m}, {k}]"}),
    "keys": ("%w = add(%s, z)\n", {"z": "f16[{k}]"}),
    "both": (INDICES + "%v = add(%s, z)\n%m = gt(%r, %c)\n%w = where(%m, %v, const(-65504.0, f16))\n", {"z": "f16[{k}]"}),
    "none": ("%w = relu(%s)\n", {}),
    "kept": ("%w = where(z, %s, const(-inf, f16))\n", {"z": "bool[{m}, {k}]"}),
    "dropped": ("%w = where(z, const(-65504.0, f16), %s)\n", {"z": "bool[{b}, {m}, {k}]"}),
    "kept keys": ("%w = where(z, %s, const(-inf, f16))\n", {"z": "bool[{k}]"}),
    "kept, biased": ("%v = add(%s, y)\n%w = where(z, %v, const(-inf, f16))\n", {"z": "bool[{b}, 1, {k}]", "y": "f16[{m}, {k}]"}),
    "not so low": (INDICES + "%m = ge(%r, %c)\n%w = where(%m, %s, const(-10000.0, f16))\n", {}),
    "single": ("%x = cast(%s, to=\"f32\")\n%y = add(%x, z)\n%w = cast(%y, to=\"f16\")\n", {"z": "f32[{k}]"}),
    "": ("", {}),
}  # fmt: skip
CASES = {  # step, (heads, rows, keys, head), tile of rows and of keys, stages, chip
    "causal": ("causal", (2, 150, 192, 64), 64, 128, 3, "910b1"),  # keys of two remainders, tiles of one round
    "causal, four remainders": ("causal", (1, 160, 320, 128), 128, 256, 3, "910b4"),
    "lowest": ("lowest", (2, 75, 130, 32), 32, 64, 2, "910b3"),
    "keys behind": ("behind", (1, 40, 150, 64), 32, 64, 3, "910b"),
    "window": ("window", (2, 96, 96, 40), 32, 32, 2, "910b2"),
    "tail": ("", (3, 33, 333, 96), 32, 128, 3, "910b1"),
    "bias": ("bias", (2, 75, 141, 64), 64, 64, 2, "910b"),
    "one bias": ("one bias", (2, 40, 160, 64), 32, 128, 2, "910b1"),
    "keys": ("keys", (2, 33, 77, 64), 32, 32, 3, "910c"),
    "one round of some": ("", (3, 70, 100, 64), 32, 64, 4, "910b1"),  # fewer rounds a tile than products are late
    "both": ("both", (2, 70, 70, 64), 32, 32, 2, "910b"),
    "kept": ("kept", (2, 75, 141, 64), 128, 64, 3, "910b1"),  # a core has more rows than become halves at once
    "dropped": ("dropped", (2, 40, 96, 32), 32, 32, 2, "910b2"),
    "kept keys": ("kept keys", (2, 33, 141, 64), 32, 64, 3, "910b4"),
    "kept, biased": ("kept, biased", (2, 33, 80, 40), 32, 32, 2, "910b"),
}


def attention(step: str, heads: int, rows: int, keys: int, head: int) -> str:
    sizes = {"b": heads, "m": rows, "k": keys}
    lines, more = STEPS[step]
    inputs = {"q": f"f16[{heads}, {rows}, {head}]"} | {n: f"f16[{heads}, {keys}, {head}]" for n in "kv"}
    return graph(inputs | {n: t.format(**sizes) for n, t in more.items()},
                 f"%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%s = mul(%1, const(0.125, f16))\n{lines.format(**sizes)}"
                 f"%3 = softmax({'%w' if lines else '%s'}, axes=[2])\n%4 = matmul(%3, v)")  # fmt: skip


def under(case: str, directives: tuple[str, ...] = ("half_scores",)):
    """(program, text) under the case's schedule, to be run."""
    step, shape, rows, keys, stages, chip = CASES[case]
    program = prepared(attention(step, *shape), f"ascend:{chip}")
    kernel = program.calls.calls[0].kernel
    r = roles_of(kernel)
    tile = {**{a.name: 1 for a in r.batch}, r.rows[-1].name: rows, r.depth[0].name: keys}
    s = Schedule.make(tile, softmax_overlap=1, stages=stages, persistent=True, directives=directives)
    program.printed[kernel.name] = program.target.emit(kernel, s)
    return program, program.printed[kernel.name].text


@needs_compiler
@pytest.mark.parametrize("case", repeating(CASES, {
    "causal, four remainders": "causal", "one bias": "bias", "both": "causal, and keys", "kept": "dropped", "kept keys": "kept, biased",
}))  # fmt: skip
def test_steps_are_right(case, tmp_path):
    program, text = under(case)
    step, keys = CASES[case][0], CASES[case][1][2]
    assert text.count("ac_scores_exp(") == 1 and ("ac_scores_tail(" in text) == (keys % 16 != 0)
    assert ("ac_scores_add(" in text) == (step in ("bias", "one bias", "keys", "both", "kept, biased"))
    assert ("ac_scores_keep(" in text) == (step in ("kept", "dropped", "kept keys", "kept, biased"))
    assert ("ac_scores_from(" in text) == (step == "window")
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize(("case", "was", "by"), [
    ("causal", "% fold) - first;", "% fold) - first + 1;"), ("causal", "if (from) Duplicate(x[c", "if (0) Duplicate(x[c"),
    repeats("causal", "i / fold + 1", "i / fold", of="the first of the causal ones"), ("window", "if (none) {", "if (0) {"),
    repeats("window", "(i + fold - 1) / fold", "i / fold + 1", of="the first of the causal ones"),
    ("window", "if (to < slots) Duplicate", "if (0) Duplicate"), ("tail", "0xFFFFull << n % 16", "0xFFFFull << n % 16 + 1"),
    ("bias", "t[r * pitch], 128, blocks, {1, 1, uint8_t(pitch / 16)", "t[r * pitch], 128, blocks, {1, 1, 0"),
    ("keys", "next, next, 1}", "next, next, 0}"), ("kept", "half(-0.5f)", "half(-1.5f)"), ("kept", "t[(q - r) * pitch]", "t[q * pitch]"),
    ("dropped", "Maxs(t, t, none, n);", "Maxs(t, t, half(-1.0f), n);"),
    ("kept", "z[r * pitch]", "z[0]"),
])  # fmt: skip
def test_a_wrong_step_is_seen(case, was, by, tmp_path):
    program, _ = under(case)
    found = []

    def edit(header: str) -> str:
        found.append(was in header)
        return header.replace(was, by)

    program.executor = AscendExecutor(program, tmp_path, edit_header=edit, blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)
    assert any(found)


@needs_compiler
@pytest.mark.parametrize(("case", "wrong"), [("causal", ""), ("keys behind", ""), ("window", ""), ("window", "below ? i + 1 : i"),
                                             ("causal", "if (from) ac_lanes_fill("), ("window", "if (to < rows) ac_lanes_fill("),
                                             ("causal", "int32_t(c) - first;"), ("causal", "(rows - whole) * 8")])  # fmt: skip
def test_masks_in_single_precision(case, wrong, tmp_path):
    """Without half_scores: tiles are masked where an edge cuts them, and no indices are made for it."""
    program, _ = under(case, ("thread_partials",))
    (text,) = (s.text for s in program.printed.values())
    assert "ac_lanes_until(" in text and ("ac_lanes_from(" in text) == (case == "window")
    assert not any(x in text for x in ("ac_steps(", "Select(", "Compare"))
    wrongly = {"below ? i + 1 : i": "i + 1", "int32_t(c) - first;": "int32_t(c) - first + 1;", "(rows - whole) * 8": "(rows - whole) * 7"}
    edit = (lambda h: h.replace(wrong, wrongly.get(wrong, wrong.replace("if (", "if (0 && ")))) if wrong else None
    program.executor = AscendExecutor(program, tmp_path, edit_header=edit, blocks=1)
    if not wrong:
        program.verify(seed=fresh.seed())
        return
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)


@pytest.mark.parametrize(("step", "halves"), [("keys", True), ("window", True), ("none", False), ("not so low", False), ("single", False)])
def test_what_cannot_be_done_in_halves_is_done_in_single_precision(step, halves):
    """Other functions, numbers that scores may be less than, sums that the model makes in single precision."""
    (kernel,) = autocomp.optimize(attention(step, 8, 160, 160, 64), target="ascend:910b1").kernels
    assert ("half_scores" in kernel.schedule) == halves


@pytest.mark.parametrize(("step", "rule"), [("kept", "half-choices"), ("", "half-scores"), ("causal", "half-scores")])
def test_choices_by_truth_values_have_a_rule_of_their_own(step, rule):
    """It gives halves for what truth values choose, the other one for the rest, and each is switched off by its name."""
    text, rules = attention(step, 8, 160, 160, 64), ("half-scores", "half-choices")
    given = {off: "half_scores" in autocomp.optimize(text, target="ascend:910b1", without=[f"directives/{off}"]).kernels[0].schedule
             for off in rules}  # fmt: skip
    assert given == {off: off != rule for off in rules}


@needs_compiler
@pytest.mark.parametrize("step", ["causal", repeats("keys", of="causal"), ""])
def test_prices_are_near_the_model(step, tmp_path):
    """Tiles of 128 x 256 of one head on one group of cores, priced as one head for each group, without the launch."""
    shape = (384, 384 if step == "causal" else 517, 64)
    program = autocomp.optimize(attention(step, 1, *shape), target="ascend:910b1")
    many = autocomp.optimize(attention(step, 24, *shape), target="ascend:910b1")
    kernel, priced = program.calls.calls[0].kernel, many.calls.calls[0].kernel

    def at(k):
        r = roles_of(k)
        return Schedule.make({**{a.name: 1 for a in r.batch}, r.rows[-1].name: 128, r.depth[0].name: 256}, softmax_overlap=1, stages=3,
                             persistent=True, directives=("half_scores",))  # fmt: skip

    chip = load_target("ascend:910b1").chip
    program.printed[kernel.name] = program.target.emit(kernel, at(kernel))
    program.executor = executor = AscendExecutor(program, tmp_path, blocks=1)
    program.verify(seed=fresh.seed())
    moved = [float(sum(prod(a.type.shape) * a.type.dtype.bytes for a in x)) for x in (priced.inputs, priced.outputs)]
    seen = ascend_timeline.timeline("x", executor.events(), chip, chip.cores, "f16", (moved[0], moved[1]))
    assert abs((estimate(priced, at(priced), chip).seconds - chip.launch) / seen.seconds - 1) < 0.2


def test_rows_of_keys_are_copied_one_by_one_where_truth_values_choose():
    """Their columns are in the order of the keys, so four rows are no longer one, and the price has that."""
    copies = {}
    for step in ("kept", ""):
        program = autocomp.optimize(attention(step, 24, 128, 1024, 128), target="ascend:910b1")
        kernel = program.calls.calls[0].kernel
        s = Schedule.make({"i0": 1, "i1": 64, "i2": 128, "r1": 256}, softmax_overlap=1, stages=3, directives=("half_scores",))
        copies[step] = dict(estimate(kernel, s, program.target.chip).parts)["copies to L1"]
    assert copies["kept"] > 1.2 * copies[""]
