"""A child forked after its parent used the compiler compiles, runs and verifies; nothing waits for threads that are not there."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

import autocomp
from autocomp import forks
from autocomp.egraph import native
from autocomp.errors import AutocompError
from autocomp.forks import Lock, kept_property

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Python's own about forks beside threads
]
X, W = (np.random.default_rng(0).standard_normal(s).astype("f4") for s in ((96, 64), (64, 64)))


def model(x, w):
    return np.exp(-np.abs(x @ w))


@pytest.fixture(scope="module")
def program():
    program = autocomp.optimize(model, example_inputs=(X, W), threads=2)
    assert "ac_share_out(" in program.source()
    program(X, W)  # the team is there, and so are egglog's threads
    return program


def child(work, limit: float = 40) -> None:
    """`work()` in a forked child. Fails where it raises, ends by a signal, or has not ended after `limit` seconds."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            os.write(write, traceback.format_exc()[-3000:].encode())
        finally:
            os._exit(status)
    os.close(write)
    end = time.monotonic() + limit
    done, status = os.waitpid(pid, os.WNOHANG)
    while not done and time.monotonic() < end:
        time.sleep(0.01)
        done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with os.fdopen(read) as f:
        said = f.read()
    assert done, f"the child has not ended after {limit} s"
    assert status == 0, f"status {status}\n{said}"


def call(program, want) -> None:
    assert program(X, W).tobytes() == want


def test_calls(program):
    want = program(X, W).tobytes()
    child(lambda: call(program, want))
    call(program, want)


def test_calls_after_a_call_in_the_child_forks_again(program):
    want = program(X, W).tobytes()

    def work() -> None:
        call(program, want)
        child(lambda: call(program, want))
        call(program, want)

    child(work)


def test_the_team_of_a_child_has_its_threads(program):
    def work() -> None:
        program(X, W)
        assert len(os.listdir("/proc/self/task")) == 2

    if os.path.isdir("/proc/self/task"):
        child(work)


@pytest.mark.parametrize("what", [lambda p: p.verify(), lambda p: p.profile({"x": X, "w": W}, 2)], ids=["verify", "profile"])
def test_what_runs_a_program(program, what):
    child(lambda: what(program))


def test_optimize(program):
    sources = program.sources

    def work() -> None:
        made = autocomp.optimize(model, example_inputs=(X, W), threads=2, verify=True)
        assert made.sources == sources

    child(work)
    assert autocomp.optimize(model, example_inputs=(X, W), threads=2).sources == sources


def test_optimize_where_the_parent_keeps_e_graphs(program, monkeypatch):
    """A child drops none of them: that would wait for threads that are the parent's."""
    monkeypatch.setattr("autocomp.egraph.kept.KEPT", 1)
    for f in (np.tanh, np.exp):
        autocomp.optimize(lambda x, f=f: f(x) * 2, example_inputs=(X,), cache=False)
    child(lambda: [autocomp.optimize(lambda x, f=f: f(x) * 3, example_inputs=(X,), cache=False) for f in (np.sin, np.cos, np.sqrt)])


def test_optimize_in_a_childs_child(program):
    def work() -> None:
        autocomp.optimize(lambda x: np.tanh(x) * 2, example_inputs=(X,))
        child(lambda: autocomp.optimize(lambda x: np.tanh(x) * 3, example_inputs=(X,)), 20)

    child(work)


def _square(i: int) -> float:
    program = autocomp.optimize(lambda x: x * x + i, example_inputs=(X,), cache=False)
    return float(np.max(np.abs(program(X) - (X * X + i))))


def test_workers_of_multiprocessing(program):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert max(pool.map_async(_square, range(3)).get(60)) < 1e-5


def test_forks_while_another_thread_imports(monkeypatch, tmp_path):
    monkeypatch.setattr(forks, "_OURS", (*forks._OURS, "slow_to_import"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.5)\nLAST = 1\n")
    thread = threading.Thread(target=importlib.import_module, args=("slow_to_import",))
    thread.start()
    while "slow_to_import" not in sys.modules:
        time.sleep(0.01)

    def work() -> None:
        assert importlib.import_module("slow_to_import").LAST == 1

    try:
        child(work, 10)
    finally:
        thread.join()
        sys.modules.pop("slow_to_import")


def test_a_module_may_fork_while_it_is_imported(monkeypatch, tmp_path):
    monkeypatch.setattr(forks, "_OURS", (*forks._OURS, "forks_at_import"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "forks_at_import.py").write_text("import os\nif not os.fork():\n    os._exit(7)\nENDED = os.wait()[1]\n")
    assert os.waitstatus_to_exitcode(importlib.import_module("forks_at_import").ENDED) == 7
    sys.modules.pop("forks_at_import")


def test_forks_beside_threads_that_call_and_compile(program):
    want, end, wrong = program(X, W).tobytes(), threading.Event(), []

    def calls() -> None:
        while not end.is_set():
            wrong.extend([1] * (program(X, W).tobytes() != want))

    def compiles() -> None:
        while not end.is_set():
            autocomp.optimize(lambda x: np.tanh(x) + 1, example_inputs=(X,), cache=False)

    threads = [threading.Thread(target=t) for t in (calls, calls, compiles)]
    for t in threads:
        t.start()
    try:
        for i in range(6):
            child(lambda: call(program, want))
            if i % 3 == 0:
                child(lambda: autocomp.optimize(lambda x: np.sin(x) + 1, example_inputs=(X,)))
    finally:
        end.set()
        for t in threads:
            t.join(60)
    assert not wrong


def test_forks_from_a_thread_that_calls(program):
    want, failed = program(X, W).tobytes(), []

    def forks() -> None:
        try:
            call(program, want)
            child(lambda: call(program, want))
            call(program, want)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=forks) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not failed


def test_a_lock_that_another_thread_holds_is_open_in_the_child():
    lock, taken, end = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.held:
            taken.set()
            end.wait(60)

    t = threading.Thread(target=hold)
    t.start()
    taken.wait(10)

    def work() -> None:
        assert lock.held.acquire(timeout=5)

    try:
        child(work)
    finally:
        end.set()
        t.join()


def test_a_compilation_does_not_go_on_in_the_child(program):
    eg = native.egglog().EGraph()

    def work() -> None:
        with pytest.raises(AutocompError, match=r"this compilation began before the process was forked"):
            native.check(eg)
        native.egglog()
        with pytest.raises(AutocompError, match=r"next: call optimize in the child from its beginning"):
            native.check(eg)

    child(work)


@pytest.mark.parametrize("before", ["import autocomp, egglog", "import autocomp.egraph.native", "import autocomp"])
def test_a_child_whose_parent_only_imported(before):
    """egglog starts its threads when it is imported, as it is for a program from the cache too. Its package is not: that takes longer than
    what a small graph asks of it."""
    text = (f"import os, sys\n{before}\nif not os.fork():\n    import autocomp\n    import numpy as np\n    x = np.ones((4, 4), 'f4')\n"
            "    assert (autocomp.optimize(lambda x: x + 1, example_inputs=(x,), cache=False)(x) == 2).all()\n"
            f"    assert ('egglog' in sys.modules) == {', egglog' in before}\n    os._exit(0)\n"
            "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", text], timeout=60, check=False).returncode == 0


def test_where_egglog_cannot_be_loaded_again_it_is_said_at_once(program, monkeypatch):
    monkeypatch.setattr(native, "bindings", SimpleNamespace(__file__="/nowhere/egglog.so", __name__="egglog.bindings"))

    def work() -> None:
        with pytest.raises(AutocompError, match=r"egglog's threads do not live on in a forked child.*\n  next: compile before the fork"):
            autocomp.optimize(lambda x: np.sin(x) + 2, example_inputs=(X,))

    child(work)


def test_the_end_of_a_process_says_nothing():
    """What a child would call is forgotten with its object, also where a process ends."""
    text = ("import numpy as np, autocomp\nx = np.ones((4, 4), 'f4')\n"
            "for k in range(3): p = autocomp.optimize(lambda x: x + k, example_inputs=(x,)); p(x)\n")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""


def test_what_a_child_calls_goes_with_its_object():
    class Owner:
        def forked(self) -> None:
            called.append(self)

    called: list[Owner] = []
    owner, before = Owner(), len(forks._FIRST)
    forks.in_child(owner.forked)
    assert len(forks._FIRST) == before + 1

    def work() -> None:
        assert len(called) == 1

    child(work)
    assert not called
    del owner
    gc.collect()
    assert len(forks._FIRST) <= before


def test_a_child_computes_what_another_thread_was_computing():
    begun, go_on = threading.Event(), threading.Event()

    class Kept:
        def __init__(self, wait: bool) -> None:
            self.wait = wait

        @kept_property
        def value(self) -> int:
            begun.set()
            if self.wait:
                go_on.wait(60)
            return 7

    slow = Kept(True)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    begun.wait(60)
    try:
        child(lambda: Kept(False).value, limit=20)
    finally:
        go_on.set()
        thread.join(60)
    assert slow.value == 7 and "value" in vars(slow)
