"""Writing files so that a reader never sees half of one; reading the tables that this package ships."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any

import platformdirs
import yaml

from autocomp.errors import AutocompError

DEVICE = "is a device, not a file"


def user_folder(kind: str) -> Path:
    """This user's folder of a kind (cache, config) for us; not absolute, and of no use, where nobody says where their home is."""
    try:
        found = platformdirs.user_cache_path("autocomp") if kind == "cache" else platformdirs.user_config_path("autocomp")
    except RuntimeError:  # no $HOME, and a user that the system does not know
        found = Path(f"~/.{kind}/autocomp")
    return found


def digest(parts: Sequence[str]) -> str:
    """A key for texts."""
    h = hashlib.sha256()
    for p in parts:
        h.update(str(len(p)).encode() + b"\0" + p.encode())
    return h.hexdigest()[:24]


def own_table(package: str, name: str) -> Any:
    """A YAML file that this package ships, read by libyaml where PyYAML has it, in a tenth of the time."""
    return yaml.load(files(package).joinpath(name).read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read_given(path: Path) -> bytes:
    """The bytes of a file that a user names. Raises OSError, also for a device (/dev/zero), which has no end; a pipe has one."""
    if is_device(path):
        raise OSError(errno.EINVAL, DEVICE, str(path))
    return path.read_bytes()


def is_device(path: Path) -> bool:
    """Whether a path names what has no end, or none that a reader would wait for."""
    return path.is_char_device() or path.is_block_device()


def write_atomic(path: Path, data: str | bytes, mode: int = 0o666) -> None:
    """Write to a temporary file beside `path`, then rename. `mode`: that of the file, less the umask. What is no file (a terminal, a
    pipe, /dev/null) is written to as it stands. Raises AutocompError (what, where, next step) on OS errors."""
    path = Path(path)
    raw = data.encode() if isinstance(data, str) else data
    tmp = path.with_name(f".{path.name[:40]}.{token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(raw)
            return
        # the umask is the system's to apply: to read it is to change it for all threads
        fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as f:
            f.write(raw)
        os.replace(tmp, path)
    except OSError as e:
        raise AutocompError(
            f"cannot write {len(raw)} bytes: {e.strerror}",
            where=str(path),
            hint="check the folder's permissions and free space, or choose another path",
        ) from None
    finally:
        with suppress(OSError):
            tmp.unlink()  # gone where it was renamed
