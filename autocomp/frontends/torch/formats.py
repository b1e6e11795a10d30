"""Memory formats of convolutions on GPUs, which torch.export does not see.

    export:  conv(x in channels-last, w)  ->  contiguous          eager, by cuDNN:  ->  channels-last, as one of x and w is

So the results of a whole network would be turned where eager's are not.
"""

from __future__ import annotations

from typing import Any


def as_eager_lays_out(program: Any) -> Any:
    """A decomposed ExportedProgram whose values (`meta["val"]`) lie as they do in eager torch: convolutions on GPUs of an image or of
    weights in channels-last give results in it, and what follows is propagated from there. As it is, where no such convolution is in it,
    where sizes are open, and where torch cannot propagate it anew."""
    import torch
    from torch._prims_common import suggest_memory_format
    from torch.fx import Interpreter

    convolution = torch.ops.aten.convolution.default
    vals = {n: n.meta.get("val") for n in program.graph.nodes}
    tensors = [v for v in vals.values() if isinstance(v, torch.Tensor)]
    last = (torch.channels_last, torch.channels_last_3d)
    if (not any(n.target is convolution and vals[n].device.type == "cuda" for n in vals)
            or not any(suggest_memory_format(v) in last for v in tensors)
            or not all(isinstance(k, int) for v in tensors for k in (*v.shape, *v.stride()))):  # fmt: skip
        return program
    found: dict[Any, Any] = {}

    class Formats(Interpreter):
        def run_node(self, n: Any) -> Any:
            out = super().run_node(n)
            if n.target is convolution:
                formats = [f for f in map(suggest_memory_format, self.fetch_args_kwargs_from_env(n)[0][:2]) if f in last]
                out = out.to(memory_format=formats[0]) if formats and out.device.type == "cuda" else out
            found[n] = out
            return out

    given = [vals[n] for n in program.graph.nodes if n.op == "placeholder"]
    try:
        with next(v.fake_mode for v in tensors if hasattr(v, "fake_mode")):
            Formats(program.graph_module).run(*given)
    except Exception:
        return program
    for n, v in vals.items():
        if isinstance(v, torch.Tensor) and isinstance(found.get(n), torch.Tensor) and found[n].shape == v.shape:
            n.meta["val"] = found[n]
    return program
