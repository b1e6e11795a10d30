"""Kernels over few elements of a dimension whose size is known when they run: one tile of the most that it may be."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import DoesNotFit
from autocomp.frontends.text import parse
from autocomp.runtime.verify import compare
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph

SHORT = {
    "relu": graph({"x": "f16[S, 7]"}, "%0 = relu(x)"),
    "softmax": graph({"x": "f16[7, S]"}, "%0 = softmax(x, axes=[1])"),
    "sum_rows": graph({"x": "f32[5, S]"}, "%0 = reduce_mean(x, axes=[1])"),
    "sum_all": graph({"x": "f32[S, S]"}, "%0 = reduce_sum(x, axes=[0, 1])"),
    "gather": graph({"x": "f32[40, 6]", "i": "i64[S]"}, "%0 = gather(x, i, axis=0)"),
}


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_every_size_is_right(model, tmp_path):
    rng = np.random.default_rng(7)
    for name, text in SHORT.items():
        g = parse(text.replace("graph g\n", "graph g\ndim S in 1..12\n"))
        program = autocomp.optimize(g, target="cuda:h200")
        (folder := tmp_path / name).mkdir()
        executor = ModelExecutor(program, folder, model)
        for size in (1, 5, 12):
            shapes = {n.attrs["name"]: tuple(d if isinstance(d, int) else size for d in n.type.shape) for n in g.inputs}
            feed = {n: rng.standard_normal(s).astype("f2" if "f16" in text else "f4") if n == "x" else rng.integers(0, 40, s)
                    for n, s in shapes.items()}  # fmt: skip
            assert compare(g, feed, executor.run(feed)).worst.ratio <= 1, (name, size)


def test_where_a_target_prints_no_tiled_schedule_one_tile_is_tried():
    """The last resort has a schedule even where the rules made others that were all refused."""
    from autocomp.targets import load_target

    from autocomp.egraph.choose import choose_schedule
    from autocomp.options import Options
    from autocomp.rewrite import load_rules
    from autocomp.trace import Trace

    program = autocomp.optimize(graph({"x": "f32[4096, 64]"}, "%0 = relu(x)"), target="cuda:h200")
    (kernel,) = (c.kernel for c in program.calls.calls)

    def admit(k, schedule):
        if schedule.tile:
            raise DoesNotFit("tiles", needed=2, available=1)

    machine = load_target("cuda:h200")
    schedule, _ = choose_schedule(kernel, load_rules(), machine.chip, Options(), Trace(), admit)
    assert schedule.tile == ()
