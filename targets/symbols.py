"""Sizes by name in printed kernels: names that no variable of a kernel has, whatever a model calls its dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from typing import Any, TypeVar

from autocomp.targets.cpu.names import c_name
from autocomp.targets.source import KernelSource, Planned

from autocomp.errors import AutocompError
from autocomp.ir.affine import Aff
from autocomp.ir.kernel import Kernel, dims_of
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import Sym

PREFIX = "dim_"  # begins no name of a printer
LONGEST = 40  # characters of a model's name that are kept: printers cut longer names, each at its own place
Emit = TypeVar("Emit", bound=Callable[..., KernelSource | Planned])


def sizes_apart(emit: Emit) -> Emit:
    """A target's `emit`, or its plan of a kernel, that never sees a model's names of dimensions.

    A dimension called "q" would be hidden by a loop's variable of that name, and one called "class" would not compile. The source's
    `sizes`, grid and descriptors have the model's names again.
    """

    @wraps(emit)
    def apart(self: Any, kernel: Kernel, schedule: Schedule, *header: tuple[str, ...]) -> KernelSource | Planned:
        names = _names(kernel)
        if not names:
            return emit(self, kernel, schedule, *header)
        back = {new: old for old, new in names.items()}

        def said(make: Callable[..., KernelSource | Planned], *of: Any) -> Any:
            try:
                out = make(*of)
            except AutocompError as e:
                raise _said_back(e, back) from None
            if isinstance(out, Planned):
                return replace(out, write=partial(said, out.write))
            return replace(out, sizes=tuple(back[s] for s in out.sizes), launch=renamed(out.launch, back))

        return said(emit, self, renamed(kernel, names), schedule, *header)  # type: ignore[no-any-return]

    return apart  # type: ignore[return-value]


def _said_back(e: AutocompError, back: Mapping[str, str]) -> AutocompError:
    """The same error about the model's names."""
    text = lambda x: re.sub(rf"\b({'|'.join(map(re.escape, back))})\b", lambda m: back[m[1]], x) if isinstance(x, str) else x
    e.what, e.where, e.hint = text(e.what), text(e.where), text(e.hint)
    e.args = tuple(map(text, e.args))
    return e


def _names(kernel: Kernel) -> dict[str, str]:
    """Symbol -> its name in the kernel's text."""
    out: dict[str, str] = {}
    for name in dict.fromkeys(d.name for d in dims_of(kernel) if isinstance(d, Sym)):
        new = PREFIX + c_name(name)[:LONGEST]
        while new in out.values():
            new += "_"
        out[name] = new
    return out


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A value of frozen dataclasses and tuples with symbols under other names; what occurs twice in it does so afterwards."""
    seen: dict[int, Any] = {}
    index = {old: Aff.of(new) for old, new in names.items()}

    def walk(x: Any) -> Any:
        if id(x) not in seen:
            seen[id(x)] = x, change(x)  # x is kept: its id stays its own
        return seen[id(x)][1]

    def change(x: Any) -> Any:
        if isinstance(x, Sym):
            return replace(x, name=names[x.name]) if x.name in names else x
        if isinstance(x, Aff):
            return x.substitute(index) if x.names() & names.keys() else x
        if isinstance(x, tuple):
            new_items = tuple(map(walk, x))
            return new_items if type(x) is tuple and any(a is not b for a, b in zip(x, new_items)) else x
        if is_dataclass(x) and not isinstance(x, type):
            new = {f.name: walk(getattr(x, f.name)) for f in fields(x) if f.init}
            return replace(x, **new) if any(v is not getattr(x, k) for k, v in new.items()) else x
        return x

    return walk(value)
