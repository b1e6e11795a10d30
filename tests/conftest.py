"""Shared set-up: tests draw the same inputs and examples on every run (tests/helpers/fresh.py says how they explore). `--as-cpu zen5`
runs the suite as on another make of CPU. The last line of a run says what was left out and how to run it."""

from __future__ import annotations

import os

# read when NumPy and OpenMP are loaded: threads that have nothing to do wait without taking a core from the run's other processes
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import ast
import gc
import shutil
import signal
import tempfile
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from autocomp.targets.cpu import toolchain
from hypothesis import HealthCheck, settings

from autocomp.simulate.simt_model import COMPILER, compile_model
from tests.helpers import fresh
from tests.helpers.hosts import HOSTS, as_cpu, cpu_chip, price_for
from tests.helpers.kept_builds import kept
from tests.helpers.replayed import Replayed
from tests.helpers.shared_files import once

# no time decides about a test: the machine may be busy
settings.register_profile("kept", derandomize=fresh.SEED == fresh.KEPT, print_blob=True, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
settings.load_profile("kept")


pytest_plugins = ["tests.helpers.crashes"]


@pytest.fixture
def fresh_dynamo():
    """torch.compile without what it compiled before, and torch's random numbers from their beginning."""
    torch = import_module("torch")
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def priced_for_a_xeon(monkeypatch):
    """`cpu` is one stated make, whatever machine runs the test: choices stand on its vectors, registers and caches. Nothing may be run."""
    price_for(monkeypatch, cpu_chip("xeon"))


def pytest_addoption(parser):
    parser.addoption("--as-cpu", choices=sorted(HOSTS), help="price and print for this make of CPU instead of the one that is here")


def pytest_report_header(config):
    return f"random inputs: AUTOCOMP_TEST_SEED={fresh.SEED}"


def pytest_collectstart(collector):
    """What a file draws while it is read."""
    fresh.start()


def pytest_collection_finish(session):
    """What was imported and collected lives to the end: the collector of cycles, off until now, looks at it no more, and less often at the
    rest. With Python's own limits it took one second of every twenty that the suite runs."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(1_000_000, 10, 10)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """What fixtures draw that several tests share."""
    fresh.start()


@pytest.fixture(autouse=True)
def inputs_of_its_own():
    """Each test draws the same inputs whether it runs alone or behind others."""
    fresh.start()


def pytest_configure(config):
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells have it for what they start in the background: tests send it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput") and not os.environ.get("AUTOCOMP_TEST_RUN"):
        config.stash[RUN] = os.environ["AUTOCOMP_TEST_RUN"] = tempfile.mkdtemp(prefix="autocomp-tests-")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # it costs every process that a test starts a third of its beginning
    if name := config.getoption("--as-cpu"):
        here = as_cpu(name)
        for module in ("autocomp.cost.host", "autocomp.cost.chip", "autocomp.cost.calibrate", "autocomp.report.doctor"):
            import_module(module).facts = lambda: here


WAYS = {  # a word of a reason -> how those tests are run
    "torch": "make test TORCH=1",
    "CUDA device": "pytest tests/gpu on a machine with an NVIDIA GPU",
}


def pytest_terminal_summary(terminalreporter, config):
    """What was left out, by reason, and how to run it: the last line of `make test`."""
    reasons: Counter[str] = Counter()
    for r in terminalreporter.stats.get("skipped", []):
        why = r.longrepr[2] if isinstance(r.longrepr, tuple) else str(r.longrepr)
        reasons[why.removeprefix("Skipped: ")] += 1 if r.when else _tests_in(Path(config.rootpath) / r.nodeid)
    config.stash[LEFT_OUT] = reasons


def pytest_unconfigure(config):
    if folder := config.stash.get(RUN, ""):
        shutil.rmtree(folder, ignore_errors=True)
    reasons = config.stash.get(LEFT_OUT, None)
    if not reasons:
        return
    ways: dict[str, Counter[str]] = {}
    for why, n in reasons.items():
        ways.setdefault(next((way for word, way in WAYS.items() if word in why), "install what is missing"), Counter())[why] += n
    told = "; ".join(f"{c.total()} ({', '.join(why for why, _ in c.most_common(2))}): {way}" for way, c in sorted(ways.items()))
    print(f"left out {reasons.total()} tests: {told}")
    if config.getoption("-m") == "not exhaustive":
        print("cases that repeat another on more chips, types, sizes or seeds are left out too: make test-all")


RUN = pytest.StashKey[str]()  # a folder that the processes of this run share
LEFT_OUT = pytest.StashKey[Counter[str]]()


def _tests_in(path: Path) -> int:
    """Tests of a file that was left out whole: its functions, each once."""
    try:
        tree = ast.parse(path.read_text())
    except (OSError, SyntaxError):
        return 1
    return max(1, sum(isinstance(n, ast.FunctionDef) and n.name.startswith("test") for n in ast.walk(tree)))


@pytest.fixture(autouse=True)
def programs_are_compiled(monkeypatch):
    """No program and no schedule comes from the cache of an earlier run: tests change what its key cannot know. The tests of the
    caches override this."""
    monkeypatch.setattr("autocomp.egraph.kernel_memo.ScheduleMemo.get", lambda *a: None)
    monkeypatch.setattr("autocomp.egraph.kernel_memo.ScheduleMemo.put", lambda *a: None)
    monkeypatch.setattr("autocomp.pipeline.load_program", lambda *a: None)
    monkeypatch.setattr("autocomp.pipeline.store_program", lambda *a: None)


@pytest.fixture(autouse=True)
def kernels_of_other_tests_are_replayed(monkeypatch):
    """A kernel e-graph that runs the same commands as one before it is not run again. `tests/egraph` overrides this."""
    monkeypatch.setattr("autocomp.egraph.kernel_egraph._KernelEGraph", Replayed)


@pytest.fixture(autouse=True, scope="session")
def kernels_of_other_tests_are_built():
    """A kernel's text that was built for a model before is not built again, whichever process of the run did it."""
    root = Path(os.environ["AUTOCOMP_TEST_RUN"]) / "builds"
    root.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for model in ("simt_model", "ascend_model"):
            patch.setattr(f"autocomp.simulate.{model}.compile_all", partial(kept, root))
        yield


@pytest.fixture(autouse=True)
def schedules_are_chosen_by_the_model(monkeypatch):
    """No schedule comes from measurements that were made on this machine before. `tests/tune` overrides this."""
    from autocomp.tune.use import Measured

    monkeypatch.setattr("autocomp.pipeline.measured", lambda *a: Measured({}))


@pytest.fixture
def quick_builds(monkeypatch):
    """Kernels for CPUs are built without optimisation, in half the time: for tests of what they compute. Others build as users do."""
    quick = tuple("-O0" if f == "-O3" else f for f in toolchain.FLAGS)
    monkeypatch.setattr(toolchain, "FLAGS", quick)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The machine model that runs printed GPU kernels on this CPU, compiled once a run."""
    if not COMPILER:
        pytest.skip("no C++ compiler (g++ or clang++)")
    (made,) = once(tmp_path_factory, "simt", compile_model).glob("*.o")
    return made


@pytest.fixture
def among_others(monkeypatch):
    """Kernels are printed as in a program of several."""
    monkeypatch.setattr("autocomp.runtime.program.beside_others", lambda schedule, calls: schedule)
