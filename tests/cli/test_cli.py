"""The command line: what it prints, writes and returns."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MLP = """graph mlp
input x: f32[33, 40]
param w: f32[40, 50] = random(3)
%0 = matmul(x, w)
%1 = max(%0, const(0.0, f32))
output y = %1
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "mlp.txt"
    path.write_text(MLP)
    return str(path)


def run(*args, code=0):
    done = subprocess.run([sys.executable, "-m", "autocomp.cli", *args], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def test_optimize_writes_everything(model, tmp_path):
    out, err = run(
        "optimize", model, "-o", str(tmp_path / "o"), "--vis-graph", str(tmp_path / "g.svg"), "--report", str(tmp_path / "r.html")
    )
    assert "matmul_max" in out
    assert "verified" in err
    assert {"kernels_0.c", "plan.c", "manifest.json", "weights.npz", "build.sh"} <= {p.name for p in (tmp_path / "o").iterdir()}
    assert "fusion/epilogue" in (tmp_path / "g.svg").read_text()
    assert "matmul_max" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("suffix", ["dot", "html"])
def test_graph_views(model, tmp_path, suffix):
    run("optimize", model, "--no-verify", "--vis-graph", str(tmp_path / f"g.{suffix}"))
    text = (tmp_path / f"g.{suffix}").read_text()
    assert "matmul_max" in text
    assert "fusion/epilogue" in text


def test_json_is_for_machines(model):
    data = json.loads(run("optimize", model, "--json")[0])
    assert [k["kernel"] for k in data["kernels"]] == ["matmul_max"]
    assert data["verified"]["worst"] < 1e-3


def test_without_rules_more_kernels(model):
    data = json.loads(run("optimize", model, "--json", "--without", "fusion/*")[0])
    assert [k["kernel"] for k in data["kernels"]] == ["matmul", "max"]


def test_run_times_and_writes_outputs(model, tmp_path):
    import numpy as np

    out, _ = run("run", model, "--repeat", "2", "-o", str(tmp_path / "y.npz"))
    assert "measured" in out
    with np.load(tmp_path / "y.npz") as data:
        assert data["y"].shape == (33, 50)


def test_explain(model):
    assert "fusion/epilogue: matmul into operand 0 of max" in run("explain", model, "--why", "matmul_max")[0]
    assert "fired 1 times" in run("explain", model, "--why-not", "fusion/epilogue")[0]
    _, err = run("explain", model, "--why", "matmul_mx", code=1)
    assert "there is no kernel 'matmul_mx'\n  next: nearest: matmul_max" in err


def test_rules_and_targets_are_listed():
    rows = json.loads(run("rules", "list", "--phase", "fusion", "--json")[0])
    assert "fusion/epilogue" in [r["name"] for r in rows]
    assert all(r["why"] for r in rows)
    assert "cpu" in [r["name"] for r in json.loads(run("targets", "--json")[0])]
    assert "onnx" in [r["what"] for r in json.loads(run("doctor", "--json")[0])]


@pytest.mark.parametrize(("args", "code", "text"), [
    (["optimize", "nowhere.onnx"], 1, "nowhere.onnx"),
    (["optimize", "{model}", "--target", "cpx"], 1, "no target 'cpx'\n  next: did you mean 'cpu'?"),
    (["optimize", "{model}", "--set", "max_body_opz=3"], 2, "no option 'max_body_opz'"),
    (["optimize", "{model}", "--set", "max_body_ops=many"], 2, "wants int, got 'many'"),
    (["optimize", "{model}", "--vis-graph", "g.png"], 2, "--vis-graph writes .dot, .svg or .html"),
    (["optimize", "{model}", "--dim", "n"], 2, "--dim wants NAME=VALUE, got 'n'"),
    (["optimize", "{model}", "--rules", "none.yaml"], 1, "none.yaml: cannot be read"),
    (["compare", "none_a", "none_b"], 1, "no manifest.json in this folder"),
    (["optimize"], 2, "Missing argument"),
])  # fmt: skip
def test_errors_say_what_and_what_next(model, args, code, text):
    _, err = run(*[a.format(model=model) for a in args], code=code)
    assert text in " ".join(err.split("│")) or text in err


@pytest.mark.parametrize("command", ["optimize", "run", "explain", "compare", "targets", "calibrate", "doctor"])
def test_every_command_has_help(command):
    assert "Usage" in run(command, "--help")[0]
