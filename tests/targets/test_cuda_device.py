"""Which chip a device is, what `cuda` alone means, and that kernels of every chip's file compile for it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from autocomp.targets import load_target, manifests
from autocomp.targets.cuda import device
from autocomp.targets.cuda.device import DeviceFacts, nearest_chip, why_not
from autocomp.targets.cuda.target import instructions_of

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import ChipError, UnsupportedOp
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.schedules import by_hand

ROOT = Path(__file__).parents[2]
CHIPS = manifests()["cuda"]["chips"]
SAMPLE = ("gemm_bias_gelu", "gemm_f8e4m3", "gemm_i8_scaled", "softmax_wide", "attention_f16")
missing = load_target("cuda").toolchain.missing()


@pytest.mark.parametrize(("name", "capability", "cores", "chip"), [
    ("NVIDIA H200", (9, 0), 132, "h200"), ("NVIDIA H100 80GB HBM3", (9, 0), 132, "h100"), ("NVIDIA H100 PCIe", (9, 0), 114, "h100"),
    ("NVIDIA A100-SXM4-80GB", (8, 0), 108, "a100"), ("NVIDIA L40S", (8, 9), 142, "l40s"), ("NVIDIA A10", (8, 6), 72, "a10"),
    ("NVIDIA GeForce RTX 4090", (8, 9), 128, "rtx4090"),
    ("NVIDIA L4", (8, 9), 58, "rtx4090"),                  # no file of its own: the one with the nearest number of cores
    ("NVIDIA A30", (8, 0), 56, "a100"), ("NVIDIA GeForce RTX 3060", (8, 6), 28, "a10"),
    ("NVIDIA B200", (10, 0), 148, "b200"), ("NVIDIA GB200", (10, 0), 152, "b200"),
    ("NVIDIA GeForce RTX 5090", (12, 0), 170, "l40s"),
    ("Tesla V100", (7, 0), 80, ""),
])  # fmt: skip
def test_a_device_is_the_chip_that_is_most_like_it(name, capability, cores, chip):
    assert nearest_chip(DeviceFacts(name, capability, cores), [load_chip(c) for c in CHIPS]) == chip


def test_the_target_alone_is_the_device_that_is_here(monkeypatch):
    monkeypatch.setattr(device, "device_here", lambda: DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108))
    assert load_target("cuda").chip.name == "a100"
    assert load_target("cuda:h200").chip.name == "h200"
    assert why_not("sm_90a") == "the device has compute capability 8.0, code for sm_90a runs on 9.0 only"
    assert why_not("sm_89") == "the device has compute capability 8.0, sm_89 needs 8.9"
    assert why_not("sm_80") == ""
    monkeypatch.setattr(device, "device_here", lambda: DeviceFacts("Tesla V100", (7, 0), 80))
    assert load_target("cuda").why_not_runnable() == "the device has compute capability 7.0, kernels are printed for 8.0 and newer"


def test_without_a_device_it_is_the_default_chip(monkeypatch):
    def no_driver() -> DeviceFacts:
        raise RuntimeError("no driver\nhere")

    monkeypatch.setattr(device, "device_here", no_driver)
    assert load_target("cuda").chip.name == manifests()["cuda"]["default_chip"]
    assert why_not("sm_80") == "no CUDA device: no driver"


def test_a_missing_package_is_no_missing_device(monkeypatch):
    """NVRTC's bindings may be there without what finds and starts devices."""
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    device.device_here.cache_clear()
    assert why_not("sm_80") == "cuda.core is not installed (pip install 'autocomp[cuda]')"


def test_an_architecture_has_the_instructions_that_it_brings():
    """Rows of instructions.yaml by what each needs: dp4a since 6.1, mma.sync since 8.0, wgmma on 9.0a alone, tcgen05 on 10.0a; pieces of
    a thread's own anywhere."""
    of = lambda arch: {i.name.partition(".")[0] for rows in instructions_of(arch)[:2] for i in rows} - {"mma", "dp4a", "fma"}
    assert {arch: of(arch) for arch in ("sm_80", "sm_90a", "sm_100a")} == {"sm_80": set(), "sm_90a": {"wgmma"}, "sm_100a": {"tcgen05"}}
    for arch in ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120"):
        assert not instructions_of(arch)[1]


def test_a_chip_that_says_warpgroups_and_has_none_is_refused(tmp_path):
    text = (ROOT / "cost_models" / "h200.yaml").read_text()
    (tmp_path / "card.yaml").write_text(text.replace("name: h200", "name: card").replace("sm_90a", "sm_100"))
    target = load_target(f"cuda:{tmp_path / 'card.yaml'}")
    kernel = autocomp.optimize(GRAPHS["gemm"], target="cuda:h200").calls.calls[0].kernel
    with pytest.raises(UnsupportedOp, match=r"card \(sm_100\) has no warpgroup instructions"):
        target.emit(kernel, by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2))


@pytest.mark.parametrize("arch", ["sm_75", "gfx942", "90"])
def test_an_architecture_that_is_not_printed_for_is_refused(arch, tmp_path):
    text = (ROOT / "cost_models" / "a100.yaml").read_text()
    (tmp_path / "card.yaml").write_text(text.replace("name: a100", "name: card").replace("sm_80", arch))
    with pytest.raises(ChipError, match=f"chip card: arch is '{arch}', and kernels are printed for sm_80 and newer"):
        load_target(f"cuda:{tmp_path / 'card.yaml'}")


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("chip", [c for c in CHIPS if c not in ("a100", "h200")])  # these two compile every graph in test_cuda.py
def test_kernels_of_every_chip_compile(chip):
    alike = {"h100": "h200", "rtx4090": "l40s", "a10": "a100"}  # of whose code theirs is, but for numbers
    for name in SAMPLE[::3] if chip in alike else SAMPLE:
        program = autocomp.optimize(GRAPHS[name], target=f"cuda:{chip}")
        assert program.target.chip.name == chip
        assert all(code[:4] == b"\x7fELF" for code in program.build().values())
        if program.target.chip.arch not in ("sm_90a", "sm_100a"):
            assert not re.search(r"wgmma|ac_bulk|cluster|ac_tensor_mma", program.source()), f"{name} for {chip}"


@pytest.mark.parametrize("arch", ["sm_86", "sm_100", "sm_120"])
@pytest.mark.skipif(bool(missing), reason=missing)
def test_a_chip_of_another_architecture_is_a_file(arch, tmp_path):
    text = (ROOT / "cost_models" / "l40s.yaml").read_text()
    (tmp_path / "card.yaml").write_text(text.replace("name: l40s", "name: card").replace("sm_89", arch))
    program = autocomp.optimize(GRAPHS["gemm_f8e4m3"], target=f"cuda:{tmp_path / 'card.yaml'}")
    assert program.build()
