"""Front ends: anything that people have -> ir.Graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocomp.errors import ModelError
from autocomp.files import DEVICE, is_device
from autocomp.frontends.sizes import unknown_dims
from autocomp.ir.node import Graph

TEXT = (".txt", ".ac")
OTHERS = {  # files of other kinds that people have: how each gets here
    (".pt", ".pth", ".ckpt", ".bin", ".safetensors"): "load the module in Python and call autocomp.optimize(module, example_inputs=(x,)), "
    "or write an .onnx file with torch.onnx.export",
    (".pt2",): "autocomp.optimize(torch.export.load(path)) in Python",
    (".py",): "import the function or module in Python and call autocomp.optimize(it, example_inputs=(x,))",
    (".h5", ".keras", ".tflite"): "convert it to ONNX with tf2onnx",
}


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
    if isinstance(model, (str, Path)):
        path = Path(model)
        _check_kind(path)
        if path.suffix in TEXT:
            from autocomp.frontends.text import parse

            return parse(_text(path), where=str(path), dims=dims)
    if isinstance(model, (str, Path, bytes)) or (kind == "onnx" and type(model).__name__ == "ModelProto"):
        try:
            from autocomp.frontends.onnx import load_onnx
        except ModuleNotFoundError as e:
            if e.name != "onnx":
                raise
            where = str(model) if isinstance(model, (str, Path)) else kind
            raise ModelError("reading ONNX models needs the onnx package", where=where, hint="pip install 'autocomp[onnx]'") from None
        return load_onnx(model, dims=dims)
    unknown_dims(dims or {}, (), getattr(model, "__name__", kind))
    if kind == "torch" or any(c.__module__.split(".")[0] == "torch" for c in type(model).__mro__):
        from autocomp.frontends.torch.export import load_torch

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


def _check_kind(path: Path) -> None:
    """Raises ModelError for text that is no path, for a folder, and for a file of a kind that is not read here, with the way to one."""
    if any(c in str(path) for c in "\n\0"):
        start = str(path).lstrip().splitlines()[0][:60].replace("\0", "\\0")
        raise ModelError("is neither a path nor a text graph", where=start, hint="a text graph begins with a line 'graph NAME'")
    if os.path.isdir(path):  # unlike Path's, false for what no file can be called
        saved = (path / "manifest.json").is_file()
        raise ModelError("is a saved program, not a model" if saved else "is a folder, not a model", where=str(path),
                         hint="give the model it was made of; `autocomp compare` reads saved programs" if saved
                         else "give the path of an .onnx or .txt model")  # fmt: skip
    if os.path.exists(path) and is_device(path):
        raise ModelError(DEVICE, where=str(path), hint="give the path of an .onnx or .txt model")
    hint = next((hint for suffixes, hint in OTHERS.items() if path.suffix in suffixes), "")
    if hint and os.path.exists(path):
        raise ModelError(f"{path.suffix} files are not read; models are .onnx and .txt files", where=str(path), hint=hint)


def _text(path: Path) -> str:
    """A text graph's file. Raises ModelError where it cannot be read, or is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror}", where=str(path), hint="check the path and its permissions") from None
    except UnicodeDecodeError as e:
        raise ModelError(f"is no text: {e.reason} at byte {e.start}", where=str(path), hint="an ONNX model's name ends in .onnx") from None
