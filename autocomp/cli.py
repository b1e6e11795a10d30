"""The command line: `autocomp COMMAND`, typer on top of the Python API.

Exit codes: 0 good, 1 the input is at fault, 2 usage, 3 verification failed, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from autocomp.errors import AutocompError

app = typer.Typer(
    name="autocomp",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Compile tensor programs into kernels whose every optimisation is a rule.\n\n"
    "Examples:\n\n  autocomp optimize model.onnx --target cpu -o out/\n\n  autocomp run model.onnx --target cpu\n\n"
    "  autocomp explain model.onnx --why matmul_add_gelu\n\n  autocomp rules list --phase fusion\n\n"
    "  autocomp compare out_a out_b --report ab.html",
)
rules_app = typer.Typer(no_args_is_help=True, help="List the rules, or check rule files for soundness.")
app.add_typer(rules_app, name="rules")
out = Console(soft_wrap=False, markup=False, width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True, markup=False)  # names of extras and shapes stand in brackets

Model = Annotated[str, typer.Argument(help="ONNX file, or a text graph (.txt, .ac).")]
Target = Annotated[str, typer.Option("--target", "-t", help="cpu, cuda:h200, maca:c500, ascend:910b, ... (see `autocomp targets`).")]
RuleFiles = Annotated[list[Path] | None, typer.Option("--rules", "-r", help="A rule file of your own; may be given again.")]
Without = Annotated[list[str] | None, typer.Option("--without", help="Leave out a rule, by name or glob (fusion/*); may be given again.")]
Dims = Annotated[list[str] | None, typer.Option("--dim", help="Fix a symbolic dimension: --dim batch=1; may be given again.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Verify = Annotated[bool, typer.Option("--verify/--no-verify", help="Replay against the float64 reference.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="An option of optimize(): --set max_body_ops=32; may be given again.")]
Tuned = Annotated[bool, typer.Option("--tuned/--no-tuned", help="Use measured schedules where `autocomp tune` found some.")]


def _assignments(pairs: list[str] | None, flag: str) -> dict[str, str]:
    result = {}
    for p in pairs or []:
        name, eq, value = p.partition("=")
        if not eq or not name or not value:
            raise typer.BadParameter(f"{flag} wants NAME=VALUE, got '{p}'")
        result[name] = value
    return result


def _options(rules: list[Path] | None, without: list[str] | None, sets: list[str] | None) -> Any:
    """Options from flags; values are converted by the type of the option's default."""
    from dataclasses import fields, replace

    from autocomp.options import Options

    kinds = {f.name: f for f in fields(Options)}
    values: dict[str, Any] = {}
    for name, text in _assignments(sets, "--set").items():
        if name not in kinds:
            raise typer.BadParameter(f"no option '{name}'; options are {', '.join(sorted(kinds))}")
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
    return replace(Options(), rules=tuple(str(r) for r in rules or ()), without=tuple(without or ()), **values)


def _compile(
    model: str,
    target: str,
    rules: list[Path] | None,
    without: list[str] | None,
    sets: list[str] | None,
    dims: list[str] | None,
    quiet: bool,
    tuned: bool = True,
) -> Any:
    from dataclasses import replace

    options = _options(rules, without, sets)
    return _optimized(model, target, options if tuned else replace(options, tuned=False), dims, quiet)


def _fixed(dims: list[str] | None) -> dict[str, int]:
    """Named dimensions and the sizes that they are fixed to."""
    fixed = {}
    for name, text in _assignments(dims, "--dim").items():
        if not text.isdigit():
            raise typer.BadParameter(f"--dim {name} wants a positive whole number, got '{text}'")
        fixed[name] = int(text)
    return fixed


def _optimized(model: str, target: str, options: Any, dims: list[str] | None, quiet: bool) -> Any:
    """The compiled program, with progress on stderr."""
    from autocomp import optimize
    from autocomp.report.progress import StageProgress
    from autocomp.trace import Trace

    trace = Trace()
    with StageProgress(err, trace, enabled=not quiet):
        return optimize(model, target=target, options=options, trace=trace, dims=_fixed(dims) or None)


def _check(program: Any, quiet: bool) -> dict[str, Any]:
    """Replay against the reference; raises VerificationError (exit 3)."""
    result = program.verify()
    if not quiet:
        err.print(f"verified: largest error {result.worst:.2e} of tolerance {result.tolerance:.2e} (float64 reference, seed {result.seed})")
    return {"worst": result.worst, "tolerance": result.tolerance, "seed": result.seed}


@app.command()
def optimize(
    model: Model,
    target: Target = "cpu",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for sources, launcher, build script, weights, manifest.")
    ] = None,
    rules: RuleFiles = None,
    without: Without = None,
    sets: Set = None,
    dims: Dims = None,
    vis_graph: Annotated[Path | None, typer.Option("--vis-graph", help="Draw kernels and rules: .dot, .svg or .html.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="One HTML file with kernels, roofline, reasons.")] = None,
    verify: Verify = True,
    tuned: Tuned = True,
    measure: Annotated[int | None, typer.Option("--tune", min=1, help="First measure at most N schedules a kernel (see tune).")] = None,
    as_json: Json = False,
) -> None:
    """Compile MODEL and show its kernels.

    Example: autocomp optimize model.onnx --target cpu -o out/ --vis-graph graph.html --report report.html
    """
    from autocomp.report.tables import kernel_rows, kernel_table

    if vis_graph is not None and vis_graph.suffix not in (".dot", ".svg", ".html"):
        raise typer.BadParameter(f"--vis-graph writes .dot, .svg or .html, not '{vis_graph.suffix or vis_graph.name}'")
    if measure is not None:
        _measure_first(model, target, _options(rules, without, sets), dims, measure, as_json)
    program = _compile(model, target, rules, without, sets, dims, as_json, tuned)
    checked = _check(program, as_json) if verify and program.runnable else None
    written = []
    if output is not None:
        program.save(output)
        written.append(output)
    if vis_graph is not None:
        from autocomp.report.graphview import write_graph

        written.append(write_graph(program, vis_graph))
    if report is not None:
        written.append(program.report(report))
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "model": program.name,
                    "target": program.target.name,
                    "kernels": kernel_rows(program),
                    "predicted_seconds": program.predicted,
                    "verified": checked,
                    "written": [str(w) for w in written],
                },
                indent=1,
            )
        )
        return
    out.print(kernel_table(program))
    if verify and not program.runnable:
        out.print(f"not verified by running: {program.not_runnable}")
    for w in written:
        out.print(f"wrote {w}")


@app.command()
def run(
    model: Model,
    target: Target = "cpu",
    inputs: Annotated[
        Path | None, typer.Option("--inputs", help="An .npz with the inputs by name; seeded random ones if not given.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs as .npz.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Timed calls.")] = 10,
    rules: RuleFiles = None,
    without: Without = None,
    sets: Set = None,
    dims: Dims = None,
    verify: Verify = True,
    tuned: Tuned = True,
    as_json: Json = False,
) -> None:
    """Compile MODEL, run it and time each kernel.

    Example: autocomp run model.onnx --inputs x.npz -o y.npz
    """
    import numpy as np

    from autocomp.report.tables import kernel_rows, kernel_table
    from autocomp.runtime.inputs import load_npz, random_inputs, save_npz

    program = _compile(model, target, rules, without, sets, dims, as_json, tuned)
    if not program.runnable:
        raise AutocompError(
            f"target {program.target.name} cannot run here: {program.not_runnable}",
            hint="`autocomp optimize -o DIR` writes a folder that builds on the device's machine",
        )
    feed = load_npz(inputs) if inputs is not None else random_inputs(program.graph, seed=0)
    checked = _check(program, as_json) if verify else None
    values = program.run(feed)
    timing = program.profile(feed, repeat=repeat)
    if output is not None:
        save_npz(output, values)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "outputs": {k: list(np.shape(v)) for k, v in values.items()},
                    "seconds": timing.total,
                    "kernels": kernel_rows(program, timing),
                    "verified": checked,
                },
                indent=1,
            )
        )
        return
    out.print(kernel_table(program, timing))
    for k, v in values.items():
        out.print(f"{k}: {v.dtype}{list(v.shape)}")
    if output is not None:
        out.print(f"wrote {output}")


@app.command()
def explain(
    model: Model,
    target: Target = "cpu",
    why: Annotated[str | None, typer.Option("--why", help="A kernel: which rules made it, and what bounds it.")] = None,
    why_not: Annotated[str | None, typer.Option("--why-not", help="A rule: where it did not fire, and the condition that failed.")] = None,
    rules: RuleFiles = None,
    without: Without = None,
    sets: Set = None,
    dims: Dims = None,
    tuned: Tuned = True,
    as_json: Json = False,
) -> None:
    """Say why the program is as it is.

    Example: autocomp explain model.onnx --why-not monoids/online-softmax
    """
    from autocomp.report.explain import explain as explain_program

    program = _compile(model, target, rules, without, sets, dims, True, tuned)
    text, data = explain_program(program, why=why, why_not=why_not)
    typer.echo(json.dumps(data, indent=1) if as_json else text)


@rules_app.command("list")
def rules_list(
    rules: RuleFiles = None,
    phase: Annotated[str | None, typer.Option("--phase", help="Only this phase.")] = None,
    as_json: Json = False,
) -> None:
    """List the rules in force. Example: autocomp rules list --phase fusion"""
    from autocomp.rewrite import describe, load_rules

    rows = [r for r in describe(load_rules(tuple(str(r) for r in rules or ()))) if phase in (None, r["phase"])]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("rule", "phase", "exact", "rewrite", "why", title=f"{len(rows)} rules")
    for r in rows:
        table.add_row(r["name"], r["phase"], "yes" if r["exact"] else "no", r["text"], r["why"])
    out.print(table)


@rules_app.command("check")
def rules_check(
    files: Annotated[list[Path] | None, typer.Argument(help="Rule files; the shipped rules if none.")] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Random instances a rule.")] = 20,
    as_json: Json = False,
) -> None:
    """Check rules for soundness: proved over the reals (extra `proof`), tested on random instances, or a counterexample; and run
    their examples: where each must fire, and where it must not.

    Example: autocomp rules check mine.yaml
    """
    from autocomp.rewrite import load_rules

    ruleset = load_rules(tuple(str(f) for f in files or ()))
    mine = {str(f) for f in files or ()}
    chosen = [r for r in ruleset if not mine or any(str(r.location).startswith(m) for m in mine)]
    _report_checks(chosen, ruleset, samples, as_json)


@rules_app.command("test")
def rules_test(
    rule: Annotated[str, typer.Argument(help="A rule's name, or a glob (algebra/*).")],
    rules: RuleFiles = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Random instances a rule.")] = 20,
    as_json: Json = False,
) -> None:
    """Check rules by name, as `rules check` does for files; exit 1 where the two sides differ.

    Example: autocomp rules test 'algebra/*' --rules mine.yaml --samples 100
    """
    from difflib import get_close_matches
    from fnmatch import fnmatchcase

    from autocomp.rewrite import load_rules

    loaded = load_rules(tuple(str(f) for f in rules or ()))
    chosen = [r for r in loaded if fnmatchcase(r.name, rule)]
    if not chosen:
        near = get_close_matches(rule, loaded.names, 3)
        raise AutocompError(f"there is no rule '{rule}'", where="rules test",
                            hint=f"nearest: {', '.join(near)}" if near else "`autocomp rules list` shows them")  # fmt: skip
    _report_checks(chosen, loaded, samples, as_json)


def _report_checks(chosen: list[Any], in_force: Any, samples: int, as_json: bool) -> None:
    """Check rules and print the outcome; an error with the counterexample if one is refuted."""
    from autocomp.report.rulecheck import check_rules

    report = check_rules(chosen, in_force, samples)
    if as_json:
        typer.echo(json.dumps(report.data(), indent=1))
    else:
        out.print(report.table())
    report.require()


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A saved program folder (`optimize -o`).")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    report: Annotated[Path | None, typer.Option("--report", help="Write the comparison as one HTML file.")] = None,
    as_json: Json = False,
) -> None:
    """Put two saved programs side by side. Example: autocomp compare out_a out_b --report ab.html"""
    from autocomp.report.compare import compare as run_compare

    result = run_compare(a, b)
    if report is not None:
        result.report(report)
    if as_json:
        typer.echo(json.dumps(result.data(), indent=1))
        return
    out.print(result.table())
    if report is not None:
        out.print(f"wrote {report}")


@app.command()
def targets(as_json: Json = False) -> None:
    """List targets and chips, and whether each can build and run here.

    Example: autocomp targets --json
    """
    from autocomp.targets import list_targets

    rows = list_targets()
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("target", "chips", "language", "builds here", "runs here")
    for r in rows:
        table.add_row(r["name"], ", ".join(r["chips"]), r["language"], r["builds"], r["runs"])
    out.print(table)


@app.command()
def calibrate(as_json: Json = False) -> None:
    """Measure this machine's ceilings (about ten seconds) and use them from now on.

    Example: autocomp calibrate
    """
    from autocomp.cost.calibrate import calibrate as measure

    with err.status("measuring arithmetic peaks and bandwidths"):
        result = measure()
    if as_json:
        typer.echo(json.dumps(result.data(), indent=1))
        return
    out.print(result.text())
    out.print(f"wrote {result.path}")


@app.command()
def tune(
    model: Annotated[str | None, typer.Argument(help="ONNX file, or a text graph (.txt, .ac).")] = None,
    target: Target = "cpu",
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
    rules: RuleFiles = None,
    without: Without = None,
    sets: Set = None,
    dims: Dims = None,
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

    options = _options(rules, without, sets)
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
            _tune(model, target, options, dims, db, Limits(seconds=budget, run=timeout, jobs=jobs), as_json)
        if export is not None:
            err.print(f"wrote {db.export(export)} rows to {export}", highlight=False)
        if ranks:
            _ranks(db, target, as_json)
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
    if as_json:
        typer.echo(json.dumps({"kernels": rank_rows(found), "rank_correlation": pooled(found)}, indent=1))
    else:
        out.print(rank_table(found))


def _search(model: str, target: str, options: Any, dims: list[str] | None, db: Any, limits: Any, quiet: bool) -> tuple[Any, list[Any]]:
    """(program, what was found for each of its kernels)."""
    from autocomp import rewrite
    from autocomp.report.tuning import TuneProgress, result_rows
    from autocomp.tune.tuner import tune_program

    program = _optimized(model, target, options, dims, quiet)
    rules = rewrite.load_rules(options.rules, without=options.without, options=options)
    try:
        with TuneProgress(err, not quiet) as progress:
            results = tune_program(program.calls, program.target, rules, options, db, limits, progress)
    except KeyboardInterrupt:
        text = f"interrupted; every measurement is kept in {db.path}, the same command goes on from there"
        err.print(text, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    return program, result_rows(results, program.target.chip, options)


def _tune(model: str, target: str, options: Any, dims: list[str] | None, db: Any, limits: Any, as_json: bool) -> None:
    """Search, and print what was found."""
    from autocomp.report.tuning import program_gain, remarks, result_table, verdict

    program, rows = _search(model, target, options, dims, db, limits, as_json)
    text = verdict(rows, options.min_speedup)
    if as_json:
        before, after = program_gain(rows)
        typer.echo(json.dumps({"model": program.name, "target": program.target.name, "database": str(db.path), "kernels": rows,
                               "untuned_seconds": before, "tuned_seconds": after, "verdict": text}, indent=1))  # fmt: skip
        return
    fresh = sum(r["fresh"] for r in rows)
    out.print(result_table(rows, f"{program.name} on {program.target.name} ({program.target.chip.name}): {fresh} schedules measured now, "
                           f"{sum(r['tried'] for r in rows) - fresh} known from before"))  # fmt: skip
    for line in (*remarks(rows), text):
        out.print(line, highlight=False, soft_wrap=True)


def _measure_first(model: str, target: str, options: Any, dims: list[str] | None, configurations: int, quiet: bool) -> None:
    """`optimize --tune N`: a search before the compilation that uses it."""
    from dataclasses import replace

    from autocomp.report.tuning import verdict
    from autocomp.tune.database import Database
    from autocomp.tune.kernel import Limits
    from autocomp.tune.use import database_path

    options = replace(options, tuned=False, search_configurations=configurations)
    with Database(database_path(options), lambda text: err.print(text, highlight=False)) as db:
        _, rows = _search(model, target, options, dims, db, Limits(), quiet)
    if not quiet:
        err.print(verdict(rows, options.min_speedup), highlight=False, soft_wrap=True)


@app.command()
def bisect(
    model: Model,
    target: Target = "cpu",
    slow: Annotated[bool, typer.Option("--slow", help="Look for what makes it slow instead of wrong.")] = False,
    factor: Annotated[float, typer.Option("--factor", min=1.01, help="With --slow: how many times slower counts.")] = 1.2,
    rules: RuleFiles = None,
    without: Without = None,
    sets: Set = None,
    dims: Dims = None,
    as_json: Json = False,
) -> None:
    """Find the rule or the kernel that makes MODEL's program wrong (or slow), switching rules off by halves.

    Example: autocomp bisect model.onnx --rules mine.yaml
    """
    from dataclasses import asdict

    from autocomp.tune.bisect import Bisection, Request

    request = Request(model, target, _options(rules, without, sets), _fixed(dims) or None)
    search = Bisection(request, lambda text: None if as_json else err.print(text, highlight=False, soft_wrap=True))
    found = search.slow(factor) if slow else search.wrong()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=1))
        return
    out.print(found.text, highlight=False, soft_wrap=True)
    for name, why in found.kernels:
        out.print(f"kernel {name}: {why}", highlight=False, soft_wrap=True)
    out.print(f"{found.trials} programs were tried; {len(found.fired)} rules had a part in the first one", highlight=False)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what is installed, what is missing, and the command that installs it.

    Example: autocomp doctor
    """
    from autocomp.report.doctor import checkup

    rows = checkup()
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("what", "state", "for", "next step")
    for r in rows:
        table.add_row(r["what"], r["state"], r["for"], r["next"])
    out.print(table)


def main() -> None:
    """Entry point: errors of ours are one clear text on stderr and their exit code, never a traceback."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        err.print("interrupted; what was being written is not there", highlight=False)
        sys.exit(130)
    except AutocompError as e:
        err.print(f"error: {type(e).__name__}: {e}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(e.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()
