"""A program for a device as a folder that builds where the device is: a launcher in C++, its makefile, weights as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from autocomp.ir.kernel import KernelGraph
from autocomp.ir.tolerance import Tolerance
from autocomp.ir.types import Sym, dim_hint
from autocomp.runtime import deploy_folder, deploy_host
from autocomp.runtime.deploy_check import Expected
from autocomp.runtime.plan import arena, size_of
from autocomp.runtime.repeated import Repeated, Rows, repeated
from autocomp.targets.source import Launch, TensorMap


@dataclass(frozen=True)
class Api:
    """How a vendor spells what a launcher needs. `prefix`: of the runtime's functions; `asked`: bytes of shared memory that a block has to
    be allowed first."""

    prefix: str
    include: str
    suffix: str
    compiler: str
    build: str
    asked: int = 48 * 1024 + 1


APIS = {
    "cuda": Api("cuda", "#include <cuda.h>\n#include <cuda_runtime.h>", "cu", "nvcc", "-O3 -std=c++17 -gencode arch={virtual},code={arch}"),
    "maca": Api("mc", "#include <mc_runtime.h>", "maca", "mxcc", "-x maca -O3 -std=c++17 -offload-arch={arch}{sdk}", 64 * 1024),
}
WORDS = r"""[[maybe_unused]] static void check(PREFIXError_t e, const char *what) {
  if (e != PREFIXSuccess) { fprintf(stderr, "%s: %s\n", what, PREFIXGetErrorString(e)); exit(1); }
}
typedef PREFIXStream_t stream_t;
typedef PREFIXEvent_t event_t;
[[maybe_unused]] static void open_device() {}
[[maybe_unused]] static void close_device() {}
[[maybe_unused]] static char *allocate(size_t bytes, const char *what) {
  void *p;
  check(PREFIXMalloc(&p, bytes ? bytes : 1), what);
  return (char *)p;
}
[[maybe_unused]] static void to_device(void *to, const void *from, size_t bytes, const char *what) {
  check(PREFIXMemcpy(to, from, bytes, PREFIXMemcpyHostToDevice), what);
}
[[maybe_unused]] static void to_host(void *to, const void *from, size_t bytes, const char *what) {
  check(PREFIXMemcpy(to, from, bytes, PREFIXMemcpyDeviceToHost), what);
}
[[maybe_unused]] static void on_device(void *to, const void *from, size_t bytes, stream_t s) {
  check(PREFIXMemcpyAsync(to, from, bytes, PREFIXMemcpyDeviceToDevice, s), "copy");
}
[[maybe_unused]] static stream_t new_stream() {
  stream_t s;
  check(PREFIXStreamCreate(&s), "stream");
  return s;
}
[[maybe_unused]] static event_t new_event() {
  event_t e;
  check(PREFIXEventCreate(&e), "event");
  return e;
}
[[maybe_unused]] static void record(event_t e, stream_t s) { check(PREFIXEventRecord(e, s), "event"); }
[[maybe_unused]] static void finish(stream_t s) { check(PREFIXStreamSynchronize(s), "run"); }
[[maybe_unused]] static double elapsed(event_t from, event_t to) {  // microseconds
  float ms;
  check(PREFIXEventElapsedTime(&ms, from, to), "event");
  return ms * 1e3;
}
"""
ROWS = r"""
static void rows_on_device(void *to, size_t to_apart, const void *from, size_t from_apart, size_t width, size_t rows, stream_t s) {
  check(PREFIXMemcpy2DAsync(to, to_apart, from, from_apart, width, rows, PREFIXMemcpyDeviceToDevice, s), "copy rows");
}
"""
MAPS = """
static ac_tensor_map tensor_map(int type, int rank, void *at, const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion widened) {
  static decltype(&cuTensorMapEncodeTiled) encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  const char *const name = "cuTensorMapEncodeTiled";
  if (!encode) check(cudaGetDriverEntryPointByVersion(name, (void **)&encode, 12000, cudaEnableDefault, &found), name);
  CUtensorMap map;
  if (encode(&map, (CUtensorMapDataType)type, rank, at, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle, widened, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    fprintf(stderr, "a tensor map was refused\\n");
    exit(1);
  }
  ac_tensor_map out;
  memcpy(&out, &map, sizeof out);
  return out;
}
"""
MAP_TYPE = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}  # bytes else: the engine only copies them


def why_no_launcher(program: Any) -> str:
    """What keeps a program from having a launcher; "" where nothing does."""
    if program.target.name not in APIS:
        return f"programs for target {program.target.name} are started by the host code of the user's own build"
    opaque = sorted({c.kernel.name for c in program.calls.calls if c.kernel.by_reference})
    if opaque:
        return f"{len(opaque)} kernels have no generated code and run only through their reference: {', '.join(opaque[:5])}"
    return ""


def hints(g: KernelGraph) -> dict[str, int]:
    """Symbol -> the extent that a folder is written for."""
    return {d.name: dim_hint(d) for t in g.tensors.values() for d in t.shape if isinstance(d, Sym)}


def launcher(program: Any, tolerances: Mapping[str, Tolerance]) -> str:
    """C++ that reads inputs and weights, launches every kernel in order and writes, compares or times the outputs (`deploy_host`).

    Shapes are fixed: symbols take their hints (`--dim` at compile time sets them).
    """
    api, g = APIS[program.target.name], program.calls
    values = hints(g)
    offsets, total = arena(g, program.slots, values)
    blob, _ = weights_blob(program)
    scratch = max((k.launch.workspace for k in program.printed.values() if k.launch), default=0)
    maps = any(k.launch and k.launch.maps for k in program.printed.values())
    allowed = {s.entry: s.launch.shared for s in program.printed.values() if s.launch and s.launch.shared >= api.asked}
    loops = {name: repeated(g, name, values) for name in g.spans}
    attribute = f"{api.prefix}FuncAttributeMaxDynamicSharedMemorySize"
    out = [
        f"// Launcher of {plain(program.name)}: reads NAME.bin for every input, writes NAME.out.bin for every output; `check` compares",
        "// them, `bench` times the kernels. With AUTOCOMP_LIBRARY it is a library instead: autocomp_prepare, autocomp_start.",
        *(f"#include <{h}>" for h in deploy_host.INCLUDES),
        api.include,
        *(f'#include "{name}"' for name in sorted({h for k in program.printed.values() for h in k.headers})),
        *_kernels(program),
        "",
        WORDS.replace("PREFIX", api.prefix),
        *([MAPS] if maps else []),
        *([ROWS.replace("PREFIX", api.prefix)] if any(x.rows > 1 for r in loops.values() for x in (*r.begins, *r.ends)) else []),
        deploy_host.FILES + deploy_host.UPLOAD,
        *deploy_host.tables(program, plain),
        "[[maybe_unused]] static char *weights, *memory;",
        *(["static unsigned char *scratch;"] if scratch else []),
        "static void prepare() {",
        f'  weights = load("weights.bin", {sum(size for _, size in blob.values())});',
        f'  memory = allocate({total}, "memory of intermediates");',
        *([f'  scratch = (unsigned char *)allocate({scratch}, "scratch");'] if scratch else []),
        *(f'  check({api.prefix}FuncSetAttribute((const void *){e}, {attribute}, {n}), "shared memory");' for e, n in allowed.items()),
        "}",
        "// All kernels in order; behind each a mark, where `marks` are given",
        "static void start(char *const *in, char *const *out, stream_t stream, event_t *marks) {",
        *deploy_host.pointers(program, values, offsets, blob, plain),
    ]
    first, last = ({span[k]: name for name, span in g.spans.items()} for k in (0, 1))
    for i, c in enumerate(g.calls):
        if i in first:
            loop = loops[first[i]]
            out += [*_copies(program, loop.begins), f"  for (long long s = 0; s < {loop.trips}; ++s) {{  // {loop.trips} steps of a loop"]
        lies = _places(program, loops[c.loop]) if c.loop else {}
        out += [*_launch(program, api, i, c, values, lies), f"  if (marks{' && !s' if c.loop else ''}) record(marks[{i + 1}], stream);"]
        if i + 1 in last:
            behind = len(g.calls) + 1 + list(g.spans).index(last[i + 1])
            out += ["  }", *_copies(program, loops[last[i + 1]].ends), f"  if (marks) record(marks[{behind}], stream);"]
    out += [*deploy_host.copied(program, values, offsets, blob), "}"]
    return "\n".join([*out, *deploy_host.main_function(program, values, tolerances, plain), ""])


def _kernels(program: Any) -> list[str]:
    """The kernels' files, each in a namespace: two may define one helper. Their headers stand before them."""
    out = []
    for i, (_, k) in enumerate(sorted(program.printed.items())):
        out += [f"namespace kernel_{i} {{", f'#include "{k.name}.{k.language}"', "}", f"using kernel_{i}::{k.entry};"]
    return out


def plain(name: str) -> str:
    """A model's name as it may stand in C++ text and in a file's name: names come from files that nobody here wrote.

    Characters that change get the name's checksum behind them, so that two names stay two.
    """
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)[:100].lstrip(".-")
    return kept if kept == name else f"{kept or 'tensor'}-{crc32(name.encode()):08x}"


def _places(program: Any, loop: Repeated) -> dict[str, str]:
    """Where the tensors of a loop's body lie at step `s`."""
    index, found = program.slots.index, {}
    for tensor, begins, ((odd, behind), (even, _)), apart in loop.table:
        offset = f" + s * {apart}ll" + (f" - {-behind}ll" if behind else "")
        later = f"t{index[odd]}{offset}" if odd == even else f"(s & 1 ? t{index[odd]} : t{index[even]})"
        found[tensor] = f"({later})" if begins == even and not behind else f"(s ? {later} : t{index[begins]})"
    return found


def _copies(program: Any, copies: Sequence[Rows]) -> list[str]:
    """What is copied in front of a loop, or behind it."""
    index, lines = program.slots.index, []
    for x in copies:
        source = f"t{index[x.of]}" + (f" + {x.at}ll" if x.at else "")
        if x.rows == 1:
            lines.append(f"  on_device(t{index[x.to]}, {source}, {x.width}, stream);")
        elif x.rows:
            lines.append(f"  rows_on_device(t{index[x.to]}, {x.to_apart}, {source}, {x.of_apart}, {x.width}, {x.rows}, stream);")
    return lines


def _launch(program: Any, api: Api, i: int, call: Any, values: Mapping[str, int], lies: Mapping[str, str]) -> list[str]:
    """The lines of one call. `lies`: tensors that are elsewhere at each step."""
    source = program.printed[call.kernel.name]
    index, launch = program.slots.index, source.launch
    types = {a.name: a.type.dtype.name for a in (*call.kernel.inputs, *call.kernel.outputs)}
    blocks = launch.blocks(values)
    at = lambda tensor: lies.get(tensor) or f"t{index[tensor]}"
    arguments = [f"({_pointer(types[a])} *){at(call.args[a])}" for a in (*source.inputs, *source.outputs)]
    arguments += [f"{values[s]}ll" for s in source.sizes]
    lines = [f"  {{  // {plain(call.name or source.entry)}: {' '.join(call.ops)}"]
    for z in launch.zeroed:
        t = call.args[z]
        lines.append(f'    check({api.prefix}MemsetAsync({at(t)}, 0, {size_of(program.calls.tensors[t], values)}, stream), "clear");')
    if launch.workspace:
        lines.append(f'    check({api.prefix}MemsetAsync(scratch, 0, {launch.workspace}, stream), "clear");')
        arguments.append("scratch")
    for n, m in enumerate(launch.maps):
        lines.append(f"    const ac_tensor_map map{n} = {_map(m, at(call.args[m.argument]), values)};")
        arguments.append(f"map{n}")
    what = f'"{source.entry} (call {i})"'
    if launch.cluster > 1:
        lines += _together(source.entry, launch, blocks, arguments, what)
    elif prod(blocks):
        grid = f"dim3({', '.join(map(str, blocks))}), dim3({launch.block}), {launch.shared}, stream"
        lines += [f"    {source.entry}<<<{grid}>>>({', '.join(arguments)});", f"    check({api.prefix}GetLastError(), {what});"]
    return [*lines, "  }"]


def _together(entry: str, launch: Launch, blocks: tuple[int, ...], arguments: list[str], what: str) -> list[str]:
    """A launch whose blocks form clusters."""
    return [
        "    cudaLaunchAttribute together = {};",
        "    together.id = cudaLaunchAttributeClusterDimension;",
        f"    together.val.clusterDim.x = {launch.cluster};",
        "    together.val.clusterDim.y = together.val.clusterDim.z = 1;",
        "    cudaLaunchConfig_t how = {};",
        f"    how.gridDim = dim3({', '.join(map(str, blocks))});",
        f"    how.blockDim = dim3({launch.block});",
        f"    how.dynamicSmemBytes = {launch.shared};",
        "    how.stream = stream;",
        "    how.attrs = &together;",
        "    how.numAttrs = 1;",
        f"    check(cudaLaunchKernelEx(&how, {', '.join([entry, *arguments])}), {what});",
    ]


def _pointer(dtype: str) -> str:
    from autocomp.targets.simt.expressions import STORED

    return STORED[dtype]


def _map(m: TensorMap, at: str, values: Mapping[str, int]) -> str:
    number = lambda d: str(values[d.name] if isinstance(d, Sym) else d)
    steps = m.steps or (1,) * len(m.box)
    span = tuple(b * s for b, s in zip(m.box, steps))
    array = lambda kind, items: f"std::vector<{kind}>{{{', '.join(map(number, items)) or '0'}}}.data()"
    return (
        f"tensor_map(CU_TENSOR_MAP_DATA_TYPE_{MAP_TYPE.get(m.dtype, 'UINT8')}, {len(m.dims)}, {at}, {array('cuuint64_t', m.dims)}, "
        f"{array('cuuint64_t', m.strides)}, {array('cuuint32_t', span)}, {array('cuuint32_t', steps)}, "
        f"CU_TENSOR_MAP_SWIZZLE_{f'{m.swizzle}B' if m.swizzle else 'NONE'}, "
        f"CU_TENSOR_MAP_L2_PROMOTION_{f'L2_{m.widened}B' if m.widened else 'NONE'})"
    )


def weights_blob(program: Any) -> tuple[dict[str, tuple[int, int]], bytes]:
    """Name -> (offset, padded size) of every parameter and folded constant, and their bytes one after another."""
    weights = {**{p: program.graph.param(p) for p in program.calls.params}, **program.folded()}
    where: dict[str, tuple[int, int]] = {}
    parts: list[bytes] = []
    at = 0
    for name in sorted(weights):
        data = np.ascontiguousarray(weights[name]).tobytes()
        data += b"\0" * (-len(data) % 256)
        where[name] = at, len(data)
        parts.append(data)
        at += len(data)
    return where, b"".join(parts)


def files(program: Any, check: Expected) -> dict[str, str | bytes]:
    """name -> content of what stands beside the sources."""
    api, arch, sizes = APIS[program.target.name], program.target.chip.arch, hints(program.calls)
    build_flags = partial(api.build.format, arch=arch, virtual=arch.replace("sm_", "compute_"))
    flags = build_flags(sdk=" --maca-path=$(MACA_PATH)")
    build = f"    make          # needs {api.compiler}"
    return {
        f"launcher.{api.suffix}": launcher(program, check.tolerances),
        "Makefile": makefile(api, flags, program.target.toolchain.elsewhere() if api.prefix == "mc" else ""),
        "README.md": deploy_folder.readme(program, check, plain, sizes, build, MADE[api.prefix]),
        "weights.bin": weights_blob(program)[1],
        "torch_extension.cpp": deploy_folder.torch_extension(program, plain, sizes, *STREAMS[api.prefix]),
        "torch_program.py": deploy_folder.torch_program(f"launcher.{api.suffix}", build_flags(sdk=""), api.prefix == "mc"),
        **check.files,
    }


STREAMS = {  # of torch on the device: its header, the current stream, the device type
    "cuda": ("c10/cuda/CUDAStream.h", "c10::cuda::getCurrentCUDAStream().stream()", "at::kCUDA"),
    "mc": ("c10/cuda/CUDAStream.h", "c10::cuda::getCurrentCUDAStream().stream()", "at::kCUDA"),
}
MADE = {
    "cuda": "`make check` says whether this very folder is right on a card; this project's tests run kernels of this printer on an H200.",
    "mc": "This project's tests type-check kernels of this printer by clang against a stand-in of the SDK's headers. Nothing of this\n"
          "target has been compiled by mxcc or run on a MetaX card by this project.",
}  # fmt: skip


def makefile(api: Api, flags: str, sdk: str) -> str:
    """Builds, runs, checks and times the launcher. `sdk`: where it lies, if the compiler is asked for by that; $MACA_PATH goes first."""
    compiler = {"nvcc": "nvcc", "mxcc": "$(MACA_PATH)/mxgpu_llvm/bin/mxcc"}[api.compiler]
    path = f"MACA_PATH ?= {sdk}\n" if sdk else ""
    return (
        "# make: build; make run: read NAME.bin, write NAME.out.bin; make check: compare with NAME.expected.bin; make bench: times\n"
        f"{path}CC := {compiler}\nCALLS ?= 50\n"
        f"program: launcher.{api.suffix} $(wildcard *.{api.suffix} *.h *.cuh)\n\t$(CC) {flags} -I. $< -o $@\n"
        "run check: program\n\t./program $@\nbench: program\n\t./program bench $(CALLS)\n.PHONY: run check bench\n"
    )
