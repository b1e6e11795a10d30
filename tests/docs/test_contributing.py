"""CONTRIBUTING.md: its diffs are applied to a copy of the package, which then has the op, the rule, the chip and the pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PARTS = {p.split("\n")[0]: p for p in re.split(r"^## Add an? ", PAGE, flags=re.MULTILINE)[1:]}
DIFFS = {name: part.split("```diff\n")[1].split("```")[0] for name, part in PARTS.items() if "```diff\n" in part}
USES = """
import numpy as np
import autocomp
from autocomp.rewrite import check_rule, load_rules

run = lambda text, x: autocomp.optimize(text, cache=False)(x)
x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
op = run("graph g\\ninput x: f32[3, 4]\\n%0 = l2_norm(x, axes=[1])\\noutput y = %0\\n", x)
np.testing.assert_allclose(op, x / np.sqrt((x * x).sum(axis=1, keepdims=True)), rtol=1e-5)

rule = autocomp.optimize("graph g\\ninput x: f32[3, 4]\\n%0 = relu(x)\\n%1 = relu(%0)\\noutput y = %1\\n", cache=False)
assert [e.name for e in rule.trace.events if e.kind == "rule"] == ["algebra/relu-relu"], rule.explain()

chip = autocomp.optimize("graph g\\ninput x: f32[90, 200]\\n%0 = softmax(x, axes=[1])\\noutput y = %0\\n", target="maca:big", cache=False)
assert chip.target.chip.name == "big"

signs = autocomp.optimize("graph g\\ninput x: f32[3, 4]\\n%0 = neg(x)\\n%1 = abs(%0)\\noutput y = %1\\n", cache=False)
code = signs.source().partition("*/")[2]
assert "= -" not in code, code
np.testing.assert_array_equal(signs(x), np.abs(x))
rule = next(r for r in load_rules() if r.name == "algebra/relu-relu")
assert check_rule(rule).status in ("proved", "tested"), check_rule(rule)

wide = "graph g\\ninput x: f16[512, 131072]\\n%0 = reduce_max(x, axes=[1])\\noutput y = %0\\n"
rows = autocomp.optimize(wide, target="cuda:h200", cache=False)
assert "unroll_by_two" in rows.kernels[0].schedule and "#pragma unroll 2\\n" in rows.source(), rows.kernels[0].schedule
without = autocomp.optimize(wide, target="cuda:h200", cache=False, without=("directives/unroll-by-two",))
assert "#pragma unroll 2\\n" not in without.source()

odd = "graph g\\ninput x: f32[777, 1001]\\ninput w: f32[1001, 900]\\n%0 = matmul(x, w)\\noutput y = %0\\n"
add = "graph g\\ninput x: f32[90, 200]\\n%0 = add(x, x)\\noutput y = %0\\n"
for text, target, name, said in ((odd, "cuda:h200", "rolled_copies", "#pragma unroll"), (add, "cpu", "independent_lanes", "ivdep")):
    asked = autocomp.optimize(text, target=target, cache=False, without=("layout/pad-*",))
    less = autocomp.optimize(text, target=target, cache=False, without=("layout/pad-*", f"directives/{name.replace('_', '-')}"))
    assert name in asked.kernels[0].schedule and name not in less.kernels[0].schedule, asked.kernels[0].schedule
    assert asked.source().count(said) != less.source().count(said)
twos = np.ones((90, 200), np.float32)
np.testing.assert_array_equal(asked(twos), 2 * twos)
print("all five")
"""


def test_the_page_has_a_diff_for_each_but_the_target() -> None:
    assert set(DIFFS) == {"op", "rule", "chip", "directive", "pass"}
    assert "target" in PARTS


@pytest.mark.skipif(not (shutil.which("git") and (shutil.which("cc") or shutil.which("gcc"))), reason="no git or no C compiler on PATH")
def test_the_diffs_apply_and_do_what_they_say(tmp_path: Path) -> None:
    for name in ("autocomp", "targets", "rules", "cost_models"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("targets", "rules", "cost_models"):
        if not (tmp_path / "autocomp" / name).exists():
            (tmp_path / "autocomp" / name).symlink_to(tmp_path / name)
    for name, diff in DIFFS.items():
        done = subprocess.run(["git", "apply", "--verbose", "-"], cwd=tmp_path, input=diff, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
    chip = re.search(r"```yaml\n(# big.yaml\n.*?)```", (ROOT / "docs" / "targets.md").read_text(encoding="utf-8"), re.DOTALL)
    assert chip
    (tmp_path / "cost_models" / "big.yaml").write_text(chip[1])
    (tmp_path / "uses.py").write_text(USES)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "AUTOCOMP_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "uses.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "all five", done.stdout + done.stderr
