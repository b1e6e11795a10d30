"""Child processes: what a task does to its process costs that task alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from autocomp.tune.process import Failure, Pool, Worker
from tests.helpers import tune_tasks as tasks


@pytest.fixture
def worker():
    w = Worker()
    yield w
    w.stop()


def test_a_crash_a_hang_and_an_error_cost_their_own_task_alone():
    pool = Pool(2)
    try:
        items = [(1,), ("segv",), (2,), ("hang",), (3,), ("error",), ("unsupported",), (4,), ("exit",), (5,)]
        found = dict(pool.each(tasks.task, items, limit=3.0))
    finally:
        pool.stop()
    assert [found[i] for i in (0, 2, 4, 7, 9)] == [1, 4, 9, 16, 25]
    assert found[1] == Failure("killed by SIGSEGV")
    assert found[3] == Failure("no result after 3 s")
    assert found[5] == Failure("ValueError: bad candidate")
    assert found[6] == Failure("the target has no such instruction", refused=True)
    assert found[8] == Failure("the process ended with exit code 7")


def test_children_come_up_side_by_side(monkeypatch):
    """All are started before the first one is waited for: each takes a second or more to import what it runs."""
    done = []
    spawn, ready = Worker._spawn, Worker._await_ready
    monkeypatch.setattr(Worker, "_spawn", lambda w: (done.append("start"), spawn(w)))
    monkeypatch.setattr(Worker, "_await_ready", lambda w: (done.append("wait"), ready(w)))
    pool = Pool(3)
    try:
        pool.begin(tasks.task, [(1,), (2,), (3,)], limit=20.0)
        assert pool.collect() == [1, 4, 9]
        assert dict(pool.each(tasks.task, [(2,), (3,)], limit=20.0)) == {0: 4, 1: 9}
    finally:
        pool.stop()
    assert done == ["start"] * 3 + ["wait"] * 5


def test_output_of_a_task_does_not_disturb_its_result(worker):
    assert worker.run(tasks.noisy, limit=20.0) == "quiet"


def test_a_worker_keeps_its_process_and_replaces_a_dead_one(worker):
    first = worker.run(os.getpid, limit=20.0)
    assert worker.run(os.getpid, limit=20.0) == first != os.getpid()
    worker.run(tasks.task, "segv", limit=20.0)
    second = worker.run(os.getpid, limit=20.0)
    assert isinstance(second, int)
    assert second != first


def test_a_child_that_is_killed_between_two_tasks_is_replaced(worker):
    os.kill(worker.run(os.getpid, limit=20.0), signal.SIGKILL)
    time.sleep(0.1)
    assert worker.run(tasks.task, 3, limit=20.0) == 9


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is signalled on Linux")
def test_children_end_with_a_parent_that_is_killed():
    code = """
import os, time
from autocomp.tune.process import Worker
from tests.helpers import tune_tasks
w = Worker()
print(w.run(os.getpid, limit=30.0), flush=True)
w.start(tune_tasks.task, "hang", limit=60.0)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            with open(f"/proc/{child}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return  # dead; whoever inherited it has not collected it yet
        except FileNotFoundError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {child} outlives its parent")
