"""Vector widths and coalescing follow from where views are contiguous and what their sizes are multiples of; nobody writes them down."""

from __future__ import annotations

import re

import pytest

import autocomp
from tests.helpers.device_graphs import graph

SLICE = "%1 = slice(x, starts=[0, {}], limits=[200, {}], steps=[1, {}])\n%0 = exp(%1)"


def accesses(shape: str, body: str, dtype: str = "f16") -> tuple[list[int], list[int], str]:
    """(elements a load moves, elements a store moves, the kernel's comment) of a graph of one kernel."""
    (text,) = autocomp.optimize(graph({"x": f"{dtype}{shape}"}, body), target="cuda:h200").sources.values()
    found = lambda what: sorted({int(n) for n in re.findall(rf"{what}<(\d+)>\(", text)})
    size = int(dtype[1:]) // 8
    loads = {*found(r"ac_load(?:_\w+)?"), *(n // size for n in found("ac_copy"))}  # a copy says its bytes
    loads |= {1} if "ac_load_where<1>(" in text else set()
    return sorted(loads), found(r"ac_store(?:_\w+)?"), text


@pytest.mark.parametrize(("shape", "body", "dtype", "load", "store"), [
    ("[200, 777]", "%0 = exp(x)", "f16", 8, 8),                       # rows that follow each other are one axis
    ("[200, 777]", "%0 = exp(x)", "f32", 4, 4),                       # 16 bytes at most
    ("[200, 777]", "%0 = exp(x)", "f64", 2, 2),
    ("[199, 777]", "%0 = exp(x)", "f16", (1, 8), (1, 8)),          # an odd number of elements: the last tile's are alone
    ("[200, 776]", SLICE.format(8, 760, 1), "f16", 8, 8),
    ("[200, 776]", SLICE.format(4, 772, 1), "f16", 4, 8),             # begins at a multiple of 4; 768 columns are stored
    ("[200, 776]", SLICE.format(2, 774, 1), "f16", 2, 4),             # 772 columns
    ("[200, 776]", SLICE.format(1, 776, 1), "f16", 1, 1),
    ("[200, 770]", SLICE.format(0, 768, 1), "f16", 2, 8),             # rows of 770 begin at multiples of 2
    ("[200, 776]", SLICE.format(0, 776, 2), "f16", 1, 4),             # every second element is no run
])  # fmt: skip
def test_an_access_moves_what_address_and_size_are_multiples_of(shape, body, dtype, load, store):
    loads, stores, _ = accesses(shape, body, dtype)
    listed = lambda n: list(n) if isinstance(n, tuple) else [n]
    assert (loads, stores) == (listed(load), listed(store))


@pytest.mark.parametrize(("shape", "body", "value", "axis", "vector"), [
    ("[200, 776]", SLICE.format(8, 760, 1), "exp_t", "i1", 8),
    ("[300, 776]", "%0 = softmax(x, axes=[1])", "in0_t", "i1", 8),
    ("[1500, 4096]", "%0 = reduce_sum(x, axes=[0])", "in0_t", "i0", 8),  # the axis that stays is the contiguous one
    ("[900, 130, 70]", "%0 = reduce_max(x, axes=[1])", "in0_t", "i1", 2),
])  # fmt: skip
def test_neighbouring_threads_have_neighbouring_runs(shape, body, value, axis, vector):
    """The first digit of registers is a run of the contiguous axis, the first digit of lanes the runs beside it."""
    _, _, text = accesses(shape, body)
    (register, lane) = re.search(rf"\* {value}: reg \((\w+,1,\d+)\).* lane \((\w+,\d+,\d+)\)", text).groups()
    assert register == f"{axis},1,{vector}"
    assert lane.startswith(f"{axis},{vector},")
    assert vector * int(lane.rpartition(",")[2]) * 2 >= 32  # bytes: a sector of memory is read whole


def test_what_cannot_be_read_as_it_is_written_goes_through_shared_memory():
    """A transpose: whole chunks of 16 bytes on both sides, turned round on the chip."""
    _, stores, text = accesses("[200, 776]", "%1 = transpose(x, perm=[1, 0])\n%0 = exp(%1)")
    assert "ac_copy<16>(" in text and stores == [8]
    _, stores, text = accesses("[199, 777]", "%1 = transpose(x, perm=[1, 0])\n%0 = exp(%1)")
    assert stores == [1] and "ac_copy<16>(" not in text
