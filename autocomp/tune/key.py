"""What a measurement is valid for, and schedules as text."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autocomp.errors import AutocompError
from autocomp.ir.body import Contract, postorder
from autocomp.ir.directives import DIRECTIVES
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F32
from autocomp.rewrite.vocabulary import KERNEL_PHASES
from autocomp.version import __version__

if TYPE_CHECKING:
    from autocomp.options import Options
    from autocomp.rewrite.rule import RuleSet
    from autocomp.targets import Target

GENERATOR = ("autocomp.tile", "autocomp.targets")  # the packages that decide what a kernel's source is
SUFFIXES = (".py", ".yaml", ".h", ".cuh")


@dataclass(frozen=True)
class Place:
    """What measurements of different kernels have in common.

    chip      the device: name, architecture, cores (and threads asked for), not the figures of its cost model
    rules     digest of the rules that make schedules
    version   of this package, with a digest of its code generator
    """

    chip: str
    rules: str
    version: str


def place_of(target: Target, rules: RuleSet, options: Options) -> Place:
    """The place that a target, rules and options make."""
    c = target.chip
    threads = f", {options.threads} threads" if options.threads else ""
    mine = [f"{r.name} {r.text}" for r in rules if r.phase in KERNEL_PHASES and (not r.targets or c.target in r.targets)]
    return Place(f"{target.name}:{c.name} ({c.title}, {c.arch}){threads}", short_digest("\n".join(sorted(mine))),
                 f"{__version__}+{generator_digest()}")  # fmt: skip


def kernel_key(kernel: Kernel, options: Options) -> str:
    """Digest of a kernel's signature and its symbols' bounds; another one where its products may round their factors."""
    return short_digest("\n".join([*kernel.identity, *(["tf32"] if may_round(kernel, options) else [])]))


def may_round(kernel: Kernel, options: Options) -> bool:
    """Whether products of f32 may have factors of tf32 here: what was measured with them is no choice where they may not."""
    products = (e for e in postorder(*(s.value for s in kernel.stores)) if isinstance(e, Contract))
    return options.allow_tf32 and any(e.a.dtype == e.b.dtype == F32 for e in products)


def short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def generator_digest() -> str:
    """Changes with the text of the code generator, and is the same on every machine."""
    h = hashlib.sha256()
    for package in GENERATOR:
        root = Path(str(files(package)))
        for f in sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES):
            h.update(f"{f.relative_to(root)}\n".encode() + f.read_bytes())
    return h.hexdigest()[:8]


def schedule_text(s: Schedule) -> str:
    """A schedule as JSON of the fields that differ from the defaults; equal schedules have equal texts."""
    plain = Schedule()
    return json.dumps({f.name: v for f in fields(s) if (v := getattr(s, f.name)) != getattr(plain, f.name)}, sort_keys=True)


def schedule_of(text: str) -> Schedule:
    """The schedule of a text. Raises AutocompError where it is none (a database may come from elsewhere)."""
    plain = Schedule()
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise TypeError("it names no fields")
        values = {name: _value(data[name], getattr(plain, name)) for name in data}
        split = values.get("split")
        if split is not None and not (len(split) == 2 and type(split[0]) is str and type(split[1]) is int and split[1] > 1):
            raise TypeError("split wants an axis and two parts or more")
        for name in ("tile", "join"):
            if not all(len(p) == 2 and type(p[0]) is str and type(p[1]) is int and p[1] > 0 for p in values.get(name, ())):
                raise TypeError(f"{name} wants pairs of an axis and a size")
        if unknown := [d for d in values.get("directives", ()) if d not in DIRECTIVES]:
            raise TypeError(f"there is no directive {unknown[0]}")
    except (ValueError, TypeError, AttributeError) as e:
        raise AutocompError(f"'{text[:80]}' is no schedule: {e}", where="tuning database",
                            hint="`autocomp tune --clear` removes what is stored") from None  # fmt: skip
    return Schedule(**values)


def _value(x: Any, default: Any) -> Any:
    """A JSON value as the field's type: lists become tuples, scalars must be of the default's kind."""
    if isinstance(x, list):
        return tuple(_value(i, None) for i in x)
    if isinstance(x, dict) or (default is not None and not isinstance(default, tuple) and type(x) is not type(default)):
        raise TypeError(f"{x!r} stands where {type(default).__name__} is wanted")
    return x
