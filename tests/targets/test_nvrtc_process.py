"""NVRTC runs in a process of its own: one that hangs or crashes is an error that names the kernel, and the next kernel compiles."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from autocomp.targets.cuda import nvrtc, toolchain
from autocomp.targets.cuda.toolchain import Toolchain

import autocomp
from autocomp import commands, deadline, workers
from autocomp.errors import BuildError
from autocomp.trace import Trace
from autocomp.workers import Shared
from tests.helpers import tune_tasks

TEXT = "graph g\ninput x: f32[64]\n%0 = exp(x)\noutput y = %0\n"
HERE = Toolchain("sm_90a")
missing = HERE.missing()


@pytest.fixture
def planted(monkeypatch):
    """Instead of NVRTC a compiler that does what stands in a kernel's text."""
    mine = Shared("tests.helpers.tune_tasks", where="target cuda")
    monkeypatch.setattr(toolchain, "PROCESSES", mine)
    monkeypatch.setattr(nvrtc, "compiled", tune_tasks.compiler)
    assert HERE.compile_object("before", "good") == b"before"
    yield mine
    mine.stop()


def test_a_kernel_that_hangs(planted, monkeypatch):
    monkeypatch.setenv(commands.SECONDS, "0.5")
    begun = time.monotonic()
    with pytest.raises(BuildError) as e:
        HERE.compile_object("softmax_3", "hang")
    assert time.monotonic() - begun < 10
    assert str(e.value).startswith("target cuda: NVRTC did not end with kernel softmax_3 for sm_90a in 0.5 s and was killed\n"
                                   f"  next: set $AUTOCOMP_BUILD_SECONDS if it needs longer; its text is in {e.value.log}")  # fmt: skip
    assert Path(e.value.log).read_text().endswith("hang")
    assert e.value.late
    assert HERE.compile_object("after", "good") == b"after"


def test_a_kernel_that_crashes_it(planted):
    with pytest.raises(BuildError, match=r"gave no code for kernel k for sm_90a: killed by SIGSEGV(.|\n)*another release of NVRTC") as e:
        HERE.compile_object("k", "segv")
    assert not e.value.late
    assert HERE.compile_object("after", "good") == b"after"


def test_a_kernel_that_it_refuses(planted):
    with pytest.raises(BuildError, match=r"NVRTC refused kernel k for sm_90a: k.cu\(1\): error: no"):
        HERE.compile_object("k", "k.cu(1): error: no")


def test_the_deadline_ends_it_too(planted):
    """As far as its work can be done later."""
    mine = deadline.Deadline(1e-3, Trace())
    said = r"in 1 s and was killed\n  next: give it a later --deadline"
    with deadline.running(mine), mine.postponing(), pytest.raises(BuildError, match=said):
        HERE.compile_object("k", "hang")


def test_where_no_process_can_be_started(planted, monkeypatch):
    planted.stop()
    monkeypatch.setattr(workers, "get_executable", lambda: b"/nowhere/python")
    with pytest.raises(BuildError, match="target cuda: a child process cannot be started: No such file") as e:
        HERE.compile_object("k", "good")
    assert e.value.machine


def test_a_process_that_is_ended_by_others_compiles_itself(planted, monkeypatch):
    """The tuner's children do: who waits for them ends them."""
    monkeypatch.setattr(commands, "_shared", True)
    monkeypatch.setattr(planted, "run", lambda *a, **kw: pytest.fail("a process of its own"))
    assert HERE.compile_object("k", "good") == b"k"


@pytest.mark.skipif(bool(missing), reason=missing or "-")
def test_nvrtc_itself(monkeypatch):
    program = autocomp.optimize(TEXT, target="cuda:h200", cache=False)
    (code,) = program.build().values()
    assert code[:4] == b"\x7fELF"
    (name,) = program.sources
    assert code == nvrtc.compiled("sm_90a", name.removesuffix(".cu"), program.sources[name]), "as in this process"
    with pytest.raises(BuildError, match=r"NVRTC refused kernel k for sm_90a: k.cu\(1\): error: "):
        HERE.compile_object("k", "nonsense")


@pytest.mark.skipif(bool(missing), reason=missing or "-")
def test_the_long_way_of_angles_is_in_a_kernel_once():
    """An element with a copy of its own takes more code than the caches of instructions hold: 58.6 us for 43.1 (H200, 2026-11-29)."""
    body = lambda name: "".join(f"x[{i}] = ac_{name}(x[{i}]);" for i in range(16))
    head = '#include "autocomp_cuda.cuh"\nextern "C" __global__ void k(float *x)'
    code = lambda text: len(nvrtc.compiled("sm_90a", "k", f"{head} {{ {text} }}"))
    assert code(body("sin")) < 0.6 * code(body("sin").replace("ac_sin", "sinf"))
