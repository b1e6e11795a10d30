"""The back end of torch.compile: `torch.compile(module, backend="autocomp", options={..})`.

torch finds it by the entry point in pyproject.toml. Dynamo's graphs go through ahead-of-time autograd, which makes them functional and
handles mutation, aliases and gradients around them; each functional graph is cut into parts that are compiled here and operators that
stay with torch (`capability`, `graphs`), and `autocomp.report()` says which and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def autocomp(gm: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
             mode: str | None = None) -> Callable[..., Any]:  # fmt: skip
    """Dynamo's graph as a function over tensors. Raises AutocompError for an option that there is not, and for a mode."""
    from autocomp.errors import AutocompError
    from autocomp.torch_compile.dispatch import compiled
    from autocomp.torch_compile.settings import settings_of

    if mode is not None:
        raise AutocompError(f"torch.compile's mode '{mode}' is inductor's", where='torch.compile(backend="autocomp")',
                            hint='give options={"tune": True} to measure schedules, or leave it away')  # fmt: skip
    return compiled(gm, example_inputs, settings_of(options or {}))
