"""Measurements on disk: SQLite in WAL mode, every row committed at once, so that a killed search has lost nothing.

    measurement   a schedule of a kernel at a place: its seconds, or why it failed
    tuned         a kernel whose search has begun: its untuned choice, how many schedules there are and were tried, whether it is done
    kept          the best schedules of a finished search, in order

A file that is no database is moved aside with a message and a new one is begun. Every row has a sum of its values: one that was damaged, or
edited by hand, is as if it were not there, and so is the whole search that it belongs to.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autocomp.errors import AutocompError
from autocomp.files import write_atomic
from autocomp.store import make_private
from autocomp.tune.key import Place, short_digest

FORMAT = 3
EXPORTED = 2  # of exported files
WAIT = 10.0  # seconds that a writer waits for another process
AT = ("kernel", "chip", "rules", "version")
COLUMNS = {
    "measurement": (*AT, "schedule", "status", "seconds", "predicted", "reason", "rule", "monitors"),
    "tuned": (*AT, "name", "body", "untuned", "untuned_seconds", "space", "tried", "done"),
    "kept": (*AT, "rank", "schedule", "seconds", "monitors"),
}
KEYS = {"measurement": (*AT, "schedule"), "tuned": AT, "kept": (*AT, "rank")}
KINDS = {"seconds": "REAL", "predicted": "REAL", "untuned_seconds": "REAL", "space": "INTEGER", "tried": "INTEGER", "done": "INTEGER",
         "rank": "INTEGER"}  # fmt: skip
STATUS = ("ok", "failed", "refused")


@dataclass(frozen=True)
class Measurement:
    """One schedule's outcome. `status`: ok (then `seconds`), failed (it crashed, hung, or was wrong), refused (the target cannot
    print it). `monitors`: figures of the compiled kernel."""

    schedule: str
    status: str
    seconds: float | None = None
    predicted: float = 0.0
    reason: str = ""
    rule: str = ""
    monitors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """A schedule that a search kept, with its seconds in the last race."""

    schedule: str
    seconds: float
    monitors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuned:
    """A kernel's search: `body` the kernel's stored form, `space` legal schedules, `tried` of them measured, `kept` the best in order.
    `done`: the search is over."""

    kernel: str
    place: Place
    name: str
    body: str
    untuned: str
    untuned_seconds: float
    space: int
    tried: int
    done: bool
    kept: tuple[Kept, ...] = ()


class Database:
    """An open database. `say` gets messages for people (a damaged file that was moved aside)."""

    def __init__(self, path: Path, say: Callable[[str], None] = lambda text: None) -> None:
        self.path = Path(path)
        self.damaged: set[tuple[Any, ...]] = set()  # (table, kernel, chip, rules, version) of rows that are not whole
        with self._errors("opened"):
            make_private(self.path.parent)
        try:
            self._open()
        except sqlite3.DatabaseError as e:
            if isinstance(e, sqlite3.OperationalError):
                raise _failure(self.path, "opened", e) from None
            say(f"{self.path} is no database ({e}); moved to {_move_aside(self.path)}, a new one is begun")
            with self._errors("opened"):
                self._open()

    def _open(self) -> None:
        self._db = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
        try:
            self._db.execute("PRAGMA trusted_schema=OFF")  # a file from elsewhere may have views and triggers
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found == 2:
                self._add_sums()
            elif found not in (0, FORMAT):
                raise AutocompError(f"has format {found}, this version reads {FORMAT}", where=str(self.path),
                                    hint="give another file with --database, or remove this one")  # fmt: skip
            if self._db.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("its pages are damaged")
            if not found:
                for table, columns in COLUMNS.items():
                    fields = ", ".join(f"{c} {KINDS.get(c, 'TEXT')}" for c in columns)
                    self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({fields}, sum TEXT, PRIMARY KEY ({', '.join(KEYS[table])}))")
                self._db.execute(f"PRAGMA user_version={FORMAT}")
        except BaseException:
            self._db.close()
            raise

    def _add_sums(self) -> None:
        """Format 2 had none."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._db.execute("PRAGMA user_version").fetchone() != (2,):
                return  # another process was faster
            for table, columns in COLUMNS.items():
                self._db.execute(f"ALTER TABLE {table} ADD COLUMN sum TEXT")
                for n, *row in self._db.execute(f"SELECT rowid, {', '.join(columns)} FROM {table}").fetchall():
                    self._db.execute(f"UPDATE {table} SET sum=? WHERE rowid=?", (_sum(table, row), n))
            self._db.execute(f"PRAGMA user_version={FORMAT}")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _errors(self, did: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as e:
            raise _failure(self.path, did, e) from None

    def _rows(self, text: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        with self._errors("read"):
            return self._db.execute(text, tuple(values)).fetchall()

    def _table(self, table: str, where: str, values: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Whole rows of a table; of others (a fallen bit, an edit by hand, a file from elsewhere) the keys are told to `damaged`."""
        out = []
        for *row, found in self._rows(f"SELECT {', '.join(COLUMNS[table])}, sum FROM {table}{where}", values):
            if all(map(_fits, COLUMNS[table], row)) and found == _sum(table, row):
                out.append(tuple(row))
            else:
                self.damaged.add((table, *row[: len(AT)]))
        return out

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that is written inside or nothing of it; on disk behind it."""
        with self._errors("written"), self._db:
            self._db.execute("BEGIN")
            yield

    def _put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows with their sums, in the place of those with their keys."""
        marks = ", ".join("?" * (len(COLUMNS[table]) + 1))
        self._db.executemany(f"INSERT OR REPLACE INTO {table} ({', '.join(COLUMNS[table])}, sum) VALUES ({marks})",
                             [(*r, _sum(table, r)) for r in rows])  # fmt: skip

    # ---- a search's own
    def measurements(self, kernel: str, at: Place) -> list[Measurement]:
        """Every outcome for a kernel at a place, in the order of their texts."""
        rows = self._table("measurement", f" WHERE {_WHERE} ORDER BY schedule", _at(kernel, at))
        return [Measurement(r[4], r[5], r[6], r[7], r[8], r[9], json.loads(r[10])) for r in rows]

    def add(self, kernel: str, at: Place, m: Measurement) -> None:
        """Commit one outcome."""
        with self._transaction():
            self._put("measurement", [(*_at(kernel, at), m.schedule, m.status, m.seconds, m.predicted, m.reason, m.rule,
                                       json.dumps(dict(m.monitors)))])  # fmt: skip

    def record(self, t: Tuned) -> None:
        """Commit a search's state, and what it kept."""
        at = _at(t.kernel, t.place)
        with self._transaction():
            self._db.execute(f"DELETE FROM kept WHERE {_WHERE}", at)
            self._put("kept", [(*at, i, k.schedule, k.seconds, json.dumps(dict(k.monitors))) for i, k in enumerate(t.kept, 1)])
            self._put("tuned", [(*at, t.name, t.body, t.untuned, t.untuned_seconds, t.space, t.tried, int(t.done))])

    # ---- for everybody
    def tuned(self, at: Place | None = None) -> list[Tuned]:
        """Every search, or those at a place, less those of which a row is damaged."""
        where, values = (" WHERE chip=? AND rules=? AND version=?", (at.chip, at.rules, at.version)) if at else ("", ())
        kept: dict[tuple[Any, ...], list[Kept]] = {}
        for r in self._table("kept", f"{where} ORDER BY rank", values):
            kept.setdefault(r[:4], []).append(Kept(r[5], r[6], json.loads(r[7])))
        rows = self._table("tuned", f"{where} ORDER BY name, kernel, chip, rules, version", values)
        return [Tuned(r[0], Place(r[1], r[2], r[3]), r[4], r[5], r[6], r[7], r[8], r[9], bool(r[10]), tuple(kept.get(r[:4], ())))
                for r in rows if ("kept", *r[:4]) not in self.damaged]  # fmt: skip

    def clear(self) -> int:
        """Remove everything; the number of measurements that were there."""
        ((n,),) = self._rows("SELECT count(*) FROM measurement")
        with self._transaction():
            for table in COLUMNS:
                self._db.execute(f"DELETE FROM {table}")
        with self._errors("written"):
            self._db.execute("VACUUM")
        return int(n)

    def export(self, path: Path) -> int:
        """Write all whole rows as JSON lines (one a line); their number."""
        lines = [json.dumps({"format": EXPORTED, "tables": {t: list(c) for t, c in COLUMNS.items()}})]
        rows = {table: self._table(table, f" ORDER BY {', '.join(KEYS[table])}", ()) for table in COLUMNS}
        for table, found in rows.items():
            halves = () if table == "measurement" else ("tuned", "kept")  # of a search all is whole, or nothing is handed on
            lines += [json.dumps([table, *r]) for r in found if not any((t, *r[: len(AT)]) in self.damaged for t in halves)]
        write_atomic(path, "\n".join(lines) + "\n")
        return len(lines) - 1

    def load(self, path: Path) -> int:
        """Add the rows of an exported file, all or none; rows for what is already known replace it. Raises AutocompError."""
        rows = _exported(path)
        with self._transaction():
            for table in COLUMNS:
                self._put(table, [r[1:] for r in rows if r[0] == table])
        return len(rows)


_WHERE = " AND ".join(f"{c}=?" for c in AT)


def _sum(table: str, row: Sequence[Any]) -> str:
    """Of a row's values, as the database gives them back."""
    values = [float(v) if KINDS.get(c) == "REAL" and isinstance(v, int) else v for c, v in zip(COLUMNS[table], row)]
    return hashlib.sha256(repr(values).encode(errors="surrogatepass")).hexdigest()[:16]


def _at(kernel: str, p: Place) -> tuple[str, str, str, str]:
    return kernel, p.chip, p.rules, p.version


def _exported(path: Path) -> list[list[Any]]:
    """The checked rows of an exported file."""
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(head).get("format") != EXPORTED:
            raise ValueError(f"its first line does not say format {EXPORTED}")
        rows = [json.loads(x) for x in lines]
        for n, r in enumerate(rows, 2):
            if not isinstance(r, list) or r[0] not in COLUMNS or len(r) != len(COLUMNS[r[0]]) + 1:
                raise ValueError(f"line {n} is no row")
            for c, v in zip(COLUMNS[r[0]], r[1:]):
                if not _fits(c, v):
                    raise ValueError(f"line {n}: '{c}' is {v!r}")
    except OSError as e:
        raise AutocompError(f"cannot be read: {e.strerror}", where=str(path), hint="give a file that `tune --export` wrote") from None
    except (ValueError, AttributeError, IndexError, TypeError, KeyError) as e:
        raise AutocompError(f"is no exported tuning database: {e}", where=str(path),
                            hint="give a file that `tune --export` wrote") from None  # fmt: skip
    return rows


def _fits(column: str, v: Any) -> bool:
    """Whether a value may stand in a column."""
    if column == "status":
        return v in STATUS
    if column == "seconds" and v is None:
        return True
    if column == "monitors":
        try:
            return isinstance(v, str) and isinstance(json.loads(v), dict)
        except (ValueError, RecursionError):
            return False
    kind = KINDS.get(column, "TEXT")
    if kind == "REAL":
        return isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < float("inf")
    return isinstance(v, int if kind == "INTEGER" else str)


def _failure(path: Path, did: str, e: Exception) -> AutocompError:
    """What went wrong with the file, and the next step."""
    text = str(getattr(e, "strerror", "") or e)
    hint = "give another file with --database"
    if "full" in text or "space" in text:
        hint = f"free space in {path.parent}; every measurement so far is kept, and the same command goes on from there"
    elif "unable to open" in text or "readonly" in text or "denied" in text:
        hint = f"check the permissions of {path.parent}, or give another file with --database"
    elif "locked" in text:
        hint = "another process is writing it; try again"
    return AutocompError(f"the tuning database cannot be {did}: {text}", where=str(path), hint=hint)


def _move_aside(path: Path) -> Path:
    """Rename a damaged file and its log; the new name."""
    n = 1
    while (aside := path.with_name(f"{path.name}.damaged-{n}")).exists():
        n += 1
    os.replace(path, aside)
    for suffix in ("-wal", "-shm"):
        log = path.with_name(path.name + suffix)
        if log.exists():
            os.replace(log, aside.with_name(aside.name + suffix))
    return aside


def read_tuned(path: Path, say: Callable[[str], None] = lambda text: None) -> list[Tuned]:
    """The searches that kept something, without creating or changing the file. `say` is told of damaged rows, which are left out.
    Raises AutocompError where the file cannot be read."""
    if not path.exists():
        return []
    db = Database.__new__(Database)
    db.path, db.damaged = path, set()
    try:
        db._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT, isolation_level=None)
        db._db.execute("PRAGMA trusted_schema=OFF")
        with db:
            if db._rows("PRAGMA user_version") != [(FORMAT,)]:
                raise AutocompError(f"is no tuning database of format {FORMAT}", where=str(path))
            found = [t for t in db.tuned() if t.kept]
            if db.damaged:
                say(f"{len(db.damaged)} searches have damaged rows and are left out ({path}); `autocomp tune` measures them again")
            return found
    except (sqlite3.Error, ValueError) as e:
        raise _failure(path, "read", e) from None


def stamp(found: list[Tuned]) -> str:
    """Changes when a search's outcome does."""
    return short_digest(repr([(t.kernel, t.untuned, t.untuned_seconds, t.kept) for t in found])) if found else ""
