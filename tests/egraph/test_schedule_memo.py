"""Schedules are chosen once for a kernel: remembered in the process and on disk, never across anything that they depend on."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import autocomp
from autocomp import store
from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.egraph import choose, kernel_memo
from autocomp.egraph.kernel_memo import ScheduleMemo
from autocomp.frontends.text import parse
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.pipeline import compile_model
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace
from tests.helpers.nests import matmul
from tests.helpers.shared_files import new_cache

MODEL = "graph g\ninput x: f32[64, 96]\nparam w: f32[96, 80] = random(1)\n%0 = matmul(x, w)\n%1 = relu(%0)\noutput y = %1\n"


@pytest.fixture
def programs_are_compiled(monkeypatch):
    """Programs are compiled, schedules may be remembered (overrides the fixture of tests/conftest.py)."""
    monkeypatch.setattr("autocomp.pipeline.load_program", lambda *a: None)
    monkeypatch.setattr("autocomp.pipeline.store_program", lambda *a: None)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    new_cache(tmp_path / "cache", monkeypatch)
    kernel_memo.forget()
    yield tmp_path / "cache" / "schedules"
    kernel_memo.forget()


@pytest.fixture
def asked(monkeypatch):
    """Names of kernels whose e-graph was built."""
    names = []
    real = choose._choose
    monkeypatch.setattr(choose, "_choose", lambda k, *a: names.append(k.name) or real(k, *a))
    return names


def compiled(text=MODEL, **options):
    return compile_model(parse(text), "maca:c500", Options(**options), Trace())


def says(program):
    return [(e.kind, e.name, e.data) for e in program.trace.events if e.kind in ("schedule", "reject")]


@pytest.mark.parametrize("forget", [False, True], ids=["process", "disk"])
def test_a_kernel_is_scheduled_once_and_the_trace_says_the_same(asked, forget):
    first = compiled()
    if forget:
        kernel_memo.forget()
    second = compiled()
    assert len(asked) == len(first.kernels) == 1
    assert second.kernels == first.kernels and second.sources == first.sources
    assert says(second) == says(first) and any(kind == "reject" for kind, _, _ in says(first))


def test_cache_false_neither_reads_nor_writes(asked, folder):
    compiled(cache=False)
    assert not folder.exists()
    compiled()
    compiled(cache=False)
    assert len(asked) == 3


@pytest.mark.parametrize("damage", [
    lambda raw: raw[: len(raw) // 2], lambda raw: raw.replace(b"stages", b"stagez"), lambda raw: b"", lambda raw: bytes(range(256)),
], ids=["cut", "changed", "empty", "binary"])  # fmt: skip
def test_a_damaged_entry_is_noticed_and_written_anew(asked, folder, damage):
    first = compiled()
    (entry,) = folder.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    kernel_memo.forget()
    again = compiled()
    assert len(asked) == 2 and again.sources == first.sources
    assert [e.data["text"].startswith(f"{entry} is damaged") for e in again.trace.of("note") if e.name == "schedules cache"] == [True]
    assert entry.read_bytes() == good


def test_a_right_seal_on_something_else_is_damage_too(asked, folder):
    """The checksum does not make an entry trusted: its fields are read as data of one form."""
    compiled()
    (entry,) = folder.iterdir()
    key = json.loads(entry.read_bytes().partition(b"\n")[0])["key"]
    for text in ('{"schedule": 3}', "[]", '"x"', "null", '{"cost": {"seconds": "fast", "bound": "", "parts": []}}'):
        entry.write_bytes(store.seal(kernel_memo.FORMAT, key, text.encode()))
        kernel_memo.forget()
        note = next(e for e in compiled().trace.of("note") if e.name == "schedules cache")
        assert "is no choice" in note.data["text"]


def test_everything_that_the_choice_depends_on_is_in_the_key(monkeypatch):
    k = compiled().calls.calls[0].kernel
    rules, chip = load_rules(), load_chip("c500")
    plain = Options()

    def key(target="maca", chip=chip, rules=rules, options=plain, kernel=k):
        return ScheduleMemo(target, chip, rules, options).key(kernel)

    same = key()
    slower = replace(chip, memories=tuple(replace(m, bandwidth=m.bandwidth / 2) for m in chip.memories))
    edited = RuleSet(tuple(replace(r, where=r.where[1:]) if r.name == "tiling/gpu-contract" else r for r in rules))
    others = [key(rules=edited), key(target="cuda"), key(chip=slower), key(rules=rules.without(["tiling/gpu-skinny"])),
              key(options=Options(exact=True)),
              key(kernel=compiled(MODEL.replace("64", "65")).calls.calls[0].kernel)]  # fmt: skip
    with monkeypatch.context() as m:
        m.setattr(kernel_memo, "package_stamp", lambda: "edited")
        others.append(key())
    assert len({same, *others}) == 1 + len(others)
    assert key(rules=rules.without(["fusion/*"]), options=Options(cache=False)) == same  # these change no schedule


def test_a_folder_that_cannot_be_written_costs_one_note(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "file"))
    program = compiled(MODEL.replace("output y = %1", "%2 = softmax(%1, axes=[1])\noutput y = %1\noutput z = %2"))
    notes = [e.data["text"] for e in program.trace.of("note") if e.name.endswith("cache")]
    assert len(program.kernels) == 2 and len(notes) == 1 and f"{tmp_path / 'file'} cannot be used" in notes[0]


def test_another_process_finds_it(folder):
    program = compiled()
    code = (
        "from autocomp.frontends.text import parse; from autocomp.pipeline import compile_model; from autocomp.options import Options\n"
        "from autocomp.trace import Trace; from autocomp.egraph import choose; choose._choose = None  # would fail if it were asked\n"
        f"p = compile_model(parse({MODEL!r}), 'maca:c500', Options(), Trace()); print(p.kernels[0].schedule)"
    )
    root = Path(autocomp.__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout == program.kernels[0].schedule + "\n", run.stderr


def test_readers_beside_writers_see_whole_entries(folder):
    k = compiled().calls.calls[0].kernel
    memo = ScheduleMemo("maca", load_chip("c500"), load_rules(), Options())
    rules, chip, demand = load_rules(), load_chip("c500"), demand_of(k)
    (found,) = choose.found_together([k], [demand.roles], rules, chip, Options())
    choice = choose._choose(k, demand, found, rules, chip, Options(), Trace(), None)

    def work(_: int) -> list[object]:
        trace = Trace()
        memo.put(k, choice, trace)
        kernel_memo.forget()
        return [memo.get(k, trace) == choice, trace.events]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(60))) == [[True, []]] * 60
    assert not [f for f in folder.iterdir() if f.name.startswith(".")]


def test_combinations_are_looked_for_once_for_products_that_differ_in_depth():
    rules, chip = load_rules(), load_chip("h200")
    shared: choose.Joined = {}
    out = []
    for depth in (4096, 8192):
        k = matmul(64, 80, depth)
        split = Schedule.make({"m": 32, "n": 32, "k": 32}, split=("k", 4))
        out.append(choose.Joins(k, rules, chip, Options(), None, shared).complete(split).join)
        assert out[-1] == choose.Joins(k, rules, chip, Options()).complete(split).join
    assert len(shared) == 1 and out[0] == out[1]
