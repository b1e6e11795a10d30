"""Random graphs against float64 (a share; `python -m benchmarks.fuzz.harness graphs` runs as many as wanted), and what they found;
the memory plan never lets two live tensors overlap; the same input prints the same bytes; DLPack in and out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import autocomp
from autocomp.frontends.text import parse, show
from autocomp.runtime.plan import ALIGN, arena, size_of, slots
from benchmarks.drawn_graphs import graphs
from benchmarks.random_graphs import check
from examples.models import bert
from tests.helpers.device_graphs import GRAPHS

needs_cc = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")
ROOT = Path(__file__).resolve().parents[2]

FOUND = {
    "a by-product's own by-product": "input a: f32[]\n%0 = tanh(a)\n%1 = exp(%0)\n%2 = tanh(%1)\n%3 = exp(%2)\n"
                                     "output y0 = %1\noutput y1 = %3\noutput y2 = %0",
    "a masked read of a scalar": "input a: i32[]\n%1 = broadcast(a, shape=[3])\n"
                                 "%2 = cumsum(%1, axis=0, exclusive=False, reverse=False)\noutput y = %2",
    "read and gathered from": "input a: f32[1]\ninput i: i64[1]\n%0 = gather(a, i, axis=0)\n%1 = concat(a, %0, axis=0)\noutput y = %1",
    "a window over padding only": "input a: f32[1, 2, 1, 1]\ninput w: f32[1, 2, 1, 2]\n%0 = conv(a, w, dilations=[1, 1], groups=1, "
                                  "hi=[1, 1], layout=\"nchw\", lo=[0, 0], strides=[1, 1])\noutput y = %0",
    "a choice between whole reads, transposed": "input a: i32[1, 3, 2, 2]\ninput x: i32[1, 3, 2, 2]\n%1 = gt(x, const(0, i32))\n"
                                               "%2 = transpose(a, perm=[0, 1, 3, 2])\n%3 = where(%1, const(0, i32), %2)\noutput y = %3",
    "a choice between reads in float64": "input a: f64[4, 16, 16]\ninput x: f64[4, 16, 16]\n%1 = gt(x, const(0.0, f64))\n"
                                         "%2 = where(%1, a, const(0.0, f64))\noutput y = %2",
    "vectors under a constant guard": "input a: f32[16, 1]\n%0 = tanh(a)\n%1 = add(a, a)\n"
                                      "%2 = cumsum(%1, axis=1, exclusive=True, reverse=False)\noutput y0 = %0\noutput y1 = %2",
    "a scalar read under a mask in vectors": "input a: f32[8]\ninput x: f32[]\n%0 = add(a, x)\n%1 = concat(a, %0, axis=0)\noutput y = %1",
    "two products that are stored beside their sum": "input a: f32[1, 7, 11]\ninput b: f32[1, 7, 11]\n%0 = transpose(b, perm=[0, 2, 1])\n"
                                                     "%1 = matmul(a, %0)\n%2 = transpose(a, perm=[0, 2, 1])\n%3 = matmul(a, %2)\n"
                                                     "%4 = add(%1, %3)\noutput y0 = %4\noutput y1 = %1\noutput y2 = %3",
    "an array inside of a vector loop": "input a: f32[6, 1, 1, 2]\ninput x: f32[1]\n%0 = max(a, x)\n%1 = transpose(%0, perm=[0, 1, 3, 2])\n"
                                        "%2 = matmul(a, %1)\noutput y = %2",
    "a kernel named as in math.h": "input a: f32[5]\n%0 = atan(a)\noutput y = %0",
    "a kernel named as a macro": "input a: f32[5]\n%0 = isnan(a)\noutput y = %0",
}  # fmt: skip


@needs_cc
@pytest.mark.parametrize("name", FOUND)
def test_what_random_graphs_found(name):
    check(parse(f"graph g\n{FOUND[name]}\n"))


FOUND_ON_GPUS = {
    "a product of one number beside batches": "input a: f32[3, 1, 5]\n%0 = transpose(a, perm=[0, 2, 1])\n%1 = matmul(a, %0)\n"
                                              "%2 = mul(%1, const(0.5, f32))\noutput y = %2",
    "two products that are stored beside their sum": FOUND["two products that are stored beside their sum"],
    "a product of one number": "input a: f32[1, 1, 3]\ninput w: f32[3, 1]\n%0 = matmul(a, w)\n%1 = relu(%0)\noutput y = %1",
    "bytes reduced by a cluster": "input a: i8[7, 5, 264, 16]\n%0 = reduce_min(a, axes=[0, 1, 2, 3])\noutput y = %0",
    "one row of scores in shared memory": "input x: f32[]\ninput v: f32[65, 17]\ninput k: f32[72, 65]\ninput q: f32[1, 72]\n"
                                          "param w: f32[65] = random(0)\n%0 = add(q, x)\n%1 = matmul(%0, k)\n%2 = add(%1, w)\n"
                                          "%3 = softmax(%2, axes=[1])\n%4 = matmul(%3, v)\noutput y = %4",
    "the largest of negated integers": "input a: i32[64, 65]\n%0 = neg(a)\n%1 = reduce_max(%0, axes=[0], keepdims=False)\noutput y = %1",
    "the mean of nothing": "input a: f32[3, 5, 17, 1]\n%0 = avgpool(a, count_include_pad=False, dilations=[1, 2], hi=[0, 1], "
                           "layout=\"nchw\", lo=[0, 1], strides=[1, 2], window=[3, 2])\n%1 = relu(%0)\noutput y = %1",
}  # fmt: skip


@needs_cc
@pytest.mark.parametrize("name", FOUND_ON_GPUS)
def test_what_random_graphs_found_on_gpus(name):
    check(parse(f"graph g\n{FOUND_ON_GPUS[name]}\n"), "cuda:h200")


@needs_cc
@settings(max_examples=15, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_random_graphs_match_the_reference(graph):
    check(graph)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_live_tensors_never_overlap_in_the_arena(graph):
    calls = covered(graph)
    s = slots(calls)
    offsets, total = arena(calls, s, {})
    spans = [(offsets[t], offsets[t] + size_of(calls.tensors[t], {}), s.first_use[t], s.last_use[t]) for t in s.temporary]
    assert all(lo % ALIGN == 0 and hi <= total for lo, hi, _, _ in spans)
    for i, (lo, hi, first, last) in enumerate(spans):
        for lo2, hi2, first2, last2 in spans[:i]:
            assert hi <= lo2 or hi2 <= lo or last < first2 or last2 < first


def covered(graph):
    """The kernel graph without fusion: as many intermediates as there are ops."""
    from autocomp.cost.chip import load_chip
    from autocomp.egraph.cover import cover
    from autocomp.egraph.saturate import freeze_graph
    from autocomp.ir.decompose import decompose
    from autocomp.options import Options
    from autocomp.rewrite import load_rules
    from autocomp.trace import Trace

    rules = load_rules(without=("fusion/*",))
    return cover(freeze_graph(decompose(graph)), rules, load_chip("h200"), Options(), Trace())


ROWS = "graph rows\ninput x: f16[65, 300]\n%0 = softmax(x, axes=[1])\n%1 = mul(%0, x)\noutput y = %1\noutput s = %0\n"


def test_sources_are_the_same_bytes_whatever_the_hash_seed(tmp_path):
    texts = [("cpu", show(bert(1, seq=16, hidden=32, heads=2, inner=64)).replace("extern", "random(0)"))]
    texts += [("cuda:h200", t) for t in (ROWS, *(GRAPHS[x] for x in ("gemm_bias_gelu", "attention_f16")))]
    paths = [(target, str(tmp_path / f"{i}.txt")) for i, (target, _) in enumerate(texts)]
    for (_, path), (_, text) in zip(paths, texts):
        Path(path).write_text(text)
    code = ("import autocomp, sys; from autocomp.targets.cpu.toolchain import Toolchain; Toolchain.missing = lambda self: 'none'\n"
            f"for t, path in {paths!r}: print(t); sys.stdout.write(autocomp.optimize(path, target=t, cache=False).source())")  # fmt: skip
    printed = set()
    for seed in ("0", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1
    assert all(len(part) > 1000 for part in re.split("^(?:cpu|cuda:h200)$", printed.pop(), flags=re.M)[1:])


class OnlyDLPack:
    """An array of another library: nothing but the protocol."""

    def __init__(self, x):
        self._x = x

    def __dlpack__(self, **kw):
        return self._x.__dlpack__(**kw)

    def __dlpack_device__(self):
        return self._x.__dlpack_device__()


@needs_cc
def test_arrays_come_and_go_by_dlpack():
    program = autocomp.optimize("graph g\ninput x: f32[5, 7]\n%0 = exp(x)\n%1 = transpose(%0, perm=[1, 0])\noutput y = %1\n")
    x = np.random.default_rng(0).standard_normal((5, 14)).astype("f4")[:, ::2]  # strides and all
    y = program(OnlyDLPack(x))
    np.testing.assert_allclose(np.from_dlpack(y), np.exp(x).T, rtol=1e-6)
    torch = pytest.importorskip("torch")
    t = torch.from_dlpack(program(torch.from_numpy(np.ascontiguousarray(x))))
    assert t.shape == (7, 5)
    torch.testing.assert_close(t, torch.exp(torch.from_numpy(np.ascontiguousarray(x))).T)
