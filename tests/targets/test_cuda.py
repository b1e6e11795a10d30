"""CUDA kernels without a device: compiled by NVRTC for two architectures, goldens of the text, refusals with their reasons."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from autocomp.targets import load_target
from autocomp.targets.cuda.device import DeviceFacts
from autocomp.targets.cuda.target import CudaTarget
from autocomp.targets.cuda.toolchain import Toolchain

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.errors import DoesNotFit, UnsupportedOp
from tests.helpers.device_graphs import GOLDEN, GRAPHS, HOMES, gemm, graph, printed
from tests.helpers.repeats import repeats
from tests.helpers.schedules import by_hand

FOLDER = Path(__file__).parents[1] / "golden" / "cuda"
missing = load_target("cuda").toolchain.missing()
needs_nvrtc = pytest.mark.skipif(bool(missing), reason=missing)


@needs_nvrtc
@pytest.mark.parametrize(("name", "chip"), [case if HOMES[n] == f"cuda:{chip}" or (chip == "h200" and HOMES[n].startswith("maca"))
                                            else repeats(*case, of="the same graph on the other chip")
                                            for n in GRAPHS for chip in ("a100", "h200") for case in [(n, chip)]])  # fmt: skip
def test_every_kernel_compiles(name, chip):
    program = printed(name, f"cuda:{chip}")
    assert not [k.name for k in program.calls.calls if k.kernel.opaque]
    for file, text in program.sources.items():
        code = program.target.toolchain.compile_object(Path(file).stem, text)
        assert code[:4] == b"\x7fELF"


@needs_nvrtc
def test_what_is_printed_for_an_older_chip_is_compiled_for_the_device_that_is_here(monkeypatch):
    """A cubin of compute capability 8.0 does not load on 9.0, one of 8.0 does on 8.9; code for 9.0a runs on 9.0 alone."""
    runs = [((9, 0), "sm_80", "sm_90"), ((8, 9), "sm_80", "sm_80"), ((8, 0), "sm_80", "sm_80"), ((9, 0), "sm_90a", "sm_90a")]
    for have, arch, code in runs:
        monkeypatch.setattr("autocomp.targets.cuda.toolchain.device_here", lambda have=have: DeviceFacts("a card", have, 80))
        assert Toolchain(arch).here() == Toolchain(code)
    program = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target="cuda:a100")
    for name, s in program.printed.items():
        assert Toolchain("sm_90").compile_object(name, program.target.preamble([s]) + s.text)[:4] == b"\x7fELF"


@pytest.mark.parametrize(("name", "chip"), [(n, c) for c in ("a100", "h200") for n in GOLDEN[c]])
def test_the_text_is_as_it_was(name, chip):
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_cuda.py  writes the files anew."""
    text = printed(name, f"cuda:{chip}").source()
    path = FOLDER / f"{name}.{chip}.cu"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def kernel_of(text: str, without: tuple[str, ...] = ()):
    return autocomp.optimize(text, target="cuda:a100", without=without).calls.calls[0].kernel


def test_a_tile_beyond_shared_memory_is_refused_with_both_numbers():
    target = CudaTarget(load_chip("a100"))
    schedule = by_hand({"i0": 256, "i1": 256, "r0": 128}, stages=3, threads=512)
    with pytest.raises(DoesNotFit, match="shared memory of a block: needs 393216, has 166912") as e:
        target.emit(kernel_of(gemm(512, 512, 512)), schedule)
    assert (e.value.needed, e.value.available) == (393216, 166912)


def test_a_tile_beyond_the_registers_is_refused_with_both_numbers():
    for threads, needs, has in ((128, 512, 255), (512, 192, 128)):  # a core's 65536 are the threads'
        with pytest.raises(DoesNotFit, match=f"registers of a thread: needs {needs}, has {has}"):
            tile = {"i0": 256, "i1": 256 if threads == 128 else 384, "r0": 32}
            CudaTarget(load_chip("a100")).emit(kernel_of(gemm(512, 768, 512)), by_hand(tile, threads=threads))


@pytest.mark.parametrize(
    ("text", "schedule", "reason"),
    [
        (gemm(64, 64, 64), by_hand({"i0": 64, "i1": 64}, threads=48), "48 threads of a block are no whole number of waves of 32"),
        (gemm(64, 64, 64), by_hand({"i0": 64}, threads=128, instruction="tf32"), "no instruction 'tf32' for a contraction f16 x f16"),
        (gemm(64, 64, 64, "f16", "4, "), by_hand({"i0": 2}, threads=128), "batch axis i0 of a contraction has a tile of 2"),
        (graph({"x": "f16[8, N]"}, "%0 = softmax(x, axes=[1])").replace("graph g\n", "graph g\ndim N in 1..2000\n"),
         by_hand({"i0": 1}), "axis i1 of unknown extent N lies whole in a tile"),
    ],
)
def test_a_schedule_that_cannot_be_printed_is_refused_with_its_reason(text, schedule, reason):
    with pytest.raises(UnsupportedOp, match=reason):
        CudaTarget(load_chip("a100")).emit(kernel_of(text), schedule)


def test_blocks_of_a_cluster_are_whole_waves():
    """Four blocks of 16 threads are two waves of 32, which no block has."""
    softmax = kernel_of(graph({"x": "f16[19, 4096]"}, "%0 = softmax(x, axes=[1])"))
    with pytest.raises(UnsupportedOp, match="16 threads of a block are no whole number of waves of 32"):
        CudaTarget(load_chip("h200")).emit(softmax, by_hand({"i0": 1, "i1": 1024}, threads=16, cluster=4))


def test_warpgroups_are_refused_where_the_chip_has_none():
    schedule = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
    with pytest.raises(UnsupportedOp, match=r"a100 \(sm_80\) has no warpgroup instructions"):
        CudaTarget(load_chip("a100")).emit(kernel_of(gemm(512, 512, 512)), schedule)


def test_a_pitch_that_the_bulk_engine_cannot_read_is_refused_with_its_reason():
    schedule = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
    with pytest.raises(UnsupportedOp, match="rows of 666 bytes are no multiple of 16"):
        CudaTarget(load_chip("h200")).emit(kernel_of(gemm(1000, 512, 333), without=("layout/pad-factors",)), schedule)


def test_odd_pitches_fall_back_to_schedules_without_the_bulk_engine():
    (kernel,) = autocomp.optimize(gemm(1000, 777, 333), target="cuda:h200", without=["layout/pad-factors"]).kernels
    assert "warp_specialise" not in kernel.schedule
    assert kernel.bound in ("narrow copies", "latency")


def test_without_a_tiling_rule_there_is_no_schedule_that_fits():
    with pytest.raises((DoesNotFit, UnsupportedOp)):
        autocomp.optimize(graph({"x": "f16[4096, 4096]"}, "%0 = softmax(x, axes=[1])"), target="cuda:h200", without=["tiling/*"])
