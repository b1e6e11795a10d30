"""Programs from the cache: the same program at once; damaged entries, other keys, many processes, a folder that is read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.cpu.target import CpuTarget

import autocomp
from autocomp import store
from autocomp.egraph import saturate
from autocomp.egraph.kernel_memo import ScheduleMemo
from autocomp.frontends.text import parse
from autocomp.ir.builder import Builder
from autocomp.ir.types import F32, Sym, TensorType
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.runtime import cache
from autocomp.runtime.codec import CodecError, decode, encode
from autocomp.trace import Trace
from examples.models import bert
from tests.helpers.loop_graphs import by_hand, check, feed, network
from tests.helpers.shared_files import new_cache

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")

MLP = """graph mlp
input x: f32[{n}, 40]
param w: f32[40, 50] = random(3)
param v: f32[50] = random(4)
%0 = matmul(x, w)
%1 = exp(v)
%2 = add(%0, %1)
%3 = softmax(%2, axes=[1])
output y = %3
output z = %0
"""


@pytest.fixture
def programs_are_compiled():
    """Here they may come from the cache (overrides the fixture of tests/conftest.py)."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return new_cache(tmp_path / "cache", monkeypatch) / "programs"


def compiled(model=None, **kw):
    """(program, whether it came from the cache, its trace)."""
    trace = Trace()
    program = autocomp.optimize(MLP.format(n=33) if model is None else model, trace=trace, **kw)
    return program, not any(e.name == "saturate" and e.kind == "stage" for e in trace.events), trace


def test_the_second_program_is_the_first(folder):
    cold, hit, _ = compiled()
    assert not hit
    warm, hit, _ = compiled()
    assert hit
    assert warm.sources == cold.sources
    assert warm.kernels == cold.kernels
    assert warm.printed == cold.printed
    assert warm.rule_names == cold.rule_names
    assert warm.calls.calls == cold.calls.calls
    for k in cold.kernels:
        assert warm.explain(why=k.name) == cold.explain(why=k.name)
    assert warm.explain(why_not="fusion/epilogue") == cold.explain(why_not="fusion/epilogue")
    warm.verify()
    x = np.random.default_rng(0).standard_normal((33, 40)).astype("f4")
    for a, b in zip(cold(x), warm(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_weights_are_used_without_compiling_again():
    compiled()
    other, hit, _ = compiled(MLP.format(n=33).replace("random(3)", "random(8)").replace("random(4)", "random(9)"))
    assert hit
    other.verify()


class Compiles(Exception):
    """The program was not in the cache."""


def compiles(*given):
    raise Compiles


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A cache's programs: of one graph on two targets."""
    with pytest.MonkeyPatch.context() as patch:
        folder = new_cache(tmp_path_factory.mktemp("kept"), patch) / "programs"
        for target in ("cpu", "cuda:h200"):
            autocomp.optimize(MLP.format(n=33), target=target)
    return folder


@pytest.mark.parametrize("change", [
    {"model": MLP.format(n=34)}, {"model": MLP.format(n=33).replace("softmax", "log_softmax")}, {"without": ["fusion/*"]},
    {"max_body_ops": 3}, {"exact": True}, {"target": "cuda:a100"},
], ids=str)  # fmt: skip
def test_what_the_program_depends_on_is_in_the_key(change, folder, kept, monkeypatch):
    for kind in (kept.name, "build"):
        shutil.copytree(kept.parent / kind, folder.parent / kind, dirs_exist_ok=True)
    monkeypatch.setattr("autocomp.pipeline.extract", compiles)
    for target in ("cpu", "cuda:h200"):
        assert compiled(target=target)[1]
    with pytest.raises(Compiles):
        compiled(**change)


def test_bounds_of_a_named_dimension_are_in_the_key():
    keys = set()
    for n in (Sym("n", 1, 64), Sym("n", 1, 128), Sym("n", 8, 128, 8)):
        b = Builder("g")
        b.output("y", b.op("exp", b.input("x", TensorType(F32, (n, 8)))))
        keys.add(cache.program_key(b.graph(), load_target("cpu"), load_rules(), Options()))
    assert len(keys) == 3


def drawn(name="g", inputs=("a", "b", "c"), output="y", width=8):
    """exp(a + b); c is not used."""
    b = Builder(name)
    x = {n: b.input(n, TensorType(F32, (4, width if n == "c" else 8))) for n in inputs}
    b.output(output, b.op("exp", b.op("add", x["a"], x["b"])))
    return b.graph()


class Elsewhere(CpuTarget):
    """The same target where its programs cannot run."""

    def why_not_runnable(self):
        return "no device"


def test_everything_that_a_program_depends_on_is_in_its_key():
    cpu, rules, options = load_target("cpu"), load_rules(), Options()
    chip = replace(cpu.chip, vector={k: 2 * v for k, v in cpu.chip.vector.items()})
    first = rules.of("algebra", "cpu")[0]
    edited = [replace(first, **change) for change in ({"exact": not first.exact}, {"commutes": not first.commutes}, {"siblings": ("a",)},
                                                      {"where": ()}, {"requires": ("exact",)})]  # fmt: skip
    key = cache.program_key
    keys = [key(drawn(), cpu, rules, options), key(drawn(name="h"), cpu, rules, options), key(drawn(output="z"), cpu, rules, options),
            key(drawn(inputs=("b", "a", "c")), cpu, rules, options), key(drawn(inputs=("a", "b")), cpu, rules, options),
            key(drawn(width=9), cpu, rules, options), key(drawn(), cpu, rules, options, "measured"),
            key(drawn(), replace(cpu, chip=chip), rules, options), key(drawn(), Elsewhere(cpu.chip), rules, options),
            *(key(drawn(), cpu, RuleSet(tuple(e if r is first else r for r in rules)), options) for e in edited)]  # fmt: skip
    assert first.where
    assert len(set(keys)) == len(keys)
    assert key(drawn(), cpu, rules, options) == keys[0]


@pytest.mark.parametrize("option", [f.name for f in fields(Options) if f.name not in ("rules", "without", "cache", "deadline")])
def test_every_option_is_in_the_key(option):
    """Rules and what is left out of them stand in the key as rules; nothing that a deadline cut is kept, so it is in none."""
    default = getattr(Options(), option)
    words = {"size_spread": 0.1, "tile_heuristic": "first", "tuning_database": "other.sqlite", "schedule": (("matmul", "stages 2"),),
             "donate": ("x",), "maca_path": "/sdk"}  # fmt: skip
    other = words[option] if option in words else not default if isinstance(default, bool) else default * 2 + 1
    cpu = load_target("cpu")
    of = lambda options: (cache.program_key(drawn(), cpu, RuleSet(), options), ScheduleMemo("cpu", cpu.chip, RuleSet(), options)._parts)
    mine, others = of(Options()), of(replace(Options(), **{option: other}))
    assert mine[0] != others[0]
    assert (mine[1] != others[1]) == (option not in ("threads", "schedule"))  # which are the chip's, and in the place of what is chosen
    assert of(Options(deadline=5.0)) == mine


def test_another_compiler_or_an_edit_of_the_package_is_another_key(monkeypatch):
    compiled()
    with monkeypatch.context() as m:
        m.setattr(cache, "package_stamp", lambda: "edited")
        assert not compiled()[1]
    with monkeypatch.context() as m:
        m.setattr("autocomp.targets.cpu.toolchain.Toolchain.key", lambda self: "another")
        assert not compiled()[1]
    assert compiled()[1]


def test_without_the_cache_nothing_is_read_or_kept(folder):
    compiled(cache=False)
    assert not folder.exists()


def damages(raw):
    half = len(raw) // 2
    return {"cut": raw[:half], "flipped": raw[:half] + bytes([raw[half] ^ 4]) + raw[half + 1 :], "empty": b"",
            "binary": bytes(range(256)) * 4, "of another key": raw.replace(b'"key": "', b'"key": "0', 1)}  # fmt: skip


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "binary", "of another key"])
def test_a_damaged_entry_is_noticed_and_written_anew(folder, how):
    cold, _, _ = compiled(target="cuda:h200")  # no C compiler
    (entry,) = folder.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(damages(good)[how])
    again, hit, trace = compiled(target="cuda:h200")
    assert not hit
    assert any(f"{entry} is damaged" in e.data.get("text", "") for e in trace.of("note"))
    assert again.sources == cold.sources
    assert compiled(target="cuda:h200")[1]


def test_processes_share_the_folder(folder):
    code = f"import autocomp; p = autocomp.optimize({MLP.format(n=35)!r}); p.verify(); print([e.name for e in p.trace.of('stage')])"
    root = os.path.dirname(os.path.dirname(autocomp.__file__))
    env = {**os.environ, "PYTHONPATH": root}
    start = lambda _: subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(start, range(3)))
    assert [r.returncode for r in runs] == [0] * 3, runs
    assert {p.suffix for p in folder.iterdir()} == {".entry"}
    assert "saturate" not in start(0).stdout


def test_a_disk_that_is_full_costs_a_note(monkeypatch):
    def full(path, data, mode=0):
        raise autocomp.AutocompError(f"cannot write {len(data)} bytes: No space left on device", where=str(path))

    monkeypatch.setattr(store, "write_atomic", full)
    program, _, trace = compiled()
    program.verify()
    assert any("not kept:" in e.data.get("text", "") and "No space left on device" in e.data["text"] for e in trace.of("note"))


def test_bert_from_the_cache_in_under_half_a_second():
    graph = bert(6, seq=128, hidden=768, heads=12, inner=3072)
    cold, _, _ = compiled(graph)
    start = time.process_time()  # of this process: others may keep the cores busy
    warm, hit, _ = compiled(graph)
    assert time.process_time() - start < 0.5
    assert hit
    assert warm.sources == cold.sources


def test_documents_hold_our_records_and_nothing_else():
    t = TensorType(F32, (3, 4))
    value = (t, [1, 2.5, None, True], {"a": t, 1: ()}, float("inf"))
    assert decode(encode(value), {}) == value
    graph = parse(MLP.format(n=3))
    back = decode(encode(replace(graph, locations={})), graph.params)
    assert back.outputs == graph.outputs
    with pytest.raises(CodecError, match="has no stored form"):
        encode(saturate)
    for bad in ('[["subprocess.Popen", "ls"]]', "[]", "{", '[["list", [7]]]', '[["TensorType", 1]]', '[["Node", "add"]]'):
        with pytest.raises(CodecError, match="no stored value"):
            decode(bad, {})


def test_a_program_with_loops_is_kept_whole():
    graph = network(5)
    first, again = (autocomp.optimize(graph, target="cpu") for _ in range(2))
    assert [e.data["found"] for e in again.trace.of("stage") if e.name == "cache"] == ["yes"]
    assert again.calls.loops == first.calls.loops
    assert len(again.calls.loops) == 2
    check(again.run(feed(5)), by_hand(graph, feed(5)))
