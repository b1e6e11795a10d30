"""Arrays that a kernel's threads take from the heap: where there is no memory a call ends in an error, and the next one is right."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(shutil.which("cc") is None or not sys.platform.startswith("linux"), reason="limits of Linux")
CHILD = """
import ctypes, resource, sys
import numpy as np
import autocomp
SIZES = {"fixed": ("", "300000"), "symbolic": ("dim n in 1..1000000\\n", "n")}[sys.argv[1]]
text = "graph g\\n%sinput x: f32[4, %s]\\n%%0 = softmax(x, axes=[1])\\n%%1 = mul(%%0, x)\\noutput y = %%1\\n" % SIZES
ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD: a megabyte comes from the system each time
# exponentials kept, on every make of CPU: where they are cheap, making them again needs no memory
program = autocomp.optimize(text, cache=False, threads=int(sys.argv[2]), without=["monoids/max-sumexp"])
kernel = next(k.name for k in program.kernels if "exp" in k.ops)
assert "ac_alloc(" in program.source()
x = np.random.default_rng(0).standard_normal((4, 300_000)).astype("f4")
want = program(x)
executor = program.executor
call = executor._begin({"x": x})  # its outputs and its intermediates are there
executor._calls(call)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 19), resource.RLIM_INFINITY))
for work in (lambda: executor._calls(call), lambda: executor._segment(0, len(program.kernels), False, call)):
    try:
        work()
    except autocomp.AutocompError as e:
        print(e)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
executor._calls(call)
executor._end(call)
np.testing.assert_array_equal(program(x), want)
print("right afterwards in", kernel)
"""


@pytest.mark.parametrize(("sizes", "threads", "each"), [("fixed", 1, "1 thread wants"), ("symbolic", 2, "2 threads want")])
def test_a_kernel_that_finds_no_memory(sizes, threads, each):
    done = subprocess.run([sys.executable, "-c", CHILD, sizes, str(threads)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kernel = done.stdout.split()[-1]
    said = ("g: not enough memory for a call: 0.0 MB of intermediates, 4.8 MB of outputs, 0.0 MB of weights (kernel "
            f"{kernel}: {each} 1,200,000 bytes each)\n"
            "  next: free memory, raise the limit (`ulimit -v`), or call with smaller sizes\n")  # fmt: skip
    assert done.stdout == 2 * said + f"right afterwards in {kernel}\n"
