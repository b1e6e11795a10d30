"""Commands that compile a model, and compare what was compiled: optimize, run, explain, compare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from autocomp.cli.shared import Choice, Json, Model, Tuned, Verify, app, check_outputs, err, out, with_choice
from autocomp.cli.tuning import measure_first
from autocomp.deadline import current
from autocomp.errors import AutocompError


def _check(program: Any, quiet: bool, now: bool = True) -> dict[str, Any] | None:
    """Replay against the reference; raises VerificationError (exit 3). None where a deadline left the kernels to be compiled, and nobody
    needs them `now`."""
    if program.postponed and not now:
        current().ended("verify", "all sizes, as nothing is compiled")
        return None
    result = program.verify()
    if not quiet:
        err.print(f"verified: largest error {result.worst:.2e} of tolerance {result.tolerance:.2e} (float64 reference, seed {result.seed}"
                  f"{''.join(f', {k} = {n}' for k, n in result.sizes.items())})")  # fmt: skip
    return {"worst": result.worst, "tolerance": result.tolerance, "seed": result.seed, "sizes": dict(result.sizes)}


def _build(program: Any, quiet: bool) -> dict[str, Any]:
    """Device code of every kernel, as a device's absence leaves it unmade. Raises BuildError (exit 1)."""
    from time import perf_counter

    from autocomp.report.progress import StageProgress
    from autocomp.report.tables import plural

    begun = perf_counter()
    with StageProgress(err, program.trace, enabled=not quiet):
        sizes = {name: len(code) for name, code in program.build().items()}
    arch, seconds = program.target.chip.arch, perf_counter() - begun
    if not quiet:
        kilobytes = sum(sizes.values()) / 1024
        err.print(f"compiled {plural(len(sizes), 'kernel')} for {arch}: {kilobytes:.0f} KB, {seconds:.2f} s", highlight=False)
    return {"arch": arch, "bytes": sizes, "seconds": seconds}


@app.command()
@with_choice
def optimize(
    model: Model,
    choice: Choice,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for sources, launcher, build script, weights, manifest.")
    ] = None,
    vis_graph: Annotated[Path | None, typer.Option("--vis-graph", help="Draw kernels and rules: .dot, .svg or .html.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="One HTML file with kernels, roofline, reasons.")] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="Save the record of the run as JSON lines: .jsonl.")] = None,
    verify: Verify = True,
    tuned: Tuned = True,
    build: Annotated[bool, typer.Option("--build", help="Compile CUDA kernels here though no device may be.")] = False,
    simulate: Annotated[bool, typer.Option("--simulate", help="Check it on a CPU model of the chip; the folder says so.")] = False,
    emit: Annotated[str | None, typer.Option("--emit", help="With -o: another form of the kernels too: ascendnpu-ir (NPUs).")] = None,
    measure: Annotated[int | None, typer.Option("--tune", min=1, help="First measure at most N schedules a kernel (see tune).")] = None,
    as_json: Json = False,
) -> None:
    """Compile MODEL and show its kernels.

    Example: autocomp optimize model.onnx --target cpu -o out/ --vis-graph graph.html --report report.html

    Example: autocomp optimize model.onnx --deadline 5
    """
    if vis_graph is not None and vis_graph.suffix not in (".dot", ".svg", ".html"):
        raise typer.BadParameter(f"--vis-graph writes .dot, .svg or .html, not '{vis_graph.suffix or vis_graph.name}'")
    check_outputs(output, vis_graph=vis_graph, report=report, trace=trace)
    if emit is not None:
        _check_form(emit, choice.target, output)
    if measure is not None:
        measure_first(model, choice, measure, as_json)
    choice.start()
    program = choice.compile(model, as_json, tuned)
    built = _build(program, as_json) if build else None
    checked = _check(program, as_json, now=False) if verify and program.runnable else None
    if simulate:
        from autocomp.simulate.program import check_model

        program.modelled = check_model(program)
    told = [program.modelled] if simulate else []
    if verify and not simulate and not program.runnable:
        told.append(f"not verified by running: {program.not_runnable}")
    written = _written(program, output, vis_graph, report, trace, as_json)
    if emit is not None and output is not None:
        told += _modules(program, output)
    if as_json:
        typer.echo(json.dumps(_compiled_data(program, built, checked, written), indent=1))
        return
    _print_kernels(program)
    for line in told:
        out.print(line, soft_wrap=True)
    for w in written:
        out.print(f"wrote {w}")


def _check_form(emit: str, target: str, output: Path | None) -> None:
    """Raises BadParameter where --emit asks for what is not printed."""
    from autocomp.targets import load_target

    if emit != "ascendnpu-ir" or load_target(target).name != "ascend":
        raise typer.BadParameter("--emit ascendnpu-ir is for --target ascend, and there is no other form")
    if output is None:
        raise typer.BadParameter("--emit writes into the folder of -o")


def _written(program: Any, output: Path | None, vis_graph: Path | None, report: Path | None, trace: Path | None, quiet: bool) -> list[Path]:
    """Writes what is asked for; the paths."""
    written = []
    if output is not None:
        program.save(output)
        written.append(output)
    if vis_graph is not None:
        from autocomp.report.graphview import write_graph

        written.append(write_graph(program, vis_graph))
    if report is not None:
        written.append(program.report(report))
    if trace is not None:
        from autocomp.report.record import of_program, recording, save_trace

        written.append(save_trace(program.trace, trace, of_program(program)))
        if not quiet and (cost := recording(program.trace)):
            out.print(f"recording: {cost}", highlight=False)
    return written


def _compiled_data(program: Any, built: dict[str, Any] | None, checked: dict[str, Any] | None, written: list[Path]) -> dict[str, Any]:
    """What `optimize --json` prints."""
    from autocomp.report.tables import deadline_cuts, kernel_rows

    return {
        "model": program.name,
        "target": program.target.name,
        "kernels": kernel_rows(program),
        "predicted_seconds": program.predicted,
        "built": built,
        "verified": checked,
        "deadline": deadline_cuts(program),
        "written": [str(w) for w in written],
    }


def _print_kernels(program: Any, timing: Any = None) -> None:
    """The table of kernels, and what is to be said of them."""
    from autocomp.report.tables import kernel_table, remarks

    out.print(kernel_table(program, timing))
    for line in remarks(program):
        out.print(line, soft_wrap=True)


def _modules(program: Any, folder: Path) -> list[str]:
    """A .mlir file for each kernel that AscendNPU-IR has a form for; what to say of the others."""
    from autocomp.errors import UnsupportedOp
    from autocomp.files import write_atomic
    from autocomp.ir.schedule_text import parse
    from autocomp.targets.ascend.npuir import emit as printed
    from autocomp.targets.ascend.npuir_check import check
    from autocomp.tile.derive import derive

    kernels = {c.kernel.name: c.kernel for c in program.calls.calls}
    said = []
    for k in program.kernels:
        try:
            text = printed(derive(kernels[k.name], parse(k.schedule)), program.target.chip)
        except UnsupportedOp as e:
            said.append(f"{k.name}: {e.what}")
            continue
        check(text)
        write_atomic(folder / f"{k.name}.mlir", text)
    return [f"{len(program.kernels) - len(said)} of {len(program.kernels)} kernels as AscendNPU-IR", *said]


@app.command()
@with_choice
def run(
    model: Model,
    choice: Choice,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", help="An .npz with the inputs by name; seeded random ones if not given.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs as .npz.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Timed calls.")] = 10,
    simulate: Annotated[bool, typer.Option("--simulate", help="Run on a CPU model of the chip's machine; times are predictions.")] = False,
    timeline: Annotated[Path | None, typer.Option("--timeline", help="With --simulate: draw the pipes over time, as HTML.")] = None,
    verify: Verify = True,
    tuned: Tuned = True,
    as_json: Json = False,
) -> None:
    """Compile MODEL, run it and time each kernel.

    Example: autocomp run model.onnx --inputs x.npz -o y.npz

    Example: autocomp run model.onnx --target ascend:910b --simulate --timeline pipes.html
    """
    from contextlib import nullcontext

    from autocomp.runtime.inputs import load_npz, random_inputs, save_npz

    if timeline is not None and not simulate:
        raise typer.BadParameter("--timeline draws what --simulate sees")
    check_outputs(output=output, timeline=timeline)
    _check_runs(choice.target, simulate)
    if simulate:
        from autocomp.simulate.program import simulated
    choice.start()
    program = choice.compile(model, as_json, tuned)
    feed = load_npz(inputs) if inputs is not None else random_inputs(program.graph, seed=0)
    with simulated(program) if simulate else nullcontext() as seen:
        checked = _check(program, as_json) if verify else None
        values = program.run(feed)
        timing = None if simulate else program.profile(feed, repeat=repeat)
    pictures = seen.pictures() if seen is not None else []
    if timeline is not None:
        from autocomp.report.timeline import timeline_page

        timeline_page(program, pictures, timeline)
    if output is not None:
        save_npz(output, values)
    if as_json:
        typer.echo(json.dumps(_run_data(program, values, timing, checked), indent=1))
        return
    _print_kernels(program, timing)
    if simulate:
        _print_simulated(program, pictures)
    if timeline is not None:
        out.print(f"wrote {timeline}")
    for k, v in values.items():
        out.print(f"{k}: {v.dtype}{list(v.shape)}")
    if output is not None:
        out.print(f"wrote {output}")


def _check_runs(target: str, simulate: bool) -> None:
    """Raises AutocompError where a target's programs do not run here, or with `simulate` have no model."""
    from autocomp.targets import load_target

    if simulate:
        from autocomp.simulate.program import check_target

        check_target(load_target(target).name)
    elif why := load_target(target).why_not_runnable():
        raise AutocompError(f"target {target} cannot run here: {why}",
                            hint="`autocomp optimize -o DIR` writes a folder that builds on the device's machine; --simulate runs it on a "
                                 "model of the machine")  # fmt: skip


def _run_data(program: Any, values: Mapping[str, Any], timing: Any, checked: dict[str, Any] | None) -> dict[str, Any]:
    """What `run --json` prints."""
    from autocomp.report.tables import deadline_cuts, kernel_rows

    return {
        "outputs": {k: list(v.shape) for k, v in values.items()},
        "seconds": None if timing is None else timing.total,
        "predicted_seconds": program.predicted,
        "kernels": kernel_rows(program, timing),
        "verified": checked,
        "deadline": deadline_cuts(program),
    }


def _print_simulated(program: Any, pictures: Sequence[Any]) -> None:
    out.print(f"simulated on a CPU model of {program.target.name}, no chip was used; the cost model predicts "
              f"{program.predicted * 1e6:.2f} us a call", soft_wrap=True)  # fmt: skip
    if conflicts := sum(p.conflicts for p in pictures):
        out.print(f"vector instructions of each kernel's first cores wait {conflicts} clocks for banks in all", soft_wrap=True)


@app.command()
@with_choice
def explain(
    choice: Choice,
    model: Annotated[str | None, typer.Argument(help="ONNX file, or a text graph (.txt, .ac).")] = None,
    why: Annotated[str | None, typer.Option("--why", help="A kernel: which rules made it, and what bounds it.")] = None,
    why_not: Annotated[str | None, typer.Option("--why-not", help="A rule: where it did not fire, and the condition that failed.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="With --why-not: a node of the model, by a part of its name.")] = None,
    passes: Annotated[str | None, typer.Option("--passes", help="A kernel: its plan behind each pass, as a diff.")] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", help="Another figure of the chip, and what would be chosen then: --what-if memories.dram.bandwidth=8e12; "
                     "may be given again."),
    ] = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Kinds of kernels by targets: right or refused, and which rules fired.")] = False,
    only: Annotated[str, typer.Option("--only", help="With --matrix: kernels whose names hold one of these words.")] = "",
    kept: Annotated[
        Path | None,
        typer.Option("--kept", help="With --matrix: a file that keeps what is done; what it has is not run again."),
    ] = None,
    tuned: Tuned = True,
    as_json: Json = False,
) -> None:
    """Say why the program is as it is; with --matrix, what the targets make of each kind of kernel.

    Example: autocomp explain model.onnx --why-not monoids/online-softmax --at encoder.layer.0

    Example: autocomp explain --matrix --only softmax,gemm
    """
    from autocomp.report.explain import explain as explain_program
    from autocomp.report.passes import passes as explain_passes

    if matrix:
        _matrix(only, kept, as_json)
        return
    if model is None:
        raise typer.BadParameter("explain wants a MODEL, or --matrix")

    if at is not None and why_not is None:
        raise typer.BadParameter("--at says where a rule of --why-not did not fire")
    asked = [flag for flag, given in (("--why", why), ("--why-not", why_not), ("--what-if", what_if), ("--passes", passes)) if given]
    if len(asked) > 1:
        raise typer.BadParameter(f"{' and '.join(asked)}: one question at a time")
    choice.start()
    if what_if:
        text, data = _what_if(model, choice, what_if, as_json)
    else:
        program = choice.compile(model, as_json, tuned)
        text, data = explain_passes(program, passes) if passes else explain_program(program, why=why, why_not=why_not, at=at)
        if choice.without and not asked:
            more, data["without"] = _worth(model, choice, program, as_json)
            text += f"\n{more}"
    typer.echo(json.dumps(data, indent=1) if as_json else text)


def _matrix(only: str, kept: Path | None, as_json: bool) -> None:
    """Prints each row as it is done. Exits with 3 where a kernel is wrong."""
    from autocomp import optimize
    from autocomp.report.matrix import matrix, row_lines, summary

    rows = {}
    told = (lambda _: None) if as_json else (lambda text: typer.echo(text, err=True))
    for name, row in matrix(only, optimize, kept, told):
        rows[name] = row
        if not as_json:
            typer.echo("\n".join(row_lines(name, row)))
    if as_json:
        typer.echo(json.dumps({n: {t: vars(c) for t, c in row.items()} for n, row in rows.items()}, indent=1))
    else:
        typer.echo(summary(rows))
    if any(c.outcome == "wrong" for row in rows.values() for c in row.values()):
        raise typer.Exit(3)


def _worth(model: str, choice: Choice, program: Any, quiet: bool) -> tuple[str, dict[str, Any]]:
    """What the rules that were left out are worth: the program with them beside this one, predicted and, where both run here, measured."""
    from autocomp.report.difference import difference

    whole = choice.optimized(model, replace(program.options, without=()), quiet)
    return difference(whole, program, [f"without {', '.join(choice.without or ())}"], _in_turns(whole, program))


def _in_turns(a: Any, b: Any) -> Any:
    """Two programs of one model timed in turns on the same inputs, where both run here and the deadline leaves the time."""
    from autocomp.report.sides import of_program
    from autocomp.report.trial import times_of

    return None if current().over else times_of(of_program("with", a), of_program("without", b), a.graph)


def _what_if(model: str, choice: Choice, changes: list[str], quiet: bool) -> tuple[str, dict[str, Any]]:
    """The program for this chip and for one with other figures, both by the cost model alone."""
    from autocomp.cost.changed import changed
    from autocomp.report.difference import difference
    from autocomp.targets import load_target

    options = replace(choice.options(), tuned=False)
    machine: Any = load_target(choice.target, options)
    chip, told = changed(machine.chip, changes)
    now = choice.optimized(model, options, quiet, machine)
    then = choice.optimized(model, options, quiet, replace(machine, chip=chip))
    return difference(now, then, [f"what if {x} ({chip.name})?" for x in told])


@app.command()
@with_choice
def compare(
    choice: Choice,
    a: Annotated[str | None, typer.Argument(help="A program, a saved folder, a rule file, KERNEL=SCHEDULE, a target, `plain`, "
                                            "or a kernel by hand: FILE.c:FUNCTION, FILE.py:FUNCTION, "
                                            "'FILE.cu:FUNCTION<<<BLOCKS,THREADS>>>'; or two records of runs (.jsonl).")] = None,
    b: Annotated[str | None, typer.Argument(help="Another one.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="What both compute, where a side is no program of its own.")] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=20, help="Timed rounds, A and B in turns.")] = 20,
    report: Annotated[Path | None, typer.Option("--report", help="Write the comparison: .html, .md or .json.")] = None,
    run_folders: Annotated[bool, typer.Option("--run-folders", help="Compile and run the sources of saved folders: code that becomes "
                                              "yours. With --model.")] = False,
    past: Annotated[Path | None, typer.Option("--history", help="A folder of saved .json reports: show their trend.")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Put two sides beside each other, predicted and, where both run here, measured in turns.

    Example: autocomp compare out_a out_b --report ab.html

    Example: autocomp compare plain mine.yaml --model model.txt --report ab.md
    """
    from autocomp.report.two_sides import two_sides

    if past is not None:
        _history(past, as_json)
        return
    if a is None or b is None:
        raise typer.BadParameter("compare wants two sides, or --history DIR")
    if a.endswith(".jsonl") and b.endswith(".jsonl"):
        from autocomp.report.trace_diff import trace_difference

        lines, data = trace_difference(a, b)
        typer.echo(json.dumps(data, indent=1) if as_json else "\n".join(lines))
        return
    if report is not None and report.suffix not in (".html", ".md", ".json"):
        raise typer.BadParameter(f"--report writes .html, .md or .json, not '{report.suffix or report.name}'")
    check_outputs(report=report)
    choice.start()
    build = lambda what, target, options: replace(choice, target=target).optimized(what, options, as_json)
    result = two_sides(a, b, build, model, choice.options(), choice.target, rounds, run_folders,
                       ceilings=report is not None and report.suffix in (".html", ".json"))  # fmt: skip
    if report is not None:
        result.report(report)
    if as_json:
        typer.echo(json.dumps(result.data(), indent=1))
    else:
        out.print(result.table())
        for line in result.summary():
            out.print(line, soft_wrap=True, highlight=False)
        if report is not None:
            out.print(f"wrote {report}")
    if result.trial is not None and not result.trial.comparable:
        raise typer.Exit(3)


def _history(past: Path, as_json: bool) -> None:
    """Prints the comparisons that a folder keeps, in the order of their runs."""
    from autocomp.report.compare import history
    from autocomp.report.tables import seconds_text

    runs = history(past)
    if as_json:
        typer.echo(json.dumps(runs, indent=1))
        return
    for r in runs:
        low, middle, high = r["a_over_b"]
        out.print(f"{r['run']}: {r['sides']}: A {seconds_text(r['a'])}, B {seconds_text(r['b'])}, "
                  f"A / B {middle:.3f} ({low:.3f} to {high:.3f}); {r['verdict']}", soft_wrap=True, highlight=False)  # fmt: skip
