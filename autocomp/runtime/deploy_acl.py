"""A program for NPUs as a folder that builds where CANN is: a launcher over AscendCL and the kernels' generated entry points, CMake,
weights. Nothing is launched through Python, and nothing here has been run on a device by this project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocomp.ir.tolerance import Tolerance
from autocomp.runtime import deploy_folder, deploy_host
from autocomp.runtime.deploy import hints, plain, weights_blob
from autocomp.runtime.deploy_check import Expected
from autocomp.runtime.plan import arena

WORDS = r"""[[maybe_unused]] static void check(aclError e, const char *what) {
  if (e != ACL_SUCCESS) { fprintf(stderr, "%s: error %d\n", what, (int)e); exit(1); }
}
typedef aclrtStream stream_t;
typedef aclrtEvent event_t;
[[maybe_unused]] static void open_device() {
  check(aclInit(nullptr), "aclInit");
  check(aclrtSetDevice(0), "device 0");
}
[[maybe_unused]] static void close_device() {
  check(aclrtResetDevice(0), "device 0");
  check(aclFinalize(), "aclFinalize");
}
[[maybe_unused]] static char *allocate(size_t bytes, const char *what) {
  void *p = nullptr;
  check(aclrtMalloc(&p, bytes ? bytes : 32, ACL_MEM_MALLOC_HUGE_FIRST), what);
  return (char *)p;
}
[[maybe_unused]] static void to_device(void *to, const void *from, size_t bytes, const char *what) {
  if (bytes) check(aclrtMemcpy(to, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE), what);
}
[[maybe_unused]] static void to_host(void *to, const void *from, size_t bytes, const char *what) {
  if (bytes) check(aclrtMemcpy(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_HOST), what);
}
[[maybe_unused]] static void on_device(void *to, const void *from, size_t bytes, stream_t s) {
  if (bytes) check(aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, s), "copy");
}
[[maybe_unused]] static stream_t new_stream() {
  stream_t s = nullptr;
  check(aclrtCreateStream(&s), "stream");
  return s;
}
[[maybe_unused]] static event_t new_event() {
  event_t e = nullptr;
  check(aclrtCreateEvent(&e), "event");
  return e;
}
[[maybe_unused]] static void record(event_t e, stream_t s) { check(aclrtRecordEvent(e, s), "event"); }
[[maybe_unused]] static void finish(stream_t s) { check(aclrtSynchronizeStream(s), "run"); }
[[maybe_unused]] static double elapsed(event_t from, event_t to) {  // microseconds
  float ms = 0;
  check(aclrtEventElapsedTime(&ms, from, to), "event");
  return ms * 1e3;
}
"""
LIBRARY = "cmake -B build && cmake --build build --target torch_library"
MADE = """The kernels use only what the table of the public Ascend C interface has for this chip. Nothing of this target has been compiled
by CANN's compiler or run on a device by this project. Where a runtime refuses
kernels marked KERNEL_TYPE_AIV_ONLY or KERNEL_TYPE_AIC_ONLY, remove that line from the kernel: the compiler finds out by itself which cores
it needs. The torch extension has never been built with torch_npu."""
MAKEFILE = """# make: build (source $ASCEND_HOME_PATH/set_env.sh first); run, check, bench: as README.md says
CALLS ?= 50
build/program: launcher.cpp CMakeLists.txt $(wildcard *.cpp *.h)
\tcmake -B build && cmake --build build
run check: build/program
\t./build/program $@
bench: build/program
\t./build/program bench $(CALLS)
.PHONY: run check bench
"""


def why_no_launcher(program: Any) -> str:
    """What keeps a program from having a launcher; "" where nothing does."""
    opaque = sorted({c.kernel.name for c in program.calls.calls if c.kernel.by_reference})
    return f"{len(opaque)} kernels have no generated code and run only through their reference: {', '.join(opaque[:5])}" if opaque else ""


def files(program: Any, check: Expected) -> dict[str, str | bytes]:
    """name -> content of what stands beside the sources."""
    source = "    source $ASCEND_HOME_PATH/set_env.sh     # CANN with the Ascend C compiler"
    build = f"{source}\n    make          # cmake, for {program.target.chip.arch}"
    stream = ("torch_npu/csrc/core/npu/NPUStream.h", "c10_npu::getCurrentNPUStream().stream()", "at::kPrivateUse1")
    return {
        "launcher.cpp": launcher(program, check.tolerances), "CMakeLists.txt": cmake(program), "Makefile": MAKEFILE,
        "README.md": deploy_folder.readme(program, check, plain, hints(program.calls), build, MADE, LIBRARY),
        "weights.bin": weights_blob(program)[1],
        "torch_extension.cpp": deploy_folder.torch_extension(program, plain, hints(program.calls), *stream),
        "torch_program.py": TORCH_PROGRAM,
        **check.files,
    }  # fmt: skip


TORCH_PROGRAM = '''"""The program as a function of torch_npu tensors: run(inputs...) -> outputs, as README.md lists them.

`cmake -B build && cmake --build build --target torch_library` builds the kernels and the launcher as a library first."""

import os
from pathlib import Path

import torch_npu
from torch.utils.cpp_extension import load

HERE = Path(__file__).parent.resolve()
NPU, CANN = Path(torch_npu.__file__).parent, os.environ["ASCEND_HOME_PATH"]
_made = load("autocomp_program", [str(HERE / "torch_extension.cpp")], extra_include_paths=[str(HERE), f"{NPU}/include", f"{CANN}/include"],
             extra_ldflags=[f"-L{HERE}/build", "-ltorch_library", f"-Wl,-rpath,{HERE}/build", f"-L{NPU}/lib", "-ltorch_npu"])
_made.weights_in(str(HERE))


def run(*inputs):
    """Starts all kernels on torch's current stream; a list of the outputs."""
    return _made.run(list(inputs))
'''


def launcher(program: Any, tolerances: Mapping[str, Tolerance]) -> str:
    """C++ that reads inputs and weights, launches every kernel in order and writes, compares or times the outputs (`deploy_host`).

    Shapes are fixed: symbols take their hints (`--dim` at compile time sets them).
    """
    g, values = program.calls, hints(program.calls)
    offsets, total = arena(g, program.slots, values)
    blob, data = weights_blob(program)
    scratch = max((s.launch.workspace for s in program.printed.values()), default=0)
    out = [
        f"// Launcher of {plain(program.name)}: reads NAME.bin for every input, writes NAME.out.bin for every output; `check` compares",
        "// them, `bench` times the kernels. With AUTOCOMP_LIBRARY it is a library instead: autocomp_prepare, autocomp_start.",
        *(f"#include <{h}>" for h in deploy_host.INCLUDES),
        '#include "acl/acl.h"',
        *(f'#include "aclrtlaunch_{e}.h"' for e in sorted(s.entry for s in program.printed.values())),
        "",
        WORDS,
        deploy_host.FILES + deploy_host.UPLOAD,
        *deploy_host.tables(program, plain),
        "[[maybe_unused]] static char *weights, *memory;",
        *(["static char *scratch;"] if scratch else []),
        "static void prepare() {",
        f'  weights = load("weights.bin", {len(data)});',
        f'  memory = allocate({total}, "memory of intermediates");',
        *([f'  scratch = allocate({scratch}, "memory between cores");'] if scratch else []),
        "}",
        "// All kernels in order; behind each a mark, where `marks` are given",
        "static void start(char *const *in, char *const *out, stream_t stream, event_t *marks) {",
        *deploy_host.pointers(program, values, offsets, blob, plain),
    ]
    for i, c in enumerate(g.calls):
        out += [*_launch(program, i, c, values), f"  if (marks) record(marks[{i + 1}], stream);"]
    out += [*deploy_host.copied(program, values, offsets, blob), "}"]
    return "\n".join([*out, *deploy_host.main_function(program, values, tolerances, plain), ""])


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
add_library(torch_library SHARED EXCLUDE_FROM_ALL launcher.cpp)  # for torch_program.py
target_compile_definitions(torch_library PRIVATE AUTOCOMP_LIBRARY)
target_include_directories(torch_library PRIVATE ${{ASCEND_CANN_PACKAGE_PATH}}/include)
target_link_directories(torch_library PRIVATE ${{ASCEND_CANN_PACKAGE_PATH}}/lib64)
target_link_libraries(torch_library PRIVATE kernels ascendcl)
"""
