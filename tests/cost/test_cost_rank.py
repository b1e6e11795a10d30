"""`benchmarks/cost_rank.py` without a device: what it draws, one kernel's record, what a cut run keeps, the goals."""

from __future__ import annotations

import argparse
import json
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.tune.measure import Built, Outcome
from autocomp.tune.space import Point
from autocomp.workers import Failure
from benchmarks import cost_rank
from benchmarks.cost_draw import DIRTY, Drawn, written_back
from benchmarks.cost_kernels import drawn
from benchmarks.cost_reprice import fitting
from benchmarks.cost_table import FAMILIES, KERNELS, missed, regret, row, table
from tests.helpers.device_graphs import graph


def test_an_overwritten_cache_is_written_back():
    """A part of what the cache holds, no more than the kernel moves; nothing on CPUs."""
    gpu, cpu = load_target("cuda:h200").chip, load_target("cpu").chip
    whole = DIRTY * gpu.memory("l2").capacity / gpu.memories[0].bandwidth
    assert written_back(1e9, 0, gpu) == written_back(1e8, 1e8, gpu) == whole
    assert written_back(1e6, 1e6, gpu) == 2e6 / gpu.memories[0].bandwidth
    assert written_back(1e9, 0, cpu) == 0.0


SPACE = [Point(Schedule.make({"i0": 2**i}), 1e-6 * (i + 1), "rule") for i in range(10)]


class Fake:
    """Schedules by the size of their tile: 32 and 64 print the same, 128 does not build, 256 breaks the child, 512 is wrong."""

    def __init__(self) -> None:
        self.raced: list[int] = []

    def build(self, schedules: Any) -> list[Any]:
        size = lambda s: dict(s.tile)["i0"]
        return [Failure("no registers") if size(s) == 128 else
                Built(s, (SimpleNamespace(text=f"/* head {size(s)} */ {32 if size(s) == 64 else size(s)}"),), "") for s in schedules]  # type: ignore[arg-type]  # fmt: skip

    def race(self, built: Any) -> list[Any]:
        sizes = [dict(b.schedule.tile)["i0"] for b in built]
        self.raced += sizes
        return [Failure("killed") if n == 256 else Outcome("all zeros") if n == 512 else Outcome("", self.seconds(n)) for n in sizes]

    def again(self, built: Any) -> list[float]:
        return [self.seconds(dict(b.schedule.tile)["i0"]) for b in built]

    def seconds(self, n: int) -> float:
        return 1e-6 if n == 16 else 2e-6


def kernel(left: float = inf, generations: int = 1) -> tuple[dict[str, Any], Fake]:
    device = Fake()
    d = Drawn("", "k", SPACE[1].schedule, 1.9e-6, "matrix", 0.1, SPACE, [(i, 1e-6 * (i + 1), "far") for i in (0, 5, 6, 7, 8, 9)])
    found = cost_rank.ranked(d, device, generations, 4, lambda: left)
    return {"family": "f", "name": "n", **found}, device


def test_a_kernel_is_ranked_by_its_drawn_schedules_and_the_search_finds_the_best() -> None:
    r, device = kernel()
    assert len(device.raced) == len(set(device.raced)) and not {64, 128} <= set(device.raced)  # equal texts once, unbuilt ones never
    assert regret(r) == pytest.approx(1.0) and r["best_seconds"] == 1e-6  # 16 is in no sample: the first of the space holds it
    judged = {s["schedule"]: s["predicted"] for s in r["schedules"] if s["drawn"]}
    assert len(judged) == 3 and judged[r["choice"]] == 1.9e-6  # the choice by its own prediction; 1, 2, 32 gave times
    assert len(r["failed"]) == 3 and "regret 100.0%" in row(r)


def test_without_time_the_search_does_not_go_on() -> None:
    space = [Point(Schedule.make({"i0": 3**i}), 1e-6, "rule") for i in range(60)]
    d = Drawn("", "k", space[0].schedule, 1e-6, "matrix", 0.1, space, [])
    assert [cost_rank.ranked(d, Fake(), 3, 4, lambda: x)["searched"] for x in (0.0, inf)] == [0, 3]  # noqa: B023


def test_a_cut_run_goes_on_where_it_stopped(tmp_path: Any, monkeypatch: Any) -> None:
    cases, begun = drawn(1, 1), []

    def one(case: Any, *_: Any) -> dict[str, Any]:
        begun.append(case.name)
        return {"family": case.family, "name": case.name, "schedules": [], "best_seconds": None}

    monkeypatch.setattr(cost_rank, "one", one)
    path, like = tmp_path / "out.json", {"chip": "c", "seed": 1}
    target, args = SimpleNamespace(runtime="cuda"), argparse.Namespace(budget=0.0, at_once=2)
    known = {**like, "kernels": [{"family": cases[0].family, "name": cases[0].name},
                                 {"family": cases[1].family, "name": cases[1].name, "error": "lost"}]}  # fmt: skip
    path.write_text(json.dumps(known))
    cost_rank.run(cases, target, args, cost_rank.kept(path, like), lambda: None)  # type: ignore[arg-type]
    assert sorted(begun) == sorted(c.name for c in cases[1:])  # what failed is tried again
    assert cost_rank.kept(path, {**like, "seed": 2})["kernels"] == []
    begun.clear()
    cost_rank.run(cases, target, argparse.Namespace(budget=1e-9, at_once=2), cost_rank.kept(None, like), lambda: None)  # type: ignore[arg-type]
    assert not begun  # the budget is spent


def test_equal_seeds_draw_equal_kernels_enough_of_them_in_enough_families() -> None:
    cases = drawn(3, 5)
    assert cases == drawn(3, 5) and [c.text for c in cases[:14]] != [c.text for c in drawn(4, 1)]
    assert len({c.text for c in cases}) >= KERNELS and len({c.family for c in cases}) >= FAMILIES
    assert cost_rank.main(["--list", "--target", "cuda:h200"]) == 0


def test_measured_schedules_are_those_of_the_kernel_that_has_their_axes() -> None:
    """A schedule of three axes is none of a kernel of two, though its target prints that: it leaves out what the kernel has not."""
    target = load_target("cuda:h100")
    two, three = (autocomp.optimize(graph({"x": x, "y": y}, "%0 = add(x, y)"), target="cuda:h100", cache=False).calls.calls[0].kernel
                  for x, y in (("f32[55, 288]", "f32[288]"), ("f32[55, 1024, 288]", "f32[55, 1, 288]")))  # fmt: skip
    schedules = [Schedule.make({"i0": 1, "i1": 1, "i2": 128}, threads=128)]
    assert [fitting(k, schedules, target)[0] for k in (two, three)] == [0, 1]


def records(longer: float) -> list[dict[str, Any]]:
    schedules = [{"predicted": 1e-6, "measured": 1.2e-6, "drawn": True, "schedule": ""}] * 20
    return [{"family": f"f{i % 12}", "name": f"{i}", "space": 99, "distinct": 21, "pricing": 0.2, "best_seconds": 1e-6, "bound": "",
             "choice_seconds": longer * 1e-6, "schedules": schedules, "failed": []} for i in range(60)]  # fmt: skip


def test_each_goal_is_missed_by_its_own_figure() -> None:
    good = records(1.04)
    assert not missed(good) and len(list(table(good))) == 14
    assert [m.split(",")[0] for m in missed(records(1.1))] == ["mean regret 10.0%"]
    worst = [*good[:-1], good[-1] | {"choice_seconds": 1.2e-6}]
    assert [m.split(",")[0] for m in missed(worst)] == ["worst regret 20.0%"]
    assert missed(good[:59]) == ["59 kernels of 60"]
    far = [r | {"schedules": [s | {"measured": 2e-6} for s in r["schedules"]]} for r in good]
    assert missed(far) == ["0% of the schedules predicted within 1.3, at least 90%"]
    few = [r | {"schedules": r["schedules"][:5]} for r in good]
    assert "fewer than 20 schedules of 60 kernels" in missed(few)[0]
    assert not missed([r | {"distinct": 5} for r in few])  # the whole space
    assert "pricing" in missed([r | {"pricing": 2.0} for r in good])[0]
    assert "worst regret inf%" in str(missed([*good[:-1], good[-1] | {"choice_seconds": None}]))
    assert missed([{"family": "f", "name": "n", "error": "gone"}]) == ["nothing was measured"]
