"""The house: fences between packages, one direction of imports, data packages installed."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# In pipeline order: a package may import itself and those before it.
ORDER = [
    "version",
    "errors",
    "quick",
    "forks",
    "limits",
    "options",
    "trace",
    "budget",
    "deadline",
    "files",
    "store",
    "commands",
    "workers",
    "ir",
    "frontends",
    "rewrite",
    "loops",
    "cost",
    "egraph",
    "tile",
    "targets",
    "runtime",
    "simulate",
    "check",
    "tune",
    "report",
    "pipeline",
    "onnx_backend",
    "torch_compile",
    "cli",
    "__main__",
]
FENCES = {"egglog": "autocomp/egraph", "islpy": "autocomp/loops"}
SOURCES = sorted([*ROOT.glob("autocomp/**/*.py"), *ROOT.glob("targets/**/*.py")])


@cache
def statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """(import, at import time) of a file, those under TYPE_CHECKING left out. Each file is read once: several tests ask."""
    text = path.read_text()
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    branches = [n for n in nodes if isinstance(n, ast.If)] if "TYPE_CHECKING" in text else []
    checks = [n for n in branches if "TYPE_CHECKING" in ast.unparse(n.test)]
    skip = {id(n) for i in checks for n in ast.walk(i)}
    top = {id(n) for n in tree.body}
    return [(n, id(n) in top) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom) and id(n) not in skip]


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, at import time) for every import, those under TYPE_CHECKING left out."""
    out = []
    for n, top in statements(path):
        if isinstance(n, ast.Import):
            out += [(a.name, top) for a in n.names]
        else:
            base = n.module or ""
            out += [(f"{base}.{a.name}" if base == "autocomp" else base, top) for a in n.names]
    return out


def place(path: Path) -> str:
    rel = path.relative_to(ROOT).parts
    return "targets" if rel[0] == "targets" else rel[1].removesuffix(".py")


def dotted(path: Path) -> str:
    rel = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("autocomp", *rel) if rel[0] == "targets" else rel).removesuffix(".__init__")


def test_files_import_each_other_in_no_circle():
    """Not even inside of functions."""
    files = {dotted(p): p for p in SOURCES}
    uses: dict[str, set[str]] = {}
    for name, p in files.items():
        named = [f"{n.module}.{a.name}" for n, _ in statements(p) if isinstance(n, ast.ImportFrom) for a in n.names]
        uses[name] = {u if u in files else u.rpartition(".")[0] for u in named} & files.keys() - {name}
    circles = []
    for start in sorted(files):
        seen, stack = set(), [start]
        while stack:
            for u in uses[stack.pop()]:
                if u == start:
                    circles.append(start)
                    stack.clear()
                    break
                if u not in seen:
                    seen.add(u)
                    stack.append(u)
    assert not circles, f"these files are in a circle of imports: {', '.join(circles)}"


@pytest.mark.parametrize("library", FENCES)
def test_library_is_imported_in_its_package_only(library):
    users = {str(p.relative_to(ROOT)) for p in SOURCES if any(m.split(".")[0] == library for m, _ in imports(p))}
    outside = sorted(u for u in users if not u.startswith(FENCES[library] + "/"))
    assert not outside, f"{library} is imported outside {FENCES[library]}: {outside}"
    assert users, f"nothing imports {library}: is the stage still there?"


def test_imports_point_one_way():
    wrong = []
    for p in SOURCES:
        here = place(p)
        if here == "__init__":
            continue
        for module, _ in imports(p):
            parts = module.split(".")
            if parts[0] == "autocomp" and len(parts) > 1 and parts[1] in ORDER and ORDER.index(parts[1]) > ORDER.index(here):
                wrong.append(f"{p.relative_to(ROOT)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_every_package_has_a_place_in_the_order():
    inside = [p for p in (ROOT / "autocomp").iterdir() if not p.is_symlink()]  # a link to rules/ and the like is no package of the order
    found = {p.name.removesuffix(".py") for p in inside if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert found - {"__init__"} <= set(ORDER), found - set(ORDER)


@pytest.mark.parametrize("package", ["rules", "cost_models", "targets"])
def test_data_packages_are_importable(package):
    from importlib.resources import files

    assert any(True for f in files(f"autocomp.{package}").iterdir())


def test_no_property_is_computed_under_a_lock_of_all_objects():
    """A forked child may find it shut: `forks.kept_property`."""
    shared = re.compile(r"^from functools import .*cached_property|functools\.cached_property\(", re.M)
    named = [p.name for p in SOURCES if shared.search(p.read_text())]
    assert not named


def test_nothing_names_a_path_of_one_machine():
    named = [p for p in SOURCES if "/home/" in p.read_text() or "/root/" in p.read_text()]
    assert not named


def test_other_programs_are_started_in_two_places():
    """`commands` has a limit and a group for each; `workers` are ended by who waits for them."""
    modules, functions = ("subprocess", "multiprocessing", "pty"), ("os.system(", "os.popen(", "os.exec", "os.spawn")
    users = {p for p in SOURCES if any(m.split(".")[0] in modules for m, _ in imports(p)) or any(f in p.read_text() for f in functions)}
    assert {str(p.relative_to(ROOT)) for p in users} == {"autocomp/commands.py", "autocomp/workers.py"}


def test_files_of_tests_have_names_of_their_own():
    """pytest imports them by their names alone."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(n for n in set(names) if names.count(n) > 1) == []


def test_text_is_read_and_written_in_utf_8_wherever_it_runs():
    """A locale's encoding holds neither what our pages have nor what people call their files."""
    named = [f"{p.name}:{n.lineno}" for p in SOURCES if "_text(" in p.read_text() for n in ast.walk(ast.parse(p.read_text()))
             if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("read_text", "write_text")
             and not {"encoding", None} & {k.arg for k in n.keywords}]  # fmt: skip
    assert not named
