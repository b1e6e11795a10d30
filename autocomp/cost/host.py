"""What this machine is: cores, caches and vector width, from the operating system; the generic chip adapted to it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autocomp.files import user_folder

_CPU = Path("/sys/devices/system/cpu/cpu0")


DOT_BYTES = {"x86-64-v4": {"avx512_vnni"}, "x86-64-v3": {"avx_vnni", "avx512_vnni"}, "aarch64": {"i8mm"}}  # flags of /proc/cpuinfo

HALVES = {("AuthenticAMD", "25")}  # vendor and family with AVX-512 on units of 32 bytes: Zen 4 (software optimization guide 57647)


@dataclass(frozen=True)
class HostFacts:
    """arch: x86-64-v4 (AVX-512), x86-64-v3 (AVX2), aarch64, generic. Cache sizes in bytes, 0 where unknown; `shared_l2`
    is over how many cores the level-2 cache is shared. `dot_bytes`: an instruction sums four products of bytes in a lane;
    `halves`: vectors of 64 bytes go through the multiply-add units in two halves."""

    model: str
    arch: str
    cores: int
    vector_bytes: int
    registers: int
    l1: int
    l2: int
    l3: int
    dot_bytes: bool = False
    halves: bool = False


def facts() -> HostFacts:
    """The machine that we run on."""
    flags, model, make = _cpuinfo()
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        arch, width, registers = "x86-64-v4", 64, 32
    elif {"avx2", "fma"} <= flags:
        arch, width, registers = "x86-64-v3", 32, 16
    elif platform.machine() in ("aarch64", "arm64"):
        arch, width, registers = "aarch64", 16, 32
    else:
        arch, width, registers = "generic", 16, 16
    size = _caches()
    sizes = (size.get("l1", 0), size.get("l2", 0), size.get("l3", 0))
    return HostFacts(model, arch, usable_cores(), width, registers, *sizes, bool(DOT_BYTES.get(arch, set()) & flags),
                     arch == "x86-64-v4" and make in HALVES)  # fmt: skip


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpuinfo() -> tuple[set[str], str, tuple[str, str]]:
    """(flags, model, (vendor, family)); the last two are "" where they are not told."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set(), platform.processor() or platform.machine(), ("", "")
    rows = dict(line.partition(":")[::2] for line in text.split("\n\n")[0].splitlines())
    rows = {k.strip(): v.strip() for k, v in rows.items()}
    make = rows.get("vendor_id", ""), rows.get("cpu family", "")
    return set(rows.get("flags", rows.get("Features", "")).split()), rows.get("model name", platform.machine()), make


def _caches() -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for index in sorted(_CPU.glob("cache/index*")):
        try:
            kind, level, size = ((index / f).read_text(encoding="utf-8").strip() for f in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size[:-1].isdigit():
            sizes[f"l{level}"] = int(size[:-1]) * {"K": 1024, "M": 1 << 20, "G": 1 << 30}.get(size[-1], 1)
    return sizes


def calibration_path() -> Path:
    """Where `autocomp calibrate` writes this machine's chip file."""
    return user_folder("config") / "cpu.yaml"


def calibrated_file(here: HostFacts) -> Path | None:
    """The calibrated chip file, if it was measured on a machine like this one."""
    path = calibration_path()
    if not path.is_absolute():
        return None
    try:
        head = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return path if f"# measured on: {fingerprint(here)}\n" in head else None


def fingerprint(here: HostFacts) -> str:
    """One line that says on what a calibration holds."""
    return f"{here.model}; {here.arch}; {here.cores} cores; l2 {here.l2}; l3 {here.l3}"
