"""The HTML templates of the reports."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jinja2


def render(template: str, **values: Any) -> str:
    """A template of this package with autoescaping on; an undefined name is an error."""
    env = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return env.from_string(files(__name__).joinpath(template).read_text(encoding="utf-8")).render(**values)


def asset(name: str) -> str:
    """The text of a script or a style sheet of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
