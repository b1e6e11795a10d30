"""autocomp: a compiler for tensor programs in which every optimisation is a rule.

import autocomp
program = autocomp.optimize("model.onnx", target="cpu")
y = program(x)
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from autocomp import forks as _forks  # noqa: F401  # forks are noticed from the first import on
from autocomp.errors import (
    AutocompError,
    BuildError,
    DoesNotFit,
    IllegalTransform,
    ModelError,
    RuleError,
    UnsupportedOp,
    VerificationError,
)
from autocomp.limits import memory_told
from autocomp.options import Options
from autocomp.trace import Trace
from autocomp.version import __version__

if TYPE_CHECKING:
    from autocomp.report.compare import Comparison
    from autocomp.runtime.program import Program
    from autocomp.targets import Target

__all__ = [
    "AutocompError",
    "BuildError",
    "DoesNotFit",
    "IllegalTransform",
    "ModelError",
    "Options",
    "RuleError",
    "Trace",
    "UnsupportedOp",
    "VerificationError",
    "__version__",
    "compare",
    "kernel",
    "optimize",
    "rule",
]


def optimize(
    model: Any,
    target: str | Target = "cpu",
    *,
    options: Options | None = None,
    trace: Trace | None = None,
    verify: bool = False,
    example_inputs: Any = None,
    dims: dict[str, int] | None = None,
    **named: Any,
) -> Program:
    """Compile a model for a target.

    model: an ONNX path, bytes or ModelProto; a torch nn.Module (with `example_inputs=(...)`) or ExportedProgram; a
    Python function over arrays (with `example_inputs`); the project's text form; or an `ir.node.Graph`.
    target: "cpu", "cuda", "cuda:h200", "maca:c500", "ascend:910b", ... (`autocomp targets` lists them); or a
    `targets.Target`, such as one with other figures of its chip.
    `named` are fields of `Options` (without=["fusion/*"], rules=["mine.yaml"], max_body_ops=32, ...).
    verify: also replay the program against the float64 reference on seeded random inputs.

    Raises ModelError, RuleError, UnsupportedOp, DoesNotFit, IllegalTransform, BuildError, VerificationError; AutocompError where memory
    ends.
    """
    from autocomp.pipeline import compile_model

    known = {f.name for f in fields(Options)}
    if wrong := next((name for name in named if name not in known), ""):
        from difflib import get_close_matches

        near = get_close_matches(wrong, (*known, "example_inputs", "dims", "verify", "target", "trace", "options"), 1)
        raise AutocompError(
            f"optimize() has no option '{wrong}'",
            where="optimize",
            hint=f"did you mean '{near[0]}'?" if near else f"options are: {', '.join(sorted(known))}",
        )
    opts = replace(options or Options(), **named)
    frontend = {k: v for k, v in (("example_inputs", example_inputs), ("dims", dims)) if v is not None}
    with memory_told("the compilation", "optimize"):
        program = compile_model(model, target, opts, trace if trace is not None else Trace(), **frontend)
    if verify:
        program.verify()
    return program


def kernel(text: str, target: str = "cpu", *, options: Options | None = None, trace: Trace | None = None, verify: bool = False) -> Program:
    """Compile a tile program that was written by hand (docs/tile_program.md): a program whose inputs and outputs are its buffers.

    text: the tile program, with a line `schedule threads 128 | ..` before it for what it does not say itself.
    verify: also compare its results with the NumPy meaning of the text on seeded random inputs.

    Raises ModelError with line and column for a program that means nothing, AutocompError for a clause that is none, UnsupportedOp and
    DoesNotFit where the target does not print it, BuildError, VerificationError.
    """
    from autocomp.pipeline import compile_written

    with memory_told("the compilation", "kernel"):
        program = compile_written(text, target, options or Options(), trace if trace is not None else Trace())
    if verify:
        program.verify()
    return program


def compare(a: Any, b: Any, **kw: Any) -> Comparison:
    """A against B: two programs or two saved folders. `.report("ab.html")` writes the comparison as one file."""
    from autocomp.report.compare import compare as run

    return run(a, b, **kw)


def __getattr__(name: str) -> Any:
    """`autocomp.report`, which is imported when it is first asked for."""
    if name == "report":
        from importlib import import_module

        return import_module("autocomp.report")
    raise AttributeError(f"module 'autocomp' has no attribute '{name}'")


def rule(*args: Any, **kw: Any) -> Any:
    """Decorator: a rewrite rule written as a Python function. See `autocomp.rewrite.decorator.rule`."""
    from autocomp.rewrite.decorator import rule as decorate

    return decorate(*args, **kw)
