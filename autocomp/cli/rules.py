"""Commands about rules: rules list, words, new, check, test, fmt, schema, mutate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from autocomp.cli.carets import with_caret
from autocomp.cli.shared import Json, RuleFiles, Seconds, app, check_outputs, err, out
from autocomp.deadline import current, start
from autocomp.errors import AutocompError, RuleError
from autocomp.options import Options

MANY = 8  # rules that one process checks by itself

rules_app = typer.Typer(no_args_is_help=True, help="List the rules, or check rule files for soundness.")
app.add_typer(rules_app, name="rules")


@rules_app.command("list")
def rules_list(
    rules: RuleFiles = None,
    phase: Annotated[str | None, typer.Option("--phase", help="Only this phase.")] = None,
    as_json: Json = False,
) -> None:
    """List the rules in force.

    Example: autocomp rules list --phase fusion
    """
    from autocomp.rewrite import describe, load_rules
    from autocomp.rewrite.vocabulary import PHASES

    if phase not in (None, *PHASES):
        raise typer.BadParameter(f"no phase '{phase}'; phases are {', '.join(PHASES)}")
    rows = [r for r in describe(load_rules(tuple(str(r) for r in rules or ()))) if phase in (None, r["phase"])]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("rule", "phase", "exact", "rewrite", "why", title=f"{len(rows)} rules")
    for r in rows:
        table.add_row(r["name"], r["phase"], "yes" if r["exact"] else "no", r["text"], r["why"])
    out.print(table)


@rules_app.command("words")
def rules_words(
    phase: Annotated[str, typer.Argument(help="Whose words: a phase, such as algebra, fusion or tiling.")] = "algebra",
    as_json: Json = False,
) -> None:
    """List what rules of a phase may say: ops with their attributes, functions of conditions, words.

    Example: autocomp rules words tiling
    """
    from autocomp.rewrite.vocabulary import PHASES, spoken

    if phase not in PHASES:
        raise typer.BadParameter(f"no phase '{phase}'; phases are {', '.join(PHASES)}")
    rows = spoken(phase)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for kind, columns in (("op", ("operands", "attributes", "means")), ("function", ("arguments", "means"))):
        table = Table(kind, *columns, title=f"{kind}s of {phase} rules")
        for r in (r for r in rows if r["kind"] == kind):
            table.add_row(r["name"], *(r[c] for c in columns))
        out.print(table)
    out.print("words: " + ", ".join(r["name"] for r in rows if r["kind"] == "word"))


@rules_app.command("new")
def rules_new(
    file: Annotated[Path, typer.Argument(help="The file to write; one that is there is left as it is.")],
    phase: Annotated[str, typer.Option("--phase", help="What it is about, such as algebra, fusion or tiling.")] = "algebra",
    idea: Annotated[str, typer.Option("--idea", help="One line: why the rule is there.")] = "say here why it is better",
) -> None:
    """Write the beginning of a rule file: a rule of a phase that passes its check, to be changed into the idea.

    Example: autocomp rules new mine.yaml --phase algebra --idea "one product instead of a sum"
    """
    from autocomp.files import write_atomic
    from autocomp.rewrite.load import NAME
    from autocomp.rewrite.new import new_rule
    from autocomp.rewrite.vocabulary import PHASES

    if phase not in PHASES:
        raise typer.BadParameter(f"no phase '{phase}'; phases are {', '.join(PHASES)}")
    words = re.findall(r"[a-z0-9]+", idea.lower())
    name = f"{file.stem}/{'-'.join([w for w in words if len(w) > 1][:4] or words[:4])}"
    name = name if NAME.match(name) else "mine/idea"
    if file.exists():
        raise AutocompError("is there already", where=str(file), hint="choose another name, or remove it first")
    check_outputs(rules=file)
    write_atomic(file, new_rule(name, phase, idea))
    out.print(f"wrote {file}\nnext: autocomp rules check {file}", soft_wrap=True, highlight=False)


@rules_app.command("check")
def rules_check(
    files: Annotated[list[Path] | None, typer.Argument(help="Rule files; the shipped rules if none.")] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Random instances a rule.")] = 20,
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever a file changes, until Ctrl-C.")] = False,
    on: Annotated[str | None, typer.Option("--on", help="Check rules about schedules on the kernels of a graph, in one line.")] = None,
    target: Annotated[str, typer.Option("--target", help="For which target, with --on.")] = "cpu",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Rules checked side by side, 0: one a core, of many rules.")] = 0,
    deadline: Seconds = None,
    as_json: Json = False,
) -> None:
    """Check rules for soundness: proved over the reals (extra `proof`), tested on random instances, or a counterexample; and run
    their examples: where each must fire, and where it must not.

    Example: autocomp rules check mine.yaml --deadline 60

    Example: autocomp rules check mine.yaml --watch

    Example: autocomp rules check mine.yaml --on 'input x: f32[8, 64]; %0 = exp(x); output y = %0' --target cuda:h200
    """
    if watch:
        _watched(files or [], samples, deadline, as_json)
        return
    ruleset = _in_time(files, deadline)
    _report_checks(_of_files(ruleset, files), ruleset, samples, as_json, (on, target) if on is not None else None, jobs)


@rules_app.command("test")
def rules_test(
    rule: Annotated[str, typer.Argument(help="A rule's name, or a glob (algebra/*).")],
    rules: RuleFiles = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Random instances a rule.")] = 20,
    deadline: Seconds = None,
    as_json: Json = False,
) -> None:
    """Check rules by name, as `rules check` does for files; exit 1 where the two sides differ.

    Example: autocomp rules test 'algebra/*' --rules mine.yaml --samples 100
    """
    from difflib import get_close_matches
    from fnmatch import fnmatchcase

    loaded = _in_time(rules, deadline)
    chosen = [r for r in loaded if fnmatchcase(r.name, rule)]
    if not chosen:
        near = get_close_matches(rule, loaded.names, 3)
        hint = f"nearest: {', '.join(near)}" if near else "`autocomp rules list` shows them"
        hint = f"for the rules of a file: autocomp rules check {rule}" if Path(rule).is_file() else hint
        raise AutocompError(f"there is no rule '{rule}'", where="rules test", hint=hint)
    _report_checks(chosen, loaded, samples, as_json)


@rules_app.command("mutate")
def rules_mutate(
    files: Annotated[list[Path] | None, typer.Argument(help="Rule files; the shipped rules if none.")] = None,
    count: Annotated[int, typer.Option("--count", min=0, help="Changes that are tried, 0 for all.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which ones.")] = 0,
    only: Annotated[str, typer.Option("--only", help="Changes whose description holds this: --only 'without the condition legal'.")] = "",
    samples: Annotated[int, typer.Option("--samples", min=1, help="Random instances a rule.")] = 20,
    deadline: Seconds = None,
    as_json: Json = False,
) -> None:
    """Change one thing in a rule (a condition, an axis, a constant, an op) and see whether the checker refuses what is then wrong.

    Example: autocomp rules mutate mine.yaml --count 100
    """
    from autocomp.report.mutation import mutate_rules

    start(Options(deadline=deadline or 0.0))
    loaded = _in_time(files, deadline)
    chosen = _of_files(loaded, files)
    say = lambda text: None if as_json else err.print(text, highlight=False, soft_wrap=True)
    report = mutate_rules(chosen, count, seed, samples, say, tuple(loaded), only)
    if as_json:
        typer.echo(json.dumps(report.data(), indent=1))
        return
    if report.missed:
        out.print(report.table())
    out.print(report.text, highlight=False, soft_wrap=True)


@rules_app.command("fmt")
def rules_fmt(
    files: Annotated[list[Path], typer.Argument(help="Rule files; each is written anew where its form changes.")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where a file is not in the one form.")] = False,
) -> None:
    """Bring rule files into one form that every reader of YAML 1.2 understands: quotes, indents, blanks. Comments and the order stay.

    Example: autocomp rules fmt mine.yaml
    """
    from autocomp.files import read_given, write_atomic
    from autocomp.rewrite.format import formatted

    changed = []
    for path in files:
        try:
            text = read_given(path).decode("utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise RuleError(f"cannot be read: {e}", where=str(path), hint="give the path of a .yaml file of rules") from None
        new = formatted(text, str(path))
        if new != text:
            changed.append(path)
            if not check:
                check_outputs(rules=path)
                write_atomic(path, new)
    if check and changed:
        raise RuleError("is not formatted", where=", ".join(map(str, changed)), hint=f"autocomp rules fmt {' '.join(map(str, changed))}")
    out.print(f"{len(changed)} of {len(files)} files changed", highlight=False)


@rules_app.command("schema")
def rules_schema(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to a file instead.")] = None,
) -> None:
    """Print the JSON schema of rule files, for editors (docs/rules.md).

    Example: autocomp rules schema -o rules.schema.json
    """
    from autocomp.files import write_atomic
    from autocomp.rewrite.schema import rule_schema

    text = json.dumps(rule_schema(), indent=1) + "\n"
    check_outputs(output=output)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_atomic(output, text)
    out.print(f"wrote {output}", soft_wrap=True, highlight=False)


def _watched(files: list[Path], samples: int, seconds: float | None, as_json: bool) -> None:
    """Check files now and after every change of one of them; a mistake is said and waited over."""
    from autocomp.report.watch import changes
    from autocomp.rewrite.load import forget_shipped

    if not files:
        raise typer.BadParameter("--watch wants files")
    for _ in changes(files):
        forget_shipped()  # one of them may be what changes
        try:
            ruleset = _in_time(files, seconds)
            _report_checks(_of_files(ruleset, files), ruleset, samples, as_json)
        except AutocompError as e:
            err.print(f"error: {type(e).__name__}: {with_caret(e)}", soft_wrap=True, highlight=False)
        err.print("watching; Ctrl-C ends it", highlight=False)


def _of_files(ruleset: Any, files: list[Path] | None) -> list[Any]:
    """The rules that these files define, all where there are none."""
    from autocomp.rewrite.load import shipped_name

    mine = tuple(f"{shipped_name(f) or f}:" for f in files or ())
    return [r for r in ruleset if not mine or str(r.location).startswith(mine)]


def _in_time(files: list[Path] | None, seconds: float | None) -> Any:
    """The shipped rules and those of files, with a clock that runs from now on. Raises RuleError where it left some out."""
    from autocomp.rewrite import load_rules

    start(Options(deadline=seconds or 0.0))
    loaded = load_rules(tuple(str(f) for f in files or ()))
    if undone := current().cut.get("rules"):
        raise RuleError(f"the deadline of {current().seconds:g} s came while files were read: {undone}", where="rules",
                        hint="a later --deadline")  # fmt: skip
    return loaded


def _report_checks(chosen: list[Any], in_force: Any, samples: int, as_json: bool, on: tuple[str, str] | None = None,
                   jobs: int = 1) -> None:  # fmt: skip
    """Check rules and print the outcome; an error with the counterexample if one is refuted. `on`: a graph and a target; `jobs`: processes,
    0 for one a core where there are more than MANY rules, whose check takes longer than processes take to begin."""
    from autocomp.cost.host import usable_cores
    from autocomp.report.rulecheck import check_rules, check_rules_on

    jobs = jobs or (usable_cores() if len(chosen) > MANY else 1)
    say = lambda text: None if as_json else err.print(text, highlight=False, soft_wrap=True)
    report = check_rules_on(chosen, in_force, *on) if on else check_rules(chosen, in_force, samples, say, jobs)
    if as_json:
        typer.echo(json.dumps(report.data(), indent=1))
    else:
        out.print(report.table())
    report.require()
