"""Front ends: anything that people have -> ir.Graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocomp.errors import ModelError
from autocomp.frontends.sizes import unknown_dims
from autocomp.ir.node import Graph


def load(model: Any, *, example_inputs: Any = None, dims: dict[str, int] | None = None) -> Graph:
    """A Graph from a Graph, an ONNX path, bytes or ModelProto, the text form, a torch module, or a Python function.

    example_inputs: one array or more, for a torch module or a function. dims: sizes of named dimensions (ONNX, text). Raises ModelError
    where the model is broken, has no such dimension, or is of a kind that no front end reads.
    """
    if isinstance(model, Graph):
        unknown_dims(dims or {}, (), f"graph {model.name}")
        return model
    if example_inputs is not None and not isinstance(example_inputs, (tuple, list)):
        example_inputs = (example_inputs,)  # one array alone is one input, not its rows
    kind = type(model).__module__.split(".")[0]
    if isinstance(model, (str, Path)) and str(model).lstrip().startswith("graph "):
        from autocomp.frontends.text import parse

        return parse(str(model), dims=dims)
    if isinstance(model, (str, Path)) and Path(model).suffix in (".txt", ".ac"):
        from autocomp.frontends.text import parse

        path = Path(model)
        if not path.is_file():
            raise ModelError("no such file", where=str(path), hint="give the path of an .onnx or .txt model")
        return parse(path.read_text(), where=str(path), dims=dims)
    if isinstance(model, (str, Path, bytes)) or (kind == "onnx" and type(model).__name__ == "ModelProto"):
        from autocomp.frontends.onnx import load_onnx

        return load_onnx(model, dims=dims)
    unknown_dims(dims or {}, (), getattr(model, "__name__", kind))
    if kind == "torch" or any(c.__module__.split(".")[0] == "torch" for c in type(model).__mro__):
        from autocomp.frontends.torch_export import load_torch

        return load_torch(model, example_inputs)
    if isinstance(model, Callable):  # type: ignore[arg-type]
        if example_inputs is None:
            raise ModelError(
                "a Python function is traced on examples",
                where=getattr(model, "__name__", "function"),
                hint="optimize(fn, example_inputs=(x, w))",
            )
        from autocomp.frontends.tracing import trace

        return trace(model, *example_inputs)
    raise ModelError(
        f"cannot read a model of type {type(model).__name__}",
        hint="give an ONNX path, bytes or ModelProto, a torch module, a Python function, or a text graph",
    )
