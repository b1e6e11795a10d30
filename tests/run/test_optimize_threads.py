"""`optimize` from several threads at a time: the same programs as one after another, and no state of the process left changed."""

from __future__ import annotations

import gc
import os
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import autocomp
from autocomp.files import write_atomic
from autocomp.ir.node import make
from autocomp.ir.types import F32, TensorType
from examples.models import bert, llama_block

MODELS = {
    "bert": lambda: bert(1, seq=9, hidden=32, heads=2, inner=40),
    "llama": lambda: llama_block(1, seq=11, hidden=32, heads=2, kv_heads=1, inner=40),
}


@pytest.fixture(autouse=True)
def threads_change_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work, count: int = 4) -> list:
    """What `work(i)` gives in `count` threads that start at one time."""
    start = threading.Barrier(count)

    def one(i: int):
        start.wait(30)
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return [done.result(120) for done in [pool.submit(one, i) for i in range(count)]]


def test_programs_are_those_of_one_thread():
    jobs = [("bert", "cpu"), ("llama", "cuda:h200")]  # each by two threads at a time
    compiled = lambda job: autocomp.optimize(MODELS[job[0]](), target=job[1], cache=False).sources
    want, collector = [compiled(j) for j in jobs], gc.get_threshold()
    assert in_threads(lambda i: compiled(jobs[i % 2])) == 2 * want
    assert gc.get_threshold() == collector


def test_one_model_in_several_threads_with_the_cache():
    x = np.ones((8, 16), "f4")
    programs = in_threads(lambda i: autocomp.optimize(lambda x: np.tanh(x) + 3, example_inputs=(x,)))
    assert len({p.source() for p in programs}) == 1
    assert all(np.allclose(p(x), np.tanh(x) + 3) for p in programs)


def test_equal_nodes_of_several_threads_are_one_object():
    leaf = make("input", (), TensorType(F32, (1,)), {"name": "x"})

    def nodes(i: int) -> list:
        out = [leaf]
        for _ in range(3000):
            out.append(make("exp", (out[-1],), TensorType(F32, (1,))))
        return out

    chains = in_threads(nodes)
    assert all(len({id(n) for n in same}) == 1 for same in zip(*chains))


def test_torch_exports_in_one_thread_at_a_time():
    torch = pytest.importorskip("torch")
    modules = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval() for _ in range(4)]
    x = torch.randn(3, 8)
    programs = in_threads(lambda i: autocomp.optimize(modules[i], example_inputs=(x,)))
    assert all(torch.allclose(p(x), m(x), atol=1e-4) for p, m in zip(programs, modules))


def test_files_are_written_without_a_change_of_the_umask(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)  # to read it is to change it for all threads of the process
        write_atomic(tmp_path / "a.txt", "text")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
