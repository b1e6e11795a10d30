"""The block model against times of products on the H200 (benchmarks/cost_rank.py, 2026-11-21): tiles, threads and rings in their order."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.cost.estimate import estimate
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import graph

# rows, columns, depth of a tile; stages, threads (0: roles, blocks stay, 2 workers) and microseconds of 4096 x 4096 x 4096
MEASURED = {
    (128, 256, 64, 4, 0): 187.1, (64, 128, 32, 2, 64): 406.2, (64, 128, 64, 3, 64): 412.9, (64, 64, 32, 6, 128): 519.1,
    (64, 32, 32, 3, 128): 733.1, (64, 128, 128, 3, 64): 980.4, (64, 32, 128, 6, 128): 1272.4, (16, 32, 32, 2, 64): 1299.5,
    (16, 256, 128, 2, 64): 1929.2,
}  # fmt: skip

# lines, columns, taps along a line; stages and microseconds of a 3 x 3 convolution of 32 x 28 x 28 x 128 to 128 channels, 2 workers
LEAVES = ("mma_zero_init", "tma_store", "interleave_epilogue")  # as they were measured
CONVOLUTION = {(8, 128, 1, 4): 20.0, (8, 128, 3, 2): 24.1, (16, 64, 3, 2): 24.4, (8, 64, 3, 3): 20.3, (4, 128, 3, 3): 20.6}


@pytest.fixture(scope="module")
def product():
    text = graph({"a": "f16[4096, 4096]", "b": "f16[4096, 4096]"}, "%0 = matmul(a, b)")
    return autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel


def test_blocks_that_share_a_core_are_priced_together(product):
    """Small blocks hide each other's latency; two warps that have a core alone reach less than half of it."""
    chip = load_chip("h200")
    predicted = {}
    for m, n, k, stages, threads in MEASURED:
        how = {"threads": threads} if threads else {"roles": "warp_specialise", "workers": 2, "persistent": True}
        s = Schedule.make({"i0": m, "i1": n, "r0": k}, stages=stages, **how)
        predicted[m, n, k, stages, threads] = estimate(product, s, chip).seconds * 1e6
    for key, measured in MEASURED.items():
        assert 0.7 < predicted[key] / measured < 1.4, (key, predicted[key], measured)


def test_a_ring_of_two_slots_is_slower_than_its_turns(product):
    """Each copy waits for the product before and each product for a copy: longer rings of smaller slots are preferred."""
    text = ("graph g\ninput x: f16[32, 28, 28, 128]\ninput w: f16[128, 3, 3, 128]\n"
            "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
            "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])\n%3 = relu(%2)\n"
            "%4 = transpose(%3, perm=[0, 2, 3, 1])\noutput y = %4\n")  # fmt: skip
    kernel = autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel
    predicted = {}
    for lines, columns, taps, stages in CONVOLUTION:
        tile = {"i0": 1, "i1": lines, "i2": 28, "i3": columns, "r0": 1, "r1": taps, "r2": 64}
        s = Schedule.make(tile, stages=stages, roles="warp_specialise", workers=2, persistent=True, grouped=8, directives=LEAVES)
        predicted[lines, columns, taps, stages] = estimate(kernel, s, load_chip("h200")).seconds * 1e6
    for key, measured in CONVOLUTION.items():
        assert 0.85 < predicted[key] / measured < 1.15, (key, predicted[key], measured)
    two = [t for key, t in predicted.items() if key[-1] == 2]
    assert min(two) > max(t for key, t in predicted.items() if key[-1] > 2)


# tile, stages, workers, blocks that share a depth (0: last tiles shared out) and microseconds of 256 x 512 x 16384, cold caches
DEEP = {
    (64, 64, 6, 1, 4): 24.3, (64, 64, 8, 1, 4): 32.4, (64, 64, 8, 1, 2): 28.6, (128, 128, 4, 2, 8): 23.8, (128, 64, 6, 1, 4): 24.9,
    (128, 64, 6, 1, 8): 29.1, (64, 64, 6, 1, 0): 30.6, (128, 128, 6, 1, 0): 43.3,
}  # fmt: skip


def test_what_a_shared_depth_costs():
    """Clusters that find no room at once take turns; blocks at different steps draw less from L2; parts of sums are taken one by one."""
    text = graph({"a": "f16[256, 16384]", "b": "f16[16384, 512]"}, "%0 = matmul(a, b)")
    kernel = autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel
    predicted = {}
    for m, n, stages, workers, deep in DEEP:
        shared = {"cluster": deep, "cluster_split_k": deep} if deep else {"stream_k": True, "persistent": True}
        s = Schedule.make({"i0": m, "i1": n, "r0": 64}, stages=stages, roles="warp_specialise", workers=workers, grouped=8, **shared)
        predicted[m, n, stages, workers, deep] = estimate(kernel, s, load_chip("h200")).seconds * 1e6
    for key, measured in DEEP.items():
        assert 0.75 < predicted[key] / measured < 1.2, (key, predicted[key], measured)
    liked = min(predicted, key=predicted.get)
    assert DEEP[liked] < 1.1 * min(DEEP.values()), (liked, predicted)


def test_weights_that_two_rows_of_tiles_want_take_longer():
    """128 rows by tiles of 128 x 64 and of 64 x 128, in clusters that share the depth: 17.6 and 21.8 us."""
    text = graph({"a": "f16[128, 4096]", "b": "f16[4096, 4096]"}, "%0 = matmul(a, b)")
    kernel = autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel
    how = {"stages": 8, "roles": "warp_specialise", "cluster": 2, "cluster_split_k": 2}
    once, twice = (estimate(kernel, Schedule.make({"i0": m, "i1": n, "r0": 64}, **how), load_chip("h200")).seconds * 1e6
                   for m, n in ((128, 64), (64, 128)))  # fmt: skip
    assert once + 2 < twice < once + 6, (once, twice)


def test_what_both_blocks_of_a_cluster_read_comes_once():
    """509 products of 112 rows by tiles of 64 x 256: 168.6 us, in clusters of two blocks that have all rows 145.9 (H200, 2026-12-01)."""
    text = graph({"a": "bf16[509, 112, 456]", "b": "bf16[509, 456, 768]"}, "%0 = matmul(a, b)")
    kernel = autocomp.optimize(text, target="cuda:h200", cache=False).calls.calls[0].kernel
    how = {"stages": 4, "roles": "warp_specialise", "persistent": True, "grouped": 16, "workers": 1}
    memory = {}
    for rows in (64, 32):
        for cluster in (1, 2):
            cost = estimate(kernel, Schedule.make({"i0": 1, "i1": rows, "i2": 256, "r0": 64}, cluster=cluster, **how), load_chip("h200"))
            memory[rows, cluster] = dict(cost.parts)["dram"]
    assert memory[64, 2] < 0.9 * memory[64, 1] and memory[32, 2] == memory[32, 1], memory


TURNED = "%t = transpose(b, perm=[1, 0])\n%0 = matmul(a, %t)"


@pytest.mark.parametrize("left, right, body", [("3249, 4137", "4137, 5585", "%0 = matmul(a, b)"), ("2050, 2501", "1777, 2501", TURNED)])
def test_floats_of_odd_rows_are_copied_to_rows_of_whole_copies(left, right, body):
    """3249 x 4137 x 5585 took 6410 us by copies of 4 bytes, 3625 with two copies of the factors and a cut behind, cuBLAS 3170 (H200,
    2026-11-29)."""
    text = graph({"a": f"f32[{left}]", "b": f"f32[{right}]"}, body)
    one_by_one = autocomp.optimize(text, target="cuda:h200", without=("layout/pad-factors", "layout/pad-depth"))
    whole = autocomp.optimize(text, target="cuda:h200")
    assert len(one_by_one.kernels) == 1 and sum("pad" in k.name for k in whole.kernels) == 2
    assert whole.predicted < one_by_one.predicted


@pytest.mark.parametrize("columns, measured", [(255, 203.4), (4095, 114.8), (256, 0.0)])
def test_rows_that_begin_anywhere_leave_in_parts_of_sectors(columns, measured):
    """Warpgroups with roles store those; warps' results leave through shared memory. Microseconds by roles: H100, 2026-11-28."""
    tile = {"i0": 128, "i1": 256, "r0": 64} if columns > 4000 else {"i0": 1, "i1": 128, "i2": 128, "r0": 64}
    batch, m, k = (1, 4096, 512) if columns > 4000 else (512, 254, 64)
    many = f"{batch}, " if batch > 1 else ""
    perm = "[0, 2, 1]" if many else "[1, 0]"
    text = graph({"a": f"bf16[{many}{m}, {k}]", "b": f"bf16[{many}{columns}, {k}]"}, f"%t = transpose(b, perm={perm})\n%0 = matmul(a, %t)")
    calls = autocomp.optimize(text, target="cuda:h100", without=("layout/pad-factors",)).calls.calls
    kernel = next(c.kernel for c in calls if "matmul" in c.kernel.name)
    roles = Schedule.make(tile, stages=4, roles="warp_specialise", workers=2, persistent=True, directives=("tma_store",))
    warps = Schedule.make({**tile, "i1": 64}, stages=4, threads=128, directives=("turned_store",))
    by_roles, by_warps = (estimate(kernel, s, load_chip("h100")).seconds * 1e6 for s in (roles, warps))
    if not measured:  # whole boxes
        assert by_roles < 80.0
        return
    assert 0.75 < by_roles / measured < 1.3, by_roles
    assert by_warps < by_roles


def test_vectors_of_floats_leave_a_product_its_boxes_of_halves():
    """What an epilogue reads says nothing of what it stores: scales and shifts of a batch norm are floats, its results halves. ResNet-50
    (32 images, f16) took 961 us with the plain warps that a price by the widest operand preferred, 777 without (H200, 2026-12-01)."""
    halves = graph({"a": "f16[100352, 64]", "b": "f16[64, 256]", "c": "f16[256]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)")
    floats = graph({"a": "f16[100352, 64]", "b": "f16[64, 256]", "c": "f32[256]"},
                   '%0 = matmul(a, b)\n%1 = cast(%0, to="f32")\n%2 = add(%1, c)\n%3 = cast(%2, to="f16")')  # fmt: skip
    s = Schedule.make({"i0": 128, "i1": 128, "r0": 64}, stages=6, roles="warp_specialise", workers=2, persistent=True, ping_pong=True,
                      directives=LEAVES)  # fmt: skip
    chip = load_chip("h200")
    one, other = (estimate(autocomp.optimize(t, target="cuda:h200").calls.calls[0].kernel, s, chip).seconds for t in (halves, floats))
    assert other < 1.1 * one, (one, other)


@pytest.mark.parametrize("columns, tile, measured", [
    (672, (128, 128, 6), 125.3), (664, (128, 128, 6), 169.0), (664, (64, 256, 4), 129.0),
])  # fmt: skip
def test_parts_of_rows_that_end_within_a_sector(columns, tile, measured):
    """213 products of 880 rows, depth 160: rows of 1328 bytes begin at a half of a sector, those of 1344 do not. Microseconds: H200,
    2026-12-01."""
    text = graph({"a": "bf16[213, 880, 160]", "b": f"bf16[213, {columns}, 160]"}, "%t = transpose(b, perm=[0, 2, 1])\n%0 = matmul(a, %t)")
    kernel = autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel
    rows, cols, stages = tile
    s = Schedule.make({"i0": 1, "i1": rows, "i2": cols, "r0": 64}, stages=stages, roles="warp_specialise", workers=2, persistent=True,
                      ping_pong=True, grouped=8, directives=LEAVES)  # fmt: skip
    assert 0.85 < estimate(kernel, s, load_chip("h200")).seconds * 1e6 / measured < 1.25
