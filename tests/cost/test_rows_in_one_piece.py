"""Rows that stay in registers on the H200 (benchmarks/cost_rank.py, 2026-11-21): how many blocks share a core, what they exchange."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.cost.estimate import estimate
from autocomp.ir.schedule import Schedule
from benchmarks.cost_kernels import depthwise, softmax, softmax_of_channels

# tile along the axis that lies side by side, threads and microseconds of a softmax of 64 x 256 x 1024 halves along the axis of 256
CHANNELS = {(64, 256): 22.8, (32, 128): 23.6, (128, 512): 30.9, (32, 512): 29.8, (16, 512): 50.9, (8, 64): 48.0}


def kernel(text):
    (call,) = autocomp.optimize(text, target="cuda:h200").calls.calls
    return call.kernel


@pytest.fixture(scope="module")
def channels():
    return kernel(softmax_of_channels("f16", 64, 256, 1024))


def test_neighbours_of_different_rows(channels):
    predicted = {key: estimate(channels, Schedule.make({"i0": 1, "i2": key[0]}, threads=key[1]), load_chip("h200")).seconds * 1e6
                 for key in CHANNELS}  # fmt: skip
    for key, measured in CHANNELS.items():
        assert 0.7 < predicted[key] / measured < 1.35, (key, predicted)
    liked = min(predicted, key=predicted.get)
    assert CHANNELS[liked] < 1.1 * min(CHANNELS.values()), predicted


def test_whole_lines_of_a_middle_axis_are_chosen(channels):
    program = autocomp.optimize(softmax_of_channels("f16", 64, 256, 1024), target="cuda:h200", cache=False)
    (info,) = program.kernels
    assert any(f"i2 {n}" in info.schedule for n in (32, 64, 128)), info.schedule


def test_few_rows_take_more_threads():
    """16 rows of 8192: 6.1 us by 512 threads, 7.7 by 128."""
    k = kernel(softmax("f32", 16, 8192))
    price = lambda t: estimate(k, Schedule.make({"i0": 1}, threads=t), load_chip("h200")).seconds
    assert price(512) < price(256) < price(128)


def test_windows_of_single_channels_are_sums():
    """A channel's own window times its own weights uses nothing twice: no contraction; weights lie along the channels."""
    k = kernel(depthwise("f16", 8, 64, 28))
    text = k.signature
    assert "contract" not in text and "reduce sum" in text
    assert "in1: f16[3, 3, 1, 64] constant" in text
