"""The runtime header, precompiled: most of what a small kernel takes to compile is reading it, and immintrin.h above all.

One is kept in the cache for each compiler, its options, the header's contents and AC_LANES; it is made when it is asked for the second
time, so that a single program does not pay for it. It is code like a library, and as safe: it lies in a folder of this user's, it is used
where its checksum is right, and it is made aside and renamed. It is never needed: where there is none, where it is damaged, older than a
header that it was made of, or the compiler does not take it, sources are compiled as they stand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autocomp import commands
from autocomp.deadline import current
from autocomp.errors import AutocompError
from autocomp.files import digest
from autocomp.forks import Lock
from autocomp.store import folder, read_entry, work_folder, write_entry

HEADER = "autocomp_cpu.h"
FORM = "autocomp header 1"
KIND = "headers"
KEPT = 8  # precompiled headers in the cache; gcc's have 26 MB
FIELDS = {"file": str, "sha256": str, "depends": list}
LIMIT = 60.0  # seconds that one may take
_START = re.compile(rf'#define AC_LANES (\d+)\n#include "{HEADER}"')
_checked: dict[Path, tuple[int, ...]] = {}  # files whose checksum was right, with what tells when they change
_lock = Lock()


@dataclass(frozen=True)
class Precompiled:
    """How the sources of one library find the header. `compiler`: its command and version; `options`: those of every source."""

    compiler: tuple[str, ...]
    version: str
    options: tuple[str, ...]
    include: Path
    lanes: str
    contents: str

    @property
    def clang(self) -> bool:
        """Whether it is told by an option which file to take; gcc, and who acts like it, looks for it where it looks for the header."""
        return "clang" in self.version.lower()

    @property
    def key(self) -> str:
        return digest([*self.compiler, self.version, *self.options, str(self.include), self.lanes, self.contents])

    def ready(self, work: Path) -> tuple[str, ...] | None:
        """Let the sources in a folder find it; the options that they need for it. None where there is none to be had."""
        with _lock.held:
            try:
                state = self._state()
                path = _sound(state) or (self._make() if state.get("wanted") or "file" in state else None)
                if path is None:
                    return None
                if self.clang:
                    return ("-include-pch", str(path))
                (work / f"{HEADER}.gch").symlink_to(path)
            except (AutocompError, OSError, ValueError, TypeError, KeyError):
                return None
        return ()

    def built(self) -> None:
        """A library was built without it: the next one wants it."""
        if not self._state():
            self._keep(wanted=True)

    def refused(self, work: Path) -> None:
        """The compiler failed with it, and does without from now on."""
        (work / f"{HEADER}.gch").unlink(missing_ok=True)
        self._keep(refused=True)

    def _state(self) -> dict[str, Any]:
        """What is kept: wanted, refused, or file, sha256 and depends; nothing where it is none of them."""
        kept = read_entry(KIND, FORM, self.key)
        try:
            state = json.loads(kept) if kept is not None else {}
            whole = state.keys() in ({"wanted"}, {"refused"}) or {x: type(v) for x, v in state.items()} == FIELDS
        except (ValueError, AttributeError):
            whole = False
        return state if whole else {}

    def _keep(self, **state: Any) -> None:
        write_entry(KIND, FORM, self.key, json.dumps(state).encode())

    def _make(self) -> Path | None:
        """Path of a new one, which is then kept; None where the compiler makes none."""
        with work_folder(KIND) as work:
            made, listed = work / "made", work / "files"
            command = [*self.compiler, *self.options, f"-DAC_LANES={self.lanes}", "-MD", "-MF", str(listed), "-x", "c-header",
                       str(self.include / HEADER), "-o", str(made)]  # fmt: skip
            done = commands.run([command], work, where="target cpu", limit=min(LIMIT, commands.build_limit()))
            if any(e.late for e in done) and current().over:  # it was given less time than one takes
                return None
            if any(e.why for e in done) or not made.exists() or not made.stat().st_size:
                self._keep(refused=True)
                return None
            made.chmod(0o600)
            checksum = hashlib.sha256(made.read_bytes()).hexdigest()
            path = folder(KIND) / f"{self.key}-{checksum[:16]}.pch"
            depends = [[name, *_identity(Path(name))] for name in _listed(os.fsdecode(listed.read_bytes()))]
            os.replace(made, path)
        self._keep(file=path.name, sha256=checksum, depends=depends)
        _checked[path] = _identity(path)
        for old in sorted(path.parent.glob("*.pch"), key=lambda p: p.stat().st_mtime_ns)[:-KEPT]:
            old.unlink(missing_ok=True)
        return path


def for_sources(work: Path, names: Sequence[str], compiler: Sequence[str], version: str, options: Sequence[str], include: Path,
                contents: Sequence[str]) -> Precompiled | None:  # fmt: skip
    """What the sources with these names in a folder may share; None where no source begins with the header, and where the compiler is
    started by another command (ccache, distcc), which would not know what it reads. `contents`: of our headers."""
    if any(not word.startswith("-") for word in compiler[1:]):
        return None
    lanes = {m[1] for n in names if (m := _START.match((work / n).read_text(encoding="utf-8")))}
    if len(lanes) != 1:
        return None
    return Precompiled(tuple(compiler), version, tuple(options), include, lanes.pop(), digest(contents))


def begins_with_it(source: Path) -> bool:
    """Whether a source includes the header before all else."""
    return _START.match(source.read_text(encoding="utf-8")) is not None


def _sound(state: dict[str, Any]) -> Path | None:
    """The file that an entry names, where it and the headers that it was made of are as they were."""
    if "file" not in state:
        return None
    path = folder(KIND) / Path(state["file"]).name
    try:
        if any(list(_identity(Path(name))) != found for name, *found in state["depends"]):
            return None
        now = _identity(path)
        if _checked.get(path) != now:
            if hashlib.sha256(path.read_bytes()).hexdigest() != state["sha256"]:
                return None
            if path not in _checked:
                with suppress(OSError):
                    os.utime(path)  # it is in use: others are removed first
            _checked[path] = _identity(path)
    except OSError:
        return None
    return path


def _identity(path: Path) -> tuple[int, ...]:
    s = path.stat()
    return s.st_size, s.st_mtime_ns, s.st_ino


def _listed(rule: str) -> list[str]:
    """The files that a rule for make names behind its colon; spaces in them have a backslash in front."""
    files = rule.replace("\\\n", " ").partition(": ")[2]
    return [f.replace("\\ ", " ").replace("$$", "$") for f in re.findall(r"(?:\\ |\S)+", files)]
