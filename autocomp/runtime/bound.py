"""Calls of a program with its inputs, outputs and memory fixed: only the stream is chosen."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from typing import Any

from autocomp.errors import ModelError
from autocomp.runtime.device_array import DeviceArray

LEGACY = 1  # CU_STREAM_LEGACY: the default stream, which libraries write 0


class Bound:
    """Queues one call, which writes `outputs`, on a stream: `own` where none is given. `kept` stays alive with it."""

    def __init__(self, device: Any, own: Any, queue: Callable[[Any], None], outputs: tuple[DeviceArray, ...],
                 kept: tuple[Any, ...]) -> None:  # fmt: skip
        self.device, self.own, self.queue, self.outputs, self.kept = device, own, queue, outputs, kept
        self._lock = Lock()
        self._last: Any = None
        self._thread = get_ident()

    def __call__(self, stream: Any = None) -> None:
        stream = self.own if stream is None else stream_of(stream)
        with self._lock:
            if self._thread != get_ident():
                self._thread = get_ident()
                self.device.set_current()
            if self._last is None or int(self._last.handle) != int(stream.handle):
                if self._last is not None:
                    stream.wait(self._last.record())
                self._last = stream
                for x in self.outputs:
                    x.stream = stream
            self.queue(stream)


def stream_of(x: Any) -> Any:
    """A stream of torch (`cuda_stream`) or of CuPy (`ptr`) as one of cuda-core. Raises ModelError for what is none."""
    from cuda.core import Stream

    if isinstance(x, Stream):
        return x
    handle = getattr(x, "cuda_stream", getattr(x, "ptr", None))
    if not isinstance(handle, int):
        raise ModelError(f"a {type(x).__name__} is no stream", where="start", hint="give torch.cuda.current_stream(), or nothing")
    return Stream.from_handle(handle or LEGACY)
