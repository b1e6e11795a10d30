"""Programs on a CUDA device whose outputs and intermediates are filled with NaN patterns before they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def poison(program: Any) -> None:
    """From now on every buffer that the program's executor allocates is filled with 0xFF bytes first, as the arenas that it has are now."""
    executor = program.executor
    new, prepared = executor._new, executor._prepared

    def filled(*args: Any) -> Any:
        array = new(*args)
        array.buffer.fill(b"\xff", stream=executor.stream)
        return array

    def refilled(*args: Any, **how: Any) -> Any:
        offsets, memory, launches = prepared(*args, **how)
        memory.fill(b"\xff", stream=executor.stream)
        return offsets, memory, launches

    executor._new, executor._prepared = filled, refilled


def poisoned_runs(program: Any, feed: Mapping[str, Any], times: int = 2) -> list[dict[str, Any]]:
    """Outputs of several runs over poisoned memory."""
    poison(program)
    return [program.run(feed) for _ in range(times)]


def lost() -> str:
    """Why this process cannot use the device any more, "" if it can."""
    from cuda.core import Device

    try:
        Device().sync()
    except Exception as e:
        return str(e) or type(e).__name__
    return ""
