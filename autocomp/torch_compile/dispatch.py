"""Dynamo's graphs through ahead-of-time autograd: functional graphs for inference, or for the ways forward and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from autocomp.frontends.torch.exported import zeros_in_memory
from autocomp.torch_compile.graphs import Maker
from autocomp.torch_compile.settings import Settings


def compiled(gm: Any, example_inputs: Sequence[Any], settings: Settings) -> Callable[..., Any]:
    """Dynamo's graph as a function."""
    compiler = lambda kind: lambda graph, inputs: Maker(graph, kind, settings).made()
    with _whole(torch.ops.aten.multilabel_margin_loss_forward.default):
        run: Callable[..., Any] = aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"),
            decompositions=decompositions(),
            partition_fn=min_cut_rematerialization_partition,
        )(gm, example_inputs)
    return run


@contextmanager
def _whole(op: Any) -> Iterator[None]:
    """An operator stays one while torch traces ways back, though it has a decomposition in the place of its gradient."""
    kernels = getattr(op, "py_kernels", {})
    kept = kernels.pop(torch._C.DispatchKey.Autograd, None)
    op._dispatch_cache.clear()
    try:
        yield
    finally:
        if kept is not None:
            kernels[torch._C.DispatchKey.Autograd] = kept
            op._dispatch_cache.clear()


def decompositions() -> Any:
    """torch's to the core operators. That of the CPU's fused attention is for export: it gives no sums of exponentials, from which the way
    back would compute wrong gradients, and another memory format; that of multilabel margins counts what is no target. Tangents that are
    zero have memory."""
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    table.pop(torch.ops.aten.multilabel_margin_loss_forward.default, None)
    return {**table, **zeros_in_memory()}
