"""The trace of a run: each event keeps to the documented schema, files keep it, and recording costs little."""

from __future__ import annotations

import json
import re
import time

import pytest

import autocomp
from autocomp.errors import AutocompError
from autocomp.report.record import about, load_trace, recording, save_trace, schema
from autocomp.trace import FORMAT, KINDS, Trace
from tests.cli.test_cli import run
from tests.helpers.json_schema import broken

TEXT = "graph g\ninput x: f32[64, 128]\n" + "".join(
    f"param w{i}: f32[128, 128] = random({i})\n%{3 * i} = matmul({f'%{3 * i - 1}' if i else 'x'}, w{i})\n%{3 * i + 1} = gelu(%{3 * i})\n"
    f"%{3 * i + 2} = softmax(%{3 * i + 1}, axes=[1])\n" for i in range(4)) + "output y = %11\n"  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "cuda:h200", "ascend:910b"])
def test_every_event_of_a_run_keeps_to_the_schema_and_comes_back_from_a_file(target, tmp_path):
    trace = autocomp.optimize(TEXT, target=target, cache=False).trace
    lines = save_trace(trace, tmp_path / "run.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"format": FORMAT} and len(lines) == len(trace.events) + 1
    for line in lines[1:]:
        assert not broken(schema(), json.loads(line)), line
    again = load_trace(tmp_path / "run.jsonl")
    assert [(e.kind, e.name, e.seconds) for e in again.events] == [(e.kind, e.name, e.seconds) for e in trace.events]
    assert save_trace(again, tmp_path / "2.jsonl").read_text() == (tmp_path / "run.jsonl").read_text()


def test_the_schema_can_refuse():
    right = {"kind": "rule", "name": "a/b", "seconds": 0.0, "data": {"phase": "algebra", "count": 1}}
    assert not broken(schema(), right)
    for wrong in ({"kind": "rle"}, {"name": 3}, {"data": {"count": 1}}, {"data": {"phase": "algebra", "count": "1"}}, {"more": 1}):
        assert broken(schema(), right | wrong), wrong
    assert {"stage", "chain"} <= KINDS.keys()


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"format": "autocomp trace 0"}', '{"format": "autocomp trace 1"}\n{"kind": 1}'])
def test_what_is_no_trace_is_refused(text, tmp_path):
    (tmp_path / "t").write_text(text)
    with pytest.raises(AutocompError, match=r"is no trace|is of the format"):
        load_trace(tmp_path / "t")


def test_recording_takes_less_than_a_twentieth_of_the_processor_time(monkeypatch):
    """What is only there for the trace: its events, the chains and the alternatives of kernels."""
    from autocomp.egraph import cover

    spent, depth = [0.0], [0]

    def timed(call):
        def run(*a, **k):
            depth[0] += 1
            begun = time.process_time()
            try:
                return call(*a, **k)
            finally:
                depth[0] -= 1
                spent[0] += 0.0 if depth[0] else time.process_time() - begun
        return run

    for owner, name in ((Trace, "add"), (cover, "record_chains"), (cover, "record_alternatives"), (cover, "least_fused")):
        monkeypatch.setattr(owner, name, timed(getattr(owner, name)))
    begun = time.process_time()
    autocomp.optimize(TEXT, target="cuda:h200", cache=False)
    share = spent[0] / (time.process_time() - begun)
    print(f"recording: {share:.2%}")
    assert share < 0.05


def test_a_command_says_what_recording_cost(tmp_path):
    """The record counts its own seconds, nested ones once; a program from a cache says nothing."""
    (tmp_path / "m.txt").write_text(TEXT)
    said = run("optimize", str(tmp_path / "m.txt"), "--no-verify", "--trace", str(tmp_path / "t.jsonl"))[0]
    assert re.search(r"recording: \d\.\d% of the compilation, \d+\.\d ms", said)
    assert about(tmp_path / "t.jsonl")["recording"].endswith(" ms")
    trace = Trace()
    with trace.recording():
        trace.add("note", "a", text="b")
        time.sleep(0.01)
    with trace.stage("cover"):
        time.sleep(0.02)
    assert trace.spent >= 0.01 and 0 < trace.share < 1 and recording(trace)
    trace.add("stage", "cache", found="yes")
    assert not recording(trace)


def test_records_of_two_runs_are_told_apart(tmp_path):
    (tmp_path / "m.txt").write_text(TEXT)
    for name, more in (("a", []), ("b", ["--without", "fusion/*"])):
        run("optimize", str(tmp_path / "m.txt"), "--no-verify", "--trace", str(tmp_path / f"{name}.jsonl"), *more)
    lines = run("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))[0].splitlines()
    said = {x.partition(": ")[0]: x for x in lines}
    assert said["runs"].startswith("runs: A program g, target cpu:cpu, autocomp ") and "system " in said["runs"]
    assert "fired in A alone: fusion/" in said["rules"] and "in A alone: " in said["kernels"] and "in B alone: " in said["kernels"]
    same = run("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "a.jsonl"))[0]
    assert "differ" not in same and " alone" not in same and "stages" not in same
    data = json.loads(run("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--json")[0])
    assert data["rules"]["fusion/epilogue"][1] is None and data["runs"][0]["program"] == "g"
    (tmp_path / "c.jsonl").write_text("{}")
    assert "is no trace" in run("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "c.jsonl"), code=1)[1]
