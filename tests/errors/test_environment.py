"""No compiler, a cache that cannot be written, a full disk, a killed build: a clear error or a way around, nothing half-written."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, BuildError
from autocomp.files import write_atomic

GRAPH = "graph g\ninput x: f32[{n}]\n%0 = neg(x)\n%1 = exp(%0)\noutput y = %1\n"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_without_a_compiler_sources_are_printed_and_calls_say_what_to_install(fresh, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    program = autocomp.optimize(GRAPH.format(n=17), target="cpu")
    assert "exp" in program.source()
    with pytest.raises(AutocompError, match=r"\$CC names 'no-such-compiler', which is not found"):
        program(np.zeros(17, "f4"))


def test_a_compiler_that_fails_is_an_error_with_its_log(fresh, monkeypatch):
    wrapper = fresh / "cc"
    wrapper.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken 1.0 && exit 0\necho "x.c:1: error: out of order" >&2\nexit 7\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(wrapper))
    with pytest.raises(BuildError, match=r"cc failed with exit code 7: x\.c:1: error: out of order") as e:
        autocomp.optimize(GRAPH.format(n=18), target="cpu")
    assert "out of order" in Path(e.value.log).read_text()
    assert not list((fresh / "cache").rglob("build/*.entry"))


def test_a_compiler_without_openmp_says_so_and_what_to_do(fresh, monkeypatch):
    wrapper = fresh / "cc"
    wrapper.write_text('#!/bin/sh\n[ "$1" = --version ] && echo clang 1.0 && exit 0\n'
                       'echo "k.h:13:10: fatal error: \'omp.h\' file not found" >&2\nexit 1\n')  # fmt: skip
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(wrapper))
    with pytest.raises(BuildError, match=r"cc has no OpenMP here: k\.h:13:10: fatal error: 'omp\.h'") as e:
        autocomp.optimize(GRAPH.format(n=21), target="cpu")
    assert "or set $CC to a compiler that has it" in e.value.hint


def test_the_compilers_name_may_have_options_behind_it(fresh, monkeypatch):
    wrapper = fresh / "launcher"
    wrapper.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/log"\nexec "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", f"{wrapper} gcc -DONE=1")
    np.testing.assert_allclose(autocomp.optimize(GRAPH.format(n=22), target="cpu")(np.zeros(22, "f4")), 1)
    assert "gcc -DONE=1 -std=gnu11" in (fresh / "log").read_text()


def test_a_cache_that_cannot_be_written_is_gone_around_and_reported(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("AUTOCOMP_CACHE", str(blocked))
    trace = autocomp.Trace()
    program = autocomp.optimize(GRAPH.format(n=19), target="cpu", trace=trace)
    np.testing.assert_allclose(program(np.zeros(19, "f4")), 1)
    assert any(f"{blocked} cannot be used: it is no folder" in str(e) for e in trace.events)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    real = os.fdopen

    def full(fd, *args, **kw):
        f = real(fd, *args, **kw)
        f.write = lambda data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device"))
        return f

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(AutocompError, match="cannot write 3 bytes: No space left on device"):
        write_atomic(tmp_path / "out" / "a.txt", "abc")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_killed_build_leaves_a_cache_that_works(fresh):
    wrapper = fresh / "cc"
    wrapper.write_text('#!/bin/sh\ncase "$1" in --version) exec gcc --version;; esac\ntouch "$WAITING"\nsleep 60\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    waiting = fresh / "waiting"
    code = f"import autocomp; autocomp.optimize({GRAPH.format(n=20)!r}, target='cpu')"
    env = {**os.environ, "CC": str(wrapper), "WAITING": str(waiting)}
    child = subprocess.Popen([sys.executable, "-c", code], env=env, start_new_session=True)
    while not waiting.exists() and child.poll() is None:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not list((fresh / "cache").rglob("build/*.entry"))
    program = autocomp.optimize(GRAPH.format(n=20), target="cpu")
    np.testing.assert_allclose(program(np.zeros(20, "f4")), 1)


@pytest.mark.parametrize(("package", "code", "said"), [
    ("onnx", "autocomp.optimize('m.onnx')",
     "ModelError m.onnx: reading ONNX models needs the onnx package\n  next: pip install 'autocomp[onnx]'"),
    ("torch", "autocomp.optimize(type('M', (), {'__module__': 'torch.nn'})())",
     "ModelError M: torch is not installed\n  next: pip install 'autocomp[torch]'"),
])  # fmt: skip
def test_an_extra_that_is_not_installed_is_named_with_its_command(package, code, said):
    program = (f"import sys; sys.modules['{package}'] = None\nimport autocomp\ntry: {code}\n"
               "except autocomp.AutocompError as e: print(type(e).__name__, e)")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == said + "\n"
