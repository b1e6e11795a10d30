"""The errors people meet. Each says what, where, the numbers, and what to do next."""

from __future__ import annotations


class AutocompError(Exception):
    """Base of every error this package raises on purpose.

    `what` is one sentence; `where` names the object (file:line:column, a model's node, a kernel);
    `hint` is the next step. Numbers belong into `what`.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}\n  next: {hint}" if hint else text)

    def then(self, *more: str) -> AutocompError:
        """The same error with more to its next step."""
        self.hint = "; ".join((*([self.hint] if self.hint else []), *more))
        self.args = (f"{f'{self.where}: ' if self.where else ''}{self.what}\n  next: {self.hint}",)
        return self


class ModelError(AutocompError):
    """The model (file, bytes, module, graph text) is broken or contradicts itself."""


class RuleError(AutocompError):
    """A rule file is wrong; `where` is file:line:column."""


class ChipError(AutocompError):
    """A chip's file is wrong or there is no such chip; `where` is file:line:column."""


class IllegalTransform(AutocompError):
    """A loop transformation would run two dependent iterations in the wrong order (both are named)."""


class DoesNotFit(AutocompError):
    """A resource of the chip is too small: says what is needed and what there is."""

    def __init__(self, what: str, *, needed: float, available: float, where: str | None = None, hint: str | None = None) -> None:
        self.needed, self.available = needed, available
        super().__init__(f"{what}: needs {needed:g}, has {available:g}", where=where, hint=hint)


class UnsupportedOp(AutocompError):
    """An operator, dtype or form is not supported here; says which, where, and what to do."""


class BuildError(AutocompError):
    """A toolchain is missing or refused the source; `log` is the path of its output. `machine`: not the source is at fault, but this
    machine (the compiler cannot be started, the disk is full), so that another source would fare no better. `late`: it was ended at its
    limit of time."""

    def __init__(self, what: str, *, log: str | None = None, where: str | None = None, hint: str | None = None,
                 machine: bool = False, late: bool = False) -> None:  # fmt: skip
        self.log, self.machine, self.late = log, machine, late
        super().__init__(what, where=where, hint=hint)


class VerificationError(AutocompError):
    """The program's result differs from the float64 reference beyond the derived tolerance."""

    exit_code = 3
