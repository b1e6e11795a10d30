"""The tuning database: rows are kept by kernel, chip, rules and version, and what is wrong with a file is said."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import pytest

from autocomp.errors import AutocompError
from autocomp.tune.database import Database, Kept, Measurement, Tuned, read_tuned, stamp
from autocomp.tune.key import Place

HERE = Place("cpu:one", "rules", "1")
GOOD = Measurement('{"tile": [["i0", 4]]}', "ok", 1e-5, 2e-5, "", "tiling/rows", {"registers": 40.0})
BAD = Measurement('{"tile": [["i0", 8]]}', "failed", None, 2e-5, "run: killed by SIGSEGV", "tiling/rows")
SEARCH = Tuned("k", HERE, "softmax", "[]", GOOD.schedule, 1.5e-5, 7, 2, True, (Kept(GOOD.schedule, 1e-5),))


def test_rows_come_back_as_they_were(tmp_path):
    with Database(tmp_path / "t.sqlite") as db:
        db.add("k", HERE, GOOD)
        db.add("k", HERE, BAD)
        db.record(SEARCH)
    with Database(tmp_path / "t.sqlite") as db:
        assert db.measurements("k", HERE) == [GOOD, BAD]
        assert db.tuned(HERE) == [SEARCH]
    assert read_tuned(tmp_path / "t.sqlite") == [SEARCH]


@pytest.mark.parametrize("field", ["chip", "rules", "version"])
def test_another_place_knows_nothing(tmp_path, field):
    other = replace(HERE, **{field: "another"})
    with Database(tmp_path / "t.sqlite") as db:
        db.add("k", HERE, GOOD)
        db.record(SEARCH)
        assert db.measurements("k", other) == []
        assert db.tuned(other) == []


def test_a_row_is_on_disk_as_soon_as_it_is_added(tmp_path):
    with Database(tmp_path / "t.sqlite") as db:
        db.add("k", HERE, GOOD)
        other = sqlite3.connect(tmp_path / "t.sqlite")  # another process' view: the writer is still open
        assert other.execute("SELECT count(*) FROM measurement").fetchone() == (1,)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        other.close()


def test_a_finished_search_replaces_what_was_kept(tmp_path):
    with Database(tmp_path / "t.sqlite") as db:
        db.record(replace(SEARCH, kept=(Kept("{}", 1e-5), Kept(GOOD.schedule, 2e-5))))
        before = stamp(db.tuned(HERE))
        db.record(SEARCH)
        assert db.tuned(HERE) == [SEARCH]
        assert stamp(db.tuned(HERE)) != before


def test_a_search_is_recorded_whole_or_not_at_all(tmp_path):
    """What ends it between two rows (here a trigger) leaves the search as it was, with what it kept."""
    with Database(tmp_path / "t.sqlite") as db:
        db.record(SEARCH)
        other = sqlite3.connect(tmp_path / "t.sqlite")
        other.execute("CREATE TRIGGER no BEFORE INSERT ON tuned BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
        with pytest.raises(AutocompError, match="the disk is full"):
            db.record(replace(SEARCH, done=False, kept=()))
        assert db.tuned(HERE) == [SEARCH]
        other.close()


@pytest.mark.parametrize("data", [b"this is no database at all, but long enough to have a header" * 20, None])
def test_a_damaged_file_is_moved_aside_with_a_message(tmp_path, data):
    path = tmp_path / "t.sqlite"
    if data is None:  # a real one with a destroyed page
        with Database(path) as db:
            for i in range(200):
                db.add("k", HERE, replace(GOOD, schedule=f'{{"stages": {i}}}'))
        raw = bytearray(path.read_bytes())
        raw[4096:16384] = b"\xa5" * (16384 - 4096)
        path.write_bytes(raw)
    else:
        path.write_bytes(data)
    said = []
    with Database(path, said.append) as db:
        db.add("k", HERE, GOOD)
        assert db.measurements("k", HERE) == [GOOD]
    assert len(said) == 1
    assert f"moved to {path}.damaged-1, a new one is begun" in said[0]
    assert (tmp_path / "t.sqlite.damaged-1").exists()


def test_a_full_disk_is_said_and_what_was_measured_stays(tmp_path):
    with Database(tmp_path / "t.sqlite") as db:
        db.add("k", HERE, GOOD)
        (pages,) = db._db.execute("PRAGMA page_count").fetchone()
        db._db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(AutocompError, match=r"cannot be written: database or disk is full(.|\n)*every measurement so far is kept"):
            for i in range(1000):
                db.add("k", HERE, replace(GOOD, schedule=f'{{"stages": {i}}}', reason="x" * 200))
    with Database(tmp_path / "t.sqlite") as db:
        assert GOOD in db.measurements("k", HERE)


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AutocompError, match=r"t\.sqlite: the tuning database cannot be opened: (Not a directory|File exists)"):
        Database(tmp_path / "file" / "t.sqlite")


def test_a_file_that_is_a_folder_is_said(tmp_path):
    with pytest.raises(AutocompError, match=r"cannot be opened: unable to open database file(.|\n)*permissions"):
        Database(tmp_path)


def test_another_format_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "t.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.execute("CREATE TABLE precious (x)")
    db.close()
    with pytest.raises(AutocompError, match="has format 99, this version reads 3"):
        Database(path)
    assert path.exists()


def test_export_and_import_carry_everything(tmp_path):
    with Database(tmp_path / "a.sqlite") as a:
        a.add("k", HERE, GOOD)
        a.add("k", HERE, BAD)
        a.record(SEARCH)
        assert a.export(tmp_path / "a.jsonl") == 4
    with Database(tmp_path / "b.sqlite") as b:
        assert b.load(tmp_path / "a.jsonl") == 4
        assert b.measurements("k", HERE) == [GOOD, BAD]
        assert b.tuned() == [SEARCH]
        assert b.clear() == 2
        assert b.tuned() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: ["{}", *lines[1:]],
        lambda lines: [*lines, '["measurement", 1, 2]'],
        lambda lines: [*lines, '["sqlite_master", "x"]'],
        lambda lines: [lines[0], lines[1].replace('"ok"', '"fine"')],
        lambda lines: [lines[0], lines[1].replace("1e-05", '"fast"')],
        lambda lines: ["not json"],
    ],
)
def test_a_wrong_import_changes_nothing(tmp_path, change):
    with Database(tmp_path / "a.sqlite") as a:
        a.add("k", HERE, GOOD)
        a.export(tmp_path / "a.jsonl")
    path = tmp_path / "wrong.jsonl"
    path.write_text("\n".join(change((tmp_path / "a.jsonl").read_text().splitlines())))
    with Database(tmp_path / "b.sqlite") as b:
        with pytest.raises(AutocompError, match="is no exported tuning database"):
            b.load(path)
        assert b.clear() == 0


def test_the_exported_file_is_json_lines(tmp_path):
    with Database(tmp_path / "a.sqlite") as a:
        a.add("k", HERE, GOOD)
        a.export(tmp_path / "a.jsonl")
    lines = [json.loads(x) for x in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines[0]["format"] == 2
    assert lines[1][0] == "measurement"


@pytest.mark.parametrize(("table", "change"), [
    ("kept", "monitors = 3"), ("kept", "monitors = '[]'"), ("kept", "monitors = '{'"), ("kept", "schedule = NULL"),
    ("kept", "seconds = seconds / 2"), ("kept", "schedule = schedule || ' '"), ("tuned", "sum = NULL"),
    ("kept", "seconds = 'fast'"), ("kept", "seconds = -1"), ("tuned", "untuned = x'00ff'"), ("tuned", "done = 'yes'"),
])  # fmt: skip
def test_a_damaged_row_is_a_search_that_is_not_there(tmp_path, table, change):
    path = tmp_path / "t.sqlite"
    with Database(path) as db:
        db.record(SEARCH)
        db.record(replace(SEARCH, kernel="another"))
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE {table} SET {change} WHERE kernel != 'another'")
    raw.close()
    said = []
    assert [t.kernel for t in read_tuned(path, said.append)] == ["another"]
    assert "1 searches have damaged rows and are left out" in said[0]
    with Database(path) as db:
        assert [t.kernel for t in db.tuned()] == ["another"]
        db.export(tmp_path / "e.jsonl")  # what is not whole is not handed on
        db.record(SEARCH)
    assert len(read_tuned(path)) == 2
    assert said[1:] == []
    with Database(tmp_path / "b.sqlite") as b:
        b.load(tmp_path / "e.jsonl")
        assert [t.kernel for t in b.tuned()] == ["another"]


def test_a_damaged_measurement_is_made_again(tmp_path):
    path = tmp_path / "t.sqlite"
    with Database(path) as db:
        db.add("k", HERE, GOOD)
        db._db.execute("UPDATE measurement SET seconds = seconds / 10")
        assert db.measurements("k", HERE) == []
        db.add("k", HERE, GOOD)
        assert db.measurements("k", HERE) == [GOOD]


def test_a_database_of_the_format_before_gets_its_sums(tmp_path):
    path = tmp_path / "t.sqlite"
    with Database(path) as db:
        db.record(SEARCH)
        db.add("k", HERE, GOOD)
        for table in ("measurement", "tuned", "kept"):
            db._db.execute(f"ALTER TABLE {table} DROP COLUMN sum")
        db._db.execute("PRAGMA user_version=2")
    with Database(path) as db:
        assert db.tuned() == [SEARCH]
        assert db.measurements("k", HERE) == [GOOD]
        assert not db.damaged
