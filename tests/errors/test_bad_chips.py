"""A vendor's mistakes in a chip's file: each at file:line:column, with the next step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from autocomp.targets import check_manifest, load_target

import autocomp
from autocomp.errors import AutocompError, ChipError

PAGE = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")
GOOD = re.search(r"```yaml\n(# big.yaml\n.*?)```", PAGE, re.DOTALL)[1]

CASES = {  # name: (what is written, what instead, where and what is said, the next step)
    "a field is missing": (r"launch: .*\n", "", ":2:1: a chip file lacks launch", "every number is written {value: .., source: ..}"),
    "a field is misspelt": ("launch:", "lunch:", ":8:8: unknown field 'lunch' in a chip file", "did you mean 'launch'?"),
    "a number is a word": ("value: 4.0e-6", "value: fast", ":8:17: launch must be a number, zero or more", ""),
    "a number is negative": ("value: 4.0e-6", "value: -1", ":8:17: launch must be a number, zero or more", ""),
    "a number has no source": (r"(launch: {value: 4.0e-6), source: .*}", r"\1}", ":8:9: launch lacks source", "every number is written"),
    "no cores": (r"cores: {value: \d+", "cores: {value: 0", ":6:16: cores must be more than zero", ""),
    "part of a core": (r"cores: {value: \d+", "cores: {value: 0.5", ":6:16: cores must be a whole number, one or more; it is 0.5", ""),
    "no register": ("count: 131072", "count: 0", ":18:20: registers.count must be a whole number, one or more; it is 0", ""),
    "no threads": ("threads: {value: 1024", "threads: {value: 0", ":24:20: limits.threads must be more than zero", ""),
    "no latency": ("value: 8.0e-7", "value: 0", ":9:18: latency is 0 s", "it is written in seconds, 1e-12 to 1"),
    "microseconds": ("value: 4.0e-6", "value: 4.0", ":8:17: launch is 4 s", "it is written in seconds, 0 to 1: 2.5e-6 for 2.5 us"),
    "gigabytes a second": ("value: 2.0e12", "value: 2000", ":20:107: dram.bandwidth is 2000 a second", "rates are written in bytes"),
    "megahertz": ("value: 1.8e9", "value: 1800", ":7:16: clock is 1800 a second", "rates are written in bytes, operations or clocks"),
    "a dtype that is none": (r"\n  f16: {", "\n  f17: {", ":12:8: matrix: there is no dtype 'f17'", "dtypes: "),
    "a unit that is none": ("unit: s", "unit: us", ":26:32: limits.block: 'us' is no unit", "units: s, 1/s, clocks, 1/clock"),
    "a limit is misspelt": ("threads: {", "thraeds: {", ":24:12: no limit 'thraeds' is known", "did you mean 'threads'?"),
    "no main memory": (r"  - {name: dram.*\n", "", ":20:5: the first memory is main memory, and 'l2' is none", "begin with one of"),
    "a memory of nothing": ("per: chip, line", "per: chop, line", ":20:23: per: 'chop' is none of chip, core, block, thread", ""),
    "a chip of another target": ("target: maca", "target: cuda", ": chip big is for target cuda, not maca", "--target cuda:"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_chip_is_refused_at_its_place(name, tmp_path):
    written, instead, said, hint = CASES[name]
    path = tmp_path / "big.yaml"
    path.write_text(re.sub(written, instead, GOOD, count=1))
    with pytest.raises(ChipError) as e:
        load_target(f"maca:{path}")
    what, *rest = str(e.value).splitlines()
    assert what == f"{path}{said}"
    assert (rest or ["  next: "])[0].startswith(f"  next: {hint}")


def test_a_limit_that_its_target_needs(tmp_path):
    path = tmp_path / "big.yaml"
    path.write_text(GOOD[: GOOD.index("limits:")])
    with pytest.raises(ChipError, match=r"chip big: no limit '\w+', which its target asks for\n  next: limits: \{\w+: \{value: .., source"):
        autocomp.optimize("graph g\ninput x: f32[64, 96]\ninput w: f32[96, 80]\n%0 = matmul(x, w)\noutput y = %0", target=f"maca:{path}")


def test_a_chip_without_its_target(tmp_path):
    with pytest.raises(AutocompError, match=r"no target 'big.yaml'\n  next: a chip's file stands behind its target, such as maca:big.yaml"):
        load_target("big.yaml")


@pytest.mark.parametrize(("change", "said", "hint"), [
    ({"suffix": None}, "lacks suffix", "fields: chips, default_chip, language, name, suffix; aliases, chip_aliases may be there"),
    ({"chip": "c500"}, "has an unknown field chip", "fields: chips"),
    ({"name": "acmee"}, "its name is 'acmee', its folder 'acme'", "name: acme"),
    ({"chips": ["acme1"]}, "there is no chip 'acme1'", "write cost_models/acme1.yaml (docs/targets.md)"),
    ({"default_chip": "c600"}, "default_chip 'c600' is none of its chips", "chips: c500"),
])  # fmt: skip
def test_a_bad_manifest_of_a_target_is_refused(change, said, hint):
    good = {"name": "acme", "language": "Acme C", "chips": ["c500"], "default_chip": "c500", "suffix": "acme"}
    check_manifest("acme", good)
    with pytest.raises(AutocompError) as e:
        check_manifest("acme", {k: v for k, v in {**good, **change}.items() if v is not None})
    assert str(e.value).startswith(f"targets/acme/target.yaml: {said}\n  next: {hint}")
