"""Kernels that may start while the one before them ends: they wait in front of their first access to global memory, and only they do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import autocomp
from autocomp.runtime.cuda import started_early
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, prepared
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import AHEAD, weights

NAMES = ["gemm_bias_gelu", "attention_f16", "softmax", "softmax_wide", "layer_norm_odd", "transpose", "swiglu", "conv_window", "embedding"]
CONSTANT = "graph g\ninput x: f16[200, 64]\nparam b: f16[64] = random(3)\n%0 = add(x, b)\noutput out = %0\n"
WAIT = "ac_launch_wait();"


def statements(source) -> str:
    return source.text.partition("*/")[2].partition("{")[2]


def untouched(source, text: str) -> bool:
    """Whether a piece of a kernel mentions no pointer, workspace or descriptor but those of constants. A descriptor that is asked for is
    a parameter of the launch, and not what it describes."""
    text = re.sub(r"ac_map_ask\(&map\d+\);", "", text)
    constants = set(re.findall(r"const (in\d+):", source.text.partition("*/")[0]))
    stays = {f"map{i}" for i, m in enumerate(source.launch.maps) if m.argument in constants}
    return not set(re.findall(r"\b(?:in\d+|out\d+|map\d+|scratch)\b", text)) - stays


def compiled(text: str, target: str = "cuda:h200"):
    return autocomp.optimize(text, target=target, cache=False)


@pytest.mark.parametrize("name", [n for n in NAMES if n in GRAPHS])
def test_a_kernel_waits_before_it_touches_what_others_write(name, among_others):
    """Pointers, descriptors and workspace appear behind a wait alone, which every thread that uses them passes."""
    program = compiled(GRAPHS[name])
    for source in program.printed.values():
        before, *after = statements(source).split(WAIT)
        assert source.launch.overlaps and untouched(source, before) and not all(untouched(source, x) for x in after)
        if "if (team == 0)" in before:  # each role waits for itself
            producer, consumers = after
            assert untouched(source, producer[producer.rindex("return;") :]) and "ac_registers_claim" in consumers
        else:
            assert len(after) == 1 and before.count("{") == before.count("}"), "the wait stands under a condition"


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", ["softmax_wide", "layer_norm_odd", "gemm_bias_gelu", "attention_f16", "attention_step_groups"])
def test_every_thread_is_told_of_earlier_launches_first(name, model, tmp_path, among_others):
    """On the CPU model: by a wait of its own, or by one of another thread that a barrier puts before it. So memory that two kernels use one
    after the other may be the same."""
    program = compiled(GRAPHS[name])
    assert all(s.launch.overlaps for s in program.printed.values())
    program.executor = executor = ModelExecutor(program, tmp_path, model)
    for executor.late in (True, False):
        program.verify(seed=fresh.seed())


TURNED_ROLES = """graph g
param x: f16[328, 64] = random(3)
input w: f16[64, 64]
%0 = matmul(x, w)
%1 = relu(%0)
output out = %1
"""


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", AHEAD)
def test_weights_are_asked_for_before_the_wait(name, model, tmp_path):
    """As many turns' as the ring has slots, once; on the CPU model what other launches may write cannot be read before the wait."""
    program = weights(name)
    (source,) = program.printed.values()
    before, producer, _ = statements(source).split(WAIT)
    assert "ac_bulk_load" in before and untouched(source, before)
    assert untouched(source, producer[producer.rindex("return;") :])
    program.executor = executor = ModelExecutor(program, tmp_path, model)
    for executor.late in (True, False):
        program.verify(seed=fresh.seed())


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_what_all_tiles_share_waits_where_others_write_it(model, tmp_path):
    """Rows that are constant, columns that are not and stay for all tiles: nothing is asked for ahead."""
    program = autocomp.optimize(TURNED_ROLES, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    how = by_hand({"i0": 64, "i1": 64, "r0": 64}, stages=3, roles="warp_specialise", workers=1, persistent=True)
    source = program.target.emit(kernel, how)
    assert untouched(source, statements(source).split(WAIT)[0])
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=2))
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=fresh.seed())


def test_a_kernel_alone_and_one_of_many_blocks_do_not_wait(among_others, monkeypatch):
    """There is nothing to overlap with; and each block's wait costs."""
    many = "graph g\ninput x: f16[{n}, 4096]\n%0 = tanh(x)\noutput out = %0\n"
    for n, waits in ((64, True), (16384, False)):
        for source in compiled(many.format(n=n)).printed.values():
            assert (WAIT in source.text, source.launch.overlaps) == (waits, waits)
            assert ("*__restrict__ in0" in source.text) != waits
    monkeypatch.undo()
    assert not any(s.launch.overlaps for s in compiled(many.format(n=64)).printed.values())


def test_what_earlier_launches_may_write_is_not_said_to_stay(among_others):
    """Reads of `const .. __restrict__` become loads of constants, which the assembler moves in front of the wait."""
    program = compiled(GRAPHS["embedding"])
    (source,) = program.printed.values()
    head = source.text.partition("*/")[2].partition("{")[0]
    assert "*__restrict__ out0" in head and "*__restrict__ in0" not in head
    older = compiled(GRAPHS["embedding"], "cuda:a100")
    assert "*__restrict__ in0" in next(iter(older.printed.values())).text
    weights = compiled(CONSTANT)
    head = next(iter(weights.printed.values())).text.partition("*/")[2].partition("{")[0]
    assert head.count("*__restrict__ in") == 1, "a constant stays: it may be read before the wait"


def test_chips_whose_launches_do_not_overlap_have_none_of_it():
    for target in ("cuda:a100", "maca:c500"):
        program = prepared(GRAPHS["gemm_bias_gelu"], target)
        for source in program.printed.values():
            assert not source.launch.overlaps and "ac_launch" not in source.text


def test_only_kernels_behind_kernels_start_early(among_others):
    """The first call waits for what runs before the program; one whose outputs are cleared first, for the clearing; one behind an op
    on the host, for its copy."""
    program = compiled(GRAPHS["layer_norm_odd"])
    call = program.calls.calls[0]
    source = program.printed[call.kernel.name]
    host = replace(call, kernel=replace(call.kernel, name="host", opaque="top_k"))
    named = lambda n: replace(call, kernel=replace(call.kernel, name=n))
    with_launch = lambda **kw: replace(source, launch=replace(source.launch, **kw))
    sources = {"k": source, "cleared": with_launch(zeroed=("out0",)), "old": with_launch(overlaps=False),
               "no": with_launch(grid=(((0, 1),),))}  # fmt: skip
    early = lambda *names: started_early([host if n == "host" else named(n) for n in names], sources, {})[0]
    assert early("k", "k", "cleared", "k", "host", "k", "old", "k") == [False, True, False, True, False, False, False, True]
    assert early("no", "k", "no", "k") == [False, False, True, True], "without blocks nothing is launched"


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("how", ["removed", "late"])
def test_a_wait_that_is_missing_or_late_is_seen(how, model, tmp_path, among_others):
    program = compiled(GRAPHS["layer_norm_odd"])
    name, source = next(iter(program.printed.items()))
    text = source.text.replace(WAIT, "")
    if how == "late":
        text = text[: text.rindex("}")] + WAIT + "}\n"
    program.printed[name] = replace(source, text=text)
    executor = ModelExecutor(program, tmp_path, model)
    program.executor = executor
    with pytest.raises(ModelFailure, match="before earlier launches are waited for"):
        program.verify(seed=1)
