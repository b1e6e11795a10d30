"""Microbenchmarks of a CUDA device: they compile for what they need, and planted clocks come back as a chip's numbers. None runs here."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import yaml
from autocomp.targets.cuda import nvrtc

from autocomp.cost.chip import chip_of, shipped
from autocomp.cost.chip_file import read_chip
from autocomp.cost.derived import derived
from autocomp.errors import AutocompError, BuildError
from autocomp.tune.device_rates import Measured, Micro, calibrate_device, chased, chip_file, has, measure, micros, turn

GHZ = 1.5


class Planted:
    """A device on which a turn of each microbenchmark takes so many clocks (5 if none is given), 700 clocks stand around the loop, every
    third reading is 1 % off, and kernels begin 3000 ns apart."""

    arch, name, cores = "sm_90a", "planted", 10

    def __init__(self, clocks: dict[str, float], broken: tuple[str, ...] = (), wild: tuple[str, ...] = ()) -> None:
        self.clocks, self.broken, self.wild, self.runs = clocks, broken, wild, 0

    def run(self, m: Micro, blocks: int, n: int) -> np.ndarray:
        self.runs += 1
        if m.name in self.broken:
            raise AutocompError("an illegal instruction was encountered", where="CUDA")
        each = self.clocks.get(m.name, 5.0) * (1.01 if self.runs % 3 == 0 else 1.0)
        each *= 1 + self.runs % 5 if m.name in self.wild else 1
        took, out = 700 + each * n, np.zeros((m.launches, blocks, 4), np.int64)
        for i in range(m.launches):
            out[i, :, 0], out[i, :, 2] = 17, 100 + 3000 * i
            out[i, :, 1], out[i, :, 3] = 17 + took, 100 + 3000 * i + took / GHZ
        return out


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_microbenchmark_compiles(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    wanted = [m for m in micros() if has(arch, m.needs)]
    assert len(wanted) >= 20
    for m in wanted:
        code = nvrtc.compiled(arch, "measured", m.text)
        assert isinstance(code, bytes), (m.name, code)


def test_the_table_names_numbers_that_prices_ask_for() -> None:
    fields = {"clock", "latency", "launch", "special", "vector.f32", "memories.shared.bandwidth", "memories.l2.bandwidth",
              "memories.dram.bandwidth", "limits.warp_matrix"}  # fmt: skip
    numbers = [m.number for m in micros() if m.number]
    assert len(numbers) == len(set(numbers)) >= 19
    assert {n for n in numbers if n not in fields} <= {f"limits.{n}" for n in derived()}
    assert len({m.name for m in micros()}) == len(micros()) and all(bool(m.loop) + bool(m.each) <= 1 for m in micros())


def test_planted_clocks_come_back() -> None:
    clocks = {"dependent multiply-adds": 16.0, "dependent exponentials": 44.0, "dependent reads that L2 answers": 271.0,
              "dependent reads of memory": 900.0, "exchanges between lanes": 48.0, "multiply-adds": 128.0, "integer additions": 256.0,
              "barriers of a block": 31.0}  # fmt: skip
    found = {r.micro.number or r.micro.name: r for r in measure(Planted(clocks), shipped("h200"))}
    assert not [r for r in found.values() if r.why], [(r.micro.name, r.why) for r in found.values() if r.why]
    value = lambda n: pytest.approx(found[n].value, rel=0.03)
    assert value("clock") == 1e9 * GHZ
    assert value("limits.arithmetic_clocks") == 4 and value("limits.special_clocks") == 22 and value("limits.exchange_clocks") == 24
    assert value("limits.l2_clocks") == 271 and value("latency") == 900 / (1e9 * GHZ) and value("limits.barrier_clocks") == 31
    assert value("vector.f32") == 128 * 10 * 1e9 * GHZ  # 16 of each of 1024 threads in 128 clocks: 128 lanes a core
    assert value("limits.integer") == 2 and value("launch") == 3e-6 - 700 / (1e9 * GHZ)
    assert all(r.spread < 0.1 for r in found.values())


def test_one_that_fails_leaves_its_number_with_a_note() -> None:
    h200 = (files("autocomp.cost_models") / "h200.yaml").read_text()
    device = Planted({}, broken=("dependent reads that L2 answers",), wild=("barriers of a block",))
    rows = measure(device, shipped("h200"))
    why = {r.micro.number: r.why for r in rows if r.why}
    assert why["limits.l2_clocks"] == "an illegal instruction was encountered" and "runs spread over" in why["limits.barrier_clocks"]
    text = chip_file(h200, rows, "planted", "2026-11-23")
    chip, was = chip_of(read_chip(text, "new.yaml")), shipped("h200")
    assert chip.limits["l2_clocks"] == was.limits["l2_clocks"] and chip.limits["barrier_clocks"] == was.limits["barrier_clocks"]
    assert chip.sources["limits.l2_clocks"].endswith("gave no figure on 2026-11-23: an illegal instruction was encountered)")
    assert chip.sources["limits.exchange_clocks"].startswith("measured by autocomp calibrate: exchanges between lanes; planted, ")
    assert chip.limits["exchange_clocks"] == pytest.approx(2.5, rel=0.03) and chip.limits["threads"] == was.limits["threads"]
    assert (chip.units, chip.features, chip.granule) == (was.units, was.features, was.granule)
    assert yaml.safe_load(text)["memories"][0]["bandwidth"]["source"].startswith("measured by")


def test_a_device_that_answers_nothing_leaves_the_file_as_it_was() -> None:
    text = (files("autocomp.cost_models") / "a100.yaml").read_text()
    rows = measure(Planted({}, broken=tuple(m.name for m in micros())), shipped("a100"))
    chip, was = chip_of(read_chip(chip_file(text, rows, "x", "today"), "new.yaml")), shipped("a100")
    assert all(r.why for r in rows) and replace(chip, sources={}) == replace(was, sources={})


def test_it_ends_within_its_time() -> None:
    now = iter(range(0, 10**6, 30))
    rows = measure(Planted({}), shipped("h200"), clock=lambda: float(next(now)))
    assert [r.why for r in rows[4:]] == ["100 s were over before its turn"] * len(rows[4:]) and not rows[0].why


def test_turns_are_what_the_longer_run_takes_longer() -> None:
    one, two = np.zeros((1, 2, 4), np.int64), np.zeros((1, 2, 4), np.int64)
    one[0], two[0] = [[0, 150, 1000, 1100], [5, 155, 1010, 1120]], [[0, 250, 1000, 1200], [5, 255, 1010, 1230]]
    assert turn(one, two, 50) == {"clocks": 2.0, "seconds": pytest.approx(110e-9 / 50), "between": 0.0}


def test_a_chase_goes_through_every_place_once() -> None:
    words, at, seen = chased(4096, 32), 0, set()
    while at not in seen:
        seen.add(at)
        at = int(words[at])
    assert seen == set(range(0, 4096, 32)) and at == 0


def test_without_a_device_the_error_says_what_is_missing() -> None:
    from autocomp.targets import load_target

    if not load_target("cuda:h200").why_not_runnable():
        pytest.skip("there is a device")
    with pytest.raises(BuildError, match="no CUDA device can be measured here: ") as e:
        calibrate_device("h200")
    assert "autocomp doctor" in (e.value.hint or "")


def test_a_figure_that_is_none_is_told() -> None:
    (row,) = measure(Planted({"x": 0.0}), shipped("h200"), [Micro("x", "limits.barrier_clocks", 64, "clocks", loop=";")])
    assert isinstance(row, Measured) and row.why == "0 is no figure: the turns take no longer than what is around them"
