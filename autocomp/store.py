"""The cache folder: whose it is, and entries in it that notice damage.

What lies there becomes machine code of this process (libraries, device code, sources), so it is used only where no other user can have
put it there: the folder is no link, belongs to this user or to root, only its owner may write it, and nobody else can replace a folder
above it. Else a private folder takes its place for as long as the process runs, and the trace says so. Each entry has one header line
with its format, its key and a checksum; what does not fit is a miss and is written anew. Entries are written aside and renamed, so
processes may share the folder.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from secrets import token_hex

from autocomp.errors import AutocompError
from autocomp.files import user_folder, write_atomic
from autocomp.trace import Trace

OURS = ("autocomp", "autocomp.rules", "autocomp.targets", "autocomp.cost_models")
ABANDONED = 60.0  # seconds after which a work folder that was never locked is nobody's
LINKS = 40  # symbolic links on the way to a folder
_BEGUN = time.time_ns()


class DamagedEntry(ValueError):
    """A cache entry that is not what was written; the message says why."""


# ---- which folder
def cache_root() -> Path:
    """The cache folder: $AUTOCOMP_CACHE, else the user's cache folder. It may be missing, or not be usable (`folder`)."""
    if named := os.environ.get("AUTOCOMP_CACHE"):
        return Path(named).absolute()
    return user_folder("cache")


def why_not_ours(root: Path) -> str:
    """Why what lies in a folder may be another user's doing; "" where it cannot, or where there is no such folder yet."""
    if not root.is_absolute():
        return "is no absolute path (is $HOME set?)"
    try:
        way, there = _way(root)
    except OSError as e:
        return f"cannot be looked at ({e.strerror})"
    above = way[:-1] if there else way
    return next((w for path, s in above if (w := _replaceable(path, s))), "") or (_of_others(way[-1][1]) if there else "")


def _of_others(s: os.stat_result) -> str:
    """Why what stands in a place may not be used as a folder of ours."""
    if stat.S_ISLNK(s.st_mode):
        return "is a symbolic link; name the folder that it leads to"
    if not stat.S_ISDIR(s.st_mode):
        return "is no folder"
    if s.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {s.st_uid}, and this is user {os.geteuid()}"
    if _others_write(s):
        return f"may be written by others (mode {stat.S_IMODE(s.st_mode):o}); `chmod 700` it if you trust what is in it, else remove it"
    return ""


def _way(root: Path) -> tuple[list[tuple[Path, os.stat_result]], bool]:
    """Every folder and link that is gone through to reach `root`, and whether it is there (it comes last then). Raises OSError."""
    left, at, links = list(root.parts[1:])[::-1], Path(root.anchor), 0
    way = [(at, os.lstat(at))]
    while left:
        name = left.pop()
        if name == "..":
            at = at.parent
            continue
        try:
            s = os.lstat(at / name)
        except FileNotFoundError:
            return way, False
        way.append((at / name, s))
        if stat.S_ISLNK(s.st_mode) and left:
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = Path(os.readlink(at / name))
            at = Path(target.anchor) if target.is_absolute() else at
            left += [p for p in target.parts if p != target.anchor][::-1]
        else:
            at = at / name
    return way, True


def _replaceable(path: Path, s: os.stat_result) -> str:
    """Why another user could put something else in the place of what lies in a folder; a sticky one lets nobody."""
    if s.st_uid not in (os.geteuid(), 0):
        return f"lies below {path}, which belongs to user {s.st_uid}"
    if stat.S_ISDIR(s.st_mode) and _others_write(s) and not s.st_mode & stat.S_ISVTX:
        return f"lies below {path}, which others may write (mode {stat.S_IMODE(s.st_mode):o})"
    return ""


def _others_write(s: os.stat_result) -> bool:
    """Whether another user may write; a group that is this user's alone (umask 002) has no others."""
    if s.st_mode & stat.S_IWOTH:
        return True
    return bool(s.st_mode & stat.S_IWGRP) and not _private_group(s.st_gid)


def _private_group(gid: int) -> bool:
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return me.pw_gid == gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def make_private(root: Path) -> None:
    """Make a folder, and those missing above it, for this user alone whatever the umask is. Raises OSError."""
    for p in [*[p for p in root.parents if not p.exists()][::-1], root]:
        with suppress(FileExistsError):
            p.mkdir(mode=0o700)
    if not root.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))


def folder(name: str, trace: Trace | None = None) -> Path:
    """The folder `name` in the cache, or in one of this process alone where the cache cannot be used: then the trace gets a note.

    Raises AutocompError where there is no place for temporary files either.
    """
    root = cache_root()
    why = why_not_ours(root) or _why_not_made(root, name)
    if not why:
        return root / name
    text = f"{root} cannot be used: it {why}; a private folder takes its place while this process runs"
    if trace is not None and not any(e.data.get("text") == text for e in trace.of("note")):
        trace.add("note", "cache", text=text)
    mine = private_folder() / name
    try:
        make_private(mine)
    except OSError as e:
        raise _no_place(e) from None
    return mine


def _why_not_made(root: Path, name: str) -> str:
    """Make the folder `name` in a root that is ours; why it cannot be used."""
    inner = root / name
    try:
        if not inner.is_dir():
            make_private(inner)
            if why := why_not_ours(root):  # somebody else may have been faster
                return why
        if why := _of_others(os.lstat(inner)):
            return f"has a folder {name} that {why}"
    except OSError as e:
        return f"cannot be written ({e.strerror})"
    return "" if os.access(inner, os.W_OK | os.X_OK) else "cannot be written (Permission denied)"


def _no_place(e: OSError) -> AutocompError:
    return AutocompError(f"there is no place for temporary files: {e.strerror or e}", where="cache",
                         hint="free space, or set $TMPDIR or $AUTOCOMP_CACHE to a folder of yours")  # fmt: skip


@lru_cache(maxsize=8)
def _private_of(process: int) -> Path:
    try:
        made = Path(tempfile.mkdtemp(prefix="autocomp-"))
    except OSError as e:
        raise _no_place(e) from None
    atexit.register(_remove, made, process)
    return made


def private_folder() -> Path:
    """A folder that nobody else can write, removed when this process ends (a child that was forked has one of its own)."""
    made = _private_of(os.getpid())
    if not made.is_dir():  # swept away by a cleaner of temporary files
        _private_of.cache_clear()
        made = _private_of(os.getpid())
    return made


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


# ---- entries
def seal(form: str, key: str, data: bytes) -> bytes:
    """`data` below a header line with its format, its key and its checksum."""
    return json.dumps({"format": form, "key": key, "sha256": hashlib.sha256(data).hexdigest()}).encode() + b"\n" + data


def unseal(form: str, key: str, raw: bytes) -> bytes:
    """The data below a right header. Raises DamagedEntry."""
    data = raw.partition(b"\n")[2]
    if raw != seal(form, key, data):
        raise DamagedEntry(f"{len(raw)} bytes whose checksum is not that of their header")
    return data


def read_entry(kind: str, form: str, key: str, trace: Trace | None = None) -> bytes | None:
    """What was kept under a key; None where there is nothing, or something that is not what was written (noted in the trace)."""
    path = _path(kind, key, trace)
    if path is None:
        return None
    try:
        return unseal(form, key, path.read_bytes())
    except OSError:
        return None
    except DamagedEntry as e:
        if trace is not None:
            trace.add("note", f"{kind} cache", text=f"{path} is damaged ({e}); made again")
        return None


def write_entry(kind: str, form: str, key: str, data: bytes, trace: Trace | None = None) -> bool:
    """Keep data under a key. Where it cannot be written that costs a note in the trace; whether it was."""
    path = _path(kind, key, trace)
    if path is None:
        return False
    try:
        write_atomic(path, seal(form, key, data), mode=0o600)
    except AutocompError as e:
        if trace is not None:
            trace.add("note", f"{kind} cache", text=f"not kept: {e}")
        return False
    return True


def _path(kind: str, key: str, trace: Trace | None) -> Path | None:
    try:
        return folder(kind, trace) / f"{key}.entry"
    except (AutocompError, OSError) as e:
        if trace is not None:
            trace.add("note", f"{kind} cache", text=f"not used: {e}")
        return None


# ---- folders to work in
@contextmanager
def work_folder(name: str, trace: Trace | None = None) -> Iterator[Path]:
    """A new folder in the cache, removed at the end. Those of processes that were killed are removed too: a living one holds a lock."""
    try:
        root = folder(name, trace)
        _sweep(root)
        new = Path(tempfile.mkdtemp(dir=root, prefix="new-"))
        lock = _lock(new)
        made = new.rename(root / f"work-{new.name}")  # nobody sees it without its lock
    except OSError as e:
        raise AutocompError(f"no folder to work in can be made: {e.strerror}", where=name,
                            hint="free space, or set $AUTOCOMP_CACHE or $TMPDIR to a folder of yours") from None  # fmt: skip
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock of a folder; None where somebody else holds it, or nobody can."""
    fd = None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if fd is not None:
            os.close(fd)
        return None
    return fd


def _sweep(root: Path) -> None:
    """Remove the work folders whose owners have ended."""
    for old in (*root.glob("work-*"), *root.glob("new-*")):
        with suppress(OSError):
            if old.name.startswith("new-") and time.time() - old.stat().st_mtime < ABANDONED:
                continue
            if (fd := _lock(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(fd)


# ---- versions
@lru_cache(maxsize=1)
def package_stamp() -> str:
    """Changes with every edit of this package's code and data: the contents of its files.

    A process that runs older code than what lies on disk by now (an upgrade, an edit while it runs) has a stamp of its own, so that what
    it makes is nobody else's.
    """
    h = hashlib.sha256()
    late = False
    for package in OURS:
        root = str(files(package))
        for path in sorted(_sources(root)):
            with open(path, "rb") as f:
                late = late or os.fstat(f.fileno()).st_ctime_ns > _BEGUN
                data = f.read()
            h.update(f"{package}{path[len(root):]} {len(data)}\n".encode() + data)
    return h.hexdigest() + (f" edited while process {os.getpid()} ran {token_hex(8)}" if late else "")


def _sources(root: str) -> Iterator[str]:
    """Files of a package, without what Python makes of them and what it links to (the other packages, where it is installed in place)."""
    for e in os.scandir(root):
        if e.is_dir(follow_symlinks=False):
            if e.name != "__pycache__":
                yield from _sources(e.path)
        elif e.is_file() and not e.name.startswith("."):
            yield e.path
