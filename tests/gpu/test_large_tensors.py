"""Tensors of more than 2^31 elements on a CUDA device, in every form of kernel: offsets beyond 32 bits, compared in slices."""

from __future__ import annotations

import pytest

import autocomp
from tests.helpers.device_graphs import conv, gemm, graph

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def enough():
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < 24e9:
        pytest.skip("24 GB of device memory are not free")
    yield
    torch.cuda.empty_cache()


def compiled(text: str):
    return autocomp.optimize(text, target="cuda")


def numbers(*shape: int):
    return torch.randn(shape, device="cuda", dtype=torch.float16)


def slices(rows: int, n: int = 64) -> list[slice]:
    return [slice(i, i + n) for i in (0, rows // 2, rows - n)]


def close(got, want, most: float = 6e-3) -> None:
    torch.testing.assert_close(got.double(), want.double(), rtol=most, atol=most * min(1.0, float(want.abs().max())))


def test_transposed():
    x = numbers(70000, 40000)
    y = compiled(graph({"x": "f16[70000, 40000]"}, "%0 = transpose(x, perm=[1, 0])"))(x)
    for s in slices(40000):
        assert torch.equal(y[s], x[:, s].T)


def test_rows_columns_and_norms():
    rows, x = 300001, numbers(300001, 8192)
    kind = {"x": f"f16[{rows}, 8192]"}
    y = compiled(graph(kind, "%0 = softmax(x, axes=[1])"))(x)
    for s in slices(rows):
        torch.testing.assert_close(y[s].double(), x[s].double().softmax(1), rtol=4e-3, atol=1e-6)
    del y
    total = compiled(graph(kind, '%1 = cast(x, to="f32")\n%0 = reduce_sum(%1, axes=[0])'))(x)
    torch.testing.assert_close(total.double(), sum(c.double().sum(0) for c in x.split(20000)), rtol=1e-5, atol=1e-2)


def test_gathered():
    table, at = numbers(600000, 4096), torch.randint(0, 600000, (3000,), device="cuda")
    at[:10] = torch.arange(599990, 600000)
    assert torch.equal(compiled(graph({"t": "f16[600000, 4096]", "i": "i64[3000]"}, "%0 = gather(t, i, axis=0)"))(table, at), table[at])


def test_factors_and_products():
    a, b = numbers(600000, 4096), numbers(4096, 64)
    y = compiled(gemm(600000, 64, 4096))(a, b)
    for s in slices(600000, 300):
        close(y[s], a[s].double() @ b.double())
    a, b = numbers(700, 2048, 64), numbers(700, 64, 2048)
    y = compiled(gemm(2048, 2048, 64, batch="700, "))(a, b)
    for i in (0, 511, 512, 699):
        close(y[i], a[i].double() @ b[i].double())


def test_convolved():
    x, w = numbers(512, 64, 320, 256), numbers(64, 64, 3, 3) * 0.05
    y = compiled(conv("f16[512, 64, 320, 256]", "f16[64, 64, 3, 3]", pad=1))(x, w)
    for i in (0, 410, 511):
        close(y[i], torch.nn.functional.conv2d(x[i : i + 1].double(), w.double(), padding=1)[0])
