"""Sides of a comparison on a CUDA device: programs, torch functions (with kernels of Triton in them), and kernels of CUDA C++ by hand.

    mine.cu:gemm<<<64,256>>>           extern "C" __global__ void gemm(const float* x, const float* w, float* y)
    mine.cu:gemm<<<(8,64),128,49152>>> a grid of two dimensions and bytes of dynamic shared memory
    mine.py:gemm                       a function of torch tensors, which are on the device

All tensors are torch's, on its current stream. A time is what the device needed: an event in front of a call and one behind it, while the
device is kept busy until the host has queued all of it; its second-level cache is overwritten before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.errors import AutocompError, BuildError
from autocomp.ir.node import Graph
from autocomp.runtime.bound import stream_of

Run = Callable[[], Mapping[str, Any]]
COLD = 256 << 20  # bytes that are written before a call: more than the last cache of a GPU holds
AHEAD = 2_000_000  # clocks that the device is kept busy, so that the host is ahead
_PARAMETERS = """
namespace {
template <class> struct ac_is_pointer { static constexpr bool value = false; };
template <class T> struct ac_is_pointer<T *> { static constexpr bool value = true; };
template <class> struct ac_parameters;
template <class... T> struct ac_parameters<void(T...)> {
  static constexpr int count = sizeof...(T);
  static constexpr bool pointers = (ac_is_pointer<T>::value && ... && true);
};
static_assert(ac_parameters<decltype(NAME)>::count == COUNT && ac_parameters<decltype(NAME)>::pointers, "its parameters");
}
"""
_LAUNCH = re.compile(r"(\w+)<<<\s*(\(?[\d\s,]+?\)?|\d+)\s*,\s*(\d+)\s*(?:,\s*(\d+)\s*)?>>>")


def torch_on_device() -> Any:
    """The torch module where it has a CUDA device; None otherwise."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def to_device(torch: Any, x: np.ndarray) -> Any:
    """A tensor on the device; bf16, which NumPy has not, by its bits."""
    x = np.ascontiguousarray(x)
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16).copy()).cuda().view(torch.bfloat16)
    return torch.from_numpy(x.copy()).cuda()


def to_host(x: Any) -> Any:
    """The values of a torch tensor, or of anything else that NumPy reads."""
    if not hasattr(x, "detach"):
        return x
    x = x.detach().cpu()
    return x.float().numpy() if str(x.dtype) == "torch.bfloat16" else x.numpy()


def timer(torch: Any) -> Callable[[Callable[[], object]], float]:
    """What times one call on the device, in seconds."""
    other = torch.zeros(COLD // 4, device="cuda")

    def timed(call: Callable[[], object]) -> float:
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        other.add_(1.0)
        torch.cuda._sleep(AHEAD)
        begun.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        return float(begun.elapsed_time(ended)) * 1e-3

    return timed


def launch_of(text: str) -> tuple[str, tuple[int, ...], int, int]:
    """'gemm<<<(8,64),128,49152>>>' -> (function, grid, threads, bytes of shared memory). Raises AutocompError for anything else."""
    m = _LAUNCH.fullmatch(text.strip())
    grid = tuple(int(d) for d in re.findall(r"\d+", m[2])) if m else ()
    if m is None or not 1 <= len(grid) <= 3 or not all(grid) or not int(m[3]):
        raise AutocompError(f"'{text}' does not say how it is launched", where="compare",
                            hint="FILE.cu:FUNCTION<<<BLOCKS,THREADS>>>, or <<<(X,Y),THREADS,SHARED_BYTES>>>")  # fmt: skip
    return m[1], grid, int(m[3]), int(m[4] or 0)


def check_call(path: Path, text: str, name: str, arguments: tuple[str, ...], toolchain: Any) -> None:
    """Ask the compiler whether a kernel's parameters are a pointer for each argument. Raises AutocompError: with more of them it would
    read past what the launch gives, and a number would be an address."""
    try:
        toolchain.compile_object(path.stem, text + _PARAMETERS.replace("NAME", name).replace("COUNT", str(len(arguments))))
    except BuildError:
        raise AutocompError(f"does not take {len(arguments)} pointers ({', '.join(arguments)})", where=f"{path}:{name}",
                            hint="inputs, then parameters, then outputs, each a pointer, in the model's order") from None  # fmt: skip


def of_cuda(path: Path, text: str, launch: str, toolchain: Any) -> Callable[[Graph, Mapping[str, np.ndarray]], Run] | None:
    """A kernel of CUDA C++: compiled here where NVRTC is; None where no device runs it. It takes pointers to the inputs, the parameters
    and the outputs in the model's order. Raises AutocompError where it is not what is said, BuildError with the compiler's words."""
    name, grid, threads, shared = launch_of(launch)
    if not re.search(rf'extern\s+"C"\s+__global__[^;{{]*\b{name}\s*\(', text):
        raise AutocompError(f"has no kernel 'extern \"C\" __global__ .. {name}(..)'", where=str(path), hint="its name must be plain")
    why = toolchain.missing()
    torch = None if why else torch_on_device()
    if why:
        return None
    try:
        toolchain = toolchain.here() if torch else toolchain
        code = toolchain.compile_object(path.stem, text)
    except BuildError as e:
        raise BuildError(e.what, where=str(path), hint=e.hint) from None
    if torch is None:
        return None

    def prepare(graph: Graph, feed: Mapping[str, np.ndarray]) -> Run:
        from cuda.core import Device, LaunchConfig, ObjectCode
        from cuda.core import launch as start

        arguments = (*(str(n.attrs["name"]) for n in graph.inputs), *graph.params, *(o for o, _ in graph.outputs))
        check_call(path, text, name, arguments, toolchain)
        device = Device(torch.cuda.current_device())
        device.set_current()
        kernel = ObjectCode.from_cubin(code).get_kernel(name)
        if shared > 48 * 1024:
            _allow(kernel, shared)
        given = [to_device(torch, feed[n.attrs["name"]]) for n in graph.inputs] + [to_device(torch, graph.param(n)) for n in graph.params]
        made = {o: to_device(torch, np.zeros([int(d) for d in n.type.shape], n.type.dtype.numpy)) for o, n in graph.outputs}  # type: ignore[arg-type]
        config = LaunchConfig(grid=grid, block=threads, shmem_size=shared)
        pointers = [x.data_ptr() for x in (*given, *made.values())]
        stream = stream_of(torch.cuda.current_stream())

        def run() -> Mapping[str, Any]:
            start(stream, config, kernel, *pointers)
            return made

        run.kept = given  # type: ignore[attr-defined]  # the tensors that the pointers point to
        return run

    return prepare


def _allow(kernel: Any, shared: int) -> None:
    """Dynamic shared memory beyond 48 KB has to be asked for."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    status = driver.cuKernelSetAttribute(attribute, shared, kernel.handle, 0)[0]
    if status != driver.CUresult.CUDA_SUCCESS:
        raise AutocompError(f"the device does not give a block {shared} bytes of shared memory: {status}", where="compare",
                            hint="ask for less")  # fmt: skip


def of_device_program(program: Any) -> Callable[[Graph, Mapping[str, np.ndarray]], Run] | None:
    """A program for a CUDA device on tensors that are there; None where torch has no device, or it is for something else."""
    torch = torch_on_device() if program.target.name == "cuda" and program.runnable else None
    if torch is None:
        return None

    def prepare(graph: Graph, feed: Mapping[str, np.ndarray]) -> Run:
        there = {n: to_device(torch, x) for n, x in feed.items()}
        return lambda: program.run(there)  # type: ignore[no-any-return]

    return prepare
