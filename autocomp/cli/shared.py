"""What the commands share: the application, its two consoles, and the options that choose what is compiled and for what."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from autocomp import deadline
from autocomp.errors import AutocompError
from autocomp.options import Options
from autocomp.version import __version__

ORDER = ("optimize", "run", "explain", "compare", "rules", "tune", "bisect", "targets", "calibrate", "doctor")  # in the help
INTERRUPTED = "interrupted; what was being written is not there"


class Commands(TyperGroup):
    """The commands as a user meets them, whatever order their files are read in."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def invoke(self, ctx: Any) -> Any:
        """As typer does, in a context whose clock ends with the command; an option of `optimize` that was written as a flag is answered
        with `--set`."""
        try:
            return copy_context().run(super().invoke, ctx)
        except KeyboardInterrupt:
            err.print(INTERRUPTED, highlight=False)
            raise typer.Exit(130) from None
        except Exception as e:
            name = getattr(e, "option_name", "").lstrip("-").replace("-", "_")  # only an unknown flag's error has it
            if name in {f.name for f in fields(Options)}:
                e.message = f"No such option: {e.option_name}; it is set by --set {name}=VALUE"  # type: ignore[attr-defined]
                e.possibilities = ()  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    name="autocomp",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Compile tensor programs into kernels whose every optimisation is a rule.\n\n"
    "Examples:\n\n  autocomp optimize model.onnx --target cpu -o out/\n\n  autocomp run model.onnx --target cpu\n\n"
    "  autocomp explain model.onnx --why matmul_add_gelu\n\n  autocomp rules list --phase fusion\n\n"
    "  autocomp compare out_a out_b --report ab.html",
)

def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"autocomp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of the program itself."""


OWN_FLAGS = {"rules": "--rules", "without": "--without", "deadline": "--deadline", "schedule": "--schedule",
             "maca_path": "--maca-path"}  # fmt: skip
out = Console(soft_wrap=False, markup=False, width=None if sys.stdout and sys.stdout.isatty() else 140)  # there is none behind `>&-`
err = Console(stderr=True, markup=False)  # names of extras and shapes stand in brackets

Model = Annotated[str, typer.Argument(help="ONNX file, or a text graph (.txt, .ac).")]
Target = Annotated[str, typer.Option("--target", "-t", help="cpu, cuda:h200, maca:c500, ascend:910b, ... (see `autocomp targets`).")]
RuleFiles = Annotated[list[Path] | None, typer.Option("--rules", "-r", help="A rule file of your own; may be given again.")]
Without = Annotated[list[str] | None, typer.Option("--without", help="Leave out a rule, by name or glob (fusion/*); may be given again.")]
Given = Annotated[
    list[str] | None,
    typer.Option("--schedule", help="A kernel's schedule, or a file with it or with a tile program: --schedule 'matmul=tile i0 8, i1 128', "
                 "--schedule matmul=mine.tile; may be given again."),
]
Dims = Annotated[list[str] | None, typer.Option("--dim", help="Fix a symbolic dimension: --dim batch=1; may be given again.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Verify = Annotated[bool, typer.Option("--verify/--no-verify", help="Replay against the float64 reference.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="An option (docs/models.md): --set max_body_ops=32; may be given again.")]
Seconds = Annotated[
    float | None,
    typer.Option("--deadline", min=0, help="Seconds after which it goes on with what it has and says so; 0: no end."),
]
MacaPath = Annotated[str, typer.Option("--maca-path", metavar="FOLDER", help="The MACA SDK, in the place of $MACA_PATH.")]
Tuned = Annotated[bool, typer.Option("--tuned/--no-tuned", help="Use measured schedules where `autocomp tune` found some.")]


def check_outputs(folder: Path | None = None, **named: Path | None) -> None:
    """What will be written can be: looked at before the work, not after it. `folder` is that of --output, `named` are files.

    Raises BadParameter where a folder stands in a file's place or the other way round, AutocompError where writing is not allowed.
    """
    if folder is not None and folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"--output wants a folder, and {folder} is a file")
    for flag, path in named.items():
        if path is not None and path.is_dir():
            raise typer.BadParameter(f"--{flag.replace('_', '-')} wants a file, and {path} is a folder")
    for path in (folder, *named.values()):
        if path is not None:
            try:
                whole = path.absolute()
            except FileNotFoundError:
                raise AutocompError("cannot be written: the folder that this shell stands in is gone", where=str(path),
                                    hint="change to one that is there, or give the whole path") from None  # fmt: skip
            there = next(p for p in (whole, *whole.parents) if p.exists())
            if there.is_file() and there != whole:
                raise AutocompError("cannot be written: it lies below a file", where=str(path), hint=f"{there} is no folder")
            if not os.access(there, os.W_OK):
                raise AutocompError("cannot be written", where=str(path), hint=f"check the permissions of {there}, or choose another path")


def _assignments(pairs: list[str] | None, flag: str) -> dict[str, str]:
    result = {}
    for p in pairs or []:
        name, eq, value = p.partition("=")
        if not eq or not name or not value:
            raise typer.BadParameter(f"{flag} wants NAME=VALUE, got '{p}'")
        result[name] = value
    return result


def _text_of(value: str) -> str:
    """What stands in the file of that name, else the text itself."""
    if "|" in value or " " in value or not Path(value).suffix:
        return value
    try:
        return Path(value).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise typer.BadParameter(f"--schedule: {value}: {e}") from None


@dataclass(frozen=True)
class Choice:
    """The target, rules, options and sizes of a compilation, as the command line gives them (`with_choice`)."""

    target: Target = "cpu"
    rules: RuleFiles = None
    without: Without = None
    sets: Set = None
    dims: Dims = None
    deadline: Seconds = None
    schedule: Given = None
    maca_path: MacaPath = ""

    def start(self) -> None:
        """From now on the command's clock runs, one for all that it does."""
        deadline.start(self.options())

    def options(self) -> Any:
        """Options from flags; values are converted by the type of the option's default."""
        from difflib import get_close_matches

        kinds = {f.name: f for f in fields(Options)}
        values: dict[str, Any] = {"maca_path": self.maca_path} | ({} if self.deadline is None else {"deadline": self.deadline})
        for name, text in _assignments(self.sets, "--set").items():
            if name not in kinds:
                near = get_close_matches(name, kinds, 1)
                raise typer.BadParameter(f"no option '{name}'; " + (f"did you mean '{near[0]}'? " if near else "")
                                         + f"Options are {', '.join(sorted(kinds))}")  # fmt: skip
            if name in OWN_FLAGS:
                raise typer.BadParameter(f"{name} has a flag of its own: {OWN_FLAGS[name]} {text}")
            default = getattr(Options(), name)
            if isinstance(default, bool):
                if text.lower() not in ("true", "false", "1", "0"):
                    raise typer.BadParameter(f"--set {name} wants true or false, got '{text}'")
                values[name] = text.lower() in ("true", "1")
            elif isinstance(default, (int, float)):
                try:
                    values[name] = type(default)(text)
                except ValueError:
                    raise typer.BadParameter(f"--set {name} wants {type(default).__name__}, got '{text}'") from None
            else:
                values[name] = tuple(text.split(",")) if isinstance(default, tuple) else text
        return replace(Options(), rules=tuple(str(r) for r in self.rules or ()), without=tuple(self.without or ()),
                       schedule=tuple((k, _text_of(v)) for k, v in _assignments(self.schedule, "--schedule").items()),
                       **values)  # fmt: skip

    def sizes(self) -> dict[str, int]:
        """Named dimensions and the sizes that they are fixed to."""
        fixed = {}
        for name, text in _assignments(self.dims, "--dim").items():
            if not text.isdecimal() or not int(text):
                raise typer.BadParameter(f"--dim {name} wants a positive whole number, got '{text}'")
            fixed[name] = int(text)
        return fixed

    def compile(self, model: str, quiet: bool, tuned: bool = True) -> Any:
        """The compiled program, with progress on stderr."""
        options = self.options()
        return self.optimized(model, options if tuned else replace(options, tuned=False), quiet)

    def optimized(self, model: str, options: Any, quiet: bool, target: Any = None) -> Any:
        """As `compile`, with these options, and for another target."""
        from autocomp import optimize
        from autocomp.report.progress import StageProgress
        from autocomp.trace import Trace

        trace = Trace()
        with StageProgress(err, trace, enabled=not quiet):
            return optimize(model, target=target or self.target, options=options, trace=trace, dims=self.sizes() or None)


def with_choice(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a parameter `choice` takes its fields as options of its own, in that parameter's place."""
    mine = inspect.signature(Choice, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.signature(command, eval_str=True)
    shown = [p.replace(kind=keyword) for given in signature.parameters.values() for p in (mine if given.name == "choice" else (given,))]

    @wraps(command)
    def run(**given: Any) -> None:
        choice = Choice(**{p.name: given.pop(p.name) for p in mine})
        command(choice=choice, **given)

    run.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run
