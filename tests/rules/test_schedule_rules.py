"""Rules about schedules are checked on drawn kernels: shipped ones hold, one without its guard is refused with the kernel that shows it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from autocomp.targets import load_target
from autocomp.targets.cuda import mma_row_sums
from typer.testing import CliRunner

from autocomp.check import rules
from autocomp.check.dependent import dependent
from autocomp.check.families import FORMS, USES
from autocomp.check.kernels import drawn, read, with_form
from autocomp.check.rules import asks, check_kernel_rule, check_on_graph
from autocomp.check.schedules import check_schedule
from autocomp.cli import app
from autocomp.cost.roles import roles_of
from autocomp.cost.work import Cost
from autocomp.egraph.choose import Candidate, _admitted
from autocomp.egraph.kernel_egraph import UNTILED
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.loops.recurrences import recurrence_of
from autocomp.loops.schedules import legal
from autocomp.options import Options
from autocomp.report.mutation import mutate_rules
from autocomp.rewrite import load_rules, parse_rules
from autocomp.tile.plan import Line
from tests.helpers.hosts import cpu_chip
from tests.helpers.nests import matmul, softmax, stencil
from tests.helpers.repeats import repeating

RULES = load_rules()
FEW = 2  # kernels; `autocomp rules check` takes 20


def status(text: str):
    (rule,) = parse_rules(text, "mine.yaml")
    return check_kernel_rule(rule, RULES, FEW)


@pytest.mark.parametrize("name", repeating([
    "tiling/contract", "tiling/online", "tiling/rows", "tiling/windows", "tiling/elements", "tiling/chain", "tiling/chain-columns",
    "tiling/npu-products", "tiling/npu-small", "tiling/gpu-online-few-rows", "tiling/gpu-columns", "tiling/gpu-warp-specialise",
    "scheduling/gpu-split-kv", "scheduling/gpu-split-depth", "directives/load-c", "directives/mma-row-sums", "skewing/skew",
    "skewing/interchange", "skewing/time-tile", "directives/stage-words",
], {"tiling/gpu-online-few-rows": "tiling/online for GPUs; tests/ablation prints its schedule",
    "scheduling/gpu-split-kv": "scheduling/gpu-split-depth; without its condition it is refused below",
    "tiling/npu-small": "tiling/npu-products; both are changed below", "tiling/elements": "tiling/rows"}))  # fmt: skip
def test_a_shipped_rule_holds(name: str):
    found = check_kernel_rule(RULES[name], RULES, 1)
    assert found.status.startswith("checked-"), found.detail
    assert found.instances >= 1
    assert found.tests >= found.instances


WARPS = """
- name: mine/warps
  phase: tiling
  match: "contract(m: ?M, n: ?N, k: ?K, b: ?B)"
  choose: {bm: [128, 256], bn: [192, 256], s: [2, 6], w: [2, 3]}
  where: [feature("warpgroups"), factor_bytes() == 2, ?bm * ?bn <= 16384 * ?w, legal(tile), fits(shared, 128 * ?s * (?bm + ?bn))]
  rhs: "tile(m: ?bm, n: ?bn, k: 64, b: 1, stages: ?s, workers: ?w, roles: 'warp_specialise')"
  targets: [cuda]
  why: a test
"""


def test_a_rule_without_fits_is_refused_with_its_kernel():
    assert status(WARPS).status.startswith("checked-")
    found = status(WARPS.replace(", fits(shared, 128 * ?s * (?bm + ?bn))", ""))
    assert found.status == "refuted"
    assert "capacity: 1 blocks of 6 slots hold at least " in found.detail
    assert " bytes of shared, which has 232448" in found.detail
    assert "%0 = matmul(a, b)" in found.detail  # the graph
    assert "| stages 6" in found.detail  # the schedule
    assert "\n" not in found.detail


@pytest.mark.parametrize(("name", "make"), repeating(
    [("tiling/contract", "zen5"), ("tiling/contract", "skylake"), ("tiling/online", "zen5"), ("tiling/online", "skylake")],
    {("tiling/contract", "zen5"): "the other make", ("tiling/online", "skylake"): "the other make"}))  # fmt: skip
def test_tiles_of_cores_hold_whatever_their_caches_are(name: str, make: str, monkeypatch: pytest.MonkeyPatch):
    """What a step keeps has to fit into 256 KB as into 2 MB."""
    monkeypatch.setattr(rules, "_machine", lambda target: replace(machine(target), chip=cpu_chip(make)))
    monkeypatch.setattr(rules, "_KNOWN", {})
    found = check_kernel_rule(RULES[name], RULES, 1)
    assert found.status.startswith("checked-"), found.detail


def test_a_rule_without_legal_is_refused_with_its_kernel():
    """Columns of an attention's result in tiles: the scores would be made anew for each of them."""
    columns = """
- name: mine/columns
  phase: tiling
  match: "online(m: ?M, n: ?N, k: ?K, b: ?B)"
  choose: {bn: [16], bk: [16]}
  where: [legal(tile)]
  rhs: "tile(m: 16, n: ?bn, k: ?bk, b: 1)"
  targets: [cpu]
  why: a test
"""
    assert status(columns).status != "refuted"
    found = status(columns.replace("legal(tile)", "?M > 0"))
    assert found.status == "refuted"
    assert "- order: I" in found.detail
    assert "must run before" in found.detail


@pytest.mark.parametrize(("name", "forgotten", "longest"), [
    ("tiling/contract", "fits(", 16384), ("tiling/rows", "legal(", 128), ("tiling/gpu-columns", "legal(", 512),
])  # fmt: skip
def test_a_fault_is_shown_in_a_small_graph_that_shows_it_again(name: str, forgotten: str, longest: int):
    rule = replace(RULES[name], where=tuple(c for c in RULES[name].where if not str(c).startswith(forgotten)))
    found = check_kernel_rule(rule, RULES, FEW, small=True)
    assert found.status == "refuted"
    _, graph, _, spec = shlex.split(found.again)
    assert max(int(n) for _, t in read(graph)[0] for n in re.findall(r"\d+", t.partition("[")[2])) <= longest
    again = check_on_graph(rule, RULES, read(graph), load_target(spec, rules.OPTIONS))
    assert (again.status, again.detail) == ("refuted", found.detail)
    right = check_on_graph(RULES[name], RULES, read(graph), load_target(spec, rules.OPTIONS))
    assert right.status != "refuted"


def test_what_is_no_graph_is_said():
    with pytest.raises(ModelError, match="is no graph in one line"):
        read("matmul of two")


def test_how_far_a_check_is_is_said():
    heard: list[str] = []
    check_kernel_rule(replace(RULES["tiling/npu-small"], name="mine/small"), RULES, 1, say=heard.append)
    assert heard[-1] == "mine/small: 1 of 1 kernels on ascend"


def forgetful(name: str):
    """A shipped rule without its conditions `legal`."""
    kept = tuple(c for c in RULES[name].where if not str(c).startswith("legal("))
    assert len(kept) < len(RULES[name].where)
    return replace(RULES[name], name=f"{name}~", where=kept)


@pytest.mark.parametrize("name", [
    "tiling/contract", "tiling/rows", "tiling/online", "tiling/chain-columns", "tiling/npu-columns",
    "tiling/gpu-implicit-gemm", "skewing/time-tile",
])  # fmt: skip
def test_a_shipped_rule_without_legal_is_refused(name: str):
    """The choice would refuse its schedules; the check shows the kernel before."""
    rule = forgetful(name)
    assert not asks(rule)
    assert asks(RULES[name])
    found = check_kernel_rule(rule, [r for r in RULES if r.name != name], FEW)
    assert found.status == "refuted"
    assert "output y = " in found.detail  # the graph
    assert "it makes 'tile " in found.detail
    assert "must run before" in found.detail


@pytest.mark.parametrize(("name", "what"), [
    ("tiling/contract", "bytes of l2"), ("tiling/npu-small", "bytes of ub"), ("tiling/npu-products-deep", "bytes of l1"),
    ("tiling/gpu-skinny", "bytes of shared"), ("tiling/gpu-direct", "bytes of shared"),
])  # fmt: skip
def test_a_shipped_rule_without_fits_is_refused(name: str, what: str):
    """The check shows a kernel whose largest schedule needs more than the chip has, by figures that are not the rule's own."""
    kept = tuple(c for c in RULES[name].where if not str(c).startswith("fits("))
    assert len(kept) < len(RULES[name].where)
    rule = replace(RULES[name], name=f"{name}~", where=kept)
    found = check_kernel_rule(rule, [r for r in RULES if r.name != name], FEW)
    assert found.status == "refuted"
    assert "output y = " in found.detail  # the graph
    assert " - capacity: " in found.detail and what in found.detail


@pytest.mark.parametrize(("name", "condition", "make"), [
    ("tiling/npu-rows", "fits(tile)", "zen5"), ("tiling/contract", "?bk >= ?K or fits(L2", "zen5"),
    ("tiling/online", "fits(L2, factor_bytes()", "skylake"),
])  # fmt: skip
def test_what_stays_on_chip_is_counted_too(name: str, condition: str, make: str, monkeypatch: pytest.MonkeyPatch):
    """Rows of f32 of which each element is kept, sums between two steps, keys and values."""
    on = lambda target: replace(target, chip=cpu_chip(make)) if target.name == "cpu" else target
    monkeypatch.setattr(rules, "_machine", lambda target: on(machine(target)))
    kept = tuple(c for c in RULES[name].where if condition not in str(c))
    assert len(kept) == len(RULES[name].where) - 1
    found = check_kernel_rule(replace(RULES[name], name=f"{name}~~", where=kept), [r for r in RULES if r.name != name], FEW)
    assert found.status == "refuted" and " - capacity: " in found.detail, found


@pytest.mark.parametrize(("name", "spec", "graph", "what"), [
    ("tiling/npu-long-rows", "ascend", "input a: f32[20011, 64]; %0 = reduce_sum(a, axes=[0], keepdims=1); output y = %0", "tiles in ub"),
    ("tiling/npu-rows", "ascend", "input a: f32[20011, 64]; %0 = reduce_sum(a, axes=[0], keepdims=1); output y = %0", "tiles in ub"),
    ("tiling/gpu-window-strips", "cuda", "input x: f32[1, 21, 8, 40]; input w: f32[40, 1, 5, 5]; %t = transpose(x, perm=[0, 3, 1, 2]); "
     "%0 = conv(%t, w, lo=[2, 2], hi=[2, 2], strides=[1, 1], dilations=[1, 1], groups=40); output y = %0", "registers of a thread"),
])  # fmt: skip
def test_what_fits_tile_leaves_out_is_too_large(name: str, spec: str, graph: str, what: str):
    """Columns whose rows have a block for each element; windows whose neighbours lie in other threads."""
    kept = tuple(c for c in RULES[name].where if str(c) != "fits(tile)")
    assert len(kept) == len(RULES[name].where) - 1
    others = [r for r in RULES if r.name != name]
    found = check_on_graph(replace(RULES[name], where=kept), others, read(graph), rules._machine(spec))
    assert found.status == "refuted" and f"capacity: {what}" in found.detail, found
    assert check_on_graph(RULES[name], others, read(graph), rules._machine(spec)).status != "refuted"


def test_parts_of_what_is_known_only_when_it_runs_are_refused():
    found = check_kernel_rule(forgetful("scheduling/gpu-split-kv"), [r for r in RULES if r.name != "scheduling/gpu-split-kv"], FEW)
    assert found.status == "refuted"
    assert found.detail.endswith("order: it has no reduction that can be done in parts")


def test_sums_that_stay_as_they_are_written_have_an_order_too():
    """Tiles of the depth alone are right where sums may be regrouped; an exact rule has to ask."""
    depth = """
- name: mine/depth
  phase: tiling
  match: "contract(m: ?M, n: ?N, k: ?K, b: ?B)"
  choose: {bk: [16]}
  rhs: "tile(k: ?bk)"
  targets: [cpu]
  why: a test
"""
    found = status(depth)
    assert found.status == "refuted"
    assert "- order, where sums stay as they are written: " in found.detail
    assert "order" not in status(depth + "  exact: false\n").detail


def test_each_form_but_the_element_wise_has_kernels_in_which_order_matters():
    forms = {roles_of(d).form for k in drawn(machine("cpu"), 1) for d in dependent(k) if recurrence_of(k) is None}
    assert forms >= {"contract", "chain", "online", "reduce"}
    assert "map" not in forms
    scan = next(k for k in drawn(machine("cpu"), 1) if recurrence_of(k) is None and roles_of(k).scan is not None)
    assert any(roles_of(d).scan is not None for d in dependent(scan))


def test_a_kernel_has_the_same_parts_whatever_was_asked_before():
    """A reduction that needs another one's result has no parts; an equal kernel that was asked about first changes nothing."""
    for _ in range(2):
        assert roles_of(softmax(16, 32)).split == ""


def test_a_rule_of_recurrences_without_legal_is_refused():
    """Without a skew, tiles of time would read what is not computed yet."""
    found = check_schedule(stencil(1000, 50), Schedule.make({"t": 8, "i0": 64}), machine("cpu"))
    assert found.fault.startswith("order: ")
    assert "must run before" in found.fault


def test_an_interchange_that_is_forgotten_is_refused_with_its_kernel(monkeypatch: pytest.MonkeyPatch):
    """Threads would share time out among them: the schedule without its change of order, of the kernel that the rule makes one of."""
    right = rules.recurrence_schedules
    less = lambda s: replace(s, skew=()) if s.skew and not s.tile else s
    monkeypatch.setattr(rules, "recurrence_schedules", lambda k, by: ({less(s): r for s, r in right(k, by)[0].items()}, None))
    found = check_kernel_rule(replace(RULES["skewing/interchange"], name="mine/interchange"), RULES.without(["skewing/interchange"]), FEW)
    assert found.status == "refuted"
    assert "it makes 'parallel r0' of input a: f32[" in found.detail and "= stencil(a, offsets=[[0, " in found.detail
    assert "order: " in found.detail and " must run before " in found.detail


def test_row_sums_whose_ones_nobody_waits_for_are_refused_with_their_kernel(monkeypatch: pytest.MonkeyPatch):
    """The ones are written by all threads and read by the matrix unit: without the fence between them the plan is not ordered."""
    monkeypatch.setattr(mma_row_sums, "Fence", lambda text: Line(f"// {text}"))
    monkeypatch.setattr(rules, "_KNOWN", {})
    others = RULES.without(["directives/mma-row-sums"])
    found = check_kernel_rule(replace(RULES["directives/mma-row-sums"], name="mine/row-sums"), others, FEW)
    assert found.status == "refuted"
    assert "softmax(" in found.detail and "| mma_row_sums |" in found.detail and " - signals: " in found.detail and "ones" in found.detail


def test_a_directive_is_checked_where_it_changes_something():
    """On most kernels its pass finds nothing to do; those say nothing about it."""
    rule = replace(RULES["directives/one-load"], name="mine/one-load")
    others = RULES.without(["directives/one-load"])
    halves = ('input x: f16[72, 96]; %0 = slice(x, starts=[0, 48], limits=[72, 96], steps=[1, 1]); %1 = neg(%0); '
              '%2 = slice(x, starts=[0, 0], limits=[72, 48], steps=[1, 1]); %3 = concat(%1, %2, axis=1); output y = %3')  # fmt: skip
    found = {g: check_on_graph(rule, others, read(g), machine("cuda:h200")) for g in (halves, "input x: f16[72, 96]; %0 = exp(x)")}
    assert [f.status for f in found.values()] == ["checked-1", "assumed"]
    assert [*found.values()][1].detail.endswith("as: one_load changes nothing of it")


def test_each_directive_has_families_that_are_drawn_for_it():
    assert {r.rhs.op for r in RULES.of("directives")} == {*USES, "pdl"}  # which changes any kernel behind another


def test_what_is_not_split_evenly_is_seen():
    assert check_schedule(matmul(64, 48, 100), Schedule(tile=(("m", 16),), split=("k", 4)), machine("cuda")).fault == ""


def machine(name: str):
    return load_target(name, Options(cache=False))


def test_a_rule_that_makes_nothing_is_only_assumed():
    found = status(WARPS.replace('feature("warpgroups")', "?M == 7777"))
    assert found.status == "assumed"
    assert "it makes no schedule of any drawn kernel (cuda)" in found.detail


def test_kernels_are_drawn_alike_and_have_every_form():
    first = drawn(machine("cuda:h200"), 1)
    again = drawn.__wrapped__(machine("cuda:h200"), 1)
    assert [k.signature for k in first] == [k.signature for k in again]
    assert {k.kind for k in first} >= set("ESCON")
    assert any(recurrence_of(k) for k in first)


def test_changed_rules_are_refused_or_harmless():
    some = [r for r in RULES if r.name in ("tiling/npu-small", "tiling/npu-products")]
    report = mutate_rules(some, 4, 2, 2, in_force=tuple(RULES))
    assert len(report.trials) == 4
    assert len(report.wrong) >= 2 and not report.missed  # one without `legal(tile)`


def test_the_command_says_so(tmp_path):
    (tmp_path / "mine.yaml").write_text(WARPS)
    done = CliRunner().invoke(app, ["rules", "check", str(tmp_path / "mine.yaml"), "--samples", "3"])
    assert done.exit_code == 0, done.output
    assert "1 rule: 0 proved, 0 tested, 1 checked, 0 assumed, 0 refuted" in done.output


def test_a_shipped_file_is_checked_by_its_path(tmp_path):
    """Its rules are in force anyway; a copy of it somewhere else defines them again."""
    file = Path(__file__).parents[2] / "rules" / "skewing.yaml"
    done = CliRunner().invoke(app, ["rules", "check", str(file), "--samples", "1", "--json"])
    assert done.exit_code == 0 and [r["rule"].partition("/")[0] for r in json.loads(done.output)] == ["skewing"] * 4
    (tmp_path / "skewing.yaml").write_text(file.read_text())
    done = CliRunner().invoke(app, ["rules", "check", str(tmp_path / "skewing.yaml"), "--samples", "1"])
    assert done.exit_code and "the name 'skewing/skew' is taken" in str(done.exception)


def test_a_rule_that_forgets_legal_makes_no_wrong_program():
    """The choice asks for the order of each schedule that it takes, whatever the rule asked."""
    cuts = ((k, Schedule.make({a.name: 2, "r1": 2})) for k in drawn(machine("cpu"), 1) if k.kind == "O" for a in k.axes)
    kernel, wrong = next((k, s) for k, s in cuts if not legal(k, s))
    ranked = [(Cost(1.0, "a test"), Candidate(s, rule)) for s, rule in ((wrong, "mine/columns"), (Schedule(), UNTILED))]
    refused: dict[str, int] = {}
    _, chosen, before = _admitted(kernel, iter(ranked), None, refused, lambda s: s, False)
    assert (chosen.schedule, before) == (Schedule(), 1)
    (why,) = refused
    assert why.startswith("mine/columns: illegal: ")


def test_a_split_reduction_is_in_order_as_parts_and_what_joins_them():
    """A kernel that holds all of a reduction has no order by its parts: attention over 384 keys, refused where sums stay as written."""
    kernel = next(k for k in drawn(machine("cuda"), 1) if k.kind == "O")
    split = Schedule.make({"i1": 16, "r1": 16}, split=("r1", 2))
    chosen = lambda exact: _admitted(kernel, iter([(Cost(1.0, "a test"), Candidate(split, "mine/split"))]), None, {}, lambda s: s, exact)
    assert chosen(False)[1].schedule == split
    with pytest.raises(UnsupportedOp, match="illegal: "):
        chosen(True)


@pytest.mark.parametrize("target", ["cuda:h200", "cpu"])
def test_families_make_kernels_of_the_forms_that_they_are_drawn_for(target: str):
    """A rule about scans is checked on graphs that have some, without those of the other families being drawn."""
    machine = load_target(target)
    for family, forms in FORMS.items():
        for k in drawn(machine, 1, 0, (family,)):
            roles = roles_of(k)
            assert {roles.form, *(["scan"] if roles.scan is not None else [])} <= {*forms}, family.__name__
    assert [f.__name__ for f in with_form("scan")] == ["_scan"]


def test_nothing_is_drawn_for_a_chip_without_the_memory_that_a_rule_asks_room_in(monkeypatch: pytest.MonkeyPatch):
    """It makes no tile of anything there, and to find that out every kernel would be tried."""
    (rule,) = parse_rules(WARPS, "mine.yaml")
    check = rules._Check(rule, (), FEW, 0)
    monkeypatch.setattr(rules, "drawn", lambda *of: pytest.fail("drawn"))
    lacking = [name for name in ("cuda", "maca", "ascend", "cpu") if check.lacks_room(load_target(name))]
    assert lacking == ["ascend", "cpu"] and not any(check.on(load_target(name)) for name in lacking)
