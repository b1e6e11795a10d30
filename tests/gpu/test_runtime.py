"""Programs on a CUDA device beside other work: threads, streams, CUDA graphs, arrays of torch, odd addresses, sizes at both ends."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, ModelError
from autocomp.runtime.gate import MOST, Gate
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.lanes import SIZES
from tests.helpers.device_graphs import GRAPHS, gemm, graph
from tests.helpers.device_runs import poison
from tests.helpers.split_depth import on_device

ROOT = Path(__file__).resolve().parents[2]
CHAIN = graph({"x": "f16[200, 64]", "w": "f16[64, 136]"},
              "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[1])\n%t = transpose(%1, perm=[1, 0])\n%2 = matmul(%t, x)")  # fmt: skip


def compiled(text: str):
    return autocomp.optimize(text, target="cuda")


each_program = pytest.mark.parametrize("program", [lambda: compiled(CHAIN), lambda: on_device("stream", "whole_waves_then_pieces")],
                                       ids=["several kernels", "blocks that wait for blocks"])  # fmt: skip


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@each_program
def test_threads_share_a_program(program):
    program = program()
    feeds = [random_inputs(program.graph, k) for k in range(4)]
    want = [program.run(f)["out"] for f in feeds]
    poison(program)

    def calls(k: int) -> int:
        return sum(not np.array_equal(program.run(feeds[k])["out"], want[k]) for _ in range(25))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(calls, range(4))) == [0] * 4


@each_program
def test_bound_calls_run_on_several_streams_at_once(program):
    """Each has an arena and flags of its own; one that changes its stream runs behind its last call."""
    program = program()
    feeds = [random_inputs(program.graph, k) for k in range(2)]
    want = [program.run(f)["out"] for f in feeds]
    bound = [program.executor.bind(f) for f in feeds]
    streams = [program.executor.device.create_stream() for _ in range(2)]
    for turn in range(50):
        for k, (start, _) in enumerate(bound):
            start(streams[k])
            if turn % 7 == 0:
                start(streams[1 - k])
        if turn % 10 == 0:
            for k, (_, outputs) in enumerate(bound):
                np.testing.assert_array_equal(outputs["out"].numpy(), want[k])
            np.testing.assert_array_equal(program.run(feeds[0])["out"], want[0])
    for k, (_, outputs) in enumerate(bound):
        np.testing.assert_array_equal(outputs["out"].numpy(), want[k])


def test_a_bound_call_reads_what_its_inputs_hold_then(torch):
    """The graph is captured once; new values in the same memory are seen, a second capture has pointers of its own."""
    program = compiled(CHAIN)
    x, w = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((200, 64), (64, 136)))
    start, outputs = program.executor.bind({"x": x, "w": w})
    other = x.flip(0).contiguous()
    start2, outputs2 = program.executor.bind({"x": other, "w": w})
    for fresh in (x.clone(), torch.randn_like(x)):
        x.copy_(fresh)
        torch.cuda.synchronize()
        for s in (start, start2):
            s(program.executor.stream)
        np.testing.assert_array_equal(outputs["out"].numpy(), program.run({"x": x, "w": w})["out"].cpu().numpy())
        np.testing.assert_array_equal(outputs2["out"].numpy(), program.run({"x": other, "w": w})["out"].cpu().numpy())


def test_a_bound_call_takes_the_streams_of_torch(torch):
    """The current one, another one, and none: the program's own, which the default stream waits for."""
    program = compiled(CHAIN)
    x, w = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((200, 64), (64, 136)))
    torch.cuda.synchronize()
    start, outputs = program.executor.bind({"x": x, "w": w})
    want = program(x, w)
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), None, torch.cuda.current_stream()):
        outputs["out"].buffer.fill(0xFF, stream=program.executor.stream)
        program.executor.stream.sync()
        start(stream)
        assert torch.equal(torch.from_dlpack(outputs["out"]), want)


def test_work_of_a_stream_of_torch_is_waited_for(torch):
    program = compiled(CHAIN)
    w = torch.randn(64, 136, device="cuda", dtype=torch.float16)
    big = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            slow = big @ big  # what x is made behind
            x = (slow[:200, :64] * 0.01).to(torch.float16).contiguous()
            y = program.run({"x": x, "w": w})["out"]
            kept = x.clone()
            del x
            torch.full((200, 64), float("nan"), device="cuda", dtype=torch.float16)  # may take the memory that x had
            got, want = y.cpu().numpy(), program.run({"x": kept.cpu().numpy(), "w": w.cpu().numpy()})["out"]
            np.testing.assert_array_equal(got, want)


def test_arrays_at_odd_addresses_are_copied(torch):
    program = compiled(CHAIN)
    feed = random_inputs(program.graph, 1)
    want = program.run(feed)["out"]
    base = torch.empty(200 * 64 + 8, device="cuda", dtype=torch.float16)
    for off in (1, 3, 4):
        x = base[off : off + 200 * 64].view(200, 64)
        x.copy_(torch.from_numpy(feed["x"]))
        w = torch.from_numpy(feed["w"]).cuda()
        np.testing.assert_array_equal(program.run({"x": x, "w": w})["out"].cpu().numpy(), want)
        with pytest.raises(ModelError, match="input 'x' begins at an address that is no multiple of 16 bytes"):
            program.executor.bind({"x": x, "w": w})


def test_an_input_that_lies_in_another_order_is_copied(torch):
    program = compiled(CHAIN)
    feed = random_inputs(program.graph, 1)
    x, w = (torch.from_numpy(feed[n]).cuda() for n in ("x", "w"))
    want = program.run({"x": x, "w": w})["out"]
    assert torch.equal(program.run({"x": x.T.contiguous().T, "w": w})["out"], want)


def test_inputs_that_do_not_fit_are_named(torch):
    program = compiled(CHAIN)
    x, w = (torch.zeros(s, device="cuda", dtype=torch.float16) for s in ((200, 64), (64, 136)))
    for feed, text in (({"x": x.float(), "w": w}, "input 'x' wants f16"), ({"x": x[:100], "w": w}, "input 'x' wants f16"),
                       ({"x": x}, "input 'w' is missing")):
        with pytest.raises(ModelError, match=text):
            program.run(feed)
    for feed in ({"x": x.cpu(), "w": w}, {"x": x.cpu().numpy(), "w": w}):  # what lies on the host is brought
        assert program.run(feed)["out"].is_cuda
    program.executor.device = SimpleNamespace(device_id=1, set_current=lambda: None)
    with pytest.raises(ModelError, match="input 'x' lies on CUDA device 0, the program on 1"):
        program.run({"x": x, "w": w})


@pytest.mark.parametrize("name", ["bool", "bf16", "f8e4m3", "f8e5m2", "f16", "f64", "i8", "u8", "i16", "i64"])
def test_every_dtype_goes_in_and_out_without_a_copy(name, torch):
    kind = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f16": "float16", "f64": "float64", "u8": "uint8",
            "i8": "int8", "i16": "int16", "i64": "int64"}.get(name, name)  # fmt: skip
    program = compiled(graph({"x": f"{name}[5, 6]"}, "%0 = transpose(x, perm=[1, 0])"))
    x = torch.randn(5, 6, device="cuda").to(getattr(torch, kind))
    y = program(x)
    assert y.dtype == x.dtype
    assert torch.equal(y.float(), x.T.float())


def test_old_sizes_are_given_back():
    text = graph({"x": "f32[n]"}, "%0 = exp(x)\n%1 = reduce_sum(%0, axes=[0])\n%2 = div(%0, %1)")
    program = compiled(text.replace("graph g\n", "graph g\ndim n in 1..400\n"))
    for n in (*range(1, 3 * SIZES), 400, 1):
        x = np.linspace(-1, 1, n, dtype=np.float32)
        np.testing.assert_allclose(program.run({"x": x})["out"], np.exp(x) / np.exp(x).sum(), rtol=1e-5)
    assert len(program.executor.lanes.main.ready) == SIZES


@pytest.mark.parametrize("body", ["%0 = relu(x)", "%1 = transpose(x, perm=[1, 0])\n%0 = matmul(%1, x)", "%0 = reduce_sum(x, axes=[0])"])
def test_nothing_and_one_number_are_tensors(body):
    for shape in ("[0, 6]", "[6, 0]", "[1, 1]"):
        program = compiled(graph({"x": f"f32{shape}"}, body))
        poison(program)
        program.verify()
    program = compiled(graph({"x": "f32[]"}, "%0 = exp(x)"))
    poison(program)
    program.verify()


def test_more_elements_than_32_bits_count(torch):
    if torch.cuda.mem_get_info()[0] < 16e9:
        pytest.skip("16 GB of device memory are not free")
    n = 3 * 2**30 + 5
    x = torch.randint(-100, 100, (n,), device="cuda", dtype=torch.int8)
    y = compiled(graph({"x": f"i8[{n}]"}, "%0 = abs(x)"))(x)
    assert all(torch.equal(y[i : i + 2**28], x[i : i + 2**28].abs()) for i in range(0, n, 2**28))
    del y
    total = compiled(graph({"x": f"i8[{n}]"}, '%1 = cast(x, to="i64")\n%0 = reduce_sum(%1, axes=[0])'))(x)
    assert int(total) == int(x.sum(dtype=torch.int64))
    del x
    a, b = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((65536, 64), (64, 49152)))
    c = compiled(gemm(65536, 49152, 64))(a, b)
    for i in (0, 43690, 65536 - 256):  # element 43690 * 49152 is the first beyond 2^31
        np.testing.assert_allclose(c[i : i + 256].float().cpu(), (a[i : i + 256].float() @ b.float()).cpu(), rtol=2e-3, atol=2e-2)


HANG = """
import sys
from autocomp.targets import load_target
import autocomp
from autocomp.runtime.gate import MOST, Gate
from autocomp.runtime.inputs import random_inputs
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.tune_targets import IN_CUDA
from dataclasses import replace
from autocomp.runtime.program import executor_of, files_of
p = autocomp.optimize(GRAPHS["softmax"], target="cuda")
(name,) = p.printed
s = p.printed[name]
head, brace, body = s.text.partition(") {\\n")
p.printed[name] = replace(s, text=f"{head}{brace}  {IN_CUDA['hang']}\\n{body}")
p.executor = executor_of(p.calls, p.printed, files_of(p.calls, p.printed, p.target), p.target, p.options, p.trace)
try:
    p.run(random_inputs(p.graph, 0))
except autocomp.AutocompError as e:
    print(e, flush=True)
    import os
    os._exit(5)
"""


def test_a_kernel_that_hangs_is_an_error_with_its_name():
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))), "AUTOCOMP_WATCHDOG": "2"}
    done = subprocess.run([sys.executable, "-c", HANG], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 5, done.stderr
    name = next(iter(compiled(GRAPHS["softmax"]).printed))
    assert f"kernel {name}: the kernel has not finished after 2 s" in done.stdout


def test_a_program_with_an_op_that_runs_on_the_host_is_not_bound():
    program = compiled(graph({"x": "i64[2, 4096]"}, "%0 = topk(x, k=4096, axis=1)"))  # more than a block selects
    with pytest.raises(AutocompError, match="runs on the host"):
        program.executor.bind(random_inputs(program.graph, 0))
    program.verify()


def test_calls_at_a_time_have_lanes_apart():
    """As many streams and arenas as calls were under way; one thread goes on with one."""
    program = compiled(CHAIN)
    feeds = [random_inputs(program.graph, k) for k in range(6)]
    want = [program.run(f)["out"] for f in feeds]
    assert len(program.executor.lanes.free) == 1
    poison(program)
    start = Barrier(6)

    def calls(k: int) -> int:
        start.wait(30)
        return sum(not np.array_equal(program.run(feeds[k])["out"], want[k]) for _ in range(50))

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(calls, range(6))) == [0] * 6
    assert 2 <= len(program.executor.lanes.free) <= 6
    assert program.executor.lanes.main in program.executor.lanes.free


def test_threads_with_arrays_of_torch_on_streams_of_their_own(torch):
    program = compiled(CHAIN)
    feeds = [{n: torch.from_numpy(x).cuda() for n, x in random_inputs(program.graph, k).items()} for k in range(4)]
    want = [program.run(f)["out"].clone() for f in feeds]
    torch.cuda.synchronize()

    def calls(k: int) -> int:
        wrong = 0
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                x = {n: a.clone() for n, a in feeds[k].items()}
                wrong += not torch.equal(program.run(x)["out"], want[k])
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(calls, range(4))) == [0] * 4


def test_arenas_of_many_sizes_keep_a_stated_number_of_bytes(monkeypatch):
    monkeypatch.setattr("autocomp.runtime.lanes.KEPT", 1 << 16)
    text = graph({"x": "f32[n, 64]", "w": "f32[64, 64]"}, "%1 = matmul(x, w)\n%2 = softmax(%1, axes=[0])\n%0 = matmul(%2, w)")
    program = compiled(text.replace("graph g\n", "graph g\ndim n in 1..4000\n"))
    for n in range(100, 2000, 100):
        program.run({"x": np.ones((n, 64), "f4"), "w": np.ones((64, 64), "f4")})
    lane = program.executor.lanes.main
    assert lane.kept == sum(bytes_ for _, bytes_ in lane.ready.values())
    assert lane.kept <= 1 << 16 or len(lane.ready) == 1


def test_a_forked_child_is_told():
    program = compiled(CHAIN)
    feed = random_inputs(program.graph, 0)
    program.run(feed)
    dropped = [compiled(CHAIN)]
    dropped[0].run(feed)
    dropped.append(dropped)
    del dropped  # a cycle that the collector has not seen yet
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        for f in (lambda: program.run(feed), gc.collect, lambda: compiled(CHAIN)):
            try:
                f()
                os.write(write, b"nothing was said" if f is not gc.collect else b"collected")
            except AutocompError as e:
                os.write(write, str(e).encode())
            except BaseException as e:
                os.write(write, f"{type(e)} {e}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    os.waitpid(pid, 0)
    print(said)
    assert "a forked child cannot use the GPU that its parent used" in said
    assert said.count("'spawn'") == 2 and "collected" in said
    assert "<class" not in said


def test_what_is_timed_is_queued_before_the_device_begins():
    program = compiled(CHAIN)
    feed = random_inputs(program.graph, 0)
    want = program.run(feed)["out"]
    executor, gate = program.executor, Gate()
    stream = executor.stream
    stream.sync()
    with gate.shut(stream):
        mark = stream.record()
        time.sleep(0.05)
        assert not mark.is_done
    mark.sync()
    gate.close()
    timing = program.profile(feed, repeat=3)
    assert timing.total > 0 and timing.by_kernel.keys() == {c.kernel.name for c in program.calls.calls}
    assert all(t > 0 for t in timing.by_kernel.values())
    assert np.array_equal(program.run(feed)["out"], want)


def test_more_launches_than_a_driver_queues_are_timed():
    lines = ["graph g", "input x: f32[8, 8]", "input w: f32[8, 8]", "%0 = matmul(x, w)"]
    lines += [f"%{k} = matmul(%{k - 1}, w)" for k in range(1, MOST + 3)] + [f"output y = %{MOST + 2}"]
    program = compiled("\n".join(lines))
    feed = {"x": np.eye(8, dtype="f4"), "w": np.eye(8, dtype="f4")[::-1].copy()}
    assert len(program.calls.calls) > MOST
    assert program.profile(feed, repeat=1).total > 0
    assert np.array_equal(program.run(feed)["y"], np.eye(8, dtype="f4")[:: (-1 if (MOST + 3) % 2 else 1)])


class Counted:
    """Plain calls, and what they gave."""

    def __init__(self, real):
        self.real, self.made, self.leave = real, [], real.leave

    def __call__(self, *args):
        self.made.append(self.real(*args))
        return self.made[-1]


@pytest.fixture
def plain(torch):
    """(a program, a tensor that it reads, calls that were plain so far)."""
    program = compiled("graph g\ninput x: f32[64, 136]\n%0 = softmax(x, axes=[1])\n%1 = reduce_sum(x, axes=[0])\n"
                       "output y = %0\noutput z = %1\n")  # fmt: skip
    x = torch.randn(64, 136, device="cuda")
    counted = program.executor.plain = Counted(program.executor.plain)
    return program, x, lambda: sum(m is not None for m in counted.made)


def close(torch, got, x) -> None:
    want = x.double()
    torch.testing.assert_close(got[0].double(), want.softmax(1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got[1].double(), want.sum(0), rtol=1e-5, atol=1e-4)


def test_a_plain_call_is_queued_on_torchs_stream(torch, plain):
    """What torch queues in front of it and behind it on a stream of its own is in order, without a wait."""
    program, x, calls = plain
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for k in range(20):
            y = torch.full_like(x, float(k))
            torch.cuda._sleep(200000)
            y.add_(x)
            got = program(y)
            kept = [t.clone() for t in got]
            y.zero_()
            close(torch, kept, x + k)
    assert calls() == 19  # the first is left to `run`


def test_what_is_not_plain_is_read_or_refused_as_before(torch, plain):
    program, x, calls = plain
    close(torch, program(x.t().contiguous().t()), x)  # rows do not lie dense
    room = torch.empty(64 * 136 + 1, device="cuda")
    odd = room[1:].view(64, 136).copy_(x)  # begins at no multiple of 16 bytes
    close(torch, program(odd), x)
    for wrong, says in ((x[:63], "wants"), (x.double(), "wants"), (x.clone().requires_grad_(), "gradients")):
        with pytest.raises(ModelError, match=says):
            program(wrong)
    with pytest.raises(ModelError, match="takes 1 inputs"):
        program(x, x)
    assert calls() == 0


def test_threads_make_plain_calls_of_one_program(torch, plain):
    program, x, calls = plain
    feeds = [x + k for k in range(4)]
    want = [program(f)[0].clone() for f in feeds]
    torch.cuda.synchronize()

    def wrong(k: int) -> int:
        with torch.cuda.stream(torch.cuda.Stream()):
            return sum(not torch.equal(program(feeds[k])[0], want[k]) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [0] * 4
    assert calls() == 203


def test_open_sizes_are_read_from_plain_calls(torch):
    program = compiled("graph g\ndim n in 1..4096\ninput x: f32[n, 24]\n%0 = exp(x)\n%1 = reduce_sum(%0, axes=[1])\noutput y = %1\n")
    for n in (1, 7, 4096, 1):
        x = torch.randn(n, 24, device="cuda")
        torch.testing.assert_close(program(x), x.exp().sum(1), rtol=1e-5, atol=1e-5)
    with pytest.raises(ModelError, match="allowed"):
        program(torch.randn(4097, 24, device="cuda"))
