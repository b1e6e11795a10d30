"""Targets: one folder each, with a manifest (target.yaml), tables, an emitter and a toolchain."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from autocomp.targets.source import KernelSource

from autocomp.cost.chip import Chip, chip_names, load_chip
from autocomp.errors import AutocompError, ChipError
from autocomp.files import own_table
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite.laws import target_names

MANIFEST = {"name", "language", "chips", "default_chip", "suffix"}  # fields of a target.yaml, and those that it may have
MANIFEST_MAY = {"aliases", "chip_aliases"}


class Target(Protocol):
    """What every target gives. `emit` raises UnsupportedOp for what it cannot print, DoesNotFit for what the chip cannot hold.

    `admit` raises the same for a schedule, without printing more than it must, and says which of its
    directives take effect (None: all). A target may have `fits(kernel, schedule)`, which raises what `emit` does: by the
    same places, of a plan that is not ordered or spelt. A target may have `issued(kernel, schedule)`, what the
    kernel issues (cost.issue.Issued) or None where that is not counted: schedules are then priced by it too. `runtime` says what runs
    its programs: "host", "cuda", or "" where only a folder is written. `toolchain` has `missing()`, `key()` and
    `compile(folder, names, out)` (host) or `compile_object(name, text) -> bytes` and `here()`, the same for the device that is here
    (cuda).
    """

    name: str
    chip: Chip
    language: str
    runtime: str
    toolchain: Any

    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource: ...
    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str] | None: ...
    def preamble(self, sources: list[KernelSource]) -> str: ...
    def why_not_runnable(self) -> str: ...


@lru_cache(maxsize=1)
def manifests() -> dict[str, dict[str, Any]]:
    """name -> target.yaml of every target folder. Raises AutocompError at the one that is wrong."""
    found = {name: own_table("autocomp.targets", f"{name}/target.yaml") for name in target_names()}
    for name, m in found.items():
        check_manifest(name, m)
    return found


def check_manifest(folder: str, m: Any) -> None:
    """Raises AutocompError with the next step for a target.yaml that lacks a field, has one too many, or names a chip that is not there."""
    where = f"targets/{folder}/target.yaml"
    if not isinstance(m, dict) or not MANIFEST <= m.keys() <= MANIFEST | MANIFEST_MAY:
        have = set(m) if isinstance(m, dict) else set()
        odd = have - MANIFEST - MANIFEST_MAY
        what = [*(f"lacks {k}" for k in sorted(MANIFEST - have)), *(f"has an unknown field {k}" for k in sorted(odd))]
        hint = f"fields: {', '.join(sorted(MANIFEST))}; {', '.join(sorted(MANIFEST_MAY))} may be there"
        raise AutocompError("; ".join(what), where=where, hint=hint)
    if m["name"] != folder:
        raise AutocompError(f"its name is '{m['name']}', its folder '{folder}'", where=where, hint=f"name: {folder}")
    missing = [c for c in m["chips"] if c not in chip_names()]
    if missing:
        raise AutocompError(f"there is no chip '{missing[0]}'", where=where, hint=f"write cost_models/{missing[0]}.yaml (docs/targets.md)")
    if m["default_chip"] not in m["chips"]:
        raise AutocompError(f"default_chip '{m['default_chip']}' is none of its chips", where=where, hint=f"chips: {', '.join(m['chips'])}")


def load_target(spec: str, options: Options | None = None) -> Target:
    """The target of "cpu", "cuda", "cuda:h200", "maca:c500", "Ascend910B1", ... Raises AutocompError with the nearest name.

    A chip goes by its name, by what its vendor's tools call it (`arch` in its file) or by an alias, in any case; alone too where it
    begins with its target. A target alone is the chip that is here, where its module has `chip_here(chips) -> name or ""`; else its
    default one; of the chip that is here, features that no device has run are left out (`untried` in its file).
    `options` go to a target whose printer reads some of them (it has a field `options`).
    """
    if not isinstance(spec, str):
        raise AutocompError(f"a target is a text like 'cpu' or 'cuda:h200', got {spec!r}", where="target",
                            hint=f"targets: {', '.join(manifests())}")  # fmt: skip
    name, _, chip = spec.partition(":")
    known = manifests()
    folder = next((f for f, m in known.items() if name.lower() in (f, *m.get("aliases", ()))), None)
    if folder is None and not chip:
        folder = next((f for f, m in known.items() if name.lower().startswith(f) and _chip_named(f, m, name)), None)
        chip = name if folder else ""
    if folder is None:
        hint = _nearest(name, [n for f, m in known.items() for n in (f, *m.get("aliases", ()))])
        spoken = ", ".join(f"{f} ({m['language']})" for f, m in known.items())
        if spec.endswith((".yaml", ".yml")):
            hint = f"a chip's file stands behind its target, such as maca:{spec}; "
        raise AutocompError(f"no target '{name}'", where="target", hint=f"{hint}targets: {spoken}")
    m = known[folder]
    named = bool(chip)
    chip = chip or _chip_here(folder, m)
    chip = _chip_named(folder, m, chip) or chip
    if chip not in m["chips"] and not chip.endswith((".yaml", ".yml")):
        raise AutocompError(
            f"target {folder} has no chip '{chip}'",
            where="target",
            hint=f"{_nearest(chip, m['chips'])}chips: {', '.join(m['chips'])}, or {folder}:FILE.yaml with the figures of another",
        )
    module = import_module(f"autocomp.targets.{folder}.target")
    made = getattr(module, f"{folder.capitalize()}Target", None)
    if made is None:
        raise AutocompError(f"defines no class {folder.capitalize()}Target", where=f"targets/{folder}/target.py",
                            hint="its fields and methods are those of the protocol Target in targets/__init__.py")  # fmt: skip
    given = {"options": options} if options is not None and "options" in {f.name for f in fields(made)} else {}
    machine = load_chip(chip) if named else load_chip(chip).tried()
    if chip not in m["chips"] and machine.target != folder:
        raise ChipError(f"chip {machine.name} is for target {machine.target}, not {folder}", where=chip,
                        hint=f"--target {machine.target}:{chip}, or `target: {folder}` in the file")  # fmt: skip
    return made(machine, **given)  # type: ignore[no-any-return]


def _chip_named(folder: str, m: dict[str, Any], spoken: str) -> str:
    """The chip that somebody calls `spoken`, "" for none: Ascend910B3, 910b3 and 910_B3 are one."""
    plain = lambda s: s.lower().removeprefix(folder).replace("_", "").replace("-", "")
    named = {plain(n): c for n, c in m.get("chip_aliases", {}).items()} | {plain(c): c for c in m["chips"]}
    name = plain(spoken)
    if name in named or folder == "cpu" or spoken.endswith((".yaml", ".yml")):
        return str(named.get(name, ""))
    return next((c for c in m["chips"] if plain(load_chip(c).arch) == name), "")


def _chip_here(folder: str, m: dict[str, Any]) -> str:
    """The chip of a target that is named alone."""
    asked = getattr(import_module(f"autocomp.targets.{folder}.target"), "chip_here", None)
    return str((asked and asked(tuple(m["chips"]))) or m["default_chip"])


def _nearest(name: str, known: list[str]) -> str:
    """The one that may have been meant; who mistypes a short name rarely does so in its first letter (a gpu is no npu)."""
    near = get_close_matches(name.lower(), [n for n in known if n[0] == name[:1].lower()], 1)
    return f"did you mean '{near[0]}'? " if near else ""


def list_targets() -> list[dict[str, Any]]:
    """Rows for `autocomp targets`."""
    rows = []
    for name, m in manifests().items():
        target = load_target(name)
        missing, not_here = target.toolchain.missing(), target.why_not_runnable()
        rows.append(
            {"name": name, "chips": m["chips"], "language": m["language"], "builds": missing or "yes", "runs": not_here or "yes"}
        )
    return rows
