"""The command line: what it prints, writes and returns."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from rich.console import Console

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import BuildError
from tests.helpers.command_line import call

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
    got, out, err = call(*args)
    assert got == code, out + err
    return out, err


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
    assert "legal schedules" in text


def test_the_picture_names_rules_on_its_edges_and_what_lost(model, tmp_path):
    run("optimize", model, "--no-verify", "--vis-graph", str(tmp_path / "g.svg"), "--report", str(tmp_path / "r.html"))
    picture = ElementTree.parse(tmp_path / "g.svg").getroot()
    texts = [x.text for x in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "fusion/epilogue" in texts  # seen without a pointer
    (hover,) = [x.text for x in picture.iter("{http://www.w3.org/2000/svg}title") if x.text.startswith("matmul_max (")]
    chosen = next(line.removeprefix("schedule: ") for line in hover.splitlines() if line.startswith("schedule: "))
    lost = [line for line in hover.splitlines() if line.startswith("  lost: ")]
    assert lost
    assert not any(line.startswith(f"  lost: {chosen} (") for line in lost)
    assert "possible ones" in (tmp_path / "r.html").read_text()


def test_it_starts_as_a_program_of_its_own(model):
    command = [sys.executable, "-m", "autocomp", "optimize", model, "--no-verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "matmul_max" in done.stdout
    assert "reading the model" in done.stderr


def test_version_and_short_help():
    assert run("--version")[0] == f"autocomp {autocomp.__version__}\n"
    assert run("optimize", "-h")[0] == run("optimize", "--help")[0]


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
    taken = "fusion/epilogue (checked-8): took matmul f32[33, 50] into operand 0 of max, saves 12.9 KB of memory traffic"
    assert taken in run("explain", model, "--why", "matmul_max")[0]
    assert "fired 1 time, matched and was refused 0 times" in run("explain", model, "--why-not", "fusion/epilogue")[0]
    _, err = run("explain", model, "--why", "matmul_mx", code=1)
    assert "there is no kernel 'matmul_mx'\n  next: nearest: matmul_max" in err


def test_a_rule_about_schedules_says_what_it_made(model, tmp_path):
    """How many, where, the cheapest one and whether it was chosen; a schedule that another rule has made counts as that one's."""
    text, _ = run("explain", model, "--target", "cuda:h200", "--why", "matmul_max")
    (chosen,) = re.findall(r"    (\S+): the schedule \(", text)
    schedule = re.search(r"  schedule   (.*)\n", text)[1]
    said, _ = run("explain", model, "--target", "cuda:h200", "--why-not", chosen)
    assert re.match(rf"{chosen}: made \d+ schedules, matched and was refused \d+ times?\n", said)
    cheapest = re.search(r"one of them was chosen, the cheapest (.*?): ", said)[1]
    assert schedule.startswith(cheapest)  # directives come behind what a tiling rule makes
    rule = tmp_path / "mine.yaml"
    rule.write_text("- name: mine/again\n  phase: tiling\n  match: 'contract(m: ?M, n: ?N, k: ?K)'\n  choose: {bm: [16]}\n"
                    "  where: [legal(tile)]\n  rhs: 'tile(m: ?bm, n: 32, k: 32, b: 1, stages: 2, threads: 64)'\n  targets: [cuda]\n"
                    "  why: a test\n")  # fmt: skip
    asked = ("explain", model, "--target", "cuda:h200", "--rules", str(rule), "--why-not", "mine/again")
    assert "or made no schedule that another rule had not made before" in run(*asked)[0]
    assert "kernel matmul_max, 1 schedule, " in run(*asked, "--without", "tiling/gpu-contract")[0]


def test_rules_and_targets_are_listed():
    rows = json.loads(run("rules", "list", "--phase", "fusion", "--json")[0])
    assert "fusion/epilogue" in [r["name"] for r in rows]
    assert all(r["why"] for r in rows)
    assert "cpu" in [r["name"] for r in json.loads(run("targets", "--json")[0])]


def test_doctor_says_what_is_missing_and_whether_the_cache_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "file"))
    rows = {r["what"]: r for r in json.loads(run("doctor", "--json")[0])}
    assert {"onnx", "cuda-core", "CUDA device", "this CPU"} < rows.keys()
    assert all(r["next"] for r in rows.values() if r["state"] in ("missing", "none"))
    assert rows["cache folder"]["state"] == f"{tmp_path / 'file'} is no folder"
    assert rows["cache folder"]["next"] == "set AUTOCOMP_CACHE to a folder of yours"


def test_doctor_names_the_chip_of_the_device(monkeypatch):
    here = SimpleNamespace(why_not_runnable=lambda: "", chip=load_chip("l40s"))
    monkeypatch.setattr("autocomp.report.doctor.load_target", lambda spec: here)
    (row,) = [r for r in json.loads(run("doctor", "--json")[0]) if r["what"] == "CUDA device"]
    assert row["state"] == "found, as cuda:l40s (NVIDIA L40S 48 GB)"


def test_kernels_are_compiled_where_no_device_is(model, monkeypatch):
    """`--build` compiles what it prints, and an error of the compiler ends it."""
    pytest.importorskip("cuda.bindings")
    printed, _ = run("optimize", model, "--target", "cuda:a100", "--build", "--json", "--no-verify")
    built = json.loads(printed)["built"]
    assert built["arch"] == "sm_80" and all(n > 1000 for n in built["bytes"].values()) and len(built["bytes"]) == 1
    assert "compiled 1 kernel for sm_80: " in run("optimize", model, "--target", "cuda:a100", "--build", "--no-verify")[1]
    assert "are not compiled one by one here" in run("optimize", model, "--target", "maca", "--build", code=1)[1]

    def refuse(self, name, text):
        raise BuildError(f"NVRTC refused kernel {name}")

    monkeypatch.setattr("autocomp.targets.cuda.toolchain.Toolchain.compile_object", refuse)
    monkeypatch.setenv("AUTOCOMP_CACHE", str(Path(model).parent / "cache"))
    assert "NVRTC refused kernel matmul" in run("optimize", model, "--target", "cuda:a100", "--build", code=1)[1]


@pytest.mark.parametrize("command", ["run", "tune"])
def test_without_a_device_nothing_is_compiled_before_it_is_said(command, model, monkeypatch):
    monkeypatch.setattr("autocomp.targets.cuda.target.why_not", lambda arch: "no CUDA device: none of them")
    monkeypatch.setattr("autocomp.targets.cuda.toolchain.Toolchain.missing", lambda self: "")
    _, err = run(command, model, "--target", "cuda:h200", code=1)
    assert "cannot run here: no CUDA device: none of them" in err
    assert "next: " in err and "reading the model" not in err


@pytest.mark.parametrize(("args", "code", "text"), [
    (["optimize", "nowhere.onnx"], 1, "nowhere.onnx"),
    (["optimize", "{model}", "--target", "cpx"], 1, "no target 'cpx'\n  next: did you mean 'cpu'?"),
    (["optimize", "{model}", "--set", "max_body_opz=3"], 2, "no option 'max_body_opz'; did you mean 'max_body_ops'?"),
    (["optimize", "{model}", "-o", "{model}"], 2, "--output wants a folder, and"),
    (["optimize", "{model}", "-o", "{model}/out"], 1, "it lies below a file"),
    (["optimize", "{model}", "--report", "/"], 2, "--report wants a file, and / is a folder"),
    (["optimize", "nowhere.onnx", "--target", "cudo"], 1, "no target 'cudo'\n  next: did you mean 'cuda'?"),
    (["optimize", "{model}", "--set", "max_body_ops=many"], 2, "wants int, got 'many'"),
    (["optimize", "{model}", "--vis-graph", "g.png"], 2, "--vis-graph writes .dot, .svg or .html"),
    (["optimize", "{model}", "--dim", "n"], 2, "--dim wants NAME=VALUE, got 'n'"),
    (["optimize", "{model}", "--dim", "n=0"], 2, "--dim n wants a positive whole number, got '0'"),
    (["optimize", "{model}", "--dim", "n=4"], 1, "has no named dimension 'n'\n  next: all of its dimensions are numbers"),
    (["optimize", "{model}", "--without", "fusion/epilog"], 1, "no rule is called 'fusion/epilog'\n  next: nearest: fusion/epilogue"),
    (["rules", "list", "--phase", "fusing"], 2, "no phase 'fusing'; phases are shapes, algebra"),
    (["optimize", "{model}", "--rules", "none.yaml"], 1, "none.yaml: cannot be read"),
    (["compare", "/", "none_b"], 1, "no manifest.json in this folder"),
    (["rules", "test", "algebra/nothing"], 1, "there is no rule 'algebra/nothing'"),
    (["rules", "test", __file__], 1, "for the rules of a file: autocomp rules check"),
    (["compare", "{model}", "none_b"], 1, "is no folder of a saved program"),
    (["optimize", "{model}", "--target", "gpu"], 1, "no target 'gpu'\n  next: targets: ascend (Ascend C), cpu (C), cuda (CUDA C++)"),
    (["optimize", "{model}", "--target", "cuda:h300"], 1, "has no chip 'h300'\n  next: did you mean 'h200'? chips: h200, h100,"),
    (["optimize", "{model}", "--threads", "1"], 2, "No such option: --threads; it is set by --set threads=VALUE"),
    (["optimize", "{model}", "--set", "rules=mine.yaml"], 2, "rules has a flag of its own: --rules mine.yaml"),
    (["explain", "{model}", "--why-not", "nothing"], 1, "no rule 'nothing' in force\n  next: `autocomp rules list` shows them"),
    (["bisect", "nowhere.onnx"], 1, "nowhere.onnx: cannot be read"),
    (["bisect", "{model}", "--target", "ascend"], 1, "bisect: target ascend cannot run here: "),
    (["optimize"], 2, "Missing argument"),
])  # fmt: skip
def test_errors_say_what_and_what_next(model, args, code, text):
    _, err = run(*[a.format(model=model) for a in args], code=code)
    assert text in " ".join(err.split("│")) or text in err


@pytest.mark.parametrize("command", ["optimize", "run", "explain", "compare", "targets", "calibrate", "doctor",
                                     "rules list", "rules words", "rules check", "rules test"])  # fmt: skip
def test_every_command_has_help_with_an_example(command):
    text = run(*command.split(), "--help")[0]
    assert "Usage" in text
    assert f"Example: autocomp {command}" in text


@pytest.mark.parametrize(("phase", "name", "takes", "means"), [
    ("algebra", "reduce_sum", "axes, keepdims", "sum over axes"),
    ("algebra", "close", "2 to 3", "two numbers agree"),
    ("fusion", "windowed", "1", "it reads windows that overlap"),
    ("tiling", "contract", "b, k, m, n, t", "rows m, columns n, depth k"),
    ("scheduling", "fits", "1 to 2", "a memory of the chip holds them"),
])  # fmt: skip
def test_what_rules_may_say_is_listed(phase, name, takes, means):
    rows = json.loads(run("rules", "words", phase, "--json")[0])
    (row,) = [r for r in rows if r["name"] == name and r["kind"] != "word"]
    assert takes in (row.get("attributes"), row.get("arguments"))
    assert means in row["means"]
    assert all(r["means"] for r in rows if r["kind"] != "word")
    assert name in run("rules", "words", phase)[0]


def test_rules_are_tried_by_name():
    (row,) = json.loads(run("rules", "test", "layout/no-transpose", "--samples", "4", "--json")[0])
    assert row["rule"] == "layout/no-transpose"
    assert row["status"] != "refuted"


def test_a_wrong_result_is_exit_code_3(model, monkeypatch):
    """A compiler that lies about its result: the replay against the reference notices."""
    from autocomp.runtime.host import HostExecutor

    right = HostExecutor.run
    monkeypatch.setattr(HostExecutor, "run", lambda self, feed: {k: v + 1 for k, v in right(self, feed).items()})
    _, err = run("optimize", model, code=3)
    assert "error: VerificationError: mlp: output 'y'" in err
    assert "times the allowed error" in err


def test_interrupted_while_compiling(model, tmp_path):
    """Ctrl-C: one line, exit code 130, no folder, no half-built library; chosen schedules and the rules that were read stay known."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ncase "$1" in --version) echo slow 1; exit 0;; esac\ntouch "$WAITING"\nexec sleep 30\n')
    compiler.chmod(0o755)
    waiting = tmp_path / "waiting"
    env = {**os.environ, "CC": str(compiler), "WAITING": str(waiting), "AUTOCOMP_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "autocomp.cli", "optimize", model, "-o", str(tmp_path / "o")]
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    while not waiting.exists() and child.poll() is None:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGINT)
    _, text = child.communicate(timeout=60)
    assert "Traceback" not in text
    assert child.returncode == 130, text
    assert not (tmp_path / "o").exists()
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.parent.name not in ("schedules", "rules")]


def test_names_in_brackets_reach_the_reader():
    """`pip install 'autocomp[cuda]'` in a table or a line is text, not markup."""
    from rich.table import Table

    from autocomp.cli import shared as cli

    table = Table()
    table.add_column("what")
    table.add_row("pip install 'autocomp[torch]'")
    for console in (cli.out, cli.err):
        with console.capture() as seen:
            console.print("pip install 'autocomp[cuda]'")
            console.print(table)
        assert "autocomp[cuda]" in seen.get() and "autocomp[torch]" in seen.get()


def test_a_long_stage_says_where_it_is(monkeypatch):
    """Beside the spinner on a terminal; elsewhere in a line, but not more often than every few seconds."""
    from autocomp.report import progress
    from autocomp.trace import Trace

    for terminal, every, said in ((True, 5.0, True), (False, 5.0, False), (False, -1.0, True)):
        monkeypatch.setattr(progress, "EVERY", every)
        text, trace = io.StringIO(), Trace()
        with progress.StageProgress(Console(file=text, force_terminal=terminal, width=100), trace), trace.stage("build"):
            trace.progress("compiled 3 of 57 kernels")
            time.sleep(0.15 if terminal else 0)
        assert ("compiled 3 of 57 kernels" in text.getvalue()) == said
        assert "printing and building sources" in text.getvalue()
