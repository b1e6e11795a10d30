"""A program for a device as a folder that builds where the device is: a launcher in C++, its makefile, weights as one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from autocomp.ir.kernel import KernelGraph
from autocomp.ir.types import Sym, dim_hint
from autocomp.runtime.plan import arena, size_of
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
    "maca": Api("mc", "#include <mc_runtime.h>", "maca", "mxcc", "-x maca -O3 -std=c++17 -offload-arch={arch}", 64 * 1024),
}
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
    opaque = sorted({c.kernel.name for c in program.calls.calls if c.kernel.opaque})
    if opaque:
        return f"{len(opaque)} kernels have no generated code and run only through their reference: {', '.join(opaque[:5])}"
    return ""


def hints(g: KernelGraph) -> dict[str, int]:
    """Symbol -> the extent that a folder is written for."""
    return {d.name: dim_hint(d) for t in g.tensors.values() for d in t.shape if isinstance(d, Sym)}


def launcher(program: Any) -> str:
    """C++ that reads inputs and weights, launches every kernel in order and writes the outputs. Raw row-major files.

    Shapes are fixed: symbols take their hints (`--dim` at compile time sets them).
    """
    api, g = APIS[program.target.name], program.calls
    values = hints(g)
    offsets, total = arena(g, program.slots, values)
    blob, _ = weights_blob(program)
    used = program.slots.index
    scratch = max((k.launch.workspace for k in program.printed.values() if k.launch), default=0)
    maps = any(k.launch and k.launch.maps for k in program.printed.values())
    out = [
        f"// Launcher of {plain(program.name)}: reads NAME.bin for every input, writes NAME.out.bin for every output.",
        "#include <cstdio>",
        "#include <cstdlib>",
        "#include <cstring>",
        "#include <vector>",
        api.include,
        *(f'#include "{name}"' for name in sorted({h for k in program.printed.values() for h in k.headers})),
        *_kernels(program),
        "",
        f"static void check({api.prefix}Error_t e, const char *what) {{",
        f'  if (e != {api.prefix}Success) {{ fprintf(stderr, "%s: %s\\n", what, {api.prefix}GetErrorString(e)); exit(1); }}',
        "}",
        "static void *load(const char *path, size_t bytes) {",
        "  std::vector<char> host(bytes ? bytes : 1);",
        '  FILE *f = fopen(path, "rb");',
        '  if (!f || fread(host.data(), 1, bytes, f) != bytes) { fprintf(stderr, "%s: expected %zu bytes\\n", path, bytes); exit(1); }',
        "  fclose(f);",
        "  void *p;",
        f"  check({api.prefix}Malloc(&p, bytes ? bytes : 1), path);",
        f"  check({api.prefix}Memcpy(p, host.data(), bytes, {api.prefix}MemcpyHostToDevice), path);",
        "  return p;",
        "}",
        *([MAPS] if maps else []),
        "int main() {",
        f'  char *const weights = (char *)load("weights.bin", {sum(size for _, size in blob.values())});',
        "  char *memory;",
        f'  check({api.prefix}Malloc((void **)&memory, {max(1, total)}), "memory of intermediates");',
    ]
    output = lambda n: f'[] {{ void *p; check({api.prefix}Malloc(&p, {max(1, n)}), "an output"); return p; }}()'
    for name in sorted(used, key=lambda n: used[n]):
        out.append(f"  void *t{used[name]} = {place(program, name, offsets, blob, values, output)};  // {plain(name)}")
    if scratch:
        out += ["  unsigned char *scratch;", f'  check({api.prefix}Malloc((void **)&scratch, {scratch}), "scratch");']
    for i, c in enumerate(g.calls):
        out += _launch(program, api, i, c, values)
    out.append(f'  check({api.prefix}DeviceSynchronize(), "run");')
    for name, t in g.outputs:
        bytes_ = size_of(g.tensors[t], values)
        out += [
            "  {",
            f"    std::vector<char> host({max(1, bytes_)});",
            f'    check({api.prefix}Memcpy(host.data(), t{used[t]}, {bytes_}, {api.prefix}MemcpyDeviceToHost), "{plain(name)}");',
            f'    FILE *f = fopen("{plain(name)}.out.bin", "wb");',
            f"    if (!f || fwrite(host.data(), 1, {bytes_}, f) != {bytes_} || fclose(f)) return 1;",
            "  }",
        ]
    return "\n".join([*out, "}", ""])


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


def place(program: Any, name: str, offsets: Mapping[str, int], blob: Mapping[str, tuple[int, int]], values: Mapping[str, int],
          output: Callable[[int], str]) -> str:  # fmt: skip
    """Where a launcher finds a tensor: among the weights, in the arena, in a file, or memory of its own (`output`, of so many bytes)."""
    if name in blob:
        return f"weights + {blob[name][0]}"
    if name in offsets:
        return f"memory + {offsets[name]}"
    bytes_ = size_of(program.calls.tensors[name], values)
    return f'load("{plain(name)}.bin", {bytes_})' if name in program.calls.inputs else output(bytes_)


def _launch(program: Any, api: Api, i: int, call: Any, values: Mapping[str, int]) -> list[str]:
    """The lines of one call."""
    source = program.printed[call.kernel.name]
    index, launch = program.slots.index, source.launch
    types = {a.name: a.type.dtype.name for a in (*call.kernel.inputs, *call.kernel.outputs)}
    blocks = launch.blocks(values)
    arguments = [f"({_pointer(types[a])} *)t{index[call.args[a]]}" for a in (*source.inputs, *source.outputs)]
    arguments += [f"{values[s]}ll" for s in source.sizes]
    lines = [f"  {{  // {plain(call.name or source.entry)}: {' '.join(call.ops)}"]
    for z in launch.zeroed:
        t = call.args[z]
        lines.append(f'    check({api.prefix}Memset(t{index[t]}, 0, {size_of(program.calls.tensors[t], values)}), "clear");')
    if launch.workspace:
        lines.append(f'    check({api.prefix}Memset(scratch, 0, {launch.workspace}), "clear");')
        arguments.append("scratch")
    for n, m in enumerate(launch.maps):
        lines.append(f"    const ac_tensor_map map{n} = {_map(m, f't{index[call.args[m.argument]]}', values)};")
        arguments.append(f"map{n}")
    if launch.shared >= api.asked:
        kernel, attribute = source.entry, f"{api.prefix}FuncAttributeMaxDynamicSharedMemorySize"
        lines.append(f'    check({api.prefix}FuncSetAttribute((const void *){kernel}, {attribute}, {launch.shared}), "shared memory");')
    what = f'"{source.entry} (call {i})"'
    if launch.cluster > 1:
        lines += _together(source.entry, launch, blocks, arguments, what)
    elif prod(blocks):
        grid = f"dim3({', '.join(map(str, blocks))}), dim3({launch.block}), {launch.shared}"
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


def makefile(program: Any) -> str:
    """Builds and runs the launcher."""
    api = APIS[program.target.name]
    arch = program.target.chip.arch
    flags = api.build.format(arch=arch, virtual=arch.replace("sm_", "compute_"))
    compiler = {"nvcc": "nvcc", "mxcc": "$(MACA_PATH)/mxgpu_llvm/bin/mxcc"}[api.compiler]
    path = "MACA_PATH ?= /opt/maca\n" if api.prefix == "mc" else ""
    return (
        f"# make: build the program; make run: read NAME.bin, write NAME.out.bin\n{path}CC := {compiler}\n"
        f"program: launcher.{api.suffix} $(wildcard *.{api.suffix} *.h *.cuh)\n\t$(CC) {flags} -I. $< -o $@\n"
        "run: program\n\t./program\n.PHONY: run\n"
    )


def readme(program: Any) -> str:
    """What is in the folder and the commands that build and run it."""
    g = program.calls
    names = lambda items: "\n".join(f"- `{plain(n)}{suffix}`: {g.tensors[t]}" for n, t, suffix in items)
    return f"""# {plain(program.name)} for {program.target.chip.title}

    make          # needs {APIS[program.target.name].compiler}
    make run

Inputs (raw, row-major, little-endian; in Python `array.tofile("NAME.bin")`, and `numpy.fromfile` reads the outputs):

{names([(n, n, ".bin") for n in g.inputs])}

Outputs:

{names([(n, t, ".out.bin") for n, t in g.outputs])}

`manifest.json` lists tensors, calls and kernels with their schedules, bounds and rules; `weights.bin` holds the parameters.
"""
