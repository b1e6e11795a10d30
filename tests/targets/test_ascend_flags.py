"""Flags that a plan needs: with any one pair of them dropped, both the plan's checker and the model of the machine complain."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.ascend import emit, signals
from autocomp.targets.ascend.ahead import ahead
from autocomp.targets.ascend.vector import VectorPart

import autocomp
from autocomp.errors import AutocompError
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from autocomp.tile.agents import Again, Once, Signal, Skewed, Span, Work, find_queues, with_signals
from autocomp.tile.check_pipes import problems
from autocomp.tile.derive import derive
from autocomp.tile.places import Place
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
TARGET = "ascend:ascend910b"
GEMM = graph({"x": "f16[420, 96]", "w": "f16[96, 200]", "b": "f16[200]"}, "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)")
ATTENTION = graph({a: "f16[2, 80, 16]" for a in "qkv"},
                  "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%2 = softmax(%1, axes=[2])\n%3 = matmul(%2, v)")  # fmt: skip
# tile, and the share of signals that others may imply: the second copy's flag tells of the first one too, and attention's cores answer
# each other several times a round
CASES = {"gemm": (GEMM, Schedule.make({"i0": 128, "i1": 128, "r0": 32}), 0.15),
         "attention": (ATTENTION, Schedule.make({"i0": 1, "i1": 32, "r1": 16}), 0.6),
         "attention, a product late": (ATTENTION, Schedule.make({"i0": 1, "i1": 32, "r1": 16}, softmax_overlap=1), 0.6),
         "attention, tiles joined": (ATTENTION, Schedule.make({"i0": 1, "i1": 32, "r1": 16}, softmax_overlap=1, persistent=True),
                                     0.6)}  # fmt: skip


def without(body, queue, what):
    """A program without one direction of a queue's signals."""
    out = []
    for n in body:
        if isinstance(n, (Again, Skewed, Once)):
            out.append(replace(n, body=without(n.body, queue, what)))
        elif not (isinstance(n, Signal) and n.queue == queue and n.what == what):
            out.append(n)
    return tuple(out)


def mutants(kernel, schedule, monkeypatch, between):
    """(name, source, what the checker says) of the kernel and of each form of it that lacks one queue's full or empty signals.

    `between`: only queues between cores.
    """
    target, seen = load_target(TARGET), {}

    def spy(parts, depth, chip, lies):
        seen.update(parts=parts, depth=depth)
        return signals.plan(parts, depth, chip, lies)

    monkeypatch.setattr(emit, "plan", spy)
    yield "whole", target.emit(kernel, schedule), []
    monkeypatch.setattr(signals, "merged", lambda queues, fine, alone: queues)
    monkeypatch.setattr(signals, "problems", lambda parts, depth, lies: [])
    monkeypatch.setattr(signals, "waits_before_sets", lambda parts: [])
    for q in find_queues(seen["parts"], seen["depth"]):
        if between and signals.core(q.writer) == signals.core(q.reader):
            continue
        for what in ("full", "empty") if q.loop else ("full",):
            def broken(parts, queues, _uses=None, q=q, what=what):
                return {n: without(b, q, what) for n, b in with_signals(parts, queues).items()}

            monkeypatch.setattr(signals, "with_signals", broken)
            said = problems(signals.with_barriers_in(broken(seen["parts"], find_queues(seen["parts"], seen["depth"]))), seen["depth"])
            yield f"{what} of {q.writer} -> {q.reader} [{', '.join(q.buffers)}]", target.emit(kernel, schedule), said


def reuses_for_rings(self, bytes_, slots=0, name="", apart=False):
    """A ring of one slot lies where something was freed, which another agent than that ring's may still be at."""
    size = self.rounded(bytes_)
    if slots == 1 and self.free.get(size):
        at = self.free[size].pop()
        self.spans[name] = Span(self.name, at, size)
        return at
    return take(self, bytes_, slots, name, apart)


def frees_early(self, name, o):
    """A value's bytes are another one's before it is read."""
    out = named(self, name, o)
    self.release(out)
    return out


take, named = Place.take, VectorPart.named


@pytest.mark.parametrize(("of", "name", "mutant", "said"), [
    (Place, "take", reuses_for_rings, "vector.* on the bytes of .*, and nothing orders the two"),
    (VectorPart, "named", frees_early, "overwritten: vector.V reads")])  # fmt: skip
def test_bytes_of_two_live_values_are_refused(of, name, mutant, said, monkeypatch):
    """What the machine model alone saw: the plan's checker knows where values lie."""
    kernel = autocomp.optimize(ATTENTION, target=TARGET).calls.calls[0].kernel
    p, late = ahead(derive(kernel, CASES["attention, a product late"][1]))
    planned = lambda: emit.Kernel(p, load_target(TARGET).chip, next(emit.shares(p)), (), late, slots=1).planned()
    planned()
    monkeypatch.setattr(of, name, mutant)
    with pytest.raises(AutocompError, match=f"the plan of signals is wrong: {said}"):
        planned()


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_each_missing_pair_of_flags_is_seen(case, monkeypatch, tmp_path):
    text, schedule, most = CASES[case]
    kernel = autocomp.optimize(text, target=TARGET).calls.calls[0].kernel
    made = list(mutants(kernel, schedule, monkeypatch, case != "gemm"))
    named = {}
    for i, (_, s, _) in enumerate(made):
        named[f"k{i}"] = replace(s, entry=f"k{i}", text=s.text.replace(f"void {s.entry}(", f"void k{i}("))
    executor = AscendExecutor(type("Printed", (), {"printed": named}), tmp_path, blocks=1)
    library = executor.build()
    rng = fresh.rng()
    shapes = {a.name: (a.type.shape, a.type.dtype.numpy) for a in (*kernel.inputs, *kernel.outputs)}
    unseen = []
    for (name, source, said), entry in zip(made, named):
        arrays = [rng.standard_normal(shapes[a][0]).astype(shapes[a][1]) for a in (*source.inputs, *source.outputs)]
        arrays.append(np.full(source.launch.workspace, 0xFF, np.uint8))
        run = getattr(library, f"run_{entry}")
        run.restype = ctypes.c_char_p
        found = run((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)), 1).decode()
        assert bool(found) == bool(said), (name, found, said)  # the checker unrolls the plan, the model runs the text
        unseen += [name] if not found else []
    assert unseen[0] == "whole" and len(unseen) <= 1 + most * len(made), unseen


@pytest.mark.parametrize(("wrong", "made", "asked"), [((), ["abc"], 1), (("abc",), ["ab", "c"], 3), (("abc", "ab"), ["ac", "b"], 3)])
def test_queues_become_one_at_once_and_one_by_one_where_that_is_wrong(wrong, made, asked, monkeypatch):
    """A run of all agents takes the most time: where all queues of two agents may become one, one run says so."""
    parts = {"core": (Again("tile", (), (*(Work("v.MTE2", (), (b,), ()) for b in "abc"), Work("v.V", (*"abc",), (), ()))),)}
    tried = []

    def found(full, depth, lies):
        tried.append(sorted({"".join(n.queue.buffers) for n in full["core"] if isinstance(n, Signal)}))
        return [name for name in wrong if name in tried[-1]]

    monkeypatch.setattr(signals, "problems", found)
    _, queues = signals.ordered(parts, dict.fromkeys("abc", 2), {})
    assert ["".join(q.buffers) for q in queues] == made and len(tried) == asked, tried
