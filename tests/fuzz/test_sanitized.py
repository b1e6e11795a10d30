"""The net of sanitizers holds: some seeds are right, and what is planted is caught."""

from __future__ import annotations

import pytest

from autocomp.frontends.text import parse
from benchmarks.fuzz import sanitized
from tests.helpers.c_driver import PLAIN, for_machine
from tests.helpers.c_driver import sanitized as with_sanitizers

GRAPH = "graph g\ninput x: f32[7]\n%0 = relu(x)\noutput y = %0\n"
WHOLE = "graph g\ninput x: i32[37]\ninput z: i32[37]\n%0 = add(x, z)\n%1 = floordiv(%0, z)\noutput y = %1\n"


def no_sanitizer(tmp_path) -> bool:
    from autocomp.errors import BuildError

    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    try:
        with_sanitizers(PLAIN.toolchain).compile(tmp_path, ["main.c"], tmp_path / "program", program=True)
    except BuildError:
        return True
    return False


@pytest.fixture(autouse=True)
def _needs_sanitizers(tmp_path):
    if PLAIN.missing() or no_sanitizer(tmp_path):
        pytest.skip(PLAIN.missing() or "the C compiler has no AddressSanitizer: `apt-get install libasan8 libubsan1` (gcc 12)")


@pytest.mark.parametrize("seed", range(4))
def test_some_seeds(seed):
    case = sanitized.draw(seed)
    assert case.text() == sanitized.draw(seed).text()
    print(case.text())
    verdict = sanitized.check(case)
    assert verdict.kind in ("right", "refused"), verdict.detail


@pytest.mark.parametrize(("graph", "old", "new", "said"), [
    (GRAPH, "i0 < 7", "i0 < 8", "heap-buffer-overflow"),
    (WHOLE, "{\n", "{\n  int ac_planted = 2147483647; ac_planted += in0[0] | 1; out0[0] = ac_planted;\n", "signed integer overflow"),
    (GRAPH, "{\n", "{\n  out0[0] = (float)(int)(in0[0] * 0.0f + 3e10f);\n", "outside the range of representable values"),
    (GRAPH, "out0[i0] =", "out0[i0] = 1.0f +", "times the tolerance"),
])  # fmt: skip
def test_what_is_planted_is_caught(graph, old, new, said):
    program = for_machine(parse(graph), PLAIN, vectorize_inner=False)
    name = next(n for n, t in program.sources.items() if "k_" in t and n.startswith("kernels"))
    body = program.sources[name].index("void k_")
    text = program.sources[name][:body] + program.sources[name][body:].replace(old, new, 1)
    assert text != program.sources[name], program.sources[name][body:]
    program.sources = {**program.sources, name: text}
    verdict = sanitized.judged(program, program.graph, PLAIN)
    assert verdict.kind == "wrong"
    assert said in verdict.detail


def test_smaller_cases_keep_the_machine():
    case = sanitized.draw(3)
    assert {c.machine for c in sanitized.smaller(case)} <= {case.machine}


ENDS = """graph ends
input x: i32[37]
input z: i32[37]
input f: f32[37]
%0 = shl(x, z)
%1 = shr(x, z)
%2 = mul(x, z)
%3 = floordiv(x, z)
%4 = pow(x, z)
%5 = abs(x)
%6 = neg(x)
%7 = cast(f, to="i32")
%8 = cast(f, to="u8")
%9 = sub(x, z)
output y0 = %0
output y1 = %1
output y2 = %2
output y3 = %3
output y4 = %4
output y5 = %5
output y6 = %6
output y7 = %7
output y8 = %8
output y9 = %9
"""


def test_arithmetic_at_the_ends_of_types_is_defined():
    """A shift to the left of a signed number was not."""
    graph = parse(ENDS)
    verdict = sanitized.judged(for_machine(graph, PLAIN), graph, PLAIN)
    assert verdict.kind == "right", verdict.detail
