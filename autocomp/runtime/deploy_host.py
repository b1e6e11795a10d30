"""The host part that the launchers of all vendors share: files, comparison with expected outputs, times by the device's events.

A launcher is a vendor's words for memory, streams and events (`allocate`, `to_device`, ...), `prepare` (weights, memory of
intermediates), `start` (all kernels in order on a stream) and this main function:

    program          reads NAME.bin, writes NAME.out.bin
    program check    also compares with NAME.expected.bin; exit 1 where an element is off
    program bench N  times N calls, and each kernel in them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autocomp.ir.tolerance import Tolerance
from autocomp.ir.types import DType
from autocomp.runtime.plan import size_of

INCLUDES = ("algorithm", "cmath", "cstdio", "cstdlib", "cstring", "string", "vector")
FILES = r"""static std::string folder = ".";  // where the files lie
static std::string path_of(const std::string &name) { return folder == "." ? name : folder + "/" + name; }
static std::vector<char> contents(const std::string &name, size_t bytes) {
  std::vector<char> host(bytes ? bytes : 1);
  FILE *f = fopen(path_of(name).c_str(), "rb");
  if (!f || fread(host.data(), 1, bytes, f) != bytes) {
    fprintf(stderr, "%s: expected %zu bytes\n", path_of(name).c_str(), bytes);
    exit(1);
  }
  fclose(f);
  return host;
}
"""
UPLOAD = r"""static char *load(const std::string &name, size_t bytes) {
  const std::vector<char> host = contents(name, bytes);
  char *p = allocate(bytes, name.c_str());
  to_device(p, host.data(), bytes, name.c_str());
  return p;
}
"""
COMPARE = r"""struct Type { int bytes; char kind; int mantissa; bool infinite; };  // kind: u, i, or f with so many bits of mantissa
static double decoded(const char *p, Type t) {
  unsigned long long bits = 0;
  memcpy(&bits, p, t.bytes);
  const int width = 8 * t.bytes;
  if (t.kind == 'u') return double(bits);
  if (t.kind == 'i') return double((long long)(bits << (64 - width)) >> (64 - width));
  const int wide = width - 1 - t.mantissa, bias = (1 << (wide - 1)) - 1, e = int(bits >> t.mantissa & ((1ull << wide) - 1));
  const unsigned long long m = bits & ((1ull << t.mantissa) - 1), all = (1ull << t.mantissa) - 1;
  const double sign = bits >> (width - 1) & 1 ? -1.0 : 1.0;
  if (e == (1 << wide) - 1 && (t.infinite || m == all)) return t.infinite && !m ? sign * INFINITY : NAN;
  return sign * (e ? ldexp(1.0 + ldexp(double(m), -t.mantissa), e - bias) : ldexp(double(m), 1 - bias - t.mantissa));
}
static int compare(const char *name, const std::vector<char> &got, size_t count, Type t, double relative, double absolute) {
  const std::vector<char> file = contents(std::string(name) + ".expected.bin", 8 * count);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    double want;
    memcpy(&want, file.data() + 8 * i, 8);
    const double have = decoded(got.data() + t.bytes * i, t);
    const bool same = have == want || (std::isnan(have) && std::isnan(want));
    const double limit = absolute + relative * fabs(want);
    const double off = same ? 0.0 : limit > 0 && std::isfinite(have) ? fabs(have - want) / limit : INFINITY;
    if (!(off <= worst)) worst = off, at = i;
  }
  if (!count) return 0;
  double want;
  memcpy(&want, file.data() + 8 * at, 8);
  const double have = decoded(got.data() + t.bytes * at, t);
  printf("%s: %zu elements, the worst is [%zu]: %.9g for %.9g, %.3g of what is allowed\n", name, count, at, have, want, worst);
  return worst <= 1 ? 0 : 1;
}
"""
BENCH = r"""static double median(std::vector<double> &x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}
static int bench(char *const *in, char *const *out, stream_t stream, int times) {
  std::vector<event_t> marks;
  for (int i = 0; i < MARKS; ++i) marks.push_back(new_event());
  std::vector<double> whole;
  std::vector<std::vector<double>> each(CALLS);
  for (int n = -3; n < times; ++n) {  // three calls to warm up
    record(marks[0], stream);
    start(in, out, stream, nullptr);
    record(marks[CALLS], stream);
    finish(stream);
    if (n >= 0) whole.push_back(elapsed(marks[0], marks[CALLS]));
  }
  for (int n = 0; n < times; ++n) {
    record(marks[0], stream);
    start(in, out, stream, marks.data());
    finish(stream);
    for (int i = 0; i < CALLS; ++i) each[i].push_back(elapsed(marks[before[i]], marks[i + 1]));
  }
  for (int i = 0; i < CALLS; ++i) printf("%10.2f us  %s (predicted %.2f)\n", median(each[i]), called[i], predicted[i]);
  printf("%10.2f us  a call, median of %d; kernels one by one above\n", median(whole), times);
  return 0;
}
"""
MANTISSA = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8e4m3": 3, "f8e5m2": 2}


def type_of(t: DType) -> str:
    """A type in the launcher's words."""
    if t.name in MANTISSA:
        return f"Type{{{t.bytes}, 'f', {MANTISSA[t.name]}, {'false' if t.name == 'f8e4m3' else 'true'}}}"
    return f"Type{{{t.bytes}, '{'i' if t.name.startswith('i') else 'u'}', 0, false}}"


def tables(program: Any, plain: Callable[[str], str]) -> list[str]:
    """How many calls there are, their names, what they are predicted to take, and the mark in front of each: mark i + 1 stands behind call
    i, in a loop behind that of its first step, and behind all calls' one for each loop's end."""
    calls, spans = program.calls.calls, list(program.calls.spans.values())
    before = {last: len(calls) + 1 + k for k, (_, last) in enumerate(spans)}
    marks = ", ".join(str(before.get(i, i)) for i in range(len(calls))) or "0"
    times = {k.name: k.predicted for k in program.kernels}
    names = ", ".join(f'"{plain(c.kernel.name)}"' for c in calls) or '""'
    return [f"constexpr int CALLS = {len(calls)}, MARKS = {len(calls) + 1 + len(spans)};", f"static const int before[] = {{{marks}}};",
            f"static const char *const called[] = {{{names}}};",
            f"static const double predicted[] = {{{', '.join(f'{times[c.kernel.name] * 1e6:.2f}' for c in calls) or '0'}}};"]  # fmt: skip


def pointers(program: Any, values: Mapping[str, int], offsets: Mapping[str, int], blob: Mapping[str, tuple[int, int]],
             plain: Callable[[str], str]) -> list[str]:  # fmt: skip
    """Inside of `start`: where each tensor of the program lies."""
    used, calls = program.slots.index, program.calls
    inputs = {n: i for i, n in enumerate(calls.inputs)}
    outputs: dict[str, int] = {}
    for i, (_, t) in enumerate(calls.outputs):
        outputs.setdefault(t, i)
    out = []
    for name in sorted(used, key=lambda n: used[n]):
        if name in calls.donated:  # written where its input lies
            place = f"in[{inputs[calls.donated[name]]}]"
        elif name in blob:
            place = f"weights + {blob[name][0]}"
        elif name in offsets:
            place = f"memory + {offsets[name]}"
        else:
            place = f"in[{inputs[name]}]" if name in inputs else f"out[{outputs[name]}]"
        out.append(f"  char *const t{used[name]} = {place};  // {plain(name)}")
    return out


def copied(program: Any, values: Mapping[str, int], offsets: Mapping[str, int], blob: Mapping[str, tuple[int, int]]) -> list[str]:
    """Behind the kernels: outputs whose tensor lies somewhere else."""
    calls, seen, lines = program.calls, set[str](), []
    for i, (_, t) in enumerate(calls.outputs):
        if t in blob or t in offsets or t in calls.inputs or t in calls.donated or t in seen:
            lines.append(f"  on_device(out[{i}], t{program.slots.index[t]}, {size_of(calls.tensors[t], values)}, stream);")
        seen.add(t)
    return lines


def main_function(program: Any, values: Mapping[str, int], tolerances: Mapping[str, Tolerance], plain: Callable[[str], str]) -> list[str]:
    """The launcher's end: entry points for a library, else `main`."""
    calls = program.calls
    bytes_ = lambda t: size_of(calls.tensors[t], values)
    loads = ", ".join(f'load("{plain(n)}.bin", {bytes_(n)})' for n in calls.inputs) or "nullptr"
    rooms = ", ".join(f'allocate({bytes_(t)}, "{plain(n)}")' for n, t in calls.outputs) or "nullptr"
    lines = [
        "#ifdef AUTOCOMP_LIBRARY",
        "// `where`: the folder of weights.bin. in, out: the device's pointers, in the order of README.md",
        'extern "C" void autocomp_prepare(const char *where) {',
        "  folder = where;",
        "  prepare();",
        "}",
        'extern "C" void autocomp_start(char *const *in, char *const *out, void *stream) { start(in, out, (stream_t)stream, nullptr); }',
        "#else",
        COMPARE + BENCH,
        "int main(int argc, char **argv) {",
        '  const std::string mode = argc > 1 ? argv[1] : "run";',
        "  open_device();",
        "  prepare();",
        f"  char *const in[] = {{{loads}}};",
        f"  char *const out[] = {{{rooms}}};",
        "  stream_t stream = new_stream();",
        "  start(in, out, stream, nullptr);",
        "  finish(stream);",
        '  if (mode == "bench") {',
        "    const int failed = bench(in, out, stream, argc > 2 ? std::max(1, atoi(argv[2])) : 50);",
        "    close_device();",
        "    return failed;",
        "  }",
        "  int wrong = 0;",
    ]
    for i, (n, t) in enumerate(calls.outputs):
        size, type_ = bytes_(t), calls.tensors[t].dtype
        lines += [
            "  {",
            f"    std::vector<char> host({max(1, size)});",
            f'    to_host(host.data(), out[{i}], {size}, "{plain(n)}");',
            f'    FILE *f = fopen(path_of("{plain(n)}.out.bin").c_str(), "wb");',
            f"    if (!f || fwrite(host.data(), 1, {size}, f) != {size} || fclose(f)) return 1;",
        ]
        if n in tolerances:
            t_ = tolerances[n]
            lines.append(f'    if (mode == "check") wrong += compare("{plain(n)}", host, {size // type_.bytes}, {type_of(type_)}, '
                         f"{t_.relative!r}, {t_.absolute!r});")  # fmt: skip
        lines.append("  }")
    if not tolerances:
        lines.append('  if (mode == "check") { fprintf(stderr, "README.md says why there are no expected outputs\\n"); return 2; }')
    end = ['  if (mode == "check") puts(wrong ? "WRONG" : "all right");', "  close_device();", "  return wrong ? 1 : 0;", "}", "#endif"]
    return lines + end
