"""Attention over a latent cache: scores as a sum of two products, keys that are values too, rows that several warpgroups share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.cost.work import Cost
from autocomp.egraph.parts import merged, split_calls
from autocomp.ir.schedule import Schedule
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import build_program
from autocomp.simulate.simt_model import ModelExecutor, ModelFailure
from autocomp.tile.derive import derive
from autocomp.tile.text import show
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand


def latent(batch: int, heads: int, keys: int, width: int, turned: int) -> str:
    """softmax((q kv^T + qp kp^T) / 8) kv, a decode step of multi-head latent attention."""
    inputs = {"q": f"f16[{batch}, {heads}, {width}]", "qp": f"f16[{batch}, {heads}, {turned}]",
              "kv": f"f16[{batch}, {keys}, {width}]", "kp": f"f16[{batch}, {keys}, {turned}]"}  # fmt: skip
    body = """%0 = transpose(kv, perm=[0, 2, 1])
        %1 = matmul(q, %0)
        %2 = transpose(kp, perm=[0, 2, 1])
        %3 = matmul(qp, %2)
        %4 = add(%1, %3)
        %5 = mul(%4, const(0.125, f16))
        %6 = cast(%5, to="f32")
        %7 = softmax(%6, axes=[2])
        %8 = cast(%7, to="f16")
        %9 = matmul(%8, kv)"""
    return graph(inputs, body)


SHARED = by_hand({"i0": 1, "i1": 64, "i2": 128, "r2": 64}, stages=2, roles="warp_specialise", workers=2)


def test_one_accumulator_takes_both_products_and_one_tile_serves_twice():
    (call,) = merged(autocomp.optimize(latent(2, 128, 4096, 512, 64), target="cuda:h200").calls).calls
    text = show(derive(call.kernel, by_hand({"i0": 1, "i1": 64, "i2": 512, "r2": 64})))
    products = [line.split() for line in text.splitlines() if " += mma " in line]
    assert [p[0] for p in products] == ["acc", "acc", "o"]
    assert sum(" fill 0.0" in line and line.split()[0] == "acc:" for line in text.splitlines()) == 1
    values = products[2][4]
    assert values in (products[0][4], products[1][4])  # the keys' tile
    assert sum(line.strip().startswith(f"{values}:") for line in text.splitlines()) == 1


def under(text: str, schedule: Schedule):
    """The program of one kernel under this very schedule."""
    p = autocomp.optimize(text, target="cuda:h200")
    whole = merged(p.calls)
    (call,) = whole.calls
    chosen = {call.kernel.signature: (schedule, Cost(0.0, "nothing", ()))}
    return build_program(*split_calls(whole, chosen, p.target.chip), p.target, p.options, p.trace)


@pytest.mark.parametrize(("keys", "parts"), [(200, 0), (330, 2)])
def test_warpgroups_share_rows(keys, parts, model, tmp_path):
    """Each computes the weights of half of a turn's keys for all of them, and half of the columns; also in parts of the keys."""
    join = (("i0", 1), ("i1", 8), ("i2", 128), ("threads", 128))
    schedule = Schedule(**{**vars(SHARED), "split": ("r2", parts), "join": join}) if parts else SHARED
    program = under(latent(2, 128, keys, 128, 64), schedule)
    first = program.printed[program.calls.calls[0].kernel.name]
    assert "ac_stmatrix4" in first.text and "ac_wgmma_n32" in first.prelude and "ac_wgmma_n64" in first.prelude
    program.executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        program.executor.late = late
        program.verify(seed=fresh.seed())


def test_the_model_sees_weights_that_are_multiplied_before_a_fence(model, tmp_path):
    """They are written by threads and read by the matrix units."""
    program = under(latent(2, 128, 200, 128, 64), SHARED)
    name = program.calls.calls[0].kernel.name
    source = program.printed[name]
    before, fence, after = source.text.partition("ac_async_fence();")
    assert fence
    program.printed[name] = replace(source, text=f"{before};{after}")
    program.executor = ModelExecutor(program, tmp_path, model)
    with pytest.raises(ModelFailure, match="read in bulk without a fence between"):
        program.run(random_inputs(program.graph))


def test_warpgroups_agree_when_a_base_moves(model, tmp_path):
    """They vote at a barrier: rescaling exchanges maxima between them. Keys that grow make the base move again and again."""
    program = under(latent(2, 128, 330, 128, 64), Schedule(**{**vars(SHARED), "rescale_threshold": 4}))
    assert "ac_barrier_any" in program.printed[program.calls.calls[0].kernel.name].text
    program.executor = ModelExecutor(program, tmp_path, model)
    rng = fresh.rng()
    feed = {n: (rng.standard_normal(s) * 0.5).astype(np.float16)
            for n, s in {"q": (2, 128, 128), "qp": (2, 128, 64), "kv": (2, 330, 128), "kp": (2, 330, 64)}.items()}
    for name in ("kv", "kp"):
        feed[name] *= np.linspace(0.1, 6, 330)[None, :, None].astype(np.float16)
    program.executor.late = True
    got = program.run(feed)
    scores = (feed["q"].astype(float) @ feed["kv"].astype(float).swapaxes(1, 2)
              + feed["qp"].astype(float) @ feed["kp"].astype(float).swapaxes(1, 2)) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ feed["kv"].astype(float)
    (out,) = got.values() if isinstance(got, dict) else got
    assert np.abs(np.asarray(out, float) - want).max() < 0.02 * np.abs(want).max()


def test_waves_share_rows_that_are_too_wide_for_one(model, tmp_path):
    """512 columns of 8 rows: without roles the weights go through shared memory too."""
    program = autocomp.optimize(latent(2, 8, 40, 512, 64), target="cuda:h200")
    assert len(program.kernels) == 1 and "warp_specialise" not in program.kernels[0].schedule
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=fresh.seed())


def test_the_schedule_of_wide_rows_is_chosen():
    (kernel,) = autocomp.optimize(latent(64, 128, 4096, 512, 64), target="cuda:h200").kernels
    assert "warp_specialise 2" in kernel.schedule and "i1 64" in kernel.schedule


def test_the_compiler_parts_no_products():
    """ptxas says where it makes matrix instructions wait for each other (C7510 and on), which takes half of their speed."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    program = autocomp.optimize(latent(64, 128, 4096, 512, 64), target="cuda:h200")
    if program.target.toolchain.missing():
        pytest.skip(program.target.toolchain.missing())
    said = compiler_log(nvrtc, program.source())
    assert "Used" in said and "C75" not in said


def compiler_log(nvrtc, text: str) -> str:
    """What NVRTC and ptxas say of a kernel."""
    from autocomp.targets.cuda.nvrtc import _toolkit_include, headers

    known, include = headers(), _toolkit_include()
    texts, names = [t.encode() for t in known.values()], [n.encode() for n in known]
    _, made = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", len(known), texts, names)
    options = ["--gpu-architecture=sm_90a", "--std=c++17", "--device-as-default-execution-space", "--ptxas-options=-v"]
    options += [f"--include-path={include}"] if include else []
    nvrtc.nvrtcCompileProgram(made, len(options), [o.encode() for o in options])
    log = b" " * nvrtc.nvrtcGetProgramLogSize(made)[1]
    nvrtc.nvrtcGetProgramLog(made, log)
    return log.decode()
