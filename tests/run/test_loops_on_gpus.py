"""Programs for GPUs with loops: the host launches a body's kernels once a step. On the CPU model of a block, by the executor, by the
launcher of a saved folder, and by the executor of CUDA devices with the model in the driver's place."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.loop_bodies import loop
from autocomp.ir.types import F16, Sym, TensorType
from autocomp.runtime import cuda as cuda_executor
from autocomp.runtime.deploy import plain
from autocomp.runtime.plan import arena, size_of
from autocomp.runtime.repeated import repeated
from autocomp.simulate import simt_model
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.loop_graphs import by_hand, check, feed, network
from tests.helpers.repeats import GPUS
from tests.run.test_saving import run_folder as run_maca
from tests.run.test_saving_cuda import run_folder as run_cuda

TARGETS = ["cuda:h200", "maca:c500"]
needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def odd(trips=5):
    """A recurrence whose slices are 14 bytes, read and stacked, and a carry that is stacked too."""
    b = Builder("odd")
    x, h = b.input("x", TensorType(F16, (trips, 7))), b.input("h", TensorType(F16, (7,)))

    def body(carries, slices):
        new = b.op("add", b.op("mul", carries[0], b.const(0.5, F16)), slices[0])
        return [new], [new, b.op("mul", new, slices[0])]

    finals, stacks = loop(b, [h], [x], body, trips)
    for name, n in zip("hyz", (*finals, *stacks)):
        b.output(name, n)
    return b.graph()


@pytest.fixture(scope="module", params=TARGETS)
def programs(request):
    return {n: autocomp.optimize(network(n), target=request.param) for n in (2, 512)}


@needs_compiler
@pytest.mark.parametrize("target", GPUS)
def test_any_number_of_steps(target, model, tmp_path):
    for trips, batch in ((0, 3), (1, 3), (2, 1), (7, 5)) if target.startswith("cuda") else ((0, 3), (7, 5)):
        program = autocomp.optimize(network(trips, batch), target=target)
        assert len(program.calls.loops) == (0 if trips == 1 else 2)
        (folder := tmp_path / str(trips)).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        for program.executor.late in (True, False):
            check(program.run(feed(trips, batch)), by_hand(program.graph, feed(trips, batch)))


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
def test_open_steps_and_batch(target, model, tmp_path):
    program = autocomp.optimize(network(Sym("steps", 1, 600), Sym("batch", 1, 9)), target=target)
    program.executor = ModelExecutor(program, tmp_path, model)
    for trips, batch in ((1, 3), (6, 1), (9, 5)):
        check(program.run(feed(trips, batch)), by_hand(program.graph, feed(trips, batch)))


@needs_compiler
@pytest.mark.parametrize("target", GPUS)
def test_slices_that_do_not_begin_where_wide_accesses_may_are_copied_apart(target, model, tmp_path):
    program = autocomp.optimize(odd(), target=target)
    (x,) = program.calls.loops.values()
    assert [(e.of, e.to) for e in x.begins] == [("x", "loop0/rows of x")] and sum(not e.first for e in x.ends) == 2
    assert program.calls.tensors["loop0/rows of x"].shape == (5, 8)
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify().ratio <= 1


def test_a_step_more_is_no_kernel_more(programs):
    short, long = (programs[n] for n in (2, 512))
    assert [c.kernel.signature for c in short.calls.calls if c.loop] == [c.kernel.signature for c in long.calls.calls if c.loop]
    assert len(short.calls.calls) == len(long.calls.calls)
    assert {x.trips for x in long.calls.loops.values()} == {512} and max(k.calls for k in long.kernels) == 2 * 512
    steps = sum(k.predicted * k.calls for k in long.kernels if k.calls >= 512)
    assert long.predicted >= steps >= 2 * 512 * long.target.chip.launch, "each step's launches are paid"
    assert "loop0: 512 steps of " in long.explain()


@needs_compiler
@pytest.mark.parametrize("make", [lambda: network(7), odd], ids=["network", "odd"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_launcher_runs_loops(target, make, model, tmp_path):
    program = autocomp.optimize(make(), target=target)
    folder = program.save(tmp_path / "out")
    rng = np.random.default_rng(3)
    given = {n.attrs["name"]: rng.standard_normal(n.type.shape).astype(n.type.dtype.numpy) for n in program.graph.inputs}
    for n, x in given.items():
        (folder / f"{plain(n)}.bin").write_bytes(x.tobytes())
    if target.startswith("cuda"):
        done = run_cuda(program, folder, model, tmp_path / "build")
    else:
        (tmp_path / "build").mkdir()
        done = run_maca(folder, model, tmp_path / "build")
    assert done.returncode == 0, done.stderr
    tensors = {n: program.calls.tensors[t] for n, t in program.calls.outputs}
    got = {n: np.frombuffer((folder / f"{n}.out.bin").read_bytes(), t.dtype.numpy).reshape(t.shape) for n, t in tensors.items()}
    program.executor = SimpleNamespace(run=lambda feed: got)
    program.verify(given)


class OnModel:
    """The executor of CUDA devices over memory of the host: launches run on the model, graphs are lists of what was queued."""

    def __init__(self, program, folder, model, monkeypatch):
        from cuda import core
        from cuda.bindings import driver

        self.launched, self.queued = 0, None
        self.library = ModelExecutor(program, folder, model).library
        self.sources = {s.entry: s for s in program.printed.values()}
        at = self.executor = cuda_executor.CudaExecutor.__new__(cuda_executor.CudaExecutor)
        at.calls, at.slots, at.sources, at._descriptors = program.calls, program.slots, program.printed, {}
        at.kernels = {n: s.entry for n, s in program.printed.items()}
        at.device = SimpleNamespace(create_graph_builder=lambda: Building(self))
        at.lanes = SimpleNamespace(current=SimpleNamespace(stream=SimpleNamespace(handle=1)))
        at._config = lambda call, values, early: early
        monkeypatch.setattr(cuda_executor, "_in_capture", lambda stream: False)
        monkeypatch.setattr(core, "launch", lambda stream, early, entry, *pointers: self.do(lambda: self.run(entry, pointers)))
        monkeypatch.setattr(driver, "cuMemcpyDtoDAsync", lambda to, of, size, _: self.do(lambda: ctypes.memmove(to, of, size)))
        monkeypatch.setattr(driver, "cuMemcpy2DAsync", lambda how, _: self.do(lambda h=how: self.rows(h)))
        monkeypatch.setattr(cuda_executor, "check", lambda status, what: None)

    def do(self, what):
        if self.queued is None:
            what()
        else:
            self.queued.append(what)
        return (0,)

    def run(self, entry, pointers):
        self.launched += 1
        how = self.sources[entry].launch
        said = simt_model.launch(self.library, entry, [ctypes.c_void_p(p) for p in pointers], [], grid=(*how.blocks({}), 1, 1)[:3],
                                 block=how.block, wave=32, shared=how.shared)  # fmt: skip
        assert not said

    def rows(self, how):
        for k in range(how.Height):
            ctypes.memmove(int(how.dstDevice) + k * how.dstPitch, int(how.srcDevice) + k * how.srcPitch, how.WidthInBytes)


class Building:
    def __init__(self, device):
        self.device, self.handle = device, 2

    def begin_building(self):
        self.device.queued = []

    def end_building(self):
        self.done, self.device.queued = self.device.queued, None

    def complete(self):
        return SimpleNamespace(launch=lambda stream: [what() for what in self.done])


@needs_compiler
@pytest.mark.parametrize("make", [lambda: network(7), odd], ids=["network", "odd"])
def test_the_executor_launches_each_step_and_makes_a_graph_of_the_second_run(make, model, tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    program = autocomp.optimize(make(), target="cuda:a100")
    device = OnModel(program, tmp_path, model, monkeypatch)
    g, rng = program.calls, np.random.default_rng(3)
    given = {n.attrs["name"]: rng.standard_normal(n.type.shape).astype(n.type.dtype.numpy) for n in g.source.inputs}
    fixed = given | {n: np.ascontiguousarray(x) for n, x in cuda_executor.constants_of(g).items()}
    offsets, total = arena(g, program.slots, {})
    memory = np.full(total, 0xFF, np.uint8)
    outputs = {t: np.full(max(1, size_of(g.tensors[t], {})), 0xFF, np.uint8) for _, t in g.outputs}
    pointers = {n: x.ctypes.data for n, x in (*fixed.items(), *outputs.items())}
    pointers |= {t: memory.ctypes.data + at for t, at in offsets.items()}
    launches = device.executor._listed({})
    loops = [x for x in launches if isinstance(x, cuda_executor.Repeated)]
    assert len(loops) == len(g.loops) and all(len(x.first) == len(x.later) for x in loops)
    for turn in range(3):
        device.launched = 0
        for x in (memory, *outputs.values()):
            x[...] = 0xFF
        device.executor._start(launches, pointers)
        assert device.launched == sum(g.loops[c.loop].trips if c.loop else 1 for c in g.calls)
        assert all((None not in x.graphs.values()) == (turn > 0) and len(x.graphs) == 1 for x in loops)
        got = {n: outputs[t].view(g.tensors[t].dtype.numpy).reshape(g.tensors[t].shape) for n, t in g.outputs}
        program.executor = SimpleNamespace(run=lambda feed, got=got: got)
        program.verify(given)


def test_the_first_step_is_ordered_behind_what_came_before_and_the_others_overlap():
    """Launches of later steps may start early; a step's own scratch memory may still be in use, and a graph has nothing before it."""
    pytest.importorskip("cuda.core")
    program = autocomp.optimize(network(7), target="cuda:h200")
    at = cuda_executor.CudaExecutor.__new__(cuda_executor.CudaExecutor)
    at.calls, at.slots, at.sources, at.kernels = program.calls, program.slots, program.printed, dict.fromkeys(program.printed)
    at._config = lambda call, values, early: early
    for x in at._listed({}):
        if isinstance(x, cuda_executor.Repeated):
            assert not x.first[0].config
            assert [one.config for one in x.later] == [program.printed[one.call.kernel.name].launch.overlaps for one in x.later]


def test_addresses_of_a_step():
    program = autocomp.optimize(network(7), target="cuda:h200")
    g = program.calls
    r, places = repeated(g, "loop0", {}), g.loops["loop0"].places
    pointers = {t: 1000000 * k for k, t in enumerate(program.slots.index)}
    for step in (0, 1, 2, 6):
        for t, address in r.addresses(pointers, step).items():
            memory, at = places[t].at(step)
            assert address == pointers[memory] + (at or 0) * size_of(g.tensors[t], {})
    assert {t for p in places.values() for t in p.memory} <= set(r.memory)
