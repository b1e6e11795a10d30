"""Chips by the names that their vendors use, and chips whose cores no kernel is printed for."""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets import load_target, manifests

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from autocomp.simulate.compiler import ModelFailure
from tests.helpers.device_graphs import graph

NAMES = {"ascend:910b1": "ascend910b1", "Ascend910B1": "ascend910b1", "ascend:Ascend910B3": "ascend910b", "ascend:910B": "ascend910b",
         "ascend:910_9391": "ascend910c", "ascend:Ascend910_9392": "ascend910c", "ascend:910c": "ascend910c", "ascend:310P": "ascend310p",
         "Ascend310P3": "ascend310p", "ascend:950pr": "ascend950pr", "Ascend950PR_958b": "ascend950pr", "maca:xcore1000": "c500",
         "maca:C550": "c550", "maca:xcore1500": "c600", "metax:c600": "c600", "cuda:sm_80": "a100", "cuda:H200": "h200"}  # fmt: skip


@pytest.mark.parametrize("spec", NAMES)
def test_a_chip_goes_by_its_vendors_name(spec: str) -> None:
    assert load_target(spec).chip.name == NAMES[spec]


@pytest.mark.parametrize(("spec", "known"), [("ascend:910b9", "ascend910b1"), ("Ascend910Z", "ascend"), ("maca:c700", "c500, c550, c600")])
def test_an_unknown_chip_is_answered_with_the_known_ones(spec: str, known: str) -> None:
    with pytest.raises(AutocompError) as e:
        load_target(spec)
    assert known in str(e.value)


@pytest.mark.parametrize("name", [c for t in ("ascend", "maca") for c in manifests()[t]["chips"]])
def test_every_number_has_its_source(name: str) -> None:
    chip = load_chip(name)
    assert all(chip.sources.values()) and len(chip.sources) > 20
    assert set(load_chip("ascend910b" if chip.target == "ascend" else "c500").limits) <= set(chip.limits)


def test_cores_of_a_form_that_is_not_printed_are_refused_by_capability() -> None:
    small, product = graph({"x": "f16[64, 256]"}, "%0 = relu(x)"), graph({"a": "f16[64, 64]", "b": "f16[64, 64]"}, "%0 = matmul(a, b)")
    assert autocomp.optimize(small, target="ascend:950pr").kernels
    vectors = "algebra/product-on-vector-cores"
    assert "instruction scalar" in str(autocomp.optimize(product, target="ascend:950pr", without=[vectors]).kernels[0].schedule)
    with pytest.raises(UnsupportedOp, match=r"architecture 3510, whose L0A holds fractals of f16 by columns.* as architecture 2201 has"):
        autocomp.optimize(product, target="ascend:950pr", without=["tiling/npu-scalar-*", vectors])
    attention = graph({n: "f16[64, 64]" for n in "qkv"}, "%0 = matmul(q, k)\n%1 = softmax(%0, axes=[1])\n%2 = matmul(%1, v)")
    kernel = autocomp.optimize(attention, target="ascend:910b", without=["tiling/npu-scalar-*"]).calls.calls[0].kernel
    with pytest.raises(UnsupportedOp, match=r"1 kind of cores, .*\(architecture 2002\).* 2 kinds of cores, as architecture 2201 has"):
        load_target("ascend:310p").fits(kernel, Schedule.make({}))
    assert autocomp.optimize(small, target="ascend:310p").kernels


@pytest.mark.skipif(not COMPILER, reason="no g++")
@pytest.mark.parametrize(("chip", "most"), [("910b", 188416), ("950pr", 253952), ("310p", 253952)])
def test_a_chip_has_its_own_unified_buffer_on_the_model(chip: str, most: int, tmp_path: Path) -> None:
    program = autocomp.optimize(graph({"x": "f16[64, 256]"}, "%0 = relu(x)"), target=f"ascend:{chip}")
    for bytes_ in (most, most + 32):
        (folder := tmp_path / str(bytes_)).mkdir()
        executor = AscendExecutor(program, folder, edit=partial(re.sub, r"(InitBuffer\(ub, )\d+", rf"\g<1>{bytes_}"))
        with pytest.raises(ModelFailure, match="a memory on chip is too small") if bytes_ > most else nullcontext():
            executor.run({"x": np.ones((64, 256), np.float16)})


def test_the_chip_that_is_here_takes_nothing_that_no_device_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import autocomp.targets.cuda.target as cuda

    monkeypatch.setattr(cuda, "chip_here", lambda names: "b200")
    found, named = load_target("cuda"), load_target("cuda:b200")
    assert found.chip.name == named.chip.name == "b200"
    assert "tensor_memory" in named.chip.features and set(found.chip.features) == set(named.chip.features) - {"tensor_memory"}
    text = graph({"a": "f16[1024, 1024]", "b": "f16[1024, 1024]"}, "%0 = matmul(a, b)")
    assert "tcgen05" in autocomp.optimize(text, target="cuda:b200", cache=False).source()
    source = autocomp.optimize(text, target="cuda", cache=False).source()
    assert "tcgen05" not in source and "mma" in source


def test_what_is_untried_is_one_of_the_chips_features(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    text = (Path(autocomp.__file__).parents[1] / "cost_models" / "b200.yaml").read_text()
    file.write_text(text.replace("untried: [tensor_memory]", "untried: [warpgroups]"))
    with pytest.raises(AutocompError, match="untried: 'warpgroups' is none of the chip's features"):
        load_target(f"cuda:{file}")
