"""Operators of libraries beside ATen's: those that pt2e's quantisation writes, and those that programs make with torch.library."""

from __future__ import annotations

import warnings

import pytest

import autocomp
from autocomp.errors import UnsupportedOp

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  (it registers the operators)

from autocomp.frontends.torch.call import TABLE  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch
Q = torch.ops.quantized_decomposed
I8, U8 = torch.int8, torch.uint8
SCALE, ZERO = torch.tensor([0.033], dtype=torch.float64), torch.tensor([4])


def x(seed: int = 0, *shape: int):
    return 3 * torch.randn(*(shape or (4, 6, 5)), generator=torch.Generator().manual_seed(seed))


def q(seed: int = 0, *shape: int):
    return torch.randint(-128, 128, shape or (4, 6, 5), dtype=I8, generator=torch.Generator().manual_seed(seed))


def scales(*shape: int):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)) * 0.05 + 0.01


def zeros(*shape: int):
    return torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(2))


CASES = {
    "tensor": (lambda x: Q.quantize_per_tensor(x, 0.0371, 3, -128, 127, I8), x()),
    "tensor, bf16 to u8": (lambda x: Q.quantize_per_tensor(x, 0.0371, 130, 0, 255, U8), x().bfloat16()),
    "tensor, by tensors": (lambda x, s, z: Q.quantize_per_tensor(x, s, z, -128, 127, I8), x(), SCALE, ZERO),
    "tensor, all by tensors": (lambda x, s, z: Q.quantize_per_tensor(x, s, z, torch.tensor(-100), torch.tensor(99), I8), x(), SCALE[0],
                               ZERO[0]),
    "back": (lambda q: Q.dequantize_per_tensor(q, 0.0371, 3, -128, 127, I8), q()),
    "back, by tensors": (lambda q, s, z: Q.dequantize_per_tensor(q, s, z, -128, 127, I8), q(), SCALE, ZERO),
    "back to bf16": (lambda q: Q.dequantize_per_tensor(q, 0.0371, 3, -128, 127, I8, out_dtype=torch.bfloat16), q()),
    "channels": (lambda x, s, z: Q.quantize_per_channel(x, s, z, 1, -128, 127, I8), x(), scales(6), zeros(6)),
    "channels, scales of f64": (lambda x, s, z: Q.quantize_per_channel(x, s, z, 1, -128, 127, I8), x(), scales(6).double(), zeros(6)),
    "back, channels": (lambda q, s, z: Q.dequantize_per_channel(q, s, z, 1, -128, 127, I8), q(), scales(6), zeros(6)),
    "back, channels without zeros": (lambda q, s: Q.dequantize_per_channel(q, s, None, 1, -128, 127, I8), q(), scales(6).double()),
    "tokens": (lambda x, s, z: Q.quantize_per_token(x, s, z, -128, 127, I8), x(), scales(4, 6, 1), zeros(4, 6, 1)),
    "back, tokens": (lambda q, s, z: Q.dequantize_per_token(q, s, z, -128, 127, I8, torch.float16), q(), scales(4, 6, 1).double(),
                     zeros(4, 6, 1)),
    "groups": (lambda x, s, z: Q.quantize_per_channel_group(x, s, z, -8, 7, I8, 3), x(0, 5, 6), scales(5, 2), zeros(5, 2)),
    "back, groups": (lambda q, s, z: Q.dequantize_per_channel_group(q, s, z, -8, 7, I8, 3, torch.float32), q(0, 5, 6), scales(5, 2),
                     zeros(5, 2)),
    "fake, channels": (lambda x, s, z: Q.fake_quant_per_channel(x, s, z.int(), 1, -128, 127), x(), scales(6), zeros(6)),
    "parameters": (lambda x: Q.choose_qparams.tensor(x, -128, 127, 1e-6, I8), x()),
    "parameters, symmetric": (lambda x: Q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-6, I8), x()),
    "parameters of tokens": (lambda x: Q.choose_qparams_per_token_asymmetric(x, I8), x()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_pt2e_writes_is_torchs_to_the_last_bit(name):
    f, *args = CASES[name]
    got = autocomp.optimize(Apply(f).eval(), example_inputs=tuple(args), cache=False, deadline=30)(*args)
    torch.testing.assert_close(got, f(*args), rtol=0, atol=0)


LIBRARY = torch.library.Library("autocomp_library_tests", "DEF")
LIBRARY.define("gelu(Tensor x) -> Tensor")
LIBRARY.impl("gelu", lambda x: 3 * x + 1, "CompositeExplicitAutograd")
LIBRARY.define("relu(Tensor x) -> Tensor")
LIBRARY.impl("relu", lambda x: x - 7, "CPU")
LIBRARY.impl("relu", torch.empty_like, "Meta")
LIBRARY.define("tanh(Tensor x) -> Tensor")
LIBRARY.impl("tanh", lambda x: x - 1 if x.sum() > 0 else x + 1, "CompositeExplicitAutograd")
LIBRARY.impl("tanh", torch.empty_like, "Meta")


def test_an_operator_that_is_written_with_others_is_those():
    """ATen has the same name with another meaning."""
    means_the_same(Apply(lambda x: torch.ops.autocomp_library_tests.gelu(x) * 2).eval(), x())


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_an_operator_of_a_library_is_never_atens_by_its_name(name):
    assert name in TABLE
    with pytest.raises(UnsupportedOp, match=f"ATen operator 'autocomp_library_tests.{name}.default'"):
        load_torch(Apply(getattr(torch.ops.autocomp_library_tests, name)).eval(), (x(),))


@pytest.mark.parametrize("name", ["gelu", "relu"])
def test_under_torch_compile_it_stays_torchs(name):
    f = lambda x: getattr(torch.ops.autocomp_library_tests, name)(x) * 2
    torch.testing.assert_close(torch.compile(f, backend="autocomp")(x()), f(x()))
    torch._dynamo.reset()


def test_parameters_that_are_chosen_and_used_need_no_f64():
    """NPUs have none. The scale is given as f64 and was computed in f32."""

    def f(x):
        scale, zero = Q.choose_qparams.tensor(x, -128, 127, 1e-6, I8)
        return Q.dequantize_per_tensor.tensor(Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, I8), scale, zero, -128, 127, I8)

    for seed in range(4):
        means_the_same(f, x(seed), float64=False)
    assert all(k.bound for k in autocomp.optimize(Apply(f).eval(), "ascend:910b1", example_inputs=(x(),), cache=False).kernels)
