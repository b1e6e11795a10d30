"""Writes what docs quote of the code: the forms of docs/tour.md, the directives of docs/schedules.md and the tables of files in the
targets' READMEs.

    python docs/generate.py            writes the pages anew (`make docs`)

`tests/docs/test_generated_pages.py` fails where a page no longer says what the code says. A quoted part stands behind a line
`<!-- generated: NAME -->` and reaches to `<!-- end -->`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

from autocomp.targets import load_target

import autocomp
from autocomp import pipeline
from autocomp.egraph.frozen import ENode, Frozen
from autocomp.egraph.saturate import saturate
from autocomp.frontends.text import show
from autocomp.ir.directives import DIRECTIVES
from autocomp.options import Options
from autocomp.report.passes import passes
from autocomp.rewrite import load_rules
from autocomp.runtime.program import Program
from autocomp.trace import Trace

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("cpu", "simt", "cuda", "maca", "ascend")
MODEL = """graph linear
input x: f16[1024, 768]
input w: f16[3072, 768]
input b: f16[3072]
%0 = transpose(w, perm=[1, 0])
%1 = matmul(x, %0)
%2 = add(%1, b)
%3 = gelu(%2)
%4 = mul(%3, const(1.0, f16))
output out = %4
"""
PART = re.compile(r"<!-- generated: ([\w ]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


# ---------------------------------------------------------------- the tour
def _form(n: ENode) -> str:
    given = [*(f"c{c}" for c in n.children), *([str(n.attrs)] if n.attrs else [])]
    return f"{n.op}({', '.join(given)})" + ("" if n.why == "source" else f"  by {n.why}")


def classes(frozen: Frozen) -> str:
    """The frozen e-graph, a class a line with its forms."""
    rows = [f"c{c.id}  {c.type!s:16} = {' | '.join(map(_form, c.nodes))}" for c in frozen.classes.values()]
    return "\n".join([*rows, *(f"output {name} = c{c}" for name, c in frozen.roots)])


def schedules(program: Program) -> str:
    """The kernel's schedule and those that were next, as the trace has them."""
    (event,) = (e for e in program.trace.events if e.kind == "schedule")
    (kernel,) = program.kernels
    best = f"{kernel.schedule} ({event.data['rule']}): {kernel.predicted * 1e6:.1f} us, {kernel.bound}"
    head = f"{event.data['candidates']} schedules; the best by the cost model, and those behind it:"
    return "\n".join([head, best, *event.data["runners_up"]])


def comment(text: str) -> list[str]:
    """The lines of the comment on top of a kernel."""
    return [x.removeprefix(" *").removeprefix(" ") for x in text.partition("/*\n")[2].partition(" */")[0].splitlines()]


def paragraph(text: str, number: int) -> str:
    """A paragraph of that comment: what and why, the tile program, places."""
    return "\n".join(comment(text)).split("\n\n")[number]


def excerpt(text: str, first: str, last: str) -> str:
    """From the line that has `first` to the next one that has `last`, long lines cut."""
    lines = text.splitlines()
    start = next(i for i, x in enumerate(lines) if first in x)
    end = next(i for i in range(start, len(lines)) if last in lines[i])
    return dedent("\n".join(x if len(x) <= 140 else f"{x[:137]}..." for x in lines[start : end + 1]))


def tour() -> dict[str, str]:
    """The forms of MODEL, stage by stage."""
    options, trace = Options(cache=False, tuned=False), Trace()
    target = load_target("cuda:h200")
    graph = pipeline.import_model(MODEL, trace)
    frozen = saturate(graph, load_rules(), options, trace, target.chip.features)
    program = autocomp.optimize(MODEL, target="cuda:h200", cache=False, tuned=False)
    (kernel,), text = program.kernels, program.source()
    forms = passes(program, kernel.name)[1]["passes"]
    steps = forms[: next(i for i, x in enumerate(forms) if x["pass"] == "write")]
    maca = autocomp.optimize(MODEL, target="maca:c500", cache=False, tuned=False)
    return {
        "model": fenced(show(graph)),
        "classes": fenced(classes(frozen)),
        "rules": fenced("\n".join(f"{e.name}  x{e.data.get('count', 1)}" for e in trace.events if e.kind == "rule")),
        "reasons": fenced(paragraph(text, 0)),
        "kernel": fenced(kernel.signature),
        "schedules": fenced(schedules(program)),
        "tile program": fenced(paragraph(text, 1)),
        "places": fenced(paragraph(text, 2)),
        "passes": fenced(" -> ".join(x["pass"] for x in steps)),
        "plan": fenced(steps[-1]["plan"]),
        "producer": fenced(excerpt(text, "if (team == 0) {", "return;"), "cpp"),
        "maca tile program": fenced(paragraph(maca.source(), 1)),
    }


# ---------------------------------------------------------------- the targets' READMEs
def first_sentence(path: Path) -> str:
    """Of a file's docstring, or the comment on top of a header."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        said = " ".join((ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].split())
    else:
        said = " ".join(x.strip("/*# ") for x in text.splitlines()[:4] if x.startswith(("//", "/*", " *", "#")) and "include" not in x)
    return re.split(r"(?<=[.:])\s+(?=[A-Z`])", said)[0].rstrip(".:").replace("|", "\\|")


def files(name: str) -> Callable[[], str]:
    """A table of a target's files."""

    def table() -> str:
        folder = ROOT / "targets" / name
        paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in (".py", ".h", ".cuh") and p.stat().st_size)
        rows = [f"| `{p.relative_to(folder).as_posix()}` | {first_sentence(p)} |" for p in paths]
        return "\n".join(["| file | what |", "|---|---|", *rows]) + "\n"

    return table


# ---------------------------------------------------------------- schedules
def directives() -> dict[str, str]:
    """The table of `autocomp.ir.directives`."""
    needs = lambda d: f" (requires {', '.join(f'`{r}`' for r in d.requires)})" if d.requires else ""
    rows = [f"| `{d.name}` | {d.what}{needs(d)} |" for d in DIRECTIVES.values()]
    return {"directives": "\n".join(["| directive | what it does |", "|---|---|", *rows]) + "\n"}


# ---------------------------------------------------------------- pages
def parts() -> dict[Path, Callable[[], Mapping[str, str]]]:
    """Each page with what its parts say today."""
    readmes = {ROOT / "targets" / t / "README.md": (lambda t=t: {"files": files(t)()}) for t in TARGETS}
    return {ROOT / "docs" / "tour.md": tour, ROOT / "docs" / "schedules.md": directives, **readmes}


def filled(page: str, said: Mapping[str, str]) -> str:
    """The page with its parts anew. Raises KeyError for a part that nothing makes."""
    return PART.sub(lambda m: f"<!-- generated: {m[1]} -->\n{said[m[1]]}<!-- end -->", page)


def main() -> int:
    for path, make in parts().items():
        before = path.read_text(encoding="utf-8")
        after = filled(before, make())
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
