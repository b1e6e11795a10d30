"""Predicted against measured order of stored schedules, predicted anew by the chip's present figures."""

from __future__ import annotations

import pytest

from autocomp.cost.chip import load_chip
from autocomp.cost.estimate import estimate
from autocomp.errors import AutocompError
from autocomp.frontends.text import parse
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.runtime.codec import encode
from autocomp.tune.database import Database, Measurement, Tuned
from autocomp.tune.key import Place, kernel_key, schedule_text
from autocomp.tune.ranks import pooled, ranks
from tests.helpers.covers import cover_of

KERNEL = cover_of(parse("graph g\ninput x: f16[512, 512]\ninput y: f16[512, 512]\n%0 = matmul(x, y)\noutput z = %0\n")).calls[0].kernel
HERE = Place("cuda:h200 (a chip, sm_90a)", "rules", "1")
SCHEDULES = [Schedule.make({"i0": t, "i1": t, "r0": 64}, stages=3, threads=128) for t in (16, 32, 64, 128)]


@pytest.fixture
def store(tmp_path):
    """A function that stores measured seconds for SCHEDULES and returns the open database."""
    with Database(tmp_path / "t.sqlite") as db:

        def put(seconds, body=None):
            key = kernel_key(KERNEL, Options())
            db.record(Tuned(key, HERE, "matmul", body or encode(KERNEL), "{}", 1e-5, 9, len(seconds), True))
            for s, t in zip(SCHEDULES, seconds):
                db.add(key, HERE, Measurement(schedule_text(s), "ok" if t else "failed", t, 123.0))
            return db

        yield put


def test_times_are_predicted_anew(store):
    chip = load_chip("h200")
    predicted = [estimate(KERNEL, s, chip).seconds for s in SCHEDULES]
    (found,) = ranks(store([3e-5, None, 2e-5, 1e-5]))
    assert sorted(found.pairs) == sorted(zip((predicted[0], predicted[2], predicted[3]), (3e-5, 2e-5, 1e-5)))
    assert found.chip == "cuda:h200"


def test_near_is_what_the_predicted_choice_reaches(store):
    chip = load_chip("h200")
    order = sorted(range(4), key=lambda i: estimate(KERNEL, SCHEDULES[i], chip).seconds)
    seconds = [0.0] * 4
    for place, i in enumerate(order):
        seconds[i] = (2.0, 1.6, 3.0, 4.0)[place] * 1e-5  # the second by prediction is the fastest
    (found,) = ranks(store(seconds))
    assert found.near == pytest.approx(0.8)
    assert found.correlation == pytest.approx(pooled([found])) == pytest.approx(0.8)


def test_a_target_selects_its_kernels(store):
    db = store([1e-5, 2e-5, 3e-5, 4e-5])
    assert len(ranks(db, "cuda")) == len(ranks(db, "cuda:h200")) == 1
    assert ranks(db, "cpu") == ranks(db, "cuda:a100") == []


def test_an_unreadable_kernel_is_said(store):
    with pytest.raises(AutocompError, match="the stored form of kernel matmul is not readable"):
        ranks(store([1e-5], body='["no kernel"]'))
