"""Results of convolutions on GPUs lie as eager torch lays them out, which torch.export does not say (fake tensors: no GPU is there)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Net(torch.nn.Module):
    def forward(self, x, w, v):
        y = F.max_pool2d(F.relu(F.conv2d(x, w, padding=1, groups=64)), 2)
        return F.conv2d(y, v), y + 1, y.mean((2, 3))


@pytest.mark.parametrize(("image", "weights", "last"), [(True, False, True), (False, True, True), (False, False, False)])
def test_results_lie_as_eager_lays_them_out(image, weights, last):
    from torch._subclasses.fake_tensor import FakeTensorMode

    from autocomp.frontends.torch.export import load_torch

    to = lambda t, yes: t.to(memory_format=torch.channels_last) if yes else t
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, w, v = (torch.empty(*s, device="cuda") for s in ((4, 64, 28, 28), (64, 1, 3, 3), (32, 64, 1, 1)))
        program = torch.export.export(Net(), (to(x, image), w, to(v, weights)))
    orders = load_torch(program).output_orders
    assert orders.get("output_0") == ((0, 2, 3, 1) if last else None)
    assert orders.get("output_1") == ((0, 2, 3, 1) if image else None) and "output_2" not in orders
