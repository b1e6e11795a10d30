"""Every printed kernel under compute-sanitizer: no access outside its memory, no race in shared memory, no barrier misused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.device_graphs import GRAPHS
from tests.helpers.split_depth import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import sys, autocomp
from autocomp.runtime.inputs import random_inputs
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.split_depth import PROGRAMS
for name in sys.argv[1:]:
    p = autocomp.optimize(GRAPHS[name], target="cuda")
    p.run(random_inputs(p.graph, 0))
    print("ran", name, flush=True)
"""
SHARED = """
from autocomp.runtime.inputs import random_inputs
from tests.helpers.split_depth import PROGRAMS, on_device
for kind, name in PROGRAMS:
    p = on_device(kind, name)
    p.run(random_inputs(p.graph, 0))
    print("ran", name, flush=True)
"""
SCHEDULED = """
import autocomp
from autocomp.runtime.inputs import random_inputs
from benchmarks.random_schedules import use
from tests.helpers.device_graphs import WAVES, WAVES_SCHEDULE
p = autocomp.optimize(WAVES, target="cuda:h200")
use(p, dict.fromkeys(p.printed, WAVES_SCHEDULE))
p.run(random_inputs(p.graph, 0))
print("ran waves", flush=True)
"""
needs = pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer (CUDA toolkit) is not on PATH")


@needs
@pytest.mark.parametrize(("script", "names"), [(RUN, list(GRAPHS)), (SHARED, PROGRAMS), (SCHEDULED, ["waves"])],
                         ids=["graphs", "depth_shared_out", "waves_beyond_the_tile"])  # fmt: skip
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_no_tool_finds_anything(tool, script, names):
    options = ["--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"]
    command = ["compute-sanitizer", *options, sys.executable, "-c", script, *(names if script == RUN else ())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))})  # fmt: skip
    found = [line for line in done.stdout.splitlines() if "=====" in line]
    assert done.returncode == 0, "\n".join(found[:40]) + done.stderr[-2000:]
    assert done.stdout.count("ran ") == len(names)
