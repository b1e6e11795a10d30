"""The Ascend target: kernels for NPUs with cube and vector cores; programs are written as folders that build where CANN is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from autocomp.targets.ascend.api import api, architecture, check, defined
from autocomp.targets.ascend.chips import flag_of
from autocomp.targets.ascend.element import emit_elements
from autocomp.targets.ascend.emit import HEADER, emit, fitted
from autocomp.targets.ascend.scatters import emit_scatter
from autocomp.targets.ascend.tables import check_types, table
from autocomp.targets.ascend.toolchain import Toolchain, headers
from autocomp.targets.source import Admitted, KernelSource, below
from autocomp.targets.symbols import sizes_apart

from autocomp.cost.chip import Chip
from autocomp.cost.roles import roles_of
from autocomp.cost.scalar import SCALAR
from autocomp.errors import UnsupportedOp
from autocomp.ir.body import postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.tile.derive import derive

FORMS = {"contract": "products", "chain": "chains", "online": "chains"}  # of kernels, by their roles


@lru_cache(maxsize=16)
def own_names(of: tuple[str, ...] = ()) -> frozenset[str]:
    """Functions and types of the target's device headers, or of some of them."""
    return frozenset().union(*(defined(text) for name, text in headers().items() if not of or name in of))


@dataclass(frozen=True)
class AscendTarget:
    """Target by the contract of `targets.load_target`."""

    chip: Chip
    name: str = "ascend"
    language: str = "Ascend C"
    runtime: str = ""
    toolchain: Toolchain = field(init=False)
    admitted: Admitted = field(init=False, repr=False, compare=False, default_factory=Admitted)

    def __post_init__(self) -> None:
        object.__setattr__(self, "toolchain", Toolchain(flag_of(self.chip)))

    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        """The kernel under a schedule, of names that the public interface has for the chip. Raises UnsupportedOp for another."""
        if kernel.opaque:
            out = emit_scatter(kernel, self.chip, header)
        else:
            out = self.admitted.take(kernel, schedule, header) or self.printed(kernel, schedule, header)
        check(out.text, api(architecture(self.toolchain.arch)), own_names(out.headers), out.name)
        return out

    def fits(self, kernel: Kernel, schedule: Schedule) -> None:
        """Raises DoesNotFit or UnsupportedOp for what `emit` refuses: by the tiles in a core's memories and the flags of its queues."""
        self._check(kernel, schedule)
        if schedule.instruction == SCALAR:
            emit_elements(kernel, self.chip, ())  # an element at a time, which needs no room
        else:
            fitted(derive(kernel, schedule), self.chip)

    @sizes_apart
    def printed(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        self._check(kernel, schedule)
        if schedule.instruction == SCALAR:
            return emit_elements(kernel, self.chip, header)
        less = set() if roles_of(kernel).scores == "f16" else {"half_scores"}
        return emit(derive(kernel, schedule), self.chip, header, [d for d in schedule.directives if d not in less])

    def _check(self, kernel: Kernel, schedule: Schedule) -> None:
        """Raises UnsupportedOp for a kernel that has no text on the chip under such a schedule."""
        self._printed_for(kernel, schedule)
        types = [e.dtype for s in kernel.stores for e in postorder(s.value)]
        check_types([*types, *(a.type.dtype for a in (*kernel.inputs, *kernel.outputs))], kernel.name, self.chip.title)

    def _printed_for(self, kernel: Kernel, schedule: Schedule) -> None:
        """Raises UnsupportedOp where the chip's cores are of a form that no kernel here is printed for."""
        roles = roles_of(kernel)
        form = "scalar" if schedule.instruction == SCALAR else FORMS.get(roles.form, "vectors")
        for feature, row in table()["unprinted"].items():
            if feature not in self.chip.features or form not in row["of"]:
                continue
            names = {"chip": architecture(self.toolchain.arch), "printed": architecture(str(table()["arch"])), "factor": roles.factor}
            what, why = (row[x].format(**names) for x in ("what", "why"))
            raise UnsupportedOp(f"chip {self.chip.name} has {what}; {why}", where=kernel.name,
                                hint="take ascend:910b or another chip without it; prices of this one can be asked")  # fmt: skip

    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str]:
        """Raises what `emit` would; gives the directives that take effect."""
        out = self.printed(kernel, schedule)
        return self.admitted.keep(kernel, schedule, below(out), out.applied)

    def preamble(self, sources: list[KernelSource]) -> str:
        """Text in front of a file of kernels."""
        return "".join(f'#include "{h}"\n' for h in sorted({HEADER, *(h for s in sources for h in s.headers)}))

    def why_not_runnable(self) -> str:
        """Why programs cannot run here."""
        return self.toolchain.missing() or "programs for NPUs are not started from Python; save the program as a folder and build it"
