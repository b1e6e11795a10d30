"""One call to the system fails (a full disk, no permission, a broken device, ...): no traceback, nothing half-written is read.

    python -m benchmarks.fuzz.faults optimize            # every call of a scenario with every error, one line for each that fails
    python -m benchmarks.fuzz.harness faults --count 500  # drawn ones

A case: a scenario, which of its calls fails, how. Calls are open, read, write, rename, mkdir, fsync, ... on files below the case's folder
(cache, outputs, database, temporary files), of Python's own and of SQLite's, and fork; beside them what a compiler can do wrong. Then: the
result is right or an AutocompError, a command exits with 0, 1, 2 or 3; the same again without a fault is right, with what is left.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from typing import Any

from benchmarks.fuzz.record import import_paths
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "faults"
HERE = Path(__file__).parent
LIMIT = 60.0  # seconds of one case; over it is a hang
SHORT = -1
ERRORS = {"ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES, "EIO": errno.EIO, "EROFS": errno.EROFS, "EINTR": errno.EINTR, "short": SHORT}
STICKY = ("ENOSPC", "EROFS")  # what stays so
COMPILER = {  # what takes the compiler's place at one of its calls; the others go to the real one
    "exit 1": "exit 1", "signal": "kill -SEGV $$", "garbage": 'head -c 5000 /dev/urandom >&2; exit 1', "hang": "sleep 1000",
    "nothing": "exit 0", "rubbish": 'for last; do :; done; for f; do [ "$o" = 1 ] && echo rubbish > "$f"; o=0; [ "$f" = -o ] && o=1; done',
    "gone": 'rm -f "$0"; exit 1',
}  # fmt: skip
GRAPH = "graph g\ninput x: f32[12, 8]\nparam w: f32[8, 16] = random(3)\n%0 = matmul(x, w)\n%1 = exp(%0)\noutput y = %1\n"


@dataclass(frozen=True)
class Case:
    """`at`: the call that fails, as a share of the scenario's calls. `how`: of ERRORS or COMPILER."""

    scenario: str
    at: float
    how: str

    def text(self) -> str:
        return f"{self.scenario}: the call at {self.at:.3f} of its calls fails with {self.how}"


def draw(seed: int) -> Case:
    r = Random(seed)
    how = r.choice([*ERRORS, *ERRORS, *COMPILER])
    return Case(r.choice([s for s in SCENARIOS if how in ERRORS or s in BUILDING]), r.random(), how)


def check(case: Case) -> Verdict:
    calls = total(case.scenario, case.how in COMPILER)
    return ask(case.scenario, int(case.at * calls), case.how)[0]


def smaller(case: Case) -> Iterator[Case]:
    yield from ()


# ---- scenarios: each gives nothing back, and raises where what it got is not right
def _program(where: Path) -> Any:
    import numpy as np

    import autocomp

    program = autocomp.optimize(GRAPH)
    if program.runnable:
        x = np.linspace(-1, 1, 96, dtype="f4").reshape(12, 8)
        np.testing.assert_allclose(program(x), np.exp(x @ program.graph.param("w")), rtol=1e-4)
    return program


def optimize(where: Path) -> None:
    _program(where)


def warm(where: Path) -> None:
    """From a cache that was filled before."""
    _program(where)


def save(where: Path) -> None:
    from autocomp.report.compare import compare

    program = _program(where)
    try:
        program.save(where / "out")
    finally:
        LATER.append(lambda: saved_is_whole(where / "out", program))
    assert compare(where / "out", where / "out").a.sources == program.sources


LATER: list[Callable[[], None]] = []  # looks of this net at what is left, which no fault may hit


def saved_is_whole(folder: Path, program: Any) -> None:
    """A folder with a manifest is one that was saved to its end."""
    if (folder / "manifest.json").exists():
        for name in json.loads((folder / "manifest.json").read_text())["sources"]:
            assert (folder / name).read_text() == program.sources[name], name
        assert (folder / "build.sh").stat().st_mode & 0o100, "build.sh may not be executed"
        assert (folder / "weights.npz").stat().st_size > 100


def _command(*words: str) -> None:
    from autocomp.errors import AutocompError
    from tests.helpers.command_line import call

    code, _, said = call(*words)
    assert code in (0, 1, 2, 3), f"exit {code}: {said[-800:]}"
    assert "Traceback" not in said, said
    if code:
        assert said.strip(), f"exit {code} without a word"
        raise AutocompError(said)


def cli(where: Path) -> None:
    _command("optimize", str(where / "model.txt"), "-o", str(where / "out"), "--report", str(where / "r.html"),
             "--vis-graph", str(where / "g.html"), "--json")  # fmt: skip
    LATER.append(lambda: _ended(where / "r.html"))
    LATER.append(lambda: _ended(where / "g.html"))


def _ended(page: Path) -> None:
    assert page.read_text().rstrip().endswith("</html>"), page.name


def run(where: Path) -> None:
    _command("run", str(where / "model.txt"), "-o", str(where / "y.npz"), "--repeat", "1", "--json")
    LATER.append(lambda: _shaped(where / "y.npz"))


def _shaped(file: Path) -> None:
    import numpy as np

    with np.load(file) as data:
        assert data["y"].shape == (12, 16)


def database(where: Path) -> None:
    """What was acknowledged is there, also after a failure; what is exported can be read."""
    from autocomp.tune.database import Database, Kept, Measurement, Tuned
    from autocomp.tune.key import Place

    at, acknowledged = Place("cpu", "rules", "1"), set()
    path = where / "cache" / "t.sqlite"
    try:
        with Database(path) as db:
            for k in range(3):
                db.add("kernel", at, Measurement(f'{{"tile": {k}}}', "ok", 1.0 + k))
                acknowledged.add(f'{{"tile": {k}}}')
            db.record(Tuned("kernel", at, "name", "body", "{}", 1.0, 3, 3, True, (Kept("{}", 1.0),)))
            db.export(where / "export")
            db.load(where / "export")
    finally:
        KNOWN.update(acknowledged)
    with Database(path) as db:
        assert {m.schedule for m in db.measurements("kernel", at)} >= KNOWN, "measurements are lost"
        assert [k.seconds for k in db.tuned()[0].kept] == [1.0]


KNOWN: set[str] = set()  # acknowledged measurements of a case, whose process is its own


def tune(where: Path) -> None:
    _command("tune", str(where / "model.txt"), "-n", "2", "--json", "--jobs", "1")


SCENARIOS: dict[str, Callable[[Path], None]] = {f.__name__: f for f in (optimize, warm, save, cli, run, database, tune)}
BUILDING = ("optimize", "cli", "run")


# ---- the process of one case, with `faults.c` loaded before everything
def alone(scenario: str, number: str, how: str) -> None:
    """Print the answer of a case as the last line, JSON."""
    faulthandler.dump_traceback_later(LIMIT - 5)  # where it hangs
    os.environ.pop("LD_PRELOAD")
    shim = ctypes.CDLL(None)
    shim.fault_hit.restype = ctypes.c_char_p
    subprocess._USE_VFORK = False  # type: ignore[misc]  # which the shim could not see
    try:
        answer = one(shim, scenario, int(number), how)
    except BaseException as e:  # whatever it is, it is what the net is for
        answer = ["wrong", f"{shim.fault_hit().decode() or how}: {e!r}\n{traceback.format_exc()[-3000:]}", 0]
    print(json.dumps(answer), flush=True)


def one(shim: Any, scenario: str, number: int, how: str) -> list[Any]:
    """["right" | "refused" | "wrong", detail, number of calls]."""
    from autocomp import store
    from autocomp.errors import AutocompError

    where = Path(os.environ["FAULTS"]) / "case"
    for name in ("cache", "tmp", "calls"):
        (where / name).mkdir(mode=0o700, parents=True)
    (where / "model.txt").write_text(GRAPH)
    os.environ |= {"AUTOCOMP_CACHE": str(where / "cache"), "TMPDIR": str(where / "tmp"),
                   "AUTOCOMP_BUILD_SECONDS": "3" if how == "hang" else "100",
                   "XDG_CONFIG_HOME": str(where / "config"), "OMP_NUM_THREADS": "1"}  # fmt: skip
    tempfile.tempdir = None
    store._private_of.cache_clear()
    run_it = SCENARIOS[scenario] if scenario in SCENARIOS else resolve_name(scenario)  # a name with its module: the tests' own
    if scenario == "warm":
        run_it(where)
        _forget()
    compiler = how in COMPILER
    if compiler or number < 0:
        wrapped(where, number, COMPILER.get(how, "exit 1"))
    else:
        shim.fault_arm(str(where).encode(), number, ERRORS[how], how in STICKY)
    if number < 0 and not compiler:
        shim.fault_arm(str(where).encode(), -1, 0, 0)
    try:
        run_it(where)
        said = ""
    except AutocompError as e:
        said = str(e)
    finally:
        calls, hit = shim.fault_count(), shim.fault_hit().decode()
        shim.fault_disarm()
        _look()
    if number < 0:
        assert not said, said
        count = len(list((where / "calls").iterdir())) if compiler else calls
        return ["right", "", count]
    os.environ.pop("CC", None)
    os.environ["AUTOCOMP_BUILD_SECONDS"] = "100"
    _forget()
    run_it(where)
    _look()
    return ["refused" if said else "right", f"{hit or how}: {said}", calls]


def _look() -> None:
    for look in LATER:
        look()
    LATER.clear()


def _forget() -> None:
    """As a new process would begin."""
    from autocomp.egraph import kernel_memo
    from autocomp.runtime import build

    kernel_memo.forget()
    build._loaded.clear()


def wrapped(where: Path, number: int, body: str) -> None:
    """$CC is a script that does `body` at call `number`."""
    real, script = shutil.which("cc"), where / "cc"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\nn=$(ls "{where}/calls" | wc -l); : > "{where}/calls/$$"\n'
                      f'if [ "$n" -eq {number} ]; then {body}; exit; fi\nexec {real} "$@"\n')  # fmt: skip
    script.chmod(0o755)
    os.environ["CC"] = str(script)


@lru_cache(maxsize=1)
def shim() -> str:
    """Path of the compiled `faults.c`."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    atexit.register(shutil.rmtree, folder, True)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", folder / "shim.so", HERE / "faults.c", "-ldl"], check=True)
    return str(folder / "shim.so")


def ask(scenario: str, number: int, how: str) -> tuple[Verdict, int]:
    """(verdict, number of calls) of one case in a process of its own."""
    env = {**os.environ, "LD_PRELOAD": shim(), "PYTHONPATH": import_paths()}
    code = "from benchmarks.fuzz.faults import alone; import sys; alone(*sys.argv[1:])"
    command = [sys.executable, "-c", code, scenario, str(number), how]
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, open(f"{folder}/out", "w+b") as out:  # a pipe may be held open
        child = subprocess.Popen(command, env={**env, "FAULTS": folder}, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                 start_new_session=True)  # fmt: skip
        try:
            ended: int | None = child.wait(LIMIT)
        except subprocess.TimeoutExpired:
            ended = None
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        out.seek(0)
        said = out.read().decode(errors="replace")
    if ended is None:
        return Verdict("wrong", f"hang: over {LIMIT:g} s\n{said[-3000:]}"), 0
    try:
        kind, detail, calls = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        return Verdict("wrong", f"it ended with {ended} and no answer\n{said[-3000:]}"), 0
    return (RIGHT if kind == "right" else Verdict(kind, detail)), calls


@lru_cache(maxsize=64)
def total(scenario: str, compiler: bool) -> int:
    """How many calls a scenario makes."""
    verdict, calls = ask(scenario, -1, next(iter(COMPILER)) if compiler else "EIO")
    assert verdict.kind == "right", verdict.detail
    return calls


def main() -> None:
    bad = 0
    for scenario in sys.argv[1:] or SCENARIOS:
        tally: dict[str, int] = {}
        for how in (*ERRORS, *(COMPILER if scenario in BUILDING else ())):
            for number in range(total(scenario, how in COMPILER)):
                v = ask(scenario, number, how)[0]
                tally[v.kind] = tally.get(v.kind, 0) + 1
                if v.kind == "wrong":
                    print(f"{scenario} {number} {how}: {v.detail}", flush=True)
        bad += tally.get("wrong", 0)
        print(f"{scenario}: {total(scenario, False)} calls; {tally}", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
