"""What a generator says of one case: right, refused with a reason, or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Verdict:
    """`detail`: the reason of a refusal, or the element, both values and the tolerance of a wrong result."""

    kind: Literal["right", "refused", "wrong"]
    detail: str = ""


RIGHT = Verdict("right")


class Case(Protocol):
    def text(self) -> str:
        """What a person pastes to replay the case."""


class Generator(Protocol):
    """A module of this folder. Exceptions that `check` lets fly are tracebacks, which count as failures.

    It may have `prepare()`, which a process calls once and no case's time counts, and `TERABYTES = True` where its processes need more
    address space than a worker has otherwise.
    """

    NAME: str

    def draw(self, seed: int) -> Any:
        """The case of a seed; the same on every machine."""

    def check(self, case: Any) -> Verdict:
        """Compile, run and compare one case."""

    def smaller(self, case: Any) -> Iterator[Any]:
        """Smaller cases that may fail alike, the smallest first."""
