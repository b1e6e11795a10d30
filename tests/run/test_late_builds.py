"""A compiler that the deadline ends: the program is there, and the first call compiles its kernels, or one that asks for it before."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import stat
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import autocomp
from autocomp import commands, deadline
from autocomp.errors import BuildError
from autocomp.runtime import cache
from autocomp.runtime.later import Later
from autocomp.trace import Trace
from tests.helpers.command_line import call

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
TEXT = "graph g\ninput x: f32[{n}]\n%0 = exp(x)\n%1 = cumsum(%0, axis=0)\noutput y = %1\n"
LEFT = "ended build, which left out the compiler: the first call, or prepare(), compiles 2 kernels"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes $CC a script that does `body` before it compiles, or instead. A command gets a quarter of a second after the deadline."""
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(deadline, "GRACE", 0.25)
    path = tmp_path / "slow-cc"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec cc --version\necho "$@" >> {tmp_path}/log\n. {tmp_path}/body\nexec cc "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(path))

    def make(body):  # the command's file stays as it is: a new one would be another compiler
        (tmp_path / "body").write_text(body)
        return tmp_path / "log"

    return make


def late(n, compiler, then=":"):
    """A program whose compiler did not end in time; it does `then` from now on."""
    compiler("exec sleep 60")
    begun = time.monotonic()
    program = autocomp.optimize(TEXT.format(n=n), cache=False, deadline=1e-3)
    assert time.monotonic() - begun < 20
    assert program.postponed
    assert program.runnable
    assert LEFT in program.explain()
    compiler(then).write_text("")
    return program


def right(program, n):
    x = np.linspace(-1, 1, n, dtype="f4")
    np.testing.assert_allclose(program(x), np.cumsum(np.exp(x)), rtol=1e-5)


def notes(program):
    return [e.data["text"] for e in program.trace.of("note") if e.name == "build"]


def test_the_first_call_compiles(compiler, tmp_path):
    program = late(31, compiler)
    assert program.sources
    assert (program.save(tmp_path / "out") / "manifest.json").exists()
    assert program.report(tmp_path / "r.html").exists()
    assert program.postponed, "nobody needed them"
    with deadline.running(deadline.Deadline(1e-3)):  # a command's clock, which is over
        right(program, 31)
    assert not program.postponed
    (note,) = notes(program)
    assert note.startswith("built when it was first needed, in ")


@pytest.mark.parametrize("how", ["prepare", "verify", "profile", "executor"])
def test_so_does_whatever_needs_them(compiler, how):
    program = late(32, compiler)
    {"prepare": program.prepare, "verify": program.verify, "executor": lambda: program.executor,
     "profile": lambda: program.profile({"x": np.zeros(32, "f4")}, 1)}[how]()  # fmt: skip
    assert not program.postponed
    right(program, 32)


def test_threads_wait_for_the_one_that_compiles(compiler, tmp_path):
    program = late(33, compiler, then="sleep 0.2")
    failed = []

    def run():
        try:
            right(program, 33)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not failed
    ran = (tmp_path / "log").read_text()
    assert ran.count("plan.c") == 1, ran


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_compiles_for_itself_while_another_thread_does(compiler, tmp_path):
    program = late(34, compiler, then="sleep 0.5")
    thread = threading.Thread(target=right, args=(program, 34))
    thread.start()
    while not (tmp_path / "log").read_text():
        time.sleep(0.01)
    child = multiprocessing.get_context("fork").Process(target=right, args=(program, 34))
    child.start()
    child.join(60)
    thread.join(60)
    assert child.exitcode == 0
    assert not program.postponed


def test_a_compiler_that_refuses_then_is_an_error_of_the_call(compiler):
    program = late(35, compiler, then="echo 'error: no' >&2; exit 1")
    with pytest.raises(BuildError, match="slow-cc failed with exit code 1: error: no"):
        right(program, 35)
    compiler(":")
    right(program, 35)


def test_a_compiler_that_never_ends_leaves_the_reference(compiler, monkeypatch):
    program = late(36, compiler, then="exec sleep 60")
    monkeypatch.setenv(commands.SECONDS, "0.3")
    right(program, 36)
    assert notes(program)[0] == "slow-cc did not end in 0.3 s and was killed: calls run through the reference, slowly"
    assert program.verify().ratio <= 1
    assert program.profile({"x": np.zeros(36, "f4")}, 2).total > 0


def test_for_a_device_that_is_an_error():
    def build():
        raise BuildError("nvcc did not end", late=True)

    with pytest.raises(BuildError, match="did not end"):
        Later(build, None, SimpleNamespace(runtime="cuda"), Trace()).made()


def test_a_compiler_that_refuses_in_time_is_an_error_at_once(compiler, monkeypatch):
    monkeypatch.setattr(deadline, "GRACE", 30.0)
    compiler("echo 'error: no' >&2; exit 1")
    with pytest.raises(BuildError, match="failed with exit code 1: error: no"):
        autocomp.optimize(TEXT.format(n=37), cache=False, deadline=1e-9)


def test_a_limit_of_ones_own_is_no_deadline(compiler, monkeypatch):
    monkeypatch.setenv(commands.SECONDS, "0.3")
    compiler("exec sleep 60")
    with pytest.raises(BuildError, match=r"did not end in 0.3 s and was killed(.|\n)*set \$AUTOCOMP_BUILD_SECONDS"):
        autocomp.optimize(TEXT.format(n=38), cache=False)


def test_what_lacks_its_library_alone_is_kept(compiler, monkeypatch):
    """Everything else of it is as without a deadline, so the next one finds it."""
    compiler("exec sleep 60")
    monkeypatch.setattr("autocomp.pipeline.load_program", cache.load_program)  # which tests do without
    monkeypatch.setattr("autocomp.pipeline.store_program", cache.store_program)
    first = autocomp.optimize(TEXT.format(n=39), deadline=3)
    assert set(e.name for e in first.trace.of("budget")) == {"build"}
    assert first.postponed
    compiler(":")
    trace = Trace()
    again = autocomp.optimize(TEXT.format(n=39), deadline=60, trace=trace)
    assert [e.data for e in trace.of("stage") if e.name == "cache"] == [{"found": "yes"}]
    assert not again.postponed
    assert "deadline" not in again.explain()
    right(again, 39)


def test_a_header_that_had_no_time_is_not_given_up(compiler, tmp_path):
    """Precompiled ones are made for the second program."""
    body = 'case "$*" in *c-header*) {};; esac'
    compiler(":")
    right(autocomp.optimize(TEXT.format(n=40)), 40)
    log = compiler(body.format("exec sleep 60"))
    assert autocomp.optimize(TEXT.format(n=41), cache=False, deadline=1e-3).postponed
    log = compiler(":")
    log.write_text("")
    right(autocomp.optimize(TEXT.format(n=42)), 42)
    assert "c-header" in log.read_text()


def test_the_command_line_says_that_nothing_was_compared(compiler, tmp_path):
    compiler("exec sleep 60")
    (tmp_path / "m.txt").write_text(TEXT.format(n=43))
    flags = ("--deadline", "0.001", "--set", "cache=false")
    code, text, said = call("optimize", str(tmp_path / "m.txt"), *flags, "--json", "-o", str(tmp_path / "out"))
    assert code == 0, said
    found = json.loads(text)
    assert found["verified"] is None
    assert found["deadline"]["verify"] == "all sizes, as nothing is compiled"
    assert "compiles 2 kernels" in found["deadline"]["build"]
    assert os.path.exists(tmp_path / "out" / "manifest.json")
    compiler(":")
    code, text, said = call("run", str(tmp_path / "m.txt"), *flags, "--json")
    assert code == 0, said
    assert json.loads(text)["verified"]["worst"] < 1e-3
