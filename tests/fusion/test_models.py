"""Whole models: how many kernels they become, and that none of those only moves elements."""

from __future__ import annotations

import pytest

from autocomp import frontends
from autocomp.ir.types import F16
from examples.models import bert, light_model, llama_block
from tests.helpers.nets import compiled, copies, residual_net


@pytest.mark.parametrize(("chip", "layers", "most"), [("h200", 3, 22), ("cpu", 2, 18)])
def test_bert_has_one_product_for_its_three_projections(chip: str, layers: int, most: int) -> None:
    k = compiled(bert(layers), chip)
    assert len(k.calls) <= most
    assert not copies(k)


def test_without_siblings_bert_has_two_kernels_more_a_layer() -> None:
    apart, merged = compiled(bert(1), without=("algebra/sibling-*",)), compiled(bert(1))
    assert len(apart.calls) == len(merged.calls) + 2
    assert merged.predicted < apart.predicted


@pytest.mark.parametrize("chip", ["cpu", "h200"])
def test_resnet_50_has_a_kernel_a_convolution(chip: str, priced_for_a_xeon: None) -> None:
    """53 convolutions, two poolings, the classifier and its softmax; on the CPU those of 7 x 7 may leave a border to be cut off. On GPUs
    without Winograd's forms, which are three kernels beside the product."""
    k = compiled(frontends.load(light_model("light_resnet50")), chip, without=("convolution/winograd*",))
    assert len(k.calls) <= (58 if chip == "h200" else 60)
    assert len(copies(k)) <= (chip == "h200")  # the image, turned and padded to whole copies


@pytest.mark.parametrize("chip", ["cpu", "h200"])
def test_a_llama_block_copies_nothing(chip: str) -> None:
    assert not copies(compiled(llama_block(), chip))


def test_the_channels_of_an_image_are_padded_where_that_is_cheaper() -> None:
    padded = compiled(residual_net(64, 112, F16, image=True))
    plain = compiled(residual_net(64, 112, F16, image=True), without=("layout/pad-channels",))
    assert copies(padded) == ["x"] and not copies(plain)
    assert padded.predicted < plain.predicted
