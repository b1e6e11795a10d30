"""Limits of the system, each in a process of its own: fewer threads with a note, or an error with figures; never a signal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError
from tests.helpers.shared_files import new_cache

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH"),
    pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux"),
]
WORK = """
import os, resource, sys
import numpy as np
import autocomp
x = np.random.default_rng(0).standard_normal((200, 200)).astype("f4")
program = autocomp.optimize(lambda x, w: np.tanh(x @ w) @ w, example_inputs=(x, x){options})
assert "ac_share_out(" in program.source()
{before}
y = program(x, x)
assert np.allclose(y, np.tanh(x @ x) @ x, atol=1e-2)
print("right", *(e.data["text"] for e in program.trace.of("note") if e.name == "threads"))
"""


def ran(tmp_path_factory_cache, options: str = "", before: str = "", stack: str = "", **environment: str) -> str:
    """What a process says; it ends by itself, with or without an error."""
    command = [sys.executable, "-c", WORK.format(options=options, before=before)]
    if stack:
        command = ["sh", "-c", f'ulimit -s {stack} && exec "$@"', "sh", *command]
    env = {**os.environ, "AUTOCOMP_CACHE": str(tmp_path_factory_cache), **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert done.returncode in (0, 1), f"status {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return new_cache(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("value", ["0", "abc", "4,2", "99999999999999999999"])
def test_numbers_of_threads_that_openmp_does_not_take(cache, value):
    assert "right\n" in ran(cache, OMP_NUM_THREADS=value)


def test_a_hundred_thousand_threads_become_as_many_as_help(cache):
    said = ran(cache, OMP_NUM_THREADS="100000")
    assert "right 100000 threads were asked for (threads=, $OMP_NUM_THREADS), " in said
    assert f"run: that is enough for {len(os.sched_getaffinity(0))} cores" in said


def test_the_systems_limit_of_threads(cache):
    """One user's processes and threads: reached, OpenMP would end the process."""
    if os.geteuid():
        pytest.skip("only root can become a user who has no other process")
    leave = "os.setresuid(64321, 64321, 64321); resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))"
    said = ran(cache, ", threads=8", leave)
    assert "right 8 threads were asked for (threads=, $OMP_NUM_THREADS), " in said
    assert "run: the system gives no more" in said


@pytest.mark.parametrize("size", ["1", "16K", "999999999G"])
def test_stacks_of_threads(cache, size):
    said = ran(cache, ", threads=3", OMP_STACKSIZE=size)
    assert "right" in said
    assert ("their stacks have" in said and "bytes, kernels may need" in said) == (size == "16K")


def test_a_small_stack_of_the_process(cache):
    said = ran(cache, ", threads=2", stack="160")
    assert "AutocompError: thread 'MainThread': the stack has" in said
    assert "next: raise `ulimit -s`" in said
    assert "right\n" in ran(cache, ", threads=2", stack="512")


def test_a_small_stack_of_a_thread():
    x = np.ones((64, 64), "f4")
    program = autocomp.optimize(lambda x: np.tanh(x @ x), example_inputs=(x,), threads=1)
    want, said = program(x), []

    def call() -> None:
        try:
            np.testing.assert_array_equal(program(x), want)
            said.append("right")
        except AutocompError as e:
            said.append(str(e))

    before = threading.stack_size(64 << 10)
    try:
        for size in (64 << 10, 1 << 20):
            threading.stack_size(size)
            t = threading.Thread(target=call, name="small")
            t.start()
            t.join()
    finally:
        threading.stack_size(before)
    assert said[0].startswith("thread 'small': the stack has ")
    assert said[1] == "right"


def test_less_than_no_threads_are_refused():
    with pytest.raises(AutocompError, match=r"threads is -1, no less than 0 is understood"):
        autocomp.Options(threads=-1)


LIMIT = """
vm = int(next(l for l in open("/proc/self/status") if l.startswith("VmSize")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (vm + ({mb} << 20), resource.RLIM_INFINITY))
"""
CALL = """
import resource
import numpy as np
import autocomp
from autocomp.errors import AutocompError
program = autocomp.optimize('''graph g
dim n in 1..100000
input x: f32[n, 512]
param w: f32[512, 512] = random(0)
%0 = matmul(x, w)
%1 = reduce_max(%0, axes=[0], keepdims=True)
%2 = sub(%0, %1)
output y = %2
''')
x = np.ones((20000, 512), "f4")
program(x[:10])
{limit}
for f in (program, lambda x: program.verify({{"x": x}})):
    try:
        f(x)
    except AutocompError as e:
        print(e)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert not program(x[:10]).any()
print("right", program(x).shape)
"""
COMPILE = """
import resource
import numpy as np
import autocomp
from autocomp.errors import AutocompError
x = np.ones((8, 8), "f4")
autocomp.optimize(lambda x: x + 1, example_inputs=(x,))
{limit}
def large(x):
    return x + np.ones((40000, 40000), "f4").sum()
try:
    autocomp.optimize(large, example_inputs=(x,))
except AutocompError as e:
    print(e)
"""


def limited(cache, text: str, mb: int) -> str:
    done = subprocess.run([sys.executable, "-c", text.format(limit=LIMIT.format(mb=mb))], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "AUTOCOMP_CACHE": str(cache), "OMP_NUM_THREADS": "1"}, check=False)  # fmt: skip
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def test_no_memory_for_a_call(cache):
    said = limited(cache, CALL, 30)
    assert re.search(r"g: not enough memory for a call: \d+\.\d MB of intermediates, 41\.0 MB of outputs, \d\.\d MB of weights", said)
    assert "g: the float64 reference needs more memory than there is: the process has had " in said
    assert "MB of addresses" in said
    assert "right (20000, 512)" in said


def test_no_memory_for_a_compilation(cache):
    said = limited(cache, COMPILE, 300)
    assert "optimize: the compilation needs more memory than there is: the process has had" in said
    assert "next: free memory, or raise the limit (`ulimit -v`, the container's)" in said
