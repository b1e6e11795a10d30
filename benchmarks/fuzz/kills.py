"""Processes are killed at random moments over one cache and one tuning database: nothing is lost, nothing damaged is read.

    python -m benchmarks.fuzz.kills --count 100 [--seed 0]

Each compiles, runs, writes measurements and saves. Two at a time share the cache, the database and the saved folders; one of them is killed
(SIGKILL, its children too). After a round of kills every measurement that was acknowledged is in the database, a saved folder with a
manifest is whole, and a process that is not killed compiles, runs right, and finds no damaged entry.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fuzz.record import import_paths

GRAPH = "graph g\ninput x: f32[{n}, 8]\nparam w: f32[8, 16] = random(3)\n%0 = matmul(x, w)\n%1 = exp(%0)\noutput y = %1\n"
ROUND = 10  # kills between two looks at everything
WORK = '''
import sys
from pathlib import Path
import numpy as np
import autocomp
from autocomp.tune.database import Database, Measurement
from autocomp.tune.key import Place
folder, seed, kill = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "kill"
say = lambda text: print(text, flush=True)
at = Place("cpu", "rules", "1")
say("begun")
for k in range(1000 if kill else 1):
    n = 3 + (seed + k) % 7
    trace = autocomp.Trace()
    program = autocomp.optimize({graph!r}.replace("{{n}}", str(n)), trace=trace)
    x = np.ones((n, 8), "f4")
    np.testing.assert_allclose(program(x), np.exp(x @ program.graph.param("w")), rtol=1e-4)
    for e in trace.of("note"):
        if "damaged" in e.data.get("text", "") or "cannot be loaded" in e.data.get("text", ""):
            say("DAMAGED " + e.data["text"])
    with Database(folder / "t.sqlite", say=lambda text: say("DAMAGED " + text)) as db:
        for j in range(20):
            db.add("kernel", at, Measurement(f"{{seed}}-{{k}}-{{j}}", "ok", float(seed + j)))
            say(f"ADDED {{seed}}-{{k}}-{{j}} {{float(seed + j)}}")
    program.save(folder / "out" / str(n))
say("ended")
'''


@dataclass
class Tally:
    """What was seen. `lost`: acknowledged measurements that are not there or not the same; `bad`: everything else that was wrong."""

    kills: int = 0
    acknowledged: dict[str, float] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    died: Counter[str] = field(default_factory=Counter)

    def hear(self, said: str) -> None:
        """Read what a process printed."""
        for line in said.splitlines():
            if line.startswith("ADDED ") and line.count(" ") == 2:
                _, name, seconds = line.split()
                self.acknowledged[name] = float(seconds)
            elif line.startswith("DAMAGED"):
                self.bad.append(line)

    def look(self, folder: Path) -> None:
        """Everything that was acknowledged is there."""
        from autocomp.report.compare import compare
        from autocomp.tune.database import Database
        from autocomp.tune.key import Place

        with Database(folder / "t.sqlite", say=self.bad.append) as db:
            there = {m.schedule: m.seconds for m in db.measurements("kernel", Place("cpu", "rules", "1"))}
        self.lost += [k for k, s in self.acknowledged.items() if there.get(k) != s]
        for out in (folder / "out").glob("*/manifest.json"):
            try:
                compare(out.parent, out.parent)
                json.loads(out.read_text())
                assert (out.parent / "build.sh").stat().st_mode & 0o100
                assert (out.parent / "weights.npz").stat().st_size
            except Exception as e:
                self.bad.append(f"{out.parent}: {e!r}")


def start(folder: Path, seed: int, kill: bool) -> tuple[subprocess.Popen[bytes], Path]:
    """A process at work, and the file of what it says."""
    env = {**os.environ, "AUTOCOMP_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), "PYTHONPATH": import_paths()}
    said = folder / f"said-{seed}"
    command = [sys.executable, "-c", WORK.format(graph=GRAPH), str(folder), str(seed), "kill" if kill else "end"]
    with open(said, "wb") as out:
        child = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
    return child, said


def rounds(count: int, seed: int, folder: Path) -> Tally:
    """`count` kills over one folder."""
    tally, r = Tally(), random.Random(seed)
    (folder / "tmp").mkdir()
    beside: tuple[subprocess.Popen[bytes], Path] | None = None
    for k in range(count):
        child, said = start(folder, seed + k, kill=True)
        begun = time.monotonic()
        while "begun" not in said.read_text() and time.monotonic() < begun + 60 and child.poll() is None:
            time.sleep(0.02)
        time.sleep(r.choice((r.uniform(0, 0.3), r.uniform(0, 3))))
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        text = said.read_text(errors="replace")
        tally.died[str(child.returncode)] += 1
        if child.returncode != -signal.SIGKILL:
            tally.bad.append(f"seed {seed + k} ended by itself with {child.returncode}: {text[-1500:]}")
        tally.kills += 1
        tally.hear(text)
        if beside is not None and beside[0].poll() is not None:
            ended(beside, tally)
            beside = None
        if beside is None:
            beside = start(folder, seed + 100_000 + k, kill=False)
        if (k + 1) % ROUND == 0 or k + 1 == count:
            ended(beside, tally)
            beside = None
            ended(start(folder, seed + 200_000 + k, kill=False), tally)
            tally.look(folder)
    return tally


def ended(one: tuple[subprocess.Popen[bytes], Path], tally: Tally) -> None:
    """Wait for a process that nobody kills: it must come to its end."""
    child, said = one
    try:
        child.wait(120)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    text = said.read_text(errors="replace")
    tally.hear(text)
    if child.returncode or "ended" not in text:
        tally.bad.append(f"a process that was not killed ended with {child.returncode}: {text[-1500:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as folder:
        tally = rounds(a.count, a.seed, Path(folder))
        left = [str(p) for p in (Path(folder) / "cache").rglob("work-*")]
    for text in tally.bad:
        print("BAD", text)
    print(f"{tally.kills} kills: {len(tally.acknowledged)} measurements were acknowledged, {len(tally.lost)} lost; {len(tally.bad)} other "
          f"failures; {len(left)} work folders left")  # fmt: skip
    return 1 if tally.lost or tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
