"""The kernel e-graph: schedules are what egglog derives from the tiling and scheduling rules, and nothing else."""

from __future__ import annotations

import re
import threading
from itertools import product

import numpy as np
import pytest
from autocomp.targets import load_target

from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.egraph import choose, kept, kernel_egraph, kernel_rules
from autocomp.egraph.choose import candidates, choose_schedule, found_together
from autocomp.egraph.cover import cover
from autocomp.egraph.kept import Pool
from autocomp.egraph.native import egglog
from autocomp.egraph.saturate import freeze_graph
from autocomp.errors import DoesNotFit, RuleError
from autocomp.ir.builder import Builder
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F32, TensorType
from autocomp.loops.verdict import Verdict
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace


def matmul(m=256, n=320, k=192):
    b = Builder("m")
    x, w = b.input("x", TensorType(F32, (m, k))), b.input("w", TensorType(F32, (k, n)))
    b.output("y", b.op("matmul", x, w))
    return cover(freeze_graph(b.graph()), load_rules(), load_chip("h200"), Options(), Trace()).calls[0].kernel


def rules_of(tmp_path, text):
    """The rules of one file and no others."""
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    own = load_rules((str(file),))
    return RuleSet(tuple(r for r in own if str(r.location).startswith(str(file))))


TILES = """
- name: mine/tiles
  phase: tiling
  match: contract(m: ?M, n: ?N, k: ?K, b: ?B)
  choose: {bm: [16, 64, 512], bn: [16, 48, 4096], s: [2, 3]}
  where: [?bm * ?bn <= 4096, ?M % ?bm == 0 or ?bm + ?bn < 40, fits(shared, 4 * ?s * ?bm * ?bn), legal(tile)]
  rhs: "tile(m: ?bm, n: ?bn, stages: ?s)"
  why: for this test
"""


def test_egglog_finds_what_enumeration_finds(tmp_path):
    chip = load_chip("h200")
    got = {(*(dict(c.schedule.tile)[a] for a in ("i0", "i1")), c.schedule.stages)
           for c in candidates(matmul(), rules_of(tmp_path, TILES), chip, Options())}  # fmt: skip
    room = chip.memory("shared").capacity
    sizes = product((16, 64, 256), (16, 48, 320), (2, 3))  # no larger than the extents
    want = {(m, n, s) for m, n, s in sizes if m * n <= 4096 and (256 % m == 0 or m + n < 40) and 4 * s * m * n <= room}
    assert got == want and len(want) > 5


def test_refusals_name_the_condition_and_its_values(tmp_path):
    refused: dict[str, int] = {}
    candidates(matmul(), rules_of(tmp_path, TILES), load_chip("h200"), Options(), None, refused)
    text = "mine/tiles: ?bm * ?bn <= 4096 is false: ?bm is 64, ?bn is 320"
    assert refused[text] == 2, sorted(refused)  # two numbers of stages
    everything = 3 * 3 * 2
    made = len([c for c in candidates(matmul(), rules_of(tmp_path, TILES), load_chip("h200"), Options()) if c.rule != "untiled"])
    assert sum(refused.values()) == everything - made


def test_conditions_that_stand_behind_each_other_are_decided_at_once(tmp_path, monkeypatch):
    said = commands_to_egglog(monkeypatch)
    candidates(matmul(), rules_of(tmp_path, TILES), load_chip("h200"), Options())
    names = [name for text in said for name in re.findall(r':name "((?:no|pass|make)_\w+)"', text)]
    assert sorted(names) == ["make_0", "no_0_0", "no_0_3", "pass_0_3"]  # a row for each choice is written where isl is asked


def commands_to_egglog(monkeypatch):
    """What is said from now on, where nothing has been declared before."""
    said: list[str] = []
    execute = kernel_egraph.execute
    monkeypatch.setattr(kernel_egraph, "execute", lambda eg, text, source: said.append(text) or execute(eg, text, source))
    monkeypatch.setattr(kernel_egraph, "_DECLARED", Pool())
    return said


def test_rules_are_declared_once_for_kernels_of_all_sizes(tmp_path, monkeypatch):
    said, rules, chip = commands_to_egglog(monkeypatch), rules_of(tmp_path, TILES + SCHEDULING), load_chip("h200")
    alone = {n: candidates(matmul(n=n), rules, chip, Options()) for n in (320, 40)}
    monkeypatch.setattr(kernel_egraph, "_DECLARED", Pool())
    said.clear()
    for n in (40, 320, 40):  # what one kernel said is nothing to the next
        assert candidates(matmul(n=n), rules, chip, Options()) == alone[n]
        rules_said = [text for text in said if text.startswith("(rule ")]
    assert len(rules_said) == len(set(rules_said)) > 5
    candidates(matmul(), rules_of(tmp_path, TILES), chip, Options())
    assert len([text for text in said if text.startswith("(rule ")]) > len(rules_said)  # other rules, an e-graph of their own


def test_of_a_rule_that_one_condition_refuses_for_all_choices_no_other_is_compiled(tmp_path, monkeypatch):
    asked, of = [], kernel_rules.condition
    monkeypatch.setattr(kernel_rules, "condition", lambda e, *x: asked.append(str(e)) or of(e, *x))
    small = TILES.replace("where: [", "where: [?N > 400, ")
    refused: dict[str, int] = {}
    found = candidates(matmul(), rules_of(tmp_path, small), load_chip("h200"), Options(), None, refused)
    assert [c.rule for c in found] == ["untiled"] and refused == {"mine/tiles: ?N > 400 is false: ?N is 320": 18} and not asked
    candidates(matmul(n=640), rules_of(tmp_path, small), load_chip("h200"), Options())
    assert len(asked) == 4  # each but that one


def test_a_rule_that_the_first_kernel_did_not_need_is_declared_behind_the_others(tmp_path, monkeypatch):
    """A condition that fails for all choices of a kernel leaves its rule out of the e-graph, in which the next kernel's then stands too."""
    wide = TILES.replace("mine/tiles", "mine/wide").replace("where: [", "where: [?N > 64, ").replace("s: [2, 3]", "s: [12]")
    said, rules, chip = commands_to_egglog(monkeypatch), rules_of(tmp_path, wide + TILES), load_chip("h200")
    alone = {}
    for n in (40, 320):
        monkeypatch.setattr(kernel_egraph, "_DECLARED", Pool())
        alone[n] = candidates(matmul(n=n), rules, chip, Options())
    monkeypatch.setattr(kernel_egraph, "_DECLARED", Pool())
    assert {c.rule for c in alone[40]} < {c.rule for c in alone[320]} and "mine/wide" in {c.rule for c in alone[320]}
    said.clear()
    for n in (40, 320, 40):
        assert candidates(matmul(n=n), rules, chip, Options()) == alone[n]
    tables = [text for text in said if text.startswith("(sort Kernel)")]
    made = [text for text in said if text.startswith("(rule ") and ":name \"make_" in text]
    assert (len(tables), len(made)) == (1, 2)
    small = candidates(matmul(), rules, load_chip("rtx4090"), Options())  # its shared memory stands in the commands: an e-graph of its own
    monkeypatch.setattr(kernel_egraph, "_DECLARED", Pool())
    assert small == candidates(matmul(), rules, load_chip("rtx4090"), Options()) != candidates(matmul(), rules, chip, Options())


SCHEDULING = """
- name: mine/walk
  phase: scheduling
  match: "tile(m: ?bm, n: ?bn, stages: 2, grouped: 0)"
  choose: {g: [4, 8]}
  where: [?bm > 16, legal(tile)]
  rhs: "tile(grouped: ?g)"
  why: for this test
"""


def test_a_scheduling_rule_adds_to_every_schedule_that_it_matches(tmp_path):
    chip = load_chip("h200")
    plain = {c.schedule for c in candidates(matmul(), rules_of(tmp_path, TILES), chip, Options())}
    both = {c.schedule: c.rule for c in candidates(matmul(), rules_of(tmp_path, TILES + SCHEDULING), chip, Options())}
    added = {s for s, rule in both.items() if rule == "mine/walk"}
    assert plain < both.keys() and added == both.keys() - plain
    matched = [s for s in plain if s.stages == 2 and dict(s.tile)["i0"] > 16]
    assert len(added) == 2 * len(matched) > 0
    assert {s.grouped for s in added} == {4, 8} and all(dict(s.tile) in [dict(x.tile) for x in matched] for s in added)


def test_rules_that_never_end_stop_at_the_limit(tmp_path):
    endless = """
- name: mine/deeper
  phase: scheduling
  match: "tile(stages: ?s)"
  rhs: "tile(stages: ?s + 1)"
  why: for this test
"""
    trace = Trace()
    options = Options(max_schedules=40)
    found = candidates(matmul(), rules_of(tmp_path, TILES + endless), load_chip("h200"), options, None, None, trace)
    assert 40 <= len(found) < 200
    assert [e.data["limit"] for e in trace.of("budget")] == ["40 schedules"]


def test_what_is_on_its_way_when_the_limit_stops_it_is_not_refused(tmp_path):
    """Schedules of the one rule are between its conditions whenever those of the other have passed theirs."""
    endless = """
- name: mine/deeper
  phase: scheduling
  match: "tile(stages: ?s)"
  where: [?s < 100000, ?s < 90000]
  rhs: "tile(stages: ?s + 1)"
  why: for this test
"""
    refused: dict[str, int] = {}
    tiles = TILES.replace(", legal(tile)", "")
    candidates(matmul(), rules_of(tmp_path, tiles + endless), load_chip("h200"), Options(max_schedules=40), None, refused)
    assert refused and not [why for why in refused if "mine/deeper" in why]


def test_a_word_and_a_question_are_answered_outside_of_egglog(tmp_path):
    text = """
- name: mine/words
  phase: tiling
  match: contract(m: ?M, n: ?N, k: ?K, b: ?B)
  choose: {bm: [16, 64], r: [single, warp_specialise]}
  where: [?r == 'single' or ?bm in [64], feature("warpgroups"), legal(tile)]
  rhs: "tile(m: ?bm, roles: ?r)"
  why: for this test
"""
    found = candidates(matmul(), rules_of(tmp_path, text), load_chip("h200"), Options())
    assert {(dict(c.schedule.tile)["i0"], c.schedule.roles) for c in found} == {(16, "single"), (64, "single"), (64, "warp_specialise")}
    refused: dict[str, int] = {}
    assert [c.rule for c in candidates(matmul(), rules_of(tmp_path, text), load_chip("a100"), Options(), None, refused)] == ["untiled"]
    (said,) = refused.items()
    assert said[0].startswith("mine/words: feature(") and said[1] == 4  # it is the same for every choice


def test_legality_is_asked_once_for_each_set_of_cut_axes(monkeypatch):
    asked = []
    from autocomp.egraph import choose

    legal = choose.legal
    monkeypatch.setattr(choose, "legal", lambda k, s, exact: asked.append(s) or legal(k, s, exact))
    found = candidates(matmul(), load_rules(), load_chip("h200"), Options())
    assert len(found) > 100 and 1 <= len(asked) <= 8


@pytest.mark.parametrize("spec", ["h200", "cpu"])
def test_kernels_that_share_an_e_graph_are_told_what_each_is_told_alone(spec):
    kernels, rules, chip = [matmul(), matmul(48, 4096, 8192), matmul(8, 64, 96)], load_rules(), load_chip(spec)
    roles = [demand_of(k).roles for k in kernels]
    together = found_together(kernels, roles, rules, chip, Options())
    for k, r, found in zip(kernels, roles, together, strict=True):
        (alone,) = found_together([k], [r], rules, chip, Options())
        assert found == alone and found.schedules
    assert len({len(f.schedules) for f in together}) == 3, "no two of them alike"


def test_what_the_e_graph_holds_is_what_is_chosen(monkeypatch):
    """Were another e-graph asked, another schedule would come out: nothing is enumerated beside it."""
    k, rules, chip = matmul(), load_rules(), load_chip("cpu")
    best, _ = choose_schedule(k, rules, chip, Options(cache=False), Trace())
    whole = kernel_egraph._KernelEGraph.found
    monkeypatch.setattr(kernel_egraph._KernelEGraph, "found", lambda g: [tuple(x for x in found if x[0] != best) for found in whole(g)])
    second, _ = choose_schedule(k, rules, chip, Options(cache=False), Trace())
    assert second != best


def test_a_right_side_that_is_no_number_is_an_error_at_the_rule(tmp_path):
    text = TILES.replace("stages: ?s", "stages: ?s / 2")
    with pytest.raises(RuleError, match=r"stages: .* is no whole number here") as e:
        candidates(matmul(), rules_of(tmp_path, text), load_chip("h200"), Options())
    assert "mine.yaml:2" in str(e.value) and "mine/tiles" in str(e.value)


def test_a_formula_of_candidates_without_an_answer_is_an_error_at_the_rule(tmp_path):
    text = TILES.replace("s: [2, 3]", "s: 'f32[5]'")
    with pytest.raises(RuleError, match=r"mine.yaml:\d+:\d+ rule 'mine/tiles': \?s: f32\[5\] has no answer"):
        candidates(matmul(), rules_of(tmp_path, text), load_chip("h200"), Options())


@pytest.mark.parametrize("spec", ["cuda:h200", "cpu"])
def test_schedules_of_shipped_rules_are_the_same_in_every_order_of_facts(spec):
    target, k = load_target(spec), matmul()
    first = candidates(k, load_rules(), target.chip, Options())
    assert first == candidates(k, load_rules(), target.chip, Options())
    assert len({c.schedule for c in first}) == len(first)
    assert np.all([c.rule for c in first])


def test_many_rows_of_a_few_elements_have_tiles_that_a_block_can_hold():
    target = load_target("cuda:h200")
    b = Builder("short")
    b.output("y", b.op("transpose", b.input("x", TensorType(F32, (4, 50176))), perm=(1, 0)))
    k = cover(freeze_graph(b.graph()), load_rules(), target.chip, Options(), Trace()).calls[0].kernel
    schedule, _ = choose_schedule(k, load_rules(), target.chip, Options(), Trace(), target.admit)
    assert 128 <= dict(schedule.tile)["i0"] <= 2048


def test_a_combination_that_has_no_schedule_is_asked_for_once(monkeypatch: pytest.MonkeyPatch):
    """Hundreds of schedules of one product have as many parts; that what joins these is refused is found by the first of them."""
    asked: list[str] = []
    made = choose.candidates
    monkeypatch.setattr(choose, "candidates", lambda kernel, *a, **kw: asked.append(kernel.signature) or made(kernel, *a, **kw))

    def full(kernel: Kernel, schedule: Schedule) -> None:
        raise DoesNotFit("a block", needed=2, available=1)

    joins = choose.Joins(matmul(64, 48, 4096), load_rules(), load_chip("h200"), Options(cache=False), full)
    for parts, rows in ((2, 16), (2, 32), (4, 16), (2, 64)):
        with pytest.raises(DoesNotFit, match="a block"):
            joins.complete(Schedule.make({"i0": rows, "i1": 48, "r0": 32}, split=("r0", parts)))
    assert len(asked) == len(set(asked)) == 2


def test_a_tile_for_a_memory_that_the_chip_has_not_is_refused_by_its_name(tmp_path):
    """A tiling rule that names no targets is asked on every chip: what lies in shared memory fits no core without one."""
    text = TILES.replace("fits(shared, 4 * ?s * ?bm * ?bn)", "fits(tile)").replace("stages: ?s)", "stages: ?s, threads: 256)")
    refused: dict[str, int] = {}
    made = candidates(matmul(), rules_of(tmp_path, text), load_chip("ascend910b"), Options(), refused=refused)
    assert [c.rule for c in made] == [kernel_egraph.UNTILED]
    assert any("fits(tile) is false: bytes of shared memory: chip ascend910b has no memory 'shared'" in why for why in refused)


def test_an_e_graph_that_another_thread_drops_is_left(monkeypatch):
    """As at the end of a process in which a thread of another language compiled: nothing is said on stderr."""
    said, held = [], []
    monkeypatch.setattr("sys.unraisablehook", said.append)
    thread = threading.Thread(target=lambda: held.extend([kept._Held(egglog().EGraph()), egglog().EGraph()]))
    thread.start()
    thread.join()
    del held[0]
    assert not said
    held.clear()  # one that nobody holds so
    assert len(said) == 1 and "unsendable" in str(said[0].exc_value)


def with_maps(*fns):
    """A product with these behind it: of the same roles whatever they are."""
    b = Builder("m")
    v = b.op("matmul", b.input("x", TensorType(F32, (512, 768))), b.input("w", TensorType(F32, (768, 3072))))
    for fn in fns:
        v = b.op(fn, v)
    b.output("y", v)
    (call,) = cover(freeze_graph(b.graph()), load_rules(), load_chip("h200"), Options(), Trace()).calls
    return call.kernel


def e_graphs(monkeypatch):
    """How many kernels each e-graph that is made from here on holds."""
    held: list[int] = []
    init = kernel_egraph._KernelEGraph.__init__
    said = lambda g, kernels, rules: held.append(len(kernels)) or init(g, kernels, rules)
    monkeypatch.setattr(kernel_egraph._KernelEGraph, "__init__", said)
    return held


def test_rules_make_schedules_of_kernels_that_are_alike_once(monkeypatch):
    kernels, rules, chip = [with_maps("relu"), with_maps("gelu"), with_maps("exp", "relu")], load_rules(), load_chip("h200")
    roles = [demand_of(k).roles for k in kernels]
    alone = [found_together([k], [r], rules, chip, Options())[0] for k, r in zip(kernels, roles, strict=True)]
    held, made = e_graphs(monkeypatch), kernel_egraph.Made()
    assert found_together(kernels[:2], roles[:2], rules, chip, Options(), made) == alone[:2] and held == [1]
    assert found_together(kernels[2:], roles[2:], rules, chip, Options(), made) == alone[2:] and held == [1]
    assert found_together(kernels[2:], roles[2:], rules, chip, Options()) == alone[2:] and held == [1, 1]


def test_kernels_of_which_isl_or_a_question_says_otherwise_are_not_alike(monkeypatch):
    kernels, rules, chip = [with_maps("relu"), with_maps("gelu"), with_maps("exp")], load_rules(), load_chip("h200")
    roles = [demand_of(k).roles for k in kernels]
    (before,) = found_together(kernels[:1], roles[:1], rules, chip, Options())
    legal, asks = choose.legal, choose.tensors_of
    no = lambda k, s, exact: Verdict(False, why="not cut") if k is kernels[1] and s.tile else legal(k, s, exact)
    monkeypatch.setattr(choose, "legal", no)
    monkeypatch.setattr(choose, "tensors_of", lambda k: asks(k) | ({"short_results": lambda: 1} if k is kernels[2] else {}))
    held = e_graphs(monkeypatch)
    one, other, third = found_together(kernels, roles, rules, chip, Options(), kernel_egraph.Made())
    assert held == [2, 1] and one == before and third.schedules
    assert not any(s.tile for s, _ in other.schedules) and any("not cut" in why for why in other.refused)
