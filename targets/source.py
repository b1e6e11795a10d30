"""What an emitter returns for one kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelSource:
    """`text` defines the function `entry`; its parameters are pointers to the kernel's inputs and outputs (canonical names,
    in this order) and then the sizes (names of symbols) as long.

    `headers`: files of the target's include folder that the text needs. `language` is a file suffix (c, cu, cpp).
    `scratch`: bytes of a last `void *` parameter; `prelude`: text that the file needs once in front.
    `launch`: what a launcher must know on targets with grids (blocks, threads, shared bytes), as (name, value) pairs.
    """

    name: str
    text: str
    entry: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    language: str = "c"
    scratch: int = 0
    prelude: str = ""
    launch: tuple[tuple[str, object], ...] = ()
