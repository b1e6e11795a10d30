"""What was run, in one SQLite file: a row a case, by generator, version and seed. A run that is killed goes on where it was."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BAD = ("wrong", "traceback", "crash", "hang")
KINDS = ("right", "refused", *BAD)


def import_paths() -> str:
    """PYTHONPATH of a process that imports this package and what its parent was given."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def version() -> str:
    """A digest of everything that a case depends on: the package, its rules, chips, targets, and the generators."""
    h = hashlib.sha256()
    for folder in ("autocomp", "rules", "cost_models", "targets", "benchmarks/fuzz"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".h", ".cuh") and "__pycache__" not in path.parts:
                h.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return h.hexdigest()[:12]


class Record:
    """Cases that ran. `generator`: its name, with the target where that is not the CPU (`graphs@cuda:h200`)."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=60)
        self._db.execute("pragma synchronous = off")  # a row a case: to wait for the disk takes longer than many cases; a kill loses none
        self._db.execute("create table if not exists cases (generator text, version text, seed integer, kind text, seconds real, "
                         "detail text, primary key (generator, version, seed))")  # fmt: skip

    def add(self, generator: str, version: str, seed: int, kind: str, seconds: float, detail: str) -> None:
        with self._db:
            self._db.execute("insert or replace into cases values (?, ?, ?, ?, ?, ?)",
                             (generator, version, seed, kind, seconds, "" if kind == "right" else detail))  # fmt: skip

    def seeds(self, generator: str, version: str | None = None) -> set[int]:
        """Seeds that ran, with this version or with any."""
        rows = self._db.execute("select seed from cases where generator = ? and (? is null or version = ?)", (generator, version, version))
        return {seed for (seed,) in rows}

    def failed(self, generator: str) -> set[int]:
        """Seeds that failed with any version: they are run again first."""
        marks = ",".join("?" * len(BAD))
        return {s for (s,) in self._db.execute(f"select seed from cases where generator = ? and kind in ({marks})", (generator, *BAD))}

    def counts(self, version: str) -> dict[str, Counter[str]]:
        """Generator -> kind -> number of cases of a version."""
        out: dict[str, Counter[str]] = {}
        rows = self._db.execute("select generator, kind, count(*) from cases where version = ? group by 1, 2", (version,))
        for generator, kind, n in rows:
            out.setdefault(generator, Counter())[kind] = n
        return out

    def seconds(self, version: str) -> dict[str, float]:
        """Generator -> seconds that its cases took with a version."""
        return dict(self._db.execute("select generator, sum(seconds) from cases where version = ? group by 1", (version,)))

    def reasons(self, generator: str, version: str, kind: str = "refused") -> Counter[str]:
        rows = self._db.execute("select detail from cases where generator = ? and version = ? and kind = ?", (generator, version, kind))
        return Counter(detail.splitlines()[0] if detail else "" for (detail,) in rows)

    def slowest(self, generator: str, version: str) -> float:
        (t,) = self._db.execute("select max(seconds) from cases where generator = ? and version = ?", (generator, version)).fetchone()
        return float(t or 0.0)

    def table(self, version: str) -> str:
        """One line a generator, one for all."""
        counts = self.counts(version)
        lines = [f"{'generator':<28}{'cases':>8}" + "".join(f"{k:>11}" for k in KINDS) + f"{'slowest s':>11}"]
        for generator in sorted(counts):
            c, slowest = counts[generator], self.slowest(generator, version)
            lines.append(f"{generator:<28}{c.total():>8}" + "".join(f"{c[k]:>11}" for k in KINDS) + f"{slowest:>11.1f}")
        every = sum(counts.values(), Counter())
        lines.append(f"{'all':<28}{every.total():>8}" + "".join(f"{every[k]:>11}" for k in KINDS))
        return "\n".join(lines)
