"""Child processes: what a task does to its process costs that task alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from autocomp import workers
from autocomp.workers import Failure, Pool, Shared, Worker
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
    assert found[3] == Failure("no result after 3 s", late=True)
    assert found[5] == Failure("ValueError: bad candidate")
    assert found[6] == Failure("the target has no such instruction", refused=True)
    assert found[8] == Failure("the process ended with exit code 7")


def test_a_child_goes_on_with_items_of_its_kind():
    pool = Pool(2)
    kinds = ["a", "b", "a", "b", "a", "b"]
    try:
        found = dict(pool.each(tasks.slowly, [(0.02,)] * 6, limit=20.0, kinds=kinds))
    finally:
        pool.stop()
    assert sorted(found) == list(range(6))
    assert found[0] == found[2] and found[1] == found[3] and found[0] != found[1]


@pytest.mark.parametrize(("own", "others", "taken"), [
    ("a", ["b"], 1), ("b", ["a"], 0), ("x", ["b"], 1), ("x", ["a", "b"], 3), (None, ["a", "b", "c"], 0), ("c", ["a"], 3),
])  # fmt: skip
def test_which_item_a_child_takes(own, others, taken):
    assert workers._next([0, 1, 2, 3], ["b", "a", "b", "c"], own, others) == taken


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


def gone(child: int, seconds: float = 10) -> bool:
    """Whether a process ends, or is one that nobody has collected."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{child}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


PARENTS = {
    "its main thread": """
w = Worker()
print(w.run(os.getpid, limit=30.0), flush=True)
w.start(tune_tasks.task, "hang", limit=60.0)
""",
    "another thread": """
s = Shared()
t = threading.Thread(target=lambda: print(s.run(os.getpid, limit=30.0), flush=True))
t.start(), t.join()
threading.Thread(target=lambda: s.run(tune_tasks.task, "hang", limit=60.0), daemon=True).start()
""",
}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", PARENTS)
def test_children_end_with_a_parent_that_is_killed(how):
    names = ("import os, time, threading", "from autocomp.workers import Shared, Worker", "from tests.helpers import tune_tasks")
    code = "\n".join((*names, PARENTS[how], "time.sleep(60)"))
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    time.sleep(0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(child), f"process {child} outlives its parent"


def test_a_child_whose_parent_was_killed_ends_without_a_word(tmp_path):
    """It finds that out when it tells its result: one that a thread made is not ended by Linux."""
    begun, said = tmp_path / "begun", tmp_path / "said"
    code = f"""
import threading
from autocomp.workers import Shared
from tests.helpers import tune_tasks
threading.Thread(target=lambda: Shared().run(tune_tasks.begun, {str(begun)!r}, 0.3, limit=60.0)).start()
"""
    with said.open("w") as err:
        parent = subprocess.Popen([sys.executable, "-c", code], stderr=err)
    while not (begun.exists() and begun.read_text()):
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    assert gone(int(begun.read_text())) and said.read_text() == ""


def test_what_is_under_way_at_the_end_is_ended():
    pool = Pool(2, "tests.helpers.tune_tasks")
    pool.wake(2)
    assert dict(pool.each(tasks.task, [(2,), ("hang",), (3,), ("hang",)], limit=60.0, end=time.monotonic() + 1)) == {0: 4, 2: 9}
    pool.begin(tasks.task, [(2,), ("hang",)], limit=60.0)
    assert pool.collect(time.monotonic() + 0.5) == [4, None]
    pool.stop()


# ---- shared by threads
@pytest.fixture
def shared():
    s = Shared("tests.helpers.tune_tasks")
    yield s
    s.stop()


def side_by_side(shared, n, seconds=0.3):
    """The processes that as many threads had at once."""
    found = []
    threads = [threading.Thread(target=lambda: found.append(shared.run(tasks.slowly, seconds, limit=30.0))) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return found


def test_each_thread_has_a_child_and_one_stays(shared):
    first = side_by_side(shared, 3)
    assert len(set(first)) == 3
    assert len(shared._idle) == 1
    time.sleep(0.1)  # the threads that started it are over
    assert shared.run(os.getpid, limit=30.0) in first
    assert shared.run(tasks.task, 3, limit=30.0) == 9


def test_a_shared_child_that_hangs_is_replaced(shared):
    first = shared.run(os.getpid, limit=30.0)
    assert shared.run(tasks.task, "hang", limit=0.3) == Failure("no result after 0.3 s", late=True)
    assert gone(first)
    assert shared.run(tasks.task, "segv", limit=30.0) == Failure("killed by SIGSEGV")
    assert shared.run(tasks.task, 4, limit=30.0) == 16


def test_an_answer_that_nobody_waited_for_is_not_given_to_the_next(shared, monkeypatch):
    shared.run(tasks.task, 1, limit=30.0)
    real = Worker.result
    with monkeypatch.context() as m:
        m.setattr(Worker, "result", lambda w: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            shared.run(tasks.task, 5, limit=30.0)
    assert Worker.result is real
    assert shared.run(tasks.task, 6, limit=30.0) == 36


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_children_of_its_own(shared, tmp_path):
    mine = shared.run(os.getpid, limit=30.0)
    at_work = threading.Thread(target=lambda: answers.append(shared.run(tasks.begun, str(tmp_path / "begun"), 1.0, limit=30.0)))
    answers = []
    at_work.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)

    def child(send):
        send.send(shared.run(os.getpid, limit=30.0))
        shared.stop()

    receive, send = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(send,))
    process.start()
    theirs = receive.recv() if receive.poll(30) else None
    process.join(30)
    at_work.join(30)
    assert process.exitcode == 0
    assert theirs not in (None, mine)
    assert answers == [str(tmp_path / "begun")]
    assert shared.run(os.getpid, limit=30.0) == mine


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_is_left_when_the_process_ends():
    code = "import os\nfrom autocomp.workers import Shared\ns = Shared()\nprint(s.run(os.getpid, limit=30.0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert gone(int(done.stdout), 2)
