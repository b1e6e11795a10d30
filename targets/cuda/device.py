"""The CUDA device of this machine: what it is, which chip file describes it, and whether code for an architecture runs on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from autocomp.cost.chip import Chip, load_chip

OLDEST = "sm_80"  # the device headers copy with cp.async
INSTALL = "pip install 'autocomp[cuda]'"


@dataclass(frozen=True)
class DeviceFacts:
    """name: as the driver gives it ("NVIDIA H200"); capability: major and minor; cores: multiprocessors."""

    name: str
    capability: tuple[int, int]
    cores: int


@lru_cache(maxsize=1)
def device_here() -> DeviceFacts:
    """The first device that this process sees. Raises what CUDA's packages raise where there is none, or where they are missing."""
    from cuda.core import Device

    device = Device()
    device.set_current()
    major, minor = device.compute_capability
    return DeviceFacts(str(device.name), (major, minor), int(device.properties.multiprocessor_count))


def version_of(arch: str) -> tuple[int, int]:
    """The compute capability that an architecture names: (9, 0) for sm_90a."""
    digits = "".join(c for c in arch if c.isdigit())
    return int(digits[:-1]), int(digits[-1])


def why_not(arch: str) -> str:
    """Why the device here does not run code for `arch`, "" if it does."""
    try:
        have = device_here().capability
    except ImportError as e:
        return f"{e.name or 'cuda.core'} is not installed ({INSTALL})"
    except Exception as e:
        return f"no CUDA device: {str(e).splitlines()[0] if str(e) else type(e).__name__}"
    if _runs(arch, have):
        return ""
    if have < version_of(OLDEST):
        oldest = ".".join(map(str, version_of(OLDEST)))
        return f"the device has compute capability {have[0]}.{have[1]}, kernels are printed for {oldest} and newer"
    need = ".".join(map(str, version_of(arch)))
    what = f"code for {arch} runs on {need} only" if _one_version(arch) else f"{arch} needs {need}"
    return f"the device has compute capability {have[0]}.{have[1]}, {what}"


def chip_here(names: tuple[str, ...]) -> str:
    """Which of these chips the device here is, or is most like among those whose code it runs; "" where there is none.

    The newest architecture that runs decides, then a chip's name in the device's, then the number of multiprocessors.
    """
    try:
        here = device_here()
    except Exception:  # no device, no driver, no packages: `why_not` says which
        return ""
    return nearest_chip(here, [load_chip(n) for n in names])


def nearest_chip(here: DeviceFacts, chips: list[Chip]) -> str:
    """As `chip_here`, of a device that is described."""
    runs = [c for c in chips if _runs(c.arch, here.capability)]
    spoken = here.name.lower().replace(" ", "").replace("-", "")

    def likeness(c: Chip) -> tuple[tuple[int, int], int, int, str]:
        return version_of(c.arch), len(c.name) if c.name in spoken else 0, -abs(c.cores - here.cores), c.name

    return max(runs, key=likeness).name if runs else ""


def has(arch: str, needs: str) -> bool:
    """Whether an architecture has what `needs` brought: sm_89 has what sm_80 has; what sm_90a has is in no other one."""
    return arch == needs if _one_version(needs) else version_of(needs) <= version_of(arch)


def _runs(arch: str, have: tuple[int, int]) -> bool:
    return version_of(arch) == have or (version_of(arch) < have and not _one_version(arch))


def _one_version(arch: str) -> bool:
    """Code for sm_90a and its like runs on its own version only."""
    return not arch[-1].isdigit()
