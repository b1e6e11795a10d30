"""A program for NPUs as a folder that builds where CANN is: a launcher over AscendCL and the kernels' generated entry points, CMake,
weights. Nothing is launched through Python, and nothing here has been run on a device by this project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocomp.runtime.deploy import hints, place, plain, weights_blob
from autocomp.runtime.plan import arena, size_of

HELPERS = """static void check(aclError e, const char *what) {
  if (e != ACL_SUCCESS) { fprintf(stderr, "%s: error %d\\n", what, (int)e); exit(1); }
}
static char *memory_of(size_t bytes, const char *what) {
  void *p = nullptr;
  check(aclrtMalloc(&p, bytes ? bytes : 32, ACL_MEM_MALLOC_HUGE_FIRST), what);
  return (char *)p;
}
static char *load(const char *path, size_t bytes) {
  std::vector<char> host(bytes ? bytes : 1);
  FILE *f = fopen(path, "rb");
  if (!f || fread(host.data(), 1, bytes, f) != bytes) { fprintf(stderr, "%s: expected %zu bytes\\n", path, bytes); exit(1); }
  fclose(f);
  char *p = memory_of(bytes, path);
  if (bytes) check(aclrtMemcpy(p, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), path);
  return p;
}
static void save(const char *path, const char *from, size_t bytes) {
  std::vector<char> host(bytes ? bytes : 1);
  if (bytes) check(aclrtMemcpy(host.data(), bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_HOST), path);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(host.data(), 1, bytes, f) != bytes || fclose(f)) { fprintf(stderr, "%s: cannot be written\\n", path); exit(1); }
}"""


def why_no_launcher(program: Any) -> str:
    """What keeps a program from having a launcher; "" where nothing does."""
    opaque = sorted({c.kernel.name for c in program.calls.calls if c.kernel.opaque})
    return f"{len(opaque)} kernels have no generated code and run only through their reference: {', '.join(opaque[:5])}" if opaque else ""


def files(program: Any) -> dict[str, str | bytes]:
    """name -> content of what stands beside the sources."""
    return {
        "launcher.cpp": launcher(program), "CMakeLists.txt": cmake(program), "README.md": readme(program),
        "weights.bin": weights_blob(program)[1],
    }  # fmt: skip


def launcher(program: Any) -> str:
    """C++ that reads inputs and weights, launches every kernel in order on one stream and writes the outputs. Raw row-major files.

    Shapes are fixed: symbols take their hints (`--dim` at compile time sets them).
    """
    g, values = program.calls, hints(program.calls)
    offsets, total = arena(g, program.slots, values)
    blob, data = weights_blob(program)
    used = program.slots.index
    scratch = max((s.launch.workspace for s in program.printed.values()), default=0)
    out = [
        f"// Launcher of {plain(program.name)}: reads NAME.bin for every input, writes NAME.out.bin for every output.",
        "#include <cstdio>",
        "#include <cstdlib>",
        "#include <vector>",
        '#include "acl/acl.h"',
        *(f'#include "aclrtlaunch_{e}.h"' for e in sorted(s.entry for s in program.printed.values())),
        "",
        HELPERS,
        "",
        "int main() {",
        '  check(aclInit(nullptr), "aclInit");',
        '  check(aclrtSetDevice(0), "device 0");',
        "  aclrtStream stream = nullptr;",
        '  check(aclrtCreateStream(&stream), "stream");',
        f'  char *const weights = load("weights.bin", {len(data)});',
        f'  char *const memory = memory_of({total}, "memory of intermediates");',
        *([f'  char *const scratch = memory_of({scratch}, "memory between cores");'] if scratch else []),
    ]
    output = lambda n: f'memory_of({n}, "an output")'
    for name in sorted(used, key=lambda n: used[n]):
        out.append(f"  char *const t{used[name]} = {place(program, name, offsets, blob, values, output)};  // {plain(name)}")
    for i, c in enumerate(g.calls):
        out += _launch(program, i, c, values)
    out.append('  check(aclrtSynchronizeStream(stream), "run");')
    out += [f'  save("{plain(n)}.out.bin", t{used[t]}, {size_of(g.tensors[t], values)});' for n, t in g.outputs]
    return "\n".join([*out, '  check(aclrtDestroyStream(stream), "stream");', '  check(aclrtResetDevice(0), "device 0");',
                      "  return aclFinalize() != ACL_SUCCESS;", "}", ""])  # fmt: skip


def _launch(program: Any, i: int, call: Any, values: Mapping[str, int]) -> list[str]:
    """The lines of one call."""
    source, index = program.printed[call.kernel.name], program.slots.index
    arguments = [f"t{index[call.args[a]]}" for a in (*source.inputs, *source.outputs)]
    arguments += ["scratch"] if source.launch.workspace else []
    arguments += [f"int64_t({values[s]})" for s in source.sizes]
    launch = f"ACLRT_LAUNCH_KERNEL({source.entry})({source.launch.blocks(values)[0]}, stream, {', '.join(arguments)})"
    return [f"  // {plain(call.name or source.entry)}: {' '.join(call.ops)}", f'  check(aclError({launch}), "{source.entry} (call {i})");']


def cmake(program: Any) -> str:
    """Builds the kernels with CANN's CMake functions and links the launcher."""
    sources = " ".join(sorted(n for n in program.sources))
    return f"""# cmake -B build && cmake --build build && ./build/program
cmake_minimum_required(VERSION 3.16)
project(autocomp_program CXX)
set(CMAKE_CXX_STANDARD 17)
set(SOC_VERSION "{program.target.chip.arch}" CACHE STRING "chip, as npu-smi names it")
set(RUN_MODE "npu" CACHE STRING "npu, or sim for the simulator")
set(ASCEND_CANN_PACKAGE_PATH "$ENV{{ASCEND_HOME_PATH}}" CACHE PATH "CANN; source its set_env.sh")
foreach(folder tools/tikcpp compiler/tikcpp ${{CMAKE_SYSTEM_PROCESSOR}}-linux/tikcpp)
  if(NOT ASCENDC_CMAKE_DIR AND EXISTS ${{ASCEND_CANN_PACKAGE_PATH}}/${{folder}}/ascendc_kernel_cmake)
    set(ASCENDC_CMAKE_DIR ${{ASCEND_CANN_PACKAGE_PATH}}/${{folder}}/ascendc_kernel_cmake)
  endif()
endforeach()
if(NOT ASCENDC_CMAKE_DIR)
  message(FATAL_ERROR "no ascendc_kernel_cmake below '${{ASCEND_CANN_PACKAGE_PATH}}': set ASCEND_CANN_PACKAGE_PATH or ASCENDC_CMAKE_DIR")
endif()
include(${{ASCENDC_CMAKE_DIR}}/ascendc.cmake)
ascendc_library(kernels STATIC {sources})
ascendc_include_directories(kernels PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}})
add_executable(program launcher.cpp)
target_include_directories(program PRIVATE ${{ASCEND_CANN_PACKAGE_PATH}}/include)
target_link_directories(program PRIVATE ${{ASCEND_CANN_PACKAGE_PATH}}/lib64)
target_link_libraries(program PRIVATE kernels ascendcl)
"""


def readme(program: Any) -> str:
    """What is in the folder, the commands that build and run it, and what has not been checked."""
    g = program.calls
    names = lambda items: "\n".join(f"- `{plain(n)}{suffix}`: {g.tensors[t]}" for n, t, suffix in items)
    return f"""# {plain(program.name)} for {program.target.chip.title}

    source $ASCEND_HOME_PATH/set_env.sh     # CANN with the Ascend C compiler
    cmake -B build                          # -DSOC_VERSION={program.target.chip.arch} names the chip
    cmake --build build
    ./build/program                         # reads NAME.bin, writes NAME.out.bin

Inputs (raw, row-major, little-endian):

{names([(n, n, ".bin") for n in g.inputs])}

Outputs:

{names([(n, t, ".out.bin") for n, t in g.outputs])}

`manifest.json` lists tensors, calls and kernels with their schedules, bounds and rules; `weights.bin` holds the parameters.

The kernels were checked on a model of the Ascend C interface (results, missing and superfluous flags, ranges, capacities), not with
CANN's compiler and not on a device. Where a runtime refuses kernels marked KERNEL_TYPE_AIV_ONLY or KERNEL_TYPE_AIC_ONLY, remove that line
from the kernel: the compiler finds out by itself which cores it needs.
"""
