"""The runtime header, precompiled: it is used, and whatever is wrong with it changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets.cpu import precompiled
from autocomp.targets.cpu.toolchain import Toolchain

import autocomp
from autocomp.store import read_entry, seal

COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler on PATH")
CALLS = "kernels_0.c"
TEXT = "graph g\ninput x: f32[{n}]\n%0 = exp(x)\noutput y = %0\n"


@pytest.fixture(params=COMPILERS)
def compiler(request, tmp_path, monkeypatch):
    """$CC: a compiler that writes down the files it opens; an empty cache."""
    path = tmp_path / f"logging-{request.param}"
    path.write_text(f'#!/bin/sh\necho "ran $*" >> {tmp_path}/log\nexec {shutil.which(request.param)} -H "$@" 2>> {tmp_path}/log\n')
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(precompiled, "_checked", {})
    return request.param


def build(tmp_path: Path, n: int, **tool: object) -> bool:
    """Whether the sources of a library found the header precompiled."""
    (tmp_path / "log").write_text("")
    folder = tmp_path / f"work-{n}"
    folder.mkdir()
    (folder / CALLS).write_text('#define AC_LANES 4\n#include "autocomp_cpu.h"\n\nint value(void) { return EXTRA; }\n')
    out = folder / "kernels.so"
    Toolchain(**{"machine": (), "more": ("-DEXTRA=7",), **tool}).compile(folder, [CALLS], out)  # type: ignore[arg-type]
    assert out.stat().st_size
    return found(tmp_path)


def found(tmp_path: Path) -> bool:
    log = (tmp_path / "log").read_text()
    assert CALLS in log
    return "! autocomp_cpu.h.gch" in log or (f"-c {CALLS}" in log and "-include-pch" in log)


def optimized(tmp_path: Path, n: int) -> bool:
    """Whether those of a new program found it; its result is right."""
    (tmp_path / "log").write_text("")
    np.testing.assert_allclose(autocomp.optimize(TEXT.format(n=n))(np.zeros(n, "f4")), 1)
    return found(tmp_path)


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "headers").glob("*.pch"))


def test_it_is_made_for_the_second_program_and_used_from_then_on(compiler, tmp_path):
    assert [optimized(tmp_path, n) for n in (11, 12, 13)] == [False, True, True]
    (path,) = kept(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "log").read_text().count("-x c-header") == 0, "it was made again"


def damaged(raw: bytes) -> dict[str, bytes]:
    middle = len(raw) // 2
    return {"nothing": b"", "half": raw[:middle], "a bit": raw[:middle] + bytes([raw[middle] ^ 4]) + raw[middle + 1 :], "text": b"int x;\n"}


@pytest.mark.parametrize("how", ["nothing", "half", "a bit", "text"])
def test_a_damaged_one_is_noticed_and_made_again(compiler, tmp_path, how, monkeypatch):
    build(tmp_path, 21), build(tmp_path, 22)
    (path,) = kept(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(damaged(raw)[how])
    monkeypatch.setattr(precompiled, "_checked", {})  # as in a new process
    assert build(tmp_path, 23)
    assert any(damaged(raw)[how] != p.read_bytes() for p in kept(tmp_path))


def test_one_that_is_gone_is_made_again(compiler, tmp_path):
    build(tmp_path, 31), build(tmp_path, 32)
    kept(tmp_path)[0].unlink()
    assert build(tmp_path, 33)
    shutil.rmtree(tmp_path / "cache" / "headers")
    assert [build(tmp_path, n) for n in (34, 35)] == [False, True]


def test_a_damaged_entry_is_a_miss(compiler, tmp_path):
    build(tmp_path, 41), build(tmp_path, 42)
    (entry,) = (tmp_path / "cache" / "headers").glob("*.entry")
    bad = ("[]", '{"file": 3}', "no json",
           '{"file": "../../x", "sha256": "", "depends": []}', '{"file": "x", "sha256": "", "depends": [[], 3]}')  # fmt: skip
    for i, text in enumerate(bad):
        key = entry.name.removesuffix(".entry")
        entry.write_bytes(seal(precompiled.FORM, key, text.encode()))
        build(tmp_path, 43 + i)


@pytest.mark.parametrize("bytes_", [b"gpch", b"CPCH" + bytes(5000), bytes(100_000)])
def test_one_that_the_compiler_refuses_is_done_without(compiler, tmp_path, bytes_):
    """Its checksum is right: it is the compiler that cannot read it. Sources are compiled as they stand, and it is not tried again."""
    import hashlib

    build(tmp_path, 51), build(tmp_path, 52)
    (entry,), (path,) = (tmp_path / "cache" / "headers").glob("*.entry"), kept(tmp_path)
    key = entry.name.removesuffix(".entry")
    state = json.loads(read_entry(precompiled.KIND, precompiled.FORM, key))
    raw = path.read_bytes()
    raw = raw[: len(raw) // 3] if bytes_ == b"gpch" else bytes_
    path.write_bytes(raw)
    entry.write_bytes(seal(precompiled.FORM, key, json.dumps(state | {"sha256": hashlib.sha256(raw).hexdigest()}).encode()))
    build(tmp_path, 53)
    assert not build(tmp_path, 54) or compiler == "gcc"  # gcc passes by what is none at all


def test_options_and_compilers_have_their_own(compiler, tmp_path):
    assert [build(tmp_path, n) for n in (61, 62)] == [False, True]
    assert [build(tmp_path, n, more=("-DEXTRA=2",)) for n in (63, 64)] == [False, True]
    assert [build(tmp_path, n, more=("-DEXTRA=7", "-fstack-protector-all")) for n in (65, 66)] == [False, True]
    assert build(tmp_path, 67)
    script = tmp_path / f"logging-{compiler}"
    script.write_text(script.read_text() + "\n# another version\n")
    assert [build(tmp_path, n) for n in (68, 69)] == [False, True]
    assert not build(tmp_path, 70, precompiled=False)


def test_a_header_that_changed_makes_it_stale(compiler, tmp_path):
    (tmp_path / "system").mkdir()
    header = tmp_path / "system" / "math.h"
    header.write_text("#include_next <math.h>\n#define EXTRA 1\n")
    tool = {"more": ("-isystem", str(tmp_path / "system"))}
    assert [build(tmp_path, n, **tool) for n in (71, 72)] == [False, True]
    header.write_text("#include_next <math.h>\n#define EXTRA 12345\n")
    assert build(tmp_path, 73, **tool)
    import ctypes

    assert ctypes.CDLL(str(tmp_path / "work-73" / "kernels.so")).value() == 12345
    assert "-x c-header" in (tmp_path / "log").read_text()


def test_a_launcher_gets_the_sources_as_they_are(compiler, tmp_path, monkeypatch):
    launcher = tmp_path / "launcher"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("CC", f"{launcher} {tmp_path}/logging-{compiler}")
    assert [build(tmp_path, n) for n in (81, 82, 83)] == [False] * 3


def test_a_compiler_that_makes_none_is_asked_once(compiler, tmp_path, monkeypatch):
    script = tmp_path / f"logging-{compiler}"
    script.write_text(script.read_text().replace("exec ", 'case "$*" in *c-header*) exit 1;; esac\nexec '))
    assert [build(tmp_path, n) for n in (91, 92)] == [False, False]
    assert (tmp_path / "log").read_text().count("-x c-header") == 1
    assert not build(tmp_path, 93)
    assert (tmp_path / "log").read_text().count("-x c-header") == 0


def test_processes_at_once_share_one_cache(compiler, tmp_path):
    optimized(tmp_path, 100)
    code = f"import autocomp, numpy as np; [autocomp.optimize({TEXT!r}.format(n=n))(np.zeros(n, 'f4')) for n in NUMBERS]; print('right')"
    texts = [code.replace("NUMBERS", f"({200 + i}, {300 + i})") for i in range(3)]
    running = [subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) for text in texts]
    assert [p.communicate(timeout=120)[0] for p in running] == ["right\n"] * 3
    assert optimized(tmp_path, 101)
    assert not list((tmp_path / "cache" / "headers").glob("work-*"))


def test_few_are_kept(compiler, tmp_path, monkeypatch):
    monkeypatch.setattr(precompiled, "KEPT", 1)
    for k in (1, 2):
        build(tmp_path, 110 + k, more=(f"-DEXTRA={k}",)), build(tmp_path, 120 + k, more=(f"-DEXTRA={k}",))
    assert len(kept(tmp_path)) == 1
