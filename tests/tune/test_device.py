"""Candidates of a device: built without it, and the order in which they are timed on it (with executors that only keep a log)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from autocomp.targets import load_target

from autocomp import rewrite
from autocomp.egraph.choose import choose_schedule
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.runtime.codec import encode
from autocomp.trace import Trace
from autocomp.tune.device import CudaBench
from autocomp.tune.key import schedule_text
from autocomp.tune.measure import LAUNCHES, Built, Job, build
from autocomp.tune.space import legal_points
from autocomp.workers import Pool
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.tune_targets import IN_CUDA, FaultyCuda

pytest.importorskip("cuda.core")


class Stream:
    """A clock in milliseconds that moves when something is started; `log` has what was done, in order."""

    def __init__(self) -> None:
        self.now, self.log = 0.0, []

    def record(self, options):
        self.log.append("mark")
        return Mark(self.now)


class Mark(float):
    def sync(self) -> None:
        pass


def raced(times, limit=float("inf"), rounds=1):
    """(seconds, the stream) of candidates whose launches take `times` milliseconds."""
    from random import Random

    stream = Stream()

    def candidate(name, ms):
        def start(s):
            assert s is stream
            stream.log.append(name)
            stream.now += next(ms)

        return SimpleNamespace(start=start, executor=None)

    bench = object.__new__(CudaBench)
    bench.stream, bench.random = stream, Random(0)
    bench._flush = lambda executor: stream.log.append("flush")
    return bench.race([candidate(str(i), iter(ms)) for i, ms in enumerate(times)], limit, rounds), stream


def test_every_launch_has_a_cold_cache_and_two_marks():
    seconds, stream = raced([[9.0] + [2.0] * 50, [9.0] + [4.0] * 50])
    assert seconds == pytest.approx([2e-3, 4e-3])  # the first launch does not count
    for i in range(0, len(stream.log), 4):
        flush, before, name, after = stream.log[i : i + 4]
        assert (flush, before, after) == ("flush", "mark", "mark")
        assert name in "01"
    assert stream.log.count("0") == stream.log.count("1") == 1 + LAUNCHES


def test_rounds_are_shuffled():
    _, stream = raced([[1.0] * 99, [1.0] * 99, [1.0] * 99], rounds=5)
    names = [x for x in stream.log if x in "012"]
    orders = {tuple(names[i : i + 3]) for i in range(0, len(names), 3)}
    assert len(orders) == 6
    assert all(sorted(o) == ["0", "1", "2"] for o in orders)


def test_a_slow_candidate_is_not_run_again():
    seconds, stream = raced([[1.0] * 99, [1.0, 500.0] + [1.0] * 99], limit=0.1)
    assert seconds == pytest.approx([1e-3, 0.5])
    assert stream.log.count("1") == 2


def test_candidates_build_where_there_is_no_device(tmp_path):
    cuda, rules = load_target("cuda"), rewrite.load_rules()
    if cuda.toolchain.missing():
        pytest.skip(cuda.toolchain.missing())
    kernel = cover_of(parse(GRAPHS["softmax"])).calls[0].kernel
    untuned = choose_schedule(kernel, rules, cuda.chip, Options(), Trace(), cuda.admit)[0]
    points = [p.schedule for p in legal_points(kernel, rules, cuda.chip, Options(), untuned)][:4]
    faults = tuple(zip(map(schedule_text, points), ("crash", "hang", "nothing written")))
    job = Job(encode(kernel), FaultyCuda(cuda.chip, faults=faults), str(tmp_path), 1)
    pool = Pool(2, "autocomp.tune.measure")
    try:
        found = dict(pool.each(build, [(job, s, str(i)) for i, s in enumerate(points)], 120.0))
    finally:
        pool.stop()
    for i in range(4):
        assert isinstance(found[i], Built), found[i]
        assert Path(found[i].path).read_bytes()[:4] == b"\x7fELF"
        assert found[i].source.launch.block == points[i].threads
    for i, (_, fault) in enumerate(faults):
        assert IN_CUDA[fault] in found[i].source.text
