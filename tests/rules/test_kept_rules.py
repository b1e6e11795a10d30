"""The shipped rules are read from their files once: later processes take them from the cache folder."""

from __future__ import annotations

import os
import pickle
import zlib
from pathlib import Path

import pytest

from autocomp.options import Options
from autocomp.rewrite import load, load_rules


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, in a process that has read no rules."""
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(load, "_SHIPPED", {})
    return tmp_path / "cache" / "rules"


def read_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As a process that begins now; the files of rules that it reads."""
    read: list[str] = []
    parse = load.parse_rules
    monkeypatch.setattr(load, "parse_rules", lambda text, file: read.append(file) or parse(text, file))  # type: ignore[func-returns-value]
    load.forget_shipped()
    return read


def test_a_later_process_reads_no_file_and_has_the_same_rules(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_rules()
    read = read_again(monkeypatch)
    again = load_rules()
    assert not read and again is not first
    assert [repr(r) for r in again] == [repr(r) for r in first]
    assert [(r.where_text, r.choices_at, r.text) for r in again] == [(r.where_text, r.choices_at, r.text) for r in first]
    assert load_rules().rules[0] is again.rules[0]  # once in a process


def test_without_the_cache_nothing_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_rules(options=Options(cache=False))
    assert not cache.exists()
    read = read_again(monkeypatch)
    load_rules()
    assert read


def test_rules_of_another_package_are_not_taken(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_rules()
    monkeypatch.setattr(load, "package_stamp", lambda: "another")
    read = read_again(monkeypatch)
    load_rules()
    assert read and len(list(cache.iterdir())) == 2
    monkeypatch.setattr(load, "package_stamp", lambda: "x edited while process 1 ran")  # which no other process asks for
    load.forget_shipped()
    load_rules()
    assert len(list(cache.iterdir())) == 2


class Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (os.environ["AUTOCOMP_CACHE"] + "/ran",)


@pytest.mark.parametrize("how", ["checksum", "contents", "code"])
def test_what_is_damaged_is_read_anew_and_runs_nothing(cache: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_rules()
    (entry,) = cache.iterdir()
    if how == "checksum":
        entry.write_bytes(entry.read_bytes()[:-1])
    else:
        data = pickle.dumps(Runs()) if how == "code" else pickle.dumps(first.rules)[:-9]
        monkeypatch.setattr(load, "read_entry", lambda *of: zlib.compress(data))
    read = read_again(monkeypatch)
    assert [repr(r) for r in load_rules()] == [repr(r) for r in first] and read
    assert not (cache.parent / "ran").exists()
