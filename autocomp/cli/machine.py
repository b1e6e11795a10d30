"""Commands about this machine: targets, calibrate, doctor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from autocomp.cli.shared import Json, app, err, out
from autocomp.errors import AutocompError

if TYPE_CHECKING:
    from autocomp.cost.calibrate import Calibration
    from autocomp.tune.device_rates import Report


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
def calibrate(
    target: Annotated[str, typer.Option(help="what to measure: cpu, or cuda (the device here), cuda:h200 (as that chip)")] = "cpu",
    as_json: Json = False,
) -> None:
    """Measure this machine's ceilings (about ten seconds), or a device's numbers (under two minutes), into a chip file.

    Example: autocomp calibrate --target cuda
    """
    family, _, chip = target.partition(":")
    if family not in ("cpu", "cuda"):
        raise AutocompError(f"target '{family}' has no microbenchmarks", where="calibrate", hint="it is cpu or cuda")
    result: Calibration | Report
    if family == "cuda":
        from autocomp.tune.device_rates import calibrate_device

        with err.status("measuring pipes, memories and launches"):
            result = calibrate_device(chip)
    else:
        from autocomp.cost.calibrate import calibrate as measure

        with err.status("measuring arithmetic peaks and bandwidths"):
            result = measure()
    if as_json:
        typer.echo(json.dumps(result.data(), indent=1))
        return
    out.print(result.text(), markup=False)
    out.print(f"wrote {result.path}")


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
