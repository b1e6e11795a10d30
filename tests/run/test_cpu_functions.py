"""The vector functions of the CPU header at every width: errors in units in the last place over the range, special values, masked
loads."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets import load_target
from scipy import special

from tests.helpers import fresh

# function -> (float64 reference, range, most ulp that the header states)
FUNCTIONS = {
    "exp": (np.exp, (-87.0, 88.0), 2),
    "exp2": (np.exp2, (-125.0, 127.0), 2),
    "log": (np.log, (1e-37, 1e37), 2),
    "tanh": (np.tanh, (-12.0, 12.0), 3),
    "erf": (special.erf, (-5.0, 5.0), 3),
    "sigmoid": (special.expit, (-80.0, 80.0), 4),
    "log1p": (np.log1p, (-0.999, 1e6), 4),
}


@pytest.fixture(scope="module", params=[4, 8, 16])
def library(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ctypes.CDLL:
    """All functions with vectors of that many lanes: 8 and 16 by AVX2 and AVX-512 where the machine has them."""
    folder: Path = tmp_path_factory.mktemp("functions")
    target = load_target("cpu")
    loop = "void {0}_all(const float *x, float *y, long n) {{ for (long i = 0; i + AC_LANES <= n; i += AC_LANES) {1} }}"
    one = [loop.format(f, f"vf_store(y + i, vf_{f}(vf_load(x + i)));") for f in (*FUNCTIONS, "gelu", "exp_nonpositive")]
    one.append("void over(const float *x, float *y, long n, float s) { for (long i = 0; i + AC_LANES <= n; i += AC_LANES) "
               "vf_store(y + i, vf_over(vf_load(x + i), s)); }")  # fmt: skip
    one.append("void where(const float *x, float *y, long n, long s) { vm m = vi_iota() < vi_set((int32_t)n);\n"
               "vf_store(y, vf_load_where(m, x)); vf_store(y + AC_LANES, vf_strided_where(m, x, s));\n"
               "vf_store(y + 2 * AC_LANES, vf_gather_where(m, x, vi_iota() * (int32_t)s)); }\n"
               "long lanes(void) { return AC_LANES; }\n#ifdef AC_AVX512\nlong tables(void) { return 1; }\n#endif")  # fmt: skip
    (folder / "f.c").write_text(f'#define AC_LANES {request.param}\n#include "autocomp_cpu.h"\n' + "\n".join(one) + "\n")
    target.toolchain.compile(folder, ["f.c"], folder / "f.so")
    lib = ctypes.CDLL(str(folder / "f.so"))
    lib.lanes.restype = ctypes.c_long
    return lib


def call(f: object, x: np.ndarray, *more: object) -> np.ndarray:
    y = np.full_like(x, np.nan)
    at = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    f(at(x), at(y), ctypes.c_long(x.size), *more)  # type: ignore[operator]
    return y


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance from the float64 result in units of the float32 spacing there."""
    return np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_ulp_is_what_the_header_states(library: ctypes.CDLL, name: str) -> None:
    reference, (low, high), most = FUNCTIONS[name]
    rng = fresh.rng()
    x = rng.uniform(low, high, 1 << 18)
    small = rng.uniform(0, 1, 1 << 18) ** 8 * min(1.0, high) * rng.choice([1.0, 1.0 if low >= 0 else -0.99], 1 << 18)
    spread = np.exp(rng.uniform(np.log(low), np.log(high), 1 << 18)) if low > 0 else small
    x = np.concatenate([x, spread]).astype(np.float32)
    x = x[np.abs(x) > 1e-30]
    x = x[: x.size // 16 * 16]
    error = ulps(call(getattr(library, f"{name}_all"), x), reference(x.astype(np.float64)))
    worst = int(np.argmax(error))
    if name == "tanh" and hasattr(library, "tables"):
        most = 2
    assert error[worst] <= most, f"{name}({x[worst]!r}) is off by {error[worst]:.2f} ulp"


def test_exp_below_zero_keeps_two_places_and_a_part_that_grows(library: ctypes.CDLL) -> None:
    rng = fresh.rng()
    x = np.concatenate([rng.uniform(-87, 0, 1 << 17), rng.uniform(-4, 1e-6, 1 << 17)]).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    got = call(library.exp_nonpositive_all, x)
    assert (ulps(got, want) <= 2 + np.abs(x) * 3e-8 * want / np.spacing(want.astype(np.float32))).all()
    assert np.abs(got - want).max() <= 1.2e-7
    ends = np.resize(np.array([-np.inf, -1e30, -200.0, 0.0, np.nan, -0.0], np.float32), 48)
    np.testing.assert_array_equal(call(library.exp_nonpositive_all, ends), np.resize(np.array([0, 0, 0, 1, np.nan, 1], np.float32), 48))


def test_gelu_is_within_the_stated_error_and_its_last_place(library: ctypes.CDLL) -> None:
    rng = fresh.rng()
    x = np.concatenate([rng.uniform(-7, 7, 1 << 18), rng.normal(0, 1e-3, 1 << 12), [0.0, np.inf, -60.0, 1e30] * 4]).astype(np.float32)
    want = x.astype(np.float64) * special.ndtr(x.astype(np.float64))
    got = call(library.gelu_all, x).astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
    finite = np.isfinite(want)
    assert (error[finite] <= 4e-7 + np.spacing(np.abs(want[finite]).astype(np.float32))).all()
    assert (got[~finite] == np.inf).all()
    small = np.abs(x) < 1e-2  # relative to the result where that is small
    assert (error[small] <= 2e-6 * np.abs(want[small])).all()
    assert np.isnan(call(library.gelu_all, np.resize(np.array([np.nan, -np.inf], np.float32), 16))).all()


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sigmoid"])
def test_ends_and_nan(library: ctypes.CDLL, name: str) -> None:
    x = np.resize(np.array([np.inf, -np.inf, np.nan, 0.0, 200.0, -200.0], np.float32), 48)
    with np.errstate(over="ignore"):
        want = FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(call(getattr(library, f"{name}_all"), x), want, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("s", [3.0, 1e-39, 3e38, np.inf, 0.0, -7.5])
def test_division_by_one_number(library: ctypes.CDLL, s: float) -> None:
    x = fresh.rng().standard_normal(64).astype(np.float32) * np.float32(1e-5)
    with np.errstate(all="ignore"):
        want = x / np.float32(s)
    np.testing.assert_allclose(call(library.over, x, ctypes.c_float(s)), want, rtol=2.5e-7, atol=1e-44)


def test_masked_reads_give_zero_where_the_mask_fails(library: ctypes.CDLL) -> None:
    lanes = library.lanes()
    x = fresh.rng().standard_normal(lanes * 3).astype(np.float32)
    for n in range(lanes + 1):
        y = np.full(3 * lanes, np.nan, np.float32)
        at = lambda a: a.ctypes.data_as(ctypes.c_void_p)
        library.where(at(x), at(y), ctypes.c_long(n), ctypes.c_long(3))
        inside = np.arange(lanes) < n
        np.testing.assert_array_equal(y, np.concatenate([np.where(inside, x[:lanes], 0), *[np.where(inside, x[::3], 0)] * 2]))
