"""`autocomp tune` from end to end on this machine's CPU: it measures, survives SIGKILL with nothing lost, and `optimize` follows."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.ir.schedule_text import show
from autocomp.tune.key import schedule_of
from tests.helpers.command_line import call

MODEL = """graph g
input a: f32[60, 40]
input b: f32[40, 96]
%0 = matmul(a, b)
%1 = softmax(%0, axes=[1])
output y = %1
"""


@pytest.fixture(autouse=True)
def quick_compiler(tmp_path, monkeypatch):
    """The machine's compiler, without optimising: these tests wait for it."""
    cc = tmp_path / "cc"
    cc.write_text(f'#!/bin/sh\nexec {load_target("cpu").toolchain.compiler()} "$@" -O0\n')
    cc.chmod(0o755)
    monkeypatch.setenv("CC", str(cc))


def run(*args, code=0):
    got, out, err = call(*args)
    assert got == code, out + err
    return out, err


ONE = """graph g
input a: f32[60, 96]
%0 = softmax(a, axes=[1])
output y = %0
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture
def one(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(ONE)
    return str(path)


def rows(path):
    """(kernel, schedule) -> the rest of the row, for every committed measurement."""
    if not path.exists():
        return {}
    db = sqlite3.connect(path)
    try:
        return {r[:5]: r[5:] for r in db.execute("SELECT kernel, chip, rules, version, schedule, status, seconds FROM measurement")}
    except sqlite3.OperationalError:  # not yet made
        return {}
    finally:
        db.close()


# The command, which stands still behind its n-th measurement: a signal comes there however fast this machine is.
HELD = """
import sys, time
from autocomp.cli import main
from autocomp.tune.database import Database
add, left = Database.add, [int(sys.argv.pop(1))]
def held(self, *a):
    add(self, *a)
    left[0] -= 1
    if not left[0]:
        print("held", file=sys.stderr, flush=True)
        time.sleep(600)
Database.add = held
main()
"""


def started(n, *args):
    """The command in a process of its own, once it has kept n measurements."""
    child = subprocess.Popen([sys.executable, "-c", HELD, str(n), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in iter(child.stderr.readline, ""):
        said.append(line)
        if line == "held\n":
            return child
    raise AssertionError(f"it ended before: {''.join(said)}")


def test_a_search_that_is_killed_has_lost_nothing(one, tmp_path, request):
    if request.config.getoption("--as-cpu"):
        pytest.skip("the command in a process of its own tunes for the CPU that is here")
    path = tmp_path / "t.sqlite"
    command = ["tune", one, "-n", "5", "--database", str(path), "--json"]
    child = started(2, *command)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    before = rows(path)
    assert len(before) == 2

    data = json.loads(run(*command)[0])
    after = rows(path)
    assert {k: after[k] for k in before} == before
    assert len(after) == 5
    assert [k["tried"] for k in data["kernels"]] == [5]
    assert sum(k["fresh"] for k in data["kernels"]) == 5 - len(before)
    for k in data["kernels"]:
        assert k["tuned_seconds"] > 0
        assert k["near"] == pytest.approx(k["tuned_seconds"] / k["untuned_seconds"])

    again = json.loads(run(*command)[0])
    assert [k["fresh"] for k in again["kernels"]] == [0]
    assert [k["tuned_seconds"] for k in again["kernels"]] == [k["tuned_seconds"] for k in data["kernels"]]
    assert rows(path) == after
    folders = tmp_path / "cache" / "tuning"
    assert [p for p in folders.iterdir() if str(os.getpid()) not in p.name] == []

    out, _ = run("optimize", one, "--set", f"tuning_database={path}", "--set", "min_speedup=0.01", "--json")
    used = {k["kernel"]: k["schedule"] for k in json.loads(out)["kernels"]}
    assert used == {k["kernel"]: k["tuned"] for k in data["kernels"]}


def test_an_interrupted_search_says_that_nothing_is_lost(one, tmp_path):
    path = tmp_path / "t.sqlite"
    child = started(1, "tune", one, "--database", str(path))
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert f"interrupted; every measurement is kept in {path}, the same command goes on from there" in err
    assert "Traceback" not in err
    assert len(rows(path)) == 1


def test_the_table_says_what_was_tried_and_what_it_gained(model):
    out, err = run("tune", model, "-n", "1", "--budget", "60")
    for word in ("tried", "predicted", "untuned", "tuned", "gain", "near", "bandwidth", "1/"):
        assert word in out
    assert "2 schedules measured now, 0 known from before" in out
    assert "1.00 times faster, below min_speedup 1.2: `optimize` rolls back to the untuned schedules" in out
    assert "matmul: 1 of 1 schedules tried, best" in err
    shown = run("tune", "--show")[0]
    assert "matmul" in shown
    assert json.loads(run("tune", "--show", "--json")[0])[0]["done"] is True
    ranks = json.loads(run("tune", "--ranks", "--json")[0])
    assert [(k["schedules"], k["near"], k["rank_correlation"]) for k in ranks["kernels"]] == [(1, 1.0, None)] * 2
    assert "removed 2 measurements" in run("tune", "--clear")[1]
    assert json.loads(run("tune", "--show", "--json")[0]) == []


def test_optimize_measures_first_when_asked_to(one):
    out, err = run("optimize", one, "--tune", "2", "--set", "min_speedup=0.01", "--no-verify")
    assert "2 of 2 schedules tried" in err
    assert "`optimize` uses the measured schedules" in err
    best = json.loads(run("tune", "--show", "--json")[0])[0]["kept"][0]["schedule"]
    (used,) = json.loads(run("optimize", one, "--set", "min_speedup=0.01", "--no-verify", "--json")[0])["kernels"]
    assert used["schedule"] == show(schedule_of(best)) or "the untuned schedules of 1 of 1 kernels are the fastest" in out  # which won


def test_no_time_still_measures_one_choice(model):
    data = json.loads(run("tune", model, "--budget", "0.001", "--json")[0])
    first, second = sorted(data["kernels"], key=lambda k: -k["tried"])
    assert (first["tried"], first["near"]) == (1, 1)
    assert "schedules are left: the time is over" in first["note"]
    assert (second["tried"], second["note"]) == (0, "not begun: the time is over")


@pytest.mark.parametrize("args, text", [
    ([], "give a MODEL to tune"),
    (["--show", "--budget", "-1"], "--budget"),
])  # fmt: skip
def test_wrong_usage_is_exit_code_2(args, text):
    assert text in run("tune", *args, code=2)[1].replace("\n", " ")


def test_a_target_without_a_device_is_said(model):
    if not load_target("maca").why_not_runnable():
        pytest.skip("such a device is here")
    _, err = run("tune", model, "--target", "maca", code=1)
    assert "target maca cannot run here" in err
    assert "run the same command on a machine with the device" in err


def test_ranks_of_nothing_say_what_makes_some(tmp_path):
    _, err = run("tune", "--ranks", "--target", "cuda", "--database", str(tmp_path / "none.sqlite"))
    assert "has no measurements for cuda: `autocomp tune MODEL --target cuda` makes some" in err.replace("\n", " ")


def test_a_program_in_python_is_tuned_as_from_the_command_line(tmp_path, capsys):
    """`Program.tune` fills the database that `optimize` reads; what it gives back prints as the table."""
    program = autocomp.optimize(ONE, tuning_database=str(tmp_path / "t.sqlite"))
    found = program.tune(configurations=2)
    assert [(r["kernel"], r["tried"]) for r in found.rows] == [(program.kernels[0].name, 2)]
    assert "g on cpu" in str(found) and "2 schedules measured now, 0 known from before" in str(found)
    assert str(found).endswith(found.verdict)
    assert "2 of 2 schedules tried" in capsys.readouterr().err
    again = program.tune(configurations=2, quiet=True)
    assert [r["fresh"] for r in again.rows] == [0]
    assert capsys.readouterr().err == ""
    tuned = autocomp.optimize(ONE, tuning_database=str(tmp_path / "t.sqlite"), min_speedup=0.01)
    assert tuned.kernels[0].schedule == found.rows[0]["tuned"]
