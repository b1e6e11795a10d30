"""mbarriers of a ring of slots (PTX: mbarrier): a slot's full and empty barrier, and the parity that an iteration waits for."""

from __future__ import annotations


def barrier(memory: str, at: int, depth: int, slot: str, full: bool) -> str:
    """The address of a slot's barrier, that its bytes have landed or that it is empty: `depth` of each lie behind `at`."""
    return f"{memory} + {at + (0 if full else 8 * depth)}" + (f" + 8 * ({slot})" if depth > 1 else "")


def turn(counter: str, depth: int) -> tuple[str, str]:
    """(slot, parity) of the turn whose number a variable has."""
    return (f"{counter} % {depth}", f"{counter} / {depth} % 2") if depth > 1 else ("0", f"{counter} % 2")
