"""ONNX models -> ir.Graph. One file a group of operators; each lowers to entries of the op table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import onnx

from autocomp.frontends.onnx import (
    contractions,
    control,
    indexing,
    ngrams,
    ort_attention,
    ort_fused,
    ort_quantized,
    pointwise,
    quantized,
    recurrent,
    reductions,
    resize,
    sampling,
    shapes,
    signal,
    training,
    windows,
)
from autocomp.frontends.onnx.constants import ValueNeeded
from autocomp.frontends.onnx.importer import Importer
from autocomp.frontends.onnx.model import read_model
from autocomp.ir.node import Graph

__all__ = [
    "ValueNeeded",
    "contractions",
    "control",
    "indexing",
    "load_onnx",
    "ngrams",
    "ort_attention",
    "ort_fused",
    "ort_quantized",
    "pointwise",
    "quantized",
    "recurrent",
    "reductions",
    "resize",
    "sampling",
    "shapes",
    "signal",
    "training",
    "windows",
]


def load_onnx(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    inputs: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    name: str | None = None,
    round_steps: bool = False,
) -> Graph:
    """An ONNX model as a Graph.

    inputs: by name, a TensorType (replaces the declared type) or an array (the value is compiled in and the input goes); a
        list of those for a sequence, None for an optional that is absent.
    dims: by the model's name of a dimension, an int (fixes it), (lo, hi) or a Sym (bounds it).
    round_steps: a softmax of 16-bit floats is rounded after each of its steps, as the standard's definition of it is; by
        default it is computed in f32 and rounded once, which is nearer to the exact value.

    Raises ModelError (unreadable, damaged, contradicting itself) and UnsupportedOp (valid, but not done here), each with
    the node's name; ValueNeeded, an UnsupportedOp, names graph inputs whose value would have to be compiled in.
    """
    return Importer(read_model(model, name), inputs or {}, dims or {}, round_steps).run()
