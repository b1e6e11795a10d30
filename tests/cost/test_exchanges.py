"""What it costs where threads share results that each could have of its own."""

from __future__ import annotations

import re
from math import prod

import autocomp


def test_a_block_of_max_pooling_has_results_for_vectors_of_all_its_threads():
    """Blocks of 8 pixels by 64 channels leave 128 threads half a vector each, so that pairs share one: 32 us against 20 of 16 pixels."""
    text = """graph pool
input x: f16[32, 112, 112, 64]
%0 = maxpool(x, window=[3, 3], strides=[2, 2], lo=[1, 1], hi=[1, 1], dilations=[1, 1], layout="nhwc")
output y = %0
"""
    (kernel,) = autocomp.optimize(text, target="cuda:h200").kernels
    tile = re.search(r"i0 (\d+), i1 (\d+), i2 (\d+), i3 64\b", kernel.schedule)
    threads = re.search(r"threads (\d+)", kernel.schedule)
    assert tile and prod(map(int, tile.groups())) * 64 >= 8 * (int(threads[1]) if threads else 256), kernel.schedule
