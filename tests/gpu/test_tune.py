"""Measured tuning on a device: a search from end to end, and candidates that fault or hang there."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp import rewrite
from autocomp.options import Options
from autocomp.tune.database import Database
from autocomp.tune.kernel import Limits
from autocomp.tune.key import schedule_of
from autocomp.tune.monitors import occupancy
from autocomp.tune.tuner import tune_program
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.tune_targets import FaultyCuda


@pytest.fixture(autouse=True)
def schedules_are_chosen_by_the_model():
    """Overrides the fixture of the same name: here programs do use measurements."""


@pytest.mark.parametrize("name", ["gemm_bias_gelu", "softmax", "attention_f16", "sum_columns"])
def test_a_search_measures_and_optimize_uses_it(name, tmp_path):
    program = autocomp.optimize(GRAPHS[name], target="cuda", tuned=False)
    options = Options(search_configurations=12)
    path = tmp_path / "t.sqlite"
    with Database(path) as db:
        results = tune_program(program.calls, program.target, rewrite.load_rules(), options, db, Limits(run=60))
        stored = db.tuned()
        every = [m for t in stored for m in db.measurements(t.kernel, t.place)]
    for r, t in zip(sorted(results, key=lambda r: r.name), sorted(stored, key=lambda t: t.name), strict=True):
        assert r.failures == {}
        assert 0 < r.tuned_seconds < 0.1
        assert r.tuned_seconds <= r.untuned_seconds
        assert [k.seconds for k in t.kept] == sorted(k.seconds for k in t.kept)
    good = [m for m in every if m.status == "ok"]
    assert len(good) >= 2
    for m in good:
        assert {"registers", "local", "shared", "threads"} == set(m.monitors)
        assert 0 < occupancy(program.target.chip, m.monitors) <= 1
    tuned = autocomp.optimize(GRAPHS[name], target="cuda", tuning_database=str(path), min_speedup=0.01)
    best = {t.name: schedule_of(t.kept[0].schedule) for t in stored}
    for k in tuned.kernels:
        assert best[k.name] is not None
        if best[k.name] != schedule_of(next(t.untuned for t in stored if t.name == k.name)):
            assert "tuned: measured" in k.source
    assert tuned.verify().ratio <= 1


def test_a_fault_or_a_hang_on_the_device_costs_its_own_candidate_alone(tmp_path):
    cuda, rules, options = load_target("cuda"), rewrite.load_rules(), Options(search_configurations=7)
    program = autocomp.optimize(GRAPHS["softmax"], target="cuda", tuned=False)
    with Database(tmp_path / "whole.sqlite") as db:  # which schedules it tries: so few are taken in predicted order
        tune_program(program.calls, cuda, rules, options, db, Limits(run=8))
        (search,) = db.tuned()
        tried = [m.schedule for m in db.measurements(search.kernel, search.place)]
    faults = dict(zip(("crash", "hang", "nothing written"), [t for t in tried if t != search.untuned], strict=False))
    target = FaultyCuda(cuda.chip, faults=tuple((text, fault) for fault, text in faults.items()))
    with Database(tmp_path / "t.sqlite") as db:
        (result,) = tune_program(program.calls, target, rules, options, db, Limits(run=8))
        (search,) = db.tuned()
        outcomes = {m.schedule: m for m in db.measurements(search.kernel, search.place)}
    assert outcomes[faults["crash"]].status == "failed"
    assert outcomes[faults["hang"]].reason == "run: no result after 8 s"
    assert outcomes[faults["nothing written"]].reason.startswith("run: wrong: out0 has nan where")
    assert sum(m.status == "failed" for m in outcomes.values()) == 3
    assert result.tuned_seconds > 0
    assert not {k.schedule for k in search.kept} & set(faults.values())


def measured(path):
    """(kernel, schedule) -> (status, seconds) of every committed row."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as db:
        try:
            return {r[:2]: r[2:] for r in db.execute("SELECT kernel, schedule, status, seconds FROM measurement")}
        except sqlite3.OperationalError:  # not yet made
            return {}


def test_a_search_that_is_killed_goes_on_with_nothing_lost(tmp_path):
    (tmp_path / "m.txt").write_text(GRAPHS["gemm_bias_gelu"])
    path = tmp_path / "t.sqlite"
    command = [sys.executable, "-m", "autocomp.cli", "tune", "m.txt", "--target", "cuda", "-n", "16", "--database", str(path), "--json"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(measured(path)) < 3 and child.poll() is None:
        time.sleep(0.02)
    child.kill()
    _, said = child.communicate()
    before = measured(path)
    assert len(before) >= 3, said
    assert sum(status != "refused" for status, _ in before.values()) < 16

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    after = measured(path)
    assert {k: after[k] for k in before} == before
    tried, known = (sum(status != "refused" for status, _ in rows.values()) for rows in (after, before))
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert (tried, kernel["tried"], kernel["fresh"]) == (16, 16, 16 - known)


def test_what_gains_too_little_is_rolled_back_and_says_so(tmp_path):
    program = autocomp.optimize(GRAPHS["softmax"], target="cuda", tuned=False)
    with Database(tmp_path / "t.sqlite") as db:
        tune_program(program.calls, program.target, rewrite.load_rules(), Options(search_configurations=6), db, Limits(run=60))
        (search,) = db.tuned()
    kept = autocomp.optimize(GRAPHS["softmax"], target="cuda", tuning_database=str(tmp_path / "t.sqlite"), min_speedup=1e6)
    assert [k.schedule for k in kept.kernels] == [k.schedule for k in program.kernels]
    if schedule_of(search.kept[0].schedule) != schedule_of(search.untuned):
        assert "below min_speedup 1e+06: rolled back to the untuned ones" in kept.explain()
