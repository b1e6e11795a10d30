"""`options={..}` of torch.compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from autocomp.errors import AutocompError
from autocomp.options import Options

OWN = ("target", "tune")
WHERE = 'torch.compile(backend="autocomp")'


@dataclass(frozen=True)
class Settings:
    """`target`: "" for what the tensors lie on. `tune`: seconds to measure schedules of each program, 0 for none. `options`: of
    `optimize`, by name; those that are not given follow torch's own settings, or their defaults."""

    target: str = ""
    tune: float = 0.0
    options: tuple[tuple[str, Any], ...] = ()

    def resolved(self) -> Options:
        """With what torch says of itself at this moment: tf32, and threads."""
        import torch

        from autocomp.cost.host import usable_cores

        follows: dict[str, Any] = {"allow_tf32": torch.backends.cuda.matmul.allow_tf32}
        if torch.get_num_threads() != usable_cores():
            follows["threads"] = torch.get_num_threads()
        return Options(**{**follows, **dict(self.options)})


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Raises AutocompError for an option that there is not, or for a value that it does not take."""
    known = (*OWN, *(f.name for f in fields(Options)))
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            raise AutocompError(f"there is no option '{name}'", where=WHERE,
                                hint=f"{f'did you mean {near[0]!r}? ' if near else ''}options: {', '.join(sorted(known))}")  # fmt: skip
    tune, target = given.get("tune", 0.0), given.get("target", "")
    if not isinstance(tune, (bool, int, float)) or tune < 0:
        raise AutocompError(f"tune is {tune!r}", where=WHERE, hint="give seconds for each program, or True for 60")
    if not isinstance(target, str):
        raise AutocompError(f"target is {target!r}", where=WHERE, hint='such as "cuda:h200"')
    rest = {k: v for k, v in given.items() if k not in OWN}
    Options(**rest)  # refuses wrong values at once
    return Settings(target, 60.0 if tune is True else float(tune), tuple(sorted(rest.items(), key=lambda item: item[0])))
