"""Writing files so that a reader never sees half of one; the cache folder, and entries in it that notice damage."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any

import platformdirs
import yaml

from autocomp.errors import AutocompError

OURS = ("autocomp", "autocomp.rules", "autocomp.targets", "autocomp.cost_models")
SUFFIXES = (".py", ".yaml", ".h")


class DamagedEntry(ValueError):
    """A cache entry that is not what was written; the message says why."""


def cache_root() -> Path:
    """The cache folder: $AUTOCOMP_CACHE, else the user's cache folder."""
    return Path(os.environ.get("AUTOCOMP_CACHE") or platformdirs.user_cache_dir("autocomp"))


def digest(parts: Sequence[str]) -> str:
    """A key for texts."""
    h = hashlib.sha256()
    for p in parts:
        h.update(str(len(p)).encode() + b"\0" + p.encode())
    return h.hexdigest()[:24]


@lru_cache(maxsize=1)
def package_stamp() -> str:
    """Changes with every edit of this package's code and data: names, sizes and times of its files."""
    h = hashlib.sha256()
    for package in OURS:
        root = Path(str(files(package)))
        for f in sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES):
            s = f.stat()
            h.update(f"{package}/{f.relative_to(root)} {s.st_size} {s.st_mtime_ns}\n".encode())
    return h.hexdigest()


def sealed(form: str, key: str, text: str) -> str:
    """`text` below a header line with its format, its key and its checksum."""
    return json.dumps({"format": form, "key": key, "sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n" + text


def unsealed(form: str, key: str, raw: bytes) -> str:
    """The text below a right header. Raises DamagedEntry."""
    text = raw.partition(b"\n")[2].decode("utf-8", "replace")
    if raw != sealed(form, key, text).encode("utf-8", "replace"):
        raise DamagedEntry(f"{len(raw)} bytes whose checksum is not that of their header")
    return text


def own_table(package: str, name: str) -> Any:
    """A YAML file that this package ships, read by libyaml where PyYAML has it, in a tenth of the time."""
    return yaml.load(files(package).joinpath(name).read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write to a temporary file beside `path`, then rename. Raises AutocompError (what, where, next step) on OS errors."""
    path = Path(path)
    raw = data.encode() if isinstance(data, str) else data
    tmp = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = str(path.parent / f".{path.name}.{token_hex(8)}")
        with os.fdopen(os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as f:  # the umask is the system's to apply:
            f.write(raw)  # to read it is to change it for all threads
        os.replace(tmp, path)
    except OSError as e:
        if tmp is not None and os.path.exists(tmp):
            os.unlink(tmp)
        raise AutocompError(
            f"cannot write {len(raw)} bytes: {e.strerror}",
            where=str(path),
            hint="check the folder's permissions and free space, or choose another path",
        ) from None
