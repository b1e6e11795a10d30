"""Commands that try many programs: tune, bisect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from autocomp.cli.shared import Choice, Json, Model, app, err, out, with_choice


@app.command()
@with_choice
def tune(
    choice: Choice,
    model: Annotated[str | None, typer.Argument(help="ONNX file, or a text graph (.txt, .ac).")] = None,
    budget: Annotated[float, typer.Option("--budget", min=0, help="Seconds for the whole search, 0 for no limit.")] = 0.0,
    configurations: Annotated[
        int | None, typer.Option("--configurations", "-n", min=1, help="Schedules a kernel at most (1000).")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Builds side by side, 0 for one a core.")] = 0,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to check and time one schedule.")] = 30.0,
    database: Annotated[Path | None, typer.Option("--database", help="The file to use; the one in the cache folder if not given.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Show what the database holds.")] = False,
    ranks: Annotated[bool, typer.Option("--ranks", help="How well the cost model orders what is stored for --target.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything from the database.")] = False,
    export: Annotated[Path | None, typer.Option("--export", help="Write the database as JSON lines.")] = None,
    load: Annotated[Path | None, typer.Option("--import", help="Add what `--export` wrote elsewhere.")] = None,
    as_json: Json = False,
) -> None:
    """Measure schedules of MODEL's kernels on the device and keep the fastest; `optimize` uses them from then on.

    A search that was interrupted or killed goes on where it was when the command is given again.

    Example: autocomp tune model.onnx --target cuda --budget 600
    """
    from dataclasses import replace

    from autocomp.report.tuning import stored_rows, stored_table
    from autocomp.tune.database import Database
    from autocomp.tune.kernel import Limits
    from autocomp.tune.use import database_path

    options = choice.options()
    options = replace(options, tuning_database=str(database or options.tuning_database), tuned=False,
                      search_configurations=configurations or options.search_configurations)  # fmt: skip
    if model is None and not (show or ranks or clear or export or load):
        raise typer.BadParameter("give a MODEL to tune, or one of --show, --ranks, --clear, --export, --import")
    with Database(database_path(options), lambda text: err.print(text, highlight=False)) as db:
        if load is not None:
            err.print(f"read {db.load(load)} rows from {load}", highlight=False)
        if clear:
            err.print(f"removed {db.clear()} measurements from {db.path}", highlight=False)
        if model is not None:
            _tune(model, choice, options, db, Limits(seconds=budget, run=timeout, jobs=jobs), as_json)
        if export is not None:
            err.print(f"wrote {db.export(export)} rows to {export}", highlight=False)
        if ranks:
            _ranks(db, choice.target, as_json)
        if show:
            rows = stored_rows(db.tuned())
            if as_json:
                typer.echo(json.dumps(rows, indent=1))
            else:
                out.print(stored_table(rows, str(db.path)))


def _ranks(db: Any, target: str, as_json: bool) -> None:
    """Predicted against measured order of what is stored."""
    from autocomp.report.tuning import rank_rows, rank_table
    from autocomp.tune.ranks import pooled
    from autocomp.tune.ranks import ranks as ranks_of

    found = ranks_of(db, target)
    if not found and not as_json:
        err.print(f"{db.path} has no measurements for {target}: `autocomp tune MODEL --target {target}` makes some", highlight=False,
                  soft_wrap=True)  # fmt: skip
        return
    if as_json:
        typer.echo(json.dumps({"kernels": rank_rows(found), "rank_correlation": pooled(found)}, indent=1))
    else:
        out.print(rank_table(found))


def _search(model: str, choice: Choice, options: Any, db: Any, limits: Any, quiet: bool) -> tuple[Any, Any]:
    """(program, what was found for its kernels)."""
    from autocomp.report.tuning import search_program
    from autocomp.targets import load_target
    from autocomp.tune.tuner import require_device

    require_device(load_target(choice.target, options))
    program = choice.optimized(model, options, quiet)
    try:
        return program, search_program(program, options, db, limits, err, quiet)
    except KeyboardInterrupt:
        text = f"interrupted; every measurement is kept in {db.path}, the same command goes on from there"
        err.print(text, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


def _tune(model: str, choice: Choice, options: Any, db: Any, limits: Any, as_json: bool) -> None:
    """Search, and print what was found."""
    from autocomp.report.tuning import program_gain

    program, found = _search(model, choice, options, db, limits, as_json)
    if as_json:
        before, after = program_gain(found.rows)
        typer.echo(json.dumps({"model": program.name, "target": program.target.name, "chip": program.target.chip.name,
                               "database": str(db.path), "kernels": found.rows,
                               "untuned_seconds": before, "tuned_seconds": after, "verdict": found.verdict}, indent=1))  # fmt: skip
        return
    out.print(found.table())
    for line in found.remarks:
        out.print(line, highlight=False, soft_wrap=True)


def measure_first(model: str, choice: Choice, configurations: int, quiet: bool) -> None:
    """`optimize --tune N`: a search before the compilation that uses it."""
    from dataclasses import replace

    from autocomp.tune.database import Database
    from autocomp.tune.kernel import Limits
    from autocomp.tune.use import database_path

    options = replace(choice.options(), tuned=False, search_configurations=configurations)
    with Database(database_path(options), lambda text: err.print(text, highlight=False)) as db:
        _, found = _search(model, choice, options, db, Limits(), quiet)
    if not quiet:
        err.print(found.verdict, highlight=False, soft_wrap=True)


@app.command()
@with_choice
def bisect(
    model: Model,
    choice: Choice,
    slow: Annotated[bool, typer.Option("--slow", help="Look for what makes it slow instead of wrong.")] = False,
    factor: Annotated[float, typer.Option("--factor", min=1.01, help="With --slow: how many times slower counts.")] = 1.2,
    as_json: Json = False,
) -> None:
    """Find the rule or the kernel that makes MODEL's program wrong (or slow), switching rules off by halves.

    Example: autocomp bisect model.onnx --rules mine.yaml
    """
    from dataclasses import asdict

    from autocomp.tune.bisect import Bisection, Request

    request = Request(model, choice.target, choice.options(), choice.sizes() or None)
    request.require()
    search = Bisection(request, lambda text: None if as_json else err.print(text, highlight=False, soft_wrap=True))
    found = search.slow(factor) if slow else search.wrong()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1))
        return
    out.print(found.text, highlight=False, soft_wrap=True)
    for name, why in found.kernels:
        out.print(f"kernel {name}: {why}", highlight=False, soft_wrap=True)
    out.print(f"{found.trials} programs were tried; {len(found.fired)} rules had a part in the first one", highlight=False)
