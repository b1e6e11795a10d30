"""What stands beside a launcher in a saved folder, alike for all vendors: the README, and the kernels as a function of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autocomp.ir.types import DType, Sym
from autocomp.runtime.deploy_check import SEED, Expected

Names = Callable[[str], str]
TORCH = {"f64": "at::kDouble", "f32": "at::kFloat", "f16": "at::kHalf", "bf16": "at::kBFloat16", "f8e4m3": "at::kFloat8_e4m3fn",
         "f8e5m2": "at::kFloat8_e5m2", "i8": "at::kChar", "u8": "at::kByte", "i16": "at::kShort", "i32": "at::kInt", "i64": "at::kLong",
         "bool": "at::kBool"}  # fmt: skip


def readme(program: Any, check: Expected, plain: Names, sizes: Mapping[str, int], build: str, made: str, library: str = "") -> str:
    """What is in the folder, the commands, and how far each kernel has been checked; `made`: what the target as a whole has seen;
    `library`: the command that builds kernels and launcher for torch, where the extension's own build does not."""
    g = program.calls
    names = lambda items: "\n".join(f"- `{plain(n)}{suffix}`: {g.tensors[t]}" for n, t, suffix in items)
    fixed = f"\nWritten for {', '.join(f'{n} = {v}' for n, v in sizes.items())}.\n" if sizes else ""
    compared = (f"There are no expected outputs in this folder: {check.why_not}." if check.why_not else
                f"`NAME.bin` are random inputs (seed {SEED}), `NAME.expected.bin` what the float64 reference makes of them, as float64.\n"
                "How far each output may be off is derived from its type and the lengths of its sums.")  # fmt: skip
    extension = (f"`{library}` builds kernels and launcher as a library;\n`from torch_program import run; y, .. = run(x, ..)` then builds "
                 "`torch_extension.cpp` around it" if library else "`from torch_program import run; y, .. = run(x, ..)` builds "
                 "`torch_extension.cpp` with the launcher as a library")  # fmt: skip
    ran = program.modelled or ("They did not run on a model of the machine when this folder was written:\n"
                               "`autocomp optimize .. --simulate -o DIR` runs them there first.")  # fmt: skip
    rows = "\n".join(f"| {k.name} | {k.calls} | {k.predicted * 1e6:.2f} | {k.bound} |" for k in program.kernels)
    return f"""# {plain(program.name)} for {program.target.chip.title}

{build}
    make run      # reads NAME.bin, writes NAME.out.bin
    make check    # the same, and compares with NAME.expected.bin: exit code 1 where an element is off
    make bench    # times of a call and of each kernel, by the device's events

Inputs (raw, row-major, little-endian; in Python `array.tofile("NAME.bin")`, and `numpy.fromfile` reads the outputs):

{names([(n, n, ".bin") for n in g.inputs])}

Outputs:

{names([(n, t, ".out.bin") for n, t in g.outputs])}
{fixed}
{compared}

In torch: {extension} at its
first import, and starts the kernels on torch's current stream. The first call loads the weights to the device of its tensors; later
calls with tensors on another device are refused.

`manifest.json` lists tensors, calls and kernels with their schedules, bounds and rules; `weights.bin` holds the parameters.

## What has been checked
{made}
{ran}

| kernel | calls | predicted us | bound by |
|---|---|---|---|
{rows}
"""


def torch_extension(program: Any, plain: Names, sizes: Mapping[str, int], header: str, stream: str, device: str) -> str:
    """C++: the program as a function of tensors on the device."""
    g = program.calls
    number = lambda d: sizes[d.name] if isinstance(d, Sym) else d
    shape = lambda t: "{" + ", ".join(str(number(d)) for d in g.tensors[t].shape) + "}"
    kind = lambda t: torch_type(g.tensors[t].dtype)
    checks = "\n".join(f'  take(given, {i}, {shape(n)}, {kind(n)}, "{plain(n)}", in);' for i, n in enumerate(g.inputs))
    made = "\n".join(f"  made.push_back(at::empty({shape(t)}, at::TensorOptions({device}).dtype({kind(t)})));  // {plain(n)}"
                     for n, t in g.outputs)  # fmt: skip
    return f'''// {plain(program.name)} as a function of torch: `torch_program.py` builds it with the launcher as a library.
#include <optional>
#include <torch/extension.h>
#include "{header}"

extern "C" void autocomp_prepare(const char *where);
extern "C" void autocomp_start(char *const *in, char *const *out, void *stream);

static std::string folder;               // of weights.bin
static std::optional<c10::Device> home;  // where weights and intermediates lie: the device of the first call

static void take(std::vector<at::Tensor> &given, size_t i, at::IntArrayRef shape, at::ScalarType type, const char *name,
                 std::vector<char *> &in) {{
  at::Tensor &x = given[i];
  const bool right = x.sizes() == shape && x.scalar_type() == type && x.is_contiguous() && x.device().type() == {device} &&
                     x.device() == given[0].device();
  TORCH_CHECK(right, name, " must be a contiguous tensor ", shape, " of ", type, " on the device of the first one");
  in.push_back((char *)x.data_ptr());
}}

static std::vector<at::Tensor> run(std::vector<at::Tensor> given) {{
  TORCH_CHECK(given.size() == {len(g.inputs)}, "takes {len(g.inputs)} tensors");
  std::vector<char *> in, out;
{checks}
  c10::OptionalDeviceGuard guard;
  if (!given.empty()) guard.reset_device(given[0].device());
  std::vector<at::Tensor> made;  // torch starts the device for the first of them, where nothing has
{made}
  if (!home) {{
    autocomp_prepare(folder.c_str());
    home = made[0].device();
  }}
  TORCH_CHECK(*home == made[0].device(), "the weights are on ", *home, ", not on ", made[0].device(), ": one process a device");
  for (auto &x : made) out.push_back((char *)x.data_ptr());
  autocomp_start(in.data(), out.data(), (void *){stream});
  return made;
}}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
  m.def("weights_in", [](const std::string &where) {{ folder = where; }});
  m.def("run", &run);
}}
'''


def torch_type(t: DType) -> str:
    """A type in ATen's words; those that it lacks are bytes."""
    return TORCH.get(t.name, "at::kByte")


def torch_program(launcher: str, flags: str, maca: bool) -> str:
    """Python: builds and loads the extension."""
    note = "  # torch for MACA compiles .cu: the launcher is the same text" if maca else ""
    words = ", ".join(f'"{f}"' for f in (*flags.split(), "-DAUTOCOMP_LIBRARY", "-Xcompiler", "-fPIC") if f not in ("-x", "maca"))
    return f'''"""The program as a function of torch tensors on the device: run(inputs...) -> outputs, as README.md lists them."""

import shutil
from pathlib import Path

from torch.utils.cpp_extension import load

HERE = Path(__file__).parent.resolve()
(HERE / "build_torch").mkdir(exist_ok=True)
LAUNCHER = Path(shutil.copy(HERE / "{launcher}", HERE / "build_torch" / "launcher_library.cu")){note}
_made = load("autocomp_program", [str(HERE / "torch_extension.cpp"), str(LAUNCHER)], build_directory=str(HERE / "build_torch"),
             extra_include_paths=[str(HERE)], extra_cuda_cflags=[{words},
                                "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__"])
_made.weights_in(str(HERE))


def run(*inputs):
    """Starts all kernels on torch's current stream; a list of the outputs."""
    return _made.run(list(inputs))
'''
