"""Products by threads read factors that are contiguous along depth in runs of 16 bytes, and the lanes of one read in banks apart."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

BANKS, WORD, QUARTER = 32, 4, 8  # lanes whose 16 bytes fill the banks
BY_ROWS = "%1 = transpose(b, perm=[1, 0])\n%0 = matmul(a, %1)"  # both factors are contiguous along depth


def product(m: int, n: int, k: int, dtype: str = "f32") -> str:
    return graph({"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{n}, {k}]"}, BY_ROWS)


def printed(text: str, schedule: str) -> str:
    (source,) = autocomp.optimize(text, target="cuda:h200", schedule={"matmul": schedule}).sources.values()
    return source


@pytest.mark.parametrize(("dtype", "k", "schedule", "run"), [
    ("f32", 96, "tile i0 64, i1 64, r0 32 | stages 3 | threads 64", 4),
    ("f64", 96, "tile i0 32, i1 32, r0 32 | stages 3 | threads 64", 2),
    ("f32", 96, "tile i0 64, i1 256, r0 32 | stages 2 | threads 128", 4),  # 128 sums: the left factor comes by pieces
])  # fmt: skip
def test_a_run_is_read_at_once_where_registers_hold_it(dtype, k, schedule, run):
    source = printed(product(128, 256, k, dtype), schedule)
    assert f"kk += {run}" in source and source.count(f"ac_load<{run}>(&f") == 2


def test_lanes_of_one_read_find_their_rows_in_banks_apart():
    source = printed(product(128, 128, 96), "tile i0 64, i1 64, r0 32 | stages 3 | threads 64")
    thread, register = re.search(r"&fb\[r \* 4\], .*ac_swizzle<128>\((.*), \(kk\) \* 4 \^ .*\) \+ (.*) \* 128\)\);", source).groups()
    rows = [eval(f"{thread} + {register}".replace("/", "//"), {"i1_t": lane % 8 * 4, "r": 1}) for lane in range(QUARTER)]
    banks = {(row * 128 + (row % 8 << 4)) // WORD % BANKS for row in rows}
    assert len(set(rows)) == len(banks) == QUARTER


LAYS = {"nn": ("a", "b"), "tn": ("%2", "b"), "nt": ("a", "%1"), "tt": ("%2", "%1")}  # which factor is transposed


def transposed(lay: str, m: int, n: int, k: int, dtype: str = "f32") -> str:
    turned = {"a": f"{dtype}[{k}, {m}]" if lay[0] == "t" else f"{dtype}[{m}, {k}]",
              "b": f"{dtype}[{n}, {k}]" if lay[1] == "t" else f"{dtype}[{k}, {n}]"}  # fmt: skip
    left, right = LAYS[lay]
    lines = ["%2 = transpose(a, perm=[1, 0])"] * (lay[0] == "t") + ["%1 = transpose(b, perm=[1, 0])"] * (lay[1] == "t")
    return graph(turned, "\n".join([*lines, f"%0 = matmul({left}, {right})"]))


@pytest.mark.parametrize(("lay", "reads"), [
    ("nn", {"fa": "ac_load<4>(&fa[r * 4]", "fb": "ac_load<4>(&fb[u * 8 + r * 4]"}),
    ("tn", {"fa": "ac_load<4>(&fa[r * 4]", "fb": "ac_load<4>(&fb[r * 4]"}),
    ("nt", {"fa": "ac_load<4>(&fa[r * 4]", "fb": "ac_load<4>(&fb[r * 4]"}),
    ("tt", {"fa": "ac_load<4>(&fa[u * 4 + r * 4]", "fb": "ac_load<4>(&fb[r * 4]"}),
])  # fmt: skip
def test_square_pieces_read_both_factors_in_whole_accesses(lay, reads):
    """A factor that lies along its rows is not swizzled: lanes read along one row, at addresses that are constants apart."""
    source = printed(transposed(lay, 256, 256, 96), "tile i0 128, i1 128, r0 32 | stages 2 | threads 128 | instruction square")
    assert all(text in source for text in reads.values())
    assert source.count("ac_swizzle<128>") == (lay[0] == "n") + (lay[1] == "t")
    assert ("for (int g = 0; g < 4; ++g)" in source) == (lay != "tn")  # the left factor comes by pieces where registers would not hold it


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("lay", "m", "n", "k", "dtype", "tile"), [
    ("nn", 131, 70, 44, "f32", "tile i0 128, i1 64, r0 32 | stages 3 | threads 64 | instruction square"),
    ("tn", 66, 129, 35, "f32", "tile i0 64, i1 128, r0 32 | stages 2 | threads 128 | instruction square"),
    ("nt", 130, 131, 36, "f32", "tile i0 128, i1 128, r0 32 | stages 2 | threads 128 | instruction square"),
    ("tt", 67, 65, 33, "f32", "tile i0 64, i1 64, r0 32 | stages 2 | threads 64 | instruction square"),
    ("nn", 131, 40, 44, "f32", "tile i0 128, i1 40, r0 32 | stages 3 | threads 64 | instruction narrow"),
    ("tn", 66, 71, 35, "f32", "tile i0 64, i1 72, r0 32 | stages 2 | threads 32 | instruction narrow"),
    ("nt", 130, 17, 36, "f32", "tile i0 128, i1 24, r0 32 | stages 2 | threads 64 | instruction narrow"),
    ("nt", 50, 70, 38, "f64", "tile i0 32, i1 64, r0 32 | stages 2 | threads 64 | instruction square"),
    ("nt", 66, 259, 36, "f32", "tile i0 64, i1 256, r0 32 | stages 2 | threads 128"),  # rows of 4 results, read by pieces
])  # fmt: skip
def test_pieces_are_right_at_odd_ends(lay, m, n, k, dtype, tile, model, tmp_path):
    program = autocomp.optimize(transposed(lay, m, n, k, dtype), target="cuda:h200", schedule={"matmul": tile})
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify(seed=fresh.seed()).ratio <= 1


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_tails_are_right(model, tmp_path):
    for k, (m, n, depth, dtype) in enumerate(((67, 45, 52, "f32"), (33, 130, 100, "f32"), (40, 40, 36, "f64"), (50, 70, 33, "f32"))):
        program = autocomp.optimize(product(m, n, depth, dtype), target="cuda:h200")
        (folder := tmp_path / str(k)).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        assert program.verify(seed=fresh.seed()).ratio <= 1
