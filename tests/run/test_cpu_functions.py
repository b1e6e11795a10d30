"""The vector functions of the CPU header at every width: errors in units in the last place over the range, special values, masked
loads."""

from __future__ import annotations

import ctypes
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from autocomp.targets import load_target
from scipy import special

from tests.helpers import fresh
from tests.helpers.repeats import repeats

# function -> (float64 reference, range, most ulp that the header states)
FUNCTIONS = {
    "exp": (np.exp, (-87.0, 88.0), 2),
    "exp2": (np.exp2, (-125.0, 127.0), 2),
    "log": (np.log, (1e-37, 1e37), 2),
    "tanh": (np.tanh, (-12.0, 12.0), 3),
    "erf": (special.erf, (-5.0, 5.0), 3),
    "sigmoid": (special.expit, (-80.0, 80.0), 4),
    "log1p": (np.log1p, (-0.999, 1e6), 4),
    "mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), (-80.0, 80.0), 6),
    "expm1": (np.expm1, (-30.0, 88.0), 3),
    "log2": (np.log2, (1e-37, 1e37), 2),
    "sin": (np.sin, (-9e5, 9e5), 2),
    "cos": (np.cos, (-9e5, 9e5), 2),
    "tan": (np.tan, (-9e5, 9e5), 4),
    "atan": (np.arctan, (-50.0, 50.0), 3),
    "asin": (np.arcsin, (-1.0, 1.0), 3),
    "acos": (np.arccos, (-1.0, 1.0), 3),
    "sinh": (np.sinh, (-89.0, 89.0), 5),
    "cosh": (np.cosh, (-89.0, 89.0), 5),
    "asinh": (np.arcsinh, (-1e6, 1e6), 5),
    "acosh": (np.arccosh, (1.0, 1e6), 4),
    "atanh": (np.arctanh, (-0.9999, 0.9999), 5),
}
BYTES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
TWO = {"pow": np.power, "fmod": np.fmod, "mod": np.remainder, "floordiv": np.floor_divide}


@pytest.fixture(scope="module", params=[4, 8, 16])
def library(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ctypes.CDLL:
    """All functions with vectors of that many lanes: 8 and 16 by AVX2 and AVX-512 where the machine has them."""
    folder: Path = tmp_path_factory.mktemp("functions")
    target = load_target("cpu")
    loop = "void {0}_all(const float *x, float *y, long n) {{ for (long i = 0; i + AC_LANES <= n; i += AC_LANES) {1} }}"
    one = [loop.format(f, f"vf_store(y + i, vf_{f}(vf_load(x + i)));") for f in (*FUNCTIONS, "gelu", "gelu_tanh", "exp_nonpositive")]
    one += [f"void {f}_all(const float *x, float *y, long n, const float *z) {{ for (long i = 0; i + AC_LANES <= n; i += AC_LANES) "
            f"vf_store(y + i, vf_{f}(vf_load(x + i), vf_load(z + i))); }}" for f in TWO]
    one.append("void where(const float *x, float *y, long n, long s) { vm m = vi_iota() < vi_set((int32_t)n);\n"
               "vf_store(y, vf_load_where(m, x)); vf_store(y + AC_LANES, vf_strided_where(m, x, s));\n"
               "vf_store(y + 2 * AC_LANES, vf_gather_where(m, x, vi_iota() * (int32_t)s)); }\n"
               "long lanes(void) { return AC_LANES; }\n#ifdef AC_AVX512\nlong tables(void) { return 1; }\n#endif")  # fmt: skip
    one += [f"void {d}_all(const float *x, float *y, long n, {d} *z) {{ for (long i = 0; i + AC_LANES <= n; i += AC_LANES) {{ "
            f"vf_store_{d}(z + i, vf_load(x + i)); vf_store(y + i, vf_load_{d}(z + i)); }} }}\n"
            f"void {d}_one(const float *x, float *y, long n, {d} *z) {{ for (long i = 0; i < n; i++) "
            f"y[i] = s_from_{d}(z[i] = s_to_{d}(x[i])); }}" for d in BYTES]  # fmt: skip
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


@pytest.mark.parametrize("points", [1 << 14, repeats(1 << 18, of="fewer points of the same range")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_ulp_is_what_the_header_states(library: ctypes.CDLL, name: str, points: int) -> None:
    reference, (low, high), most = FUNCTIONS[name]
    rng = fresh.rng()
    x = rng.uniform(low, high, points)
    small = rng.uniform(0, 1, points) ** 8 * min(1.0, high) * rng.choice([1.0, 1.0 if low >= 0 else -0.99], points)
    spread = np.exp(rng.uniform(np.log(low), np.log(high), points)) if low > 0 else small
    x = np.concatenate([x, spread]).astype(np.float32)
    x = x[np.abs(x) > 1e-30]
    x = x[: x.size // 16 * 16]
    error = ulps(call(getattr(library, f"{name}_all"), x), reference(x.astype(np.float64)))
    worst = int(np.argmax(error))
    if name == "tanh" and hasattr(library, "tables"):
        most = 2
    assert error[worst] <= most, f"{name}({x[worst]!r}) is off by {error[worst]:.2f} ulp"


@pytest.mark.parametrize("every", [False, repeats(True, of="some of the same angles")], ids=["some", "every"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_near_multiples_of_a_quarter_turn_keep_their_places(library: ctypes.CDLL, name: str, every: bool) -> None:
    """Of the first half million all, or the first of them and each 31st, in all four quarters of a turn."""
    numbers = np.arange(1, 1 + (1 << 19), dtype=np.float64)
    quarters = (numbers if every else np.concatenate([numbers[: 1 << 14], numbers[::31]])) * np.pi / 2
    x = np.concatenate([quarters, -quarters]).astype(np.float32)
    x = np.resize(x, -(-x.size // 16) * 16)
    reference, _, most = FUNCTIONS[name]
    error = ulps(call(getattr(library, f"{name}_all"), x), reference(x.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= most, f"{name}({x[worst]!r}) is off by {error[worst]:.2f} ulp"


@pytest.mark.parametrize(("name", "end"), [("tanh", 9.02), ("erf", 4.0), ("sigmoid", 18.0)])
def test_what_is_saturated_is_one(library: ctypes.CDLL, name: str, end: float) -> None:
    """So the gradients 1 - y^2 and y (1 - y) are 0 there, whatever they are multiplied with."""
    x = np.resize(np.array([end, end + 0.01, end + 1, 20, 90, 1e4, 1e30, np.inf], np.float32), 16)
    assert (call(getattr(library, f"{name}_all"), x) == 1).all()
    assert name == "sigmoid" or (call(getattr(library, f"{name}_all"), -x) == -1).all()


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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends_and_nan(library: ctypes.CDLL, name: str) -> None:
    ends = [np.inf, -np.inf, np.nan, 0.0, 200.0, -200.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-42, -1e-42, 2e6, -7e9, -1e-20]
    x = np.resize(np.array(ends, np.float32), 48)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    got = call(getattr(library, f"{name}_all"), x)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-37)
    if name not in ("exp", "exp2", "log", "log1p", "tanh", "erf", "sigmoid"):
        np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])


def test_powers_have_two_places_and_those_of_c_at_the_ends(library: ctypes.CDLL) -> None:
    rng = fresh.rng()
    x = np.exp(rng.uniform(-80, 80, 1 << 16)).astype(np.float32)
    y = rng.uniform(-4, 4, x.size).astype(np.float32)
    y[::7] = np.rint(y[::7])
    x[::7] *= -1
    x[1::3] = (1 + rng.uniform(-0.4, 0.4, x[1::3].size) ** 3).astype(np.float32)
    y[1::3] *= 15
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
    got = call(library.pow_all, x, y.ctypes.data_as(ctypes.c_void_p))
    near = (np.abs(want) > 1e-37) & (np.abs(want) < 3e38)
    assert ulps(got[near], want[near]).max() <= 2
    some = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-42, 2.0**25, 1e30], np.float32)
    x, y = (a.ravel().copy() for a in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
        want = np.where((y == 0.5) & (np.isneginf(x) | (x == 0)), np.abs(x), want)  # of NumPy: a root
    got = call(library.pow_all, x, y.ctypes.data_as(ctypes.c_void_p))
    np.testing.assert_allclose(got, want, rtol=3e-7, atol=1e-44)
    np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize("name", ["fmod", "mod", "floordiv"])
def test_remainders_are_those_of_numpy_to_the_bit(library: ctypes.CDLL, name: str) -> None:
    rng = fresh.rng()
    x, y = (np.exp(rng.uniform(-9, 9, 1 << 16)) * rng.choice([-1, 1], 1 << 16) for _ in range(2))
    x[::3], y[::3] = np.rint(x[::3]), np.rint(y[::3])
    x[1::3] = np.rint(x[1::3]) * y[1::3].astype(np.float32)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, 1.0], np.float32)
    a, b = (m.ravel() for m in np.meshgrid(ends, ends))
    x, y = (np.concatenate([v, w]).astype(np.float32) for v, w in ((x, a), (y, b)))
    with np.errstate(all="ignore"):
        want = TWO[name](x, y)
    np.testing.assert_array_equal(call(getattr(library, f"{name}_all"), x, y.ctypes.data_as(ctypes.c_void_p)), want)


def test_gelu_by_tanh_is_within_a_millionth_of_its_operand(library: ctypes.CDLL) -> None:
    x = np.concatenate([fresh.rng().uniform(-12, 12, 1 << 16), [0.0, np.inf, 1e30, 1e-30] * 4]).astype(np.float32)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        want = 0.5 * wide * (1 + np.tanh(0.7978845608028654 * (wide + 0.044715 * wide**3)))
        got = call(library.gelu_tanh_all, x)
        assert ((np.abs(got - want) <= 1e-6 * np.abs(wide)) | (got == want)).all()
    assert np.isnan(call(library.gelu_tanh_all, np.resize(np.array([np.nan, -np.inf], np.float32), 16))).all()


def test_masked_reads_give_zero_where_the_mask_fails(library: ctypes.CDLL) -> None:
    lanes = library.lanes()
    x = fresh.rng().standard_normal(lanes * 3).astype(np.float32)
    for n in range(lanes + 1):
        y = np.full(3 * lanes, np.nan, np.float32)
        at = lambda a: a.ctypes.data_as(ctypes.c_void_p)
        library.where(at(x), at(y), ctypes.c_long(n), ctypes.c_long(3))
        inside = np.arange(lanes) < n
        np.testing.assert_array_equal(y, np.concatenate([np.where(inside, x[:lanes], 0), *[np.where(inside, x[::3], 0)] * 2]))


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("form", ["all", "one"])
def test_floats_of_eight_bits_are_rounded_to_the_bit(library: ctypes.CDLL, name: str, form: str) -> None:
    """All of them, the middles between neighbours and what lies beside those; from beyond the largest; any floats."""
    every = np.arange(256, dtype=np.uint8).view(BYTES[name]).astype(np.float32)
    known = np.sort(every[np.isfinite(every)])
    middle = (known[1:] + known[:-1]) / 2
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    near = (rng.standard_normal(4096) * np.exp(rng.uniform(-16, 12, 4096))).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(to)) for to in (np.inf, -np.inf)]
    x = np.concatenate([every, middle, *beside, drawn, near, np.float32([464, 465, 61440, 61441, np.inf, -np.inf, np.nan, -0.0])])
    x = np.resize(x, -(-x.size // 16) * 16).astype(np.float32)
    z = np.empty(x.size, np.uint8)
    y = call(getattr(library, f"{name}_{form}"), x, z.ctypes.data_as(ctypes.c_void_p))
    with np.errstate(all="ignore"):
        want = x.astype(BYTES[name])
    np.testing.assert_array_equal(z.view(BYTES[name]).astype(np.float32), want.astype(np.float32))
    np.testing.assert_array_equal(y, want.astype(np.float32))
    assert (np.signbit(y) == np.signbit(x))[~np.isnan(x) & ~np.isnan(y)].all()
