"""The table of the public MACA C interface: printed text, headers, launchers and both stand-ins keep to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from autocomp.targets.maca import stand_in
from autocomp.targets.maca.api import check, check_vendor, known, rows
from autocomp.targets.maca.target import MacaTarget
from autocomp.targets.maca.toolchain import headers

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.simulate.simt_model import COMPILER, INCLUDE, compile_to
from tests.helpers.device_graphs import GRAPHS

ROOT = Path(__file__).parents[2]
ARCH = "xcore1000"
MODEL = ROOT / "autocomp/simulate/include/simt/maca"


def test_the_stand_ins_are_made_from_the_table():
    """`python -m autocomp.targets.maca.stand_in tests/helpers/maca autocomp/simulate/include/simt/maca` writes both anew."""
    assert (ROOT / "tests/helpers/maca/standin.h").read_text() == stand_in.checked()
    assert (MODEL / "maca_api.h").read_text() == stand_in.modelled()
    own = (MODEL / "mc_runtime.h").read_text()
    assert "__builtin_mxc" not in own  # a builtin is declared by the table alone


def test_every_row_has_its_source():
    """A file of a public repository at a commit, or from what the row is inferred."""
    t = rows()
    known_ = t["source"]["repositories"]
    assert all(re.fullmatch(r"[0-9a-f]{40}", r["commit"]) for r in known_.values())
    given = {r["name"]: r.get("at") for r in (*t["builtins"], *t["functions"]) if not r.get("clang")}
    given |= {n: c["at"] for n, c in t["constants"].items()} | t["words"] | t["runtime"]["names"] | t["runtime"]["headers"]
    given |= {"math": t["math"]["at"], "rsqrt": t["math"]["rsqrt"]}
    assert len(given) > 50
    for name, at in given.items():
        repository, _, path = str(at).partition(" ")
        assert repository == "inferred:" or (repository in known_ and path and " " not in path), (name, at)
    assert [n for n, at in given.items() if str(at).startswith("inferred")] == ["mcMemcpy2DAsync"]
    assert all(set(r.get("architectures", ())) <= set(t["architectures"]) for r in (*t["builtins"], *t["functions"]))


def test_headers_goldens_and_launchers_keep_to_the_table(tmp_path):
    for name in ("autocomp_maca.h", "autocomp_simt.h"):
        check_vendor(headers()[name], ARCH, name)
    for golden in sorted((ROOT / "tests/golden/maca").glob("*.maca")):
        check(golden.read_text(), ARCH, golden.stem)
    folder = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target="maca").save(tmp_path)
    check_vendor((folder / "launcher.maca").read_text(), ARCH)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("__builtin_mxc_mma_16x16x32f16(a, b, c);", "__builtin_mxc_mma_16x16x32f16"),
        ("__shfl_sync(m, x, 3);", "__shfl_sync"),
        ("mcOtherCall();", "mcOtherCall"),
        ("wgmma(d);", "wgmma"),
        ("y = a == MACA_ICMP_ULT;", "MACA_ICMP_ULT"),
    ],
)
def test_what_the_table_lacks_is_refused_by_name(text, name):
    with pytest.raises(UnsupportedOp, match=f"^kernel k: {name} is not in the public MACA C interface of xcore1000"):
        check(f'extern "C" __global__ void k_x(float *x) {{ {text} }}', ARCH, "kernel k")


def test_builtins_are_those_of_the_architecture():
    assert "__builtin_mxc_mma_16x16x16i8" in known(ARCH) and "__builtin_mxc_mma_16x16x16i8" not in known("xcore1500")


def test_a_kernel_with_another_name_is_not_printed(monkeypatch):
    """The target asks the table before it gives a text away."""
    from autocomp.targets.maca import target

    kernel = autocomp.optimize(GRAPHS["softmax_short"], target="maca")
    (call,), (info,) = kernel.calls.calls, kernel.kernels
    from autocomp.ir.schedule_text import parse

    plain = target.emit
    monkeypatch.setattr(target, "emit", lambda *a, **k: _with(plain(*a, **k), "__builtin_mxc_new();"))
    with pytest.raises(UnsupportedOp, match="__builtin_mxc_new is not in the public MACA C interface"):
        MacaTarget(kernel.target.chip).emit(call.kernel, parse(info.schedule))


def _with(source, line):
    from dataclasses import replace

    return replace(source, text=re.sub(r"\}\n$", f"  {line}\n}}\n", source.text))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
def test_the_model_refuses_numbers_outside_of_their_range(tmp_path):
    """Tokens that the hardware's counter cannot hold."""
    text = (MODEL / "maca_api.h").read_text()
    assert 'if (n < 0 || n > 63) simt_fail("n of __builtin_mxc_arrive_gvmcnt is outside of 0..63")' in text
    (tmp_path / "k.cpp").write_text('#include "autocomp_maca.h"\n')
    compile_to(tmp_path / "k.o", ["-c", *(f"-I{p}" for p in INCLUDE["maca"]), str(tmp_path / "k.cpp")])
