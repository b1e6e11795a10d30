"""The worked examples of docs/targets.md, done as they stand on the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import autocomp.targets
import pytest
import yaml
from autocomp.targets import load_target, manifests

import autocomp
from autocomp.errors import ChipError
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import GRAPHS, attention, graph

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")


def block(title: str) -> str:
    """The code block of the page that begins with `# title`."""
    found = re.findall(rf"```\w+\n(# {re.escape(title)}\n.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1, title
    return found[0]


def chip_file(folder: Path) -> Path:
    """The page's chip as the second example says: for target acme."""
    path = folder / "acme1.yaml"
    path.write_text(block("big.yaml").replace("name: big", "name: acme1").replace("target: maca", "target: acme"))
    return path


def test_the_whole_way_of_a_vendor(tmp_path):
    """The four steps in a copy of the package, then the two commands."""
    package = tmp_path / "autocomp"
    shutil.copytree(ROOT / "autocomp", package, ignore=shutil.ignore_patterns("__pycache__", "targets", "rules", "cost_models"))
    for part in ("targets", "rules", "cost_models"):
        shutil.copytree(ROOT / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
    acme = package / "targets" / "acme"
    (acme / "include").mkdir(parents=True)
    for name in ("target.yaml", "target.py"):
        (acme / name).write_text(block(name))
    shutil.copy(ROOT / "targets/maca/include/autocomp_maca.h", acme / "include" / "autocomp_acme.h")
    chip_file(package / "cost_models")
    rules = package / "rules" / "tiling_gpu.yaml"
    rules.write_text(rules.read_text().replace("targets: [cuda, maca]", "targets: [cuda, maca, acme]"))
    (tmp_path / "model.txt").write_text("graph g\ninput x: f32[90, 100]\ninput w: f32[100, 70]\n%0 = matmul(x, w)\noutput y = %0\n")
    (tmp_path / "softmax.txt").write_text("graph g\ninput x: f32[90, 200]\n%0 = softmax(x, axes=[1])\noutput y = %0\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "AUTOCOMP_CACHE": str(tmp_path / "cache")}

    def said(*words: str) -> str:
        return subprocess.run([sys.executable, "-m", "autocomp.cli", *words], cwd=tmp_path, env=env, capture_output=True, text=True,
                              check=True).stdout  # fmt: skip

    assert "acme1" in [c for row in json.loads(said("targets", "--json")) if row["name"] == "acme" for c in row["chips"]]
    for model in ("model", "softmax"):
        (kernel,) = json.loads(said("optimize", f"{model}.txt", "--target", "acme", "-o", f"out_{model}", "--json"))["kernels"]
        assert kernel["schedule"] != "one tile"  # a rule made it
        assert (tmp_path / f"out_{model}" / f"{kernel['kernel']}.acme").exists()


def test_a_board_is_a_chip_of_the_cpu_target(tmp_path):
    path = tmp_path / "board.yaml"
    shipped = (ROOT / "cost_models" / "cpu.yaml").read_text()
    path.write_text(re.sub(r"(?m)^vector_bytes: .*", 'vector_bytes: {value: 16, source: "data sheet"}', shipped))
    program = autocomp.optimize("graph g\ninput x: f32[9, 20]\n%0 = exp(x)\noutput y = %0\n", target=f"cpu:{path}")
    assert "#define AC_LANES 4" in program.source()
    with pytest.raises(ChipError, match="chip cpu is for target cpu, not maca"):
        load_target(f"maca:{path}")


def test_a_chip_is_a_file(tmp_path):
    path = tmp_path / "big.yaml"
    path.write_text(block("big.yaml"))
    shipped, program = (autocomp.optimize(attention(1, 2, 200, 128, "f32"), target=f"maca:{chip}") for chip in ("c500", path))
    assert (len(shipped.kernels), len(program.kernels)) == (2, 1)
    folder = program.save(tmp_path / "out")
    assert (folder / "launcher.maca").exists() and "A card of this page" in (folder / "README.md").read_text()


def _fewer(memory: str):
    return lambda chip: {**chip, "memories": [m for m in chip["memories"] if m["name"] != memory]}


def _changed(*path: str | int, value: object):
    def of(chip: dict) -> dict:
        place = chip
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return chip

    return of


@pytest.mark.parametrize(("target", "base", "change", "says"), [
    ("maca", "c500", _changed("vector_bytes", "value", value=128), "32 lanes (vector_bytes: 128), and kernels of maca are printed for 64"),
    ("cuda", "h200", _changed("vector_bytes", "value", value=256), "64 lanes (vector_bytes: 256), and kernels of cuda are printed for 32"),
    ("maca", "c500", _fewer("shared"), "there is no memory shared"),
    ("ascend", "ascend910b1", _fewer("l2"), "there is no memory l2"),
    ("ascend", "ascend910b1", _changed("features", value=["channels_last"]), "features name the architectures []"),
    ("ascend", "ascend910b1", _changed("granule", "m", value=32), "granule is 32 x 16 x 16, and fractals are printed 16 x 16 x 16"),
    ("ascend", "ascend910b1", _changed("vector_bytes", "value", value=512), "vector_bytes is 512"),
    ("ascend", "ascend910b1", _changed("limits", "vector_cores", "value", value=4), "vector_cores is 4, and kernels are printed for 2"),
    ("ascend", "ascend910b1", _changed("memories", -1, "capacity", "value", value=253696),
     "ub has 253696 bytes, and programs for dav-c220 may use 188416"),
    ("ascend", "ascend310p", _changed("limits", "vector_cores", "value", value=2), "vector_cores is 2, and kernels are printed for 1"),
])  # fmt: skip
def test_a_chip_of_another_form_is_refused(target, base, change, says, tmp_path):
    """What the text is written for: kernels of waves of 64 lanes were wrong on a file that says 32."""
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump(change(yaml.safe_load((ROOT / "cost_models" / f"{base}.yaml").read_text()))))
    with pytest.raises(ChipError, match=re.escape(says)):
        load_target(f"{target}:{path}")


@pytest.mark.parametrize(("target", "base", "call"), [("ascend", "ascend910b1", "ac_mmad("), ("maca", "c500", "ac_mma_bf16(")])
def test_a_type_that_a_chips_matrix_unit_does_not_have_is_not_multiplied_by_it(target, base, call, tmp_path):
    text = graph({"x": "bf16[40, 64]", "y": "bf16[64, 48]"}, "%0 = matmul(x, y)")
    given = yaml.safe_load((ROOT / f"cost_models/{base}.yaml").read_text(encoding="utf-8"))
    for types, has in ((given["matrix"], True), ({k: v for k, v in given["matrix"].items() if k != "bf16"}, False)):
        chip = tmp_path / f"own{has}.yaml"
        chip.write_text(yaml.safe_dump({**given, "name": "own", "matrix": types}), encoding="utf-8")
        program = autocomp.optimize(text, target=f"{target}:{chip}")
        assert any(call in s.text for s in program.printed.values()) == (has or target == "ascend")  # there a call names no type
        assert has or any("f32" in s.text and "mma" in s.text for s in program.printed.values())  # that holds its elements
        assert not any(k.schedule.endswith("scalar") for k in program.kernels)


def test_a_target_is_a_folder(tmp_path, monkeypatch):
    folder = tmp_path / "acme"
    folder.mkdir()
    for name in ("target.yaml", "target.py"):
        (folder / name).write_text(block(name))
    known = {**manifests(), "acme": yaml.safe_load((folder / "target.yaml").read_text())}
    monkeypatch.setattr(autocomp.targets, "manifests", lambda: known)
    monkeypatch.setattr(autocomp.targets, "__path__", [*autocomp.targets.__path__, str(tmp_path)])
    kernel = autocomp.optimize(GRAPHS["gemm_f32"], target="maca").calls.calls[0].kernel
    schedule = Schedule.make({"i0": 32, "i1": 32, "r0": 16}, stages=2, threads=128)
    source = load_target(f"acme:{chip_file(tmp_path)}").emit(kernel, schedule)
    assert source.language == "acme" and "__global__" in source.text and "ac_mma" not in source.text
