"""api.yaml -> the stand-in headers: one for type checks by clang, one for the CPU model.

    python -m autocomp.targets.maca.stand_in CHECK_FOLDER MODEL_FOLDER     writes standin.h and maca_api.h

The model's functions have the builtins' names with model_ for __builtin_mxc_; a builtin calls its own once its numbers are in range.
"""

from __future__ import annotations

import sys
from pathlib import Path

from autocomp.targets.maca.api import math_names, rows

WRITTEN = "// Written by targets/maca/stand_in.py from targets/maca/api.yaml.\n"
HEAD = """// A stand-in for the MACA SDK's headers, for type checks only: clang in HIP mode for a GPU with waves of 64 lanes.
#pragma once
#define memcpy __builtin_memcpy
#define __MACA__ 1
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __NATIVE_VECTOR__(n, T) T __attribute__((ext_vector_type(n)))
#define __align__(n) __attribute__((aligned(n)))
typedef decltype(sizeof(0)) size_t;
struct standin_index { unsigned x, y, z; };
extern const __device__ standin_index threadIdx, blockIdx, blockDim, gridDim;
using __half = _Float16;
struct maca_bfloat16 { unsigned short bits; };
"""
PREFIX = "__builtin_mxc_"


def _spelt(type_: str) -> str:
    """A type of the table in the stand-ins' words."""
    return f"standin_{type_}" if type_ in rows()["types"] else type_


def _arguments(row: dict[str, object]) -> str:
    split = [str(a).rpartition(" ") for a in row["arguments"]]  # type: ignore[attr-defined]
    return ", ".join(f"{_spelt(t)} {n}" if "=" not in a else a for a, (t, _, n) in zip(map(str, row["arguments"]), split))  # type: ignore[call-overload]


def _constants() -> str:
    values = ", ".join(f"{n} = {c['value']}" for n, c in rows()["constants"].items())
    return f"enum {{ {values} }};"


def checked() -> str:
    """The declarations that printed kernels are type-checked against."""
    t = rows()
    lines = [WRITTEN + HEAD + _constants()]
    lines += [f"typedef __NATIVE_VECTOR__({v['lanes']}, {v['element']}) standin_{n};" for n, v in t["types"].items()]
    lines += [f"__device__ {_spelt(b['returns'])} {b['name']}({_arguments(b)});" for b in t["builtins"] if not b.get("clang")]
    for f in t["functions"]:
        template = f"template <class {f['template']}> " if f.get("template") else ""
        kind = "__device__ " if f.get("template") or not f["arguments"] else "__device__ __host__ "
        lines.append(f"{template}{kind}{f['returns']} {f['name']}({_arguments(f)});")
        if f.get("wide"):  # a mask of 64 lanes needs 64 bits
            narrow = _arguments(f).replace("unsigned long long " + f["wide"], "unsigned " + f["wide"])
            lines.append(f"{template}{kind}{f['returns']} {f['name']}({narrow}) = delete;")
    lines += [f"__device__ {type_} {n}({', '.join([type_] * count)});" for n, type_, count in math_names()]
    return "\n".join([*lines, ""])


def modelled() -> str:
    """The builtins on the CPU model."""
    lines = [WRITTEN + "#pragma once", _constants()]
    for b in rows()["builtins"]:
        if b.get("clang"):
            continue
        names = [str(a).rpartition(" ")[2].lstrip("*") for a in b["arguments"]]
        lines.append(f"inline {_spelt(b['returns'])} {b['name']}({_arguments(b)}) {{")
        for n, (low, high) in b.get("ranges", {}).items():
            lines.append(f'  if ({n} < {low} || {n} > {high}) simt_fail("{n} of {b["name"]} is outside of {low}..{high}");')
        lines += [f"  return model_{b['name'].removeprefix(PREFIX)}({', '.join(names)});", "}"]
    return "\n".join([*lines, ""])


def main() -> None:
    check, model = map(Path, sys.argv[1:3])
    (check / "standin.h").write_text(checked(), encoding="utf-8")
    (model / "maca_api.h").write_text(modelled(), encoding="utf-8")


if __name__ == "__main__":
    main()
