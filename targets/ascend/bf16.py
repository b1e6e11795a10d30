"""bf16 on chips whose units do not know it: in memory as words of 16 bits, of which functions of autocomp_ascend_bf16.h make single
precision and back, rounded to even."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autocomp.targets.ascend.operand import WORD, Operand

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector_core import VectorCore

BF16, BITS = "bfloat16_t", "uint16_t"  # the type by its name, and as such a chip's kernels have it
HEADER = "autocomp_ascend_bf16.h"


def made(v: VectorCore, element: str) -> bool:
    """Whether elements of this type are converted by functions of the header."""
    return element == BF16 and not v.bf16


def widened(v: VectorCore, d: Operand, x: Operand, n: int) -> None:
    """d = x, exactly."""
    with _temporaries(v, x, 2, "float") as temps:
        v.v([f"ac_of_bf16({d.name}, {x.name}, {_names(temps)}, {n});"], (x,), d, *temps)


def narrowed(v: VectorCore, d: Operand, x: Operand, n: int) -> None:
    """d = x as it lies in memory."""
    with _temporaries(v, x, 3, WORD) as temps:
        v.v([f"ac_to_bf16({d.name}, {x.name}, {_names(temps)}, {n});"], (x,), d, *temps)


def rounded(v: VectorCore, d: Operand, x: Operand, n: int) -> None:
    """d = x as memory would have it, in single precision."""
    word = lambda o: f"{o.name}.ReinterpretCast<int32_t>()"
    with _temporaries(v, x, 2, WORD) as temps:
        v.v([f"ac_rounded_bf16({word(d)}, {word(x)}, {_names(temps)}, {n});"], (x,), d, *temps)


@contextmanager
def _temporaries(v: VectorCore, x: Operand, count: int, element: str) -> Iterator[list[Operand]]:
    temps = [v.temporary(x.kind, x.lane, element=element) for _ in range(count)]
    yield temps
    for t in temps:
        v.release(t)


def _names(temps: list[Operand]) -> str:
    return ", ".join(t.name for t in temps)
