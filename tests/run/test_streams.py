"""Streams of other libraries, as a bound program takes them: nothing is run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autocomp.errors import ModelError
from autocomp.runtime.bound import LEGACY, Bound, stream_of

pytest.importorskip("cuda.core")


@pytest.mark.parametrize(("stream", "handle"), [(SimpleNamespace(cuda_stream=77), 77), (SimpleNamespace(ptr=88), 88),
                                                (SimpleNamespace(cuda_stream=0), LEGACY)])  # fmt: skip
def test_a_stream_is_known_by_its_handle(stream, handle):
    made = stream_of(stream)
    assert int(made.handle) == handle
    assert stream_of(made) is made


@pytest.mark.parametrize("wrong", [3, "stream", object()])
def test_what_is_no_stream_is_said(wrong):
    with pytest.raises(ModelError, match=r"is no stream\n  next: give torch\.cuda\.current_stream"):
        stream_of(wrong)


def test_a_bound_call_waits_where_its_stream_changes():
    log = []

    def stream(number):
        return SimpleNamespace(handle=number, record=lambda: f"end of {number}", wait=lambda e: log.append((number, e)))

    streams = {n: stream(n) for n in (1, 2)}
    bound = Bound(SimpleNamespace(set_current=lambda: None), streams[1], lambda s: log.append(int(s.handle)), (), ())
    bound()
    bound()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autocomp.runtime.bound.stream_of", lambda x: x)
        bound(streams[2])
        bound(stream(2))  # another object for the same stream
    assert log == [1, 1, (2, "end of 1"), 2, 2]
