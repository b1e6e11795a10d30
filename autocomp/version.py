"""The version, which saved programs and keys of caches name."""

__version__ = "0.1.0"
