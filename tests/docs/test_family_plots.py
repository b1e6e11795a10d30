"""The table of `benchmarks.family_plots` from a file of figures, and its refusal of another file."""

import json
import subprocess
import sys

ROWS = [
    {"family": "rows", "function": f"sum f32 {n}", "ratio": ratio, "roof": 0.5, "pred": 1.0, "ours": 0.01, "bytes": 1e6, "operations": 0,
     "peer": "eager", "times": {"eager": [0.01 * ratio, 0.0]}}
    for n, ratio in ((64, 2.0), (65, 0.5))
] + [{"family": "rows", "function": "refused", "error": "UnsupportedError: no"}]  # fmt: skip


def run(path, *more):
    command = [sys.executable, "-m", "benchmarks.family_plots", str(path), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_means_and_the_worst_are_those_of_the_functions_that_were_timed(tmp_path):
    file = tmp_path / "families.json"
    file.write_text(json.dumps({"copy": 4e12, "flops": 8e14, "rows": ROWS}))
    out = run(file).stdout
    assert "| rows | 2 | 1.00 | 0.50 | 0.50 | 1.00 | sum f32 65: 10.0 us |" in out
    assert "| **all** | 2 | **1.000** | 0.50 | | | 1 below 0.85 |" in out


def test_another_file_is_refused_by_name(tmp_path):
    file = tmp_path / "other.json"
    file.write_text("[]")
    ended = run(file)
    assert ended.returncode and str(file) in ended.stderr and "Traceback" not in ended.stderr
