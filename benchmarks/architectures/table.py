"""The table of architectures: a row is a name, the library that it comes from, and what builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

FOLDER = "benchmarks.architectures"
FILES = (
    "plain",
    "papers",
    "memories",
    "torchvision_models",
    "timm_models",
    "decoders",
    "encoders",
    "multimodal",
    "diffusers_models",
    "diffusion_transformers",
    "codecs",
    "several_inputs",
)


@dataclass(frozen=True)
class Built:
    """A module in eval mode, and the arguments of its forward."""

    module: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Architecture:
    """`library`: what has to be importable ("torch", "timm", ..); `build` needs the library alone."""

    name: str
    library: str
    build: Callable[[], Built]


TABLE: dict[str, Architecture] = {}


def add(library: str, name: str, build: Callable[[], Built]) -> None:
    """Adds a row. Names are unique over all libraries."""
    if name in TABLE:
        raise ValueError(f"two architectures are called '{name}'")
    TABLE[name] = Architecture(name, library, build)


def all_of_them() -> dict[str, Architecture]:
    """Every row, file by file. No library is imported for it."""
    for name in FILES:
        import_module(f"{FOLDER}.{name}")
    return TABLE


def image(size: int = 64, channels: int = 3, batch: int = 1) -> Any:
    import torch

    return torch.randn(batch, channels, size, size)


def ids(length: int = 12, batch: int = 2, vocabulary: int = 100) -> Any:
    import torch

    return torch.randint(3, vocabulary, (batch, length))


def library(name: str) -> Any:
    """A library by name, when it is needed."""
    return import_module(name)
