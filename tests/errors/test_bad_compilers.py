"""Compilers that hang, vanish, write garbage or nothing, or are none: a BuildError with the command, its log and a next step."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets.ascend.toolchain import Toolchain as Ascend
from autocomp.targets.maca.toolchain import Toolchain as Maca

import autocomp
from autocomp import commands
from autocomp.errors import AutocompError, BuildError

GRAPH = "graph g\ninput x: f32[{n}]\n%0 = neg(x)\n%1 = exp(%0)\noutput y = %1\n"
SLEEP = f"sleep 1000.{os.getpid()}"  # of this process: other suites on the machine have their own
FLOOD = 'head -c 100000000 /dev/zero | tr "\\\\0" x >&2'
ELF = "\\\\177ELF\\\\002\\\\001\\\\001"
BODIES = {  # what it does, and what is said of it
    "exits with binary output": ('printf "\\\\377\\\\376error \\\\000\\\\001" >&2; exit 3', "cc failed with exit code 3: .*error"),
    "writes no file": ("exit 0", "cc ended well but wrote no kernels_0.o"),
    "writes an empty file": ('for f; do case "$f" in *.o) : > "$f";; esac; done; exit 0', "cc ended well but kernels_0.o is empty"),
    "prints a hundred megabytes": (f"{FLOOD}; exit 1", "cc failed with exit code 1: x{200}\n"),
    "is killed": ("kill -SEGV $$", "cc was killed by SIGSEGV"),
    "hangs": (f"{SLEEP} & {SLEEP}", "cc did not end in 2 s and was killed"),
    "hangs with its output closed": (f"exec {SLEEP} >/dev/null 2>&1", "cc did not end in 2 s and was killed"),
}


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes $CC a script that does what it is told to when it compiles, with an empty cache."""
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(commands.SECONDS, "2")

    def make(body, version="echo broken 1.0", name="cc"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ {version}; exit 0; }}\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CC", str(path))
        return path

    return make


def left_behind(marker=SLEEP):
    """Processes whose command line has a text, after those that were killed had time to end."""
    end = time.monotonic() + 5
    while (found := running(marker)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def running(marker):
    found = []
    for p in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker in p.read_bytes().replace(b"\0", b" ").decode(errors="replace") and int(p.parent.name) != os.getpid():
                found.append(p.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", BODIES)
def test_what_a_compiler_does_wrong_is_told(compiler, how):
    body, said = BODIES[how]
    path = compiler(body)
    begun = time.monotonic()
    with pytest.raises(BuildError, match=said) as e:
        autocomp.optimize(GRAPH.format(n=31))
    assert time.monotonic() - begun < 15
    assert e.value.log in e.value.hint
    log = Path(e.value.log).read_text()
    assert log.startswith(f"{path} -std=gnu11")
    assert len(log) < 1e6
    assert not left_behind()
    Path(e.value.log).unlink()


def test_a_library_that_is_none_is_told(compiler):
    compiler(f'case "$*" in *-shared*) printf "{ELF}" > kernels.so;; *) for f; do case "$f" in *.o) echo o > "$f";; esac; done;; esac')
    with pytest.raises(BuildError, match="what cc built cannot be loaded") as e:
        autocomp.optimize(GRAPH.format(n=32))
    assert "AUTOCOMP_CACHE" in e.value.hint


def test_a_compiler_that_leaves_a_process_behind_is_not_waited_for(compiler):
    compiler(f'{SLEEP} & exec gcc "$@"', "gcc --version")
    begun = time.monotonic()
    np.testing.assert_allclose(autocomp.optimize(GRAPH.format(n=33))(np.zeros(33, "f4")), 1)
    assert time.monotonic() - begun < 20
    assert not left_behind()


def test_a_compiler_that_does_not_say_its_version(compiler, monkeypatch):
    monkeypatch.setattr(commands, "ASKED", 0.5)
    compiler("exit 0", SLEEP)
    program = autocomp.optimize(GRAPH.format(n=34))
    assert not program.runnable
    assert "cc did not end in 0.5 s and was killed" in program.not_runnable


def test_a_compiler_that_vanishes_between_two_calls(compiler):
    path = compiler('exec gcc "$@"', "gcc --version")
    np.testing.assert_allclose(autocomp.optimize(GRAPH.format(n=35))(np.zeros(35, "f4")), 1)
    path.unlink()
    program = autocomp.optimize(GRAPH.format(n=36))
    assert "is not found" in program.not_runnable


def test_a_compiler_that_vanishes_while_it_is_used(compiler):
    compiler('rm -f "$0"; exec gcc "$@"', "gcc --version")
    with pytest.raises(BuildError) as e:  # files are compiled side by side: the second finds no script, or its shell does not
        autocomp.optimize(GRAPH.format(n=37))
    gone = re.search(r"cc cannot be started: No such file or directory \(/.*/cc\)", str(e.value))
    assert gone or re.search(r"cc failed with exit code \d+: .*No such file", str(e.value))
    assert not gone or e.value.hint == "is it still installed, and may it be executed here?"


@pytest.mark.parametrize(("wanted", "said"), [
    ("'gcc", r"\$CC is ''gcc', which cannot be read as a command \(No closing quotation\)"),
    ("\"\"", r"\$CC names '\"\"', which is not found"),
    ("gcc; rm -rf x", r"\$CC names 'gcc; rm -rf x', which is not found"),
    ("/", r"\$CC names '/', which is not found"),
    ("-O2", r"\$CC names '-O2', which is not found"),
    ("\N{SNOWMAN}", "which is not found"),
])  # fmt: skip
def test_a_name_that_is_no_compiler(compiler, monkeypatch, wanted, said):
    monkeypatch.setenv("CC", wanted)
    program = autocomp.optimize(GRAPH.format(n=38))
    with pytest.raises(autocomp.AutocompError, match=said):
        program(np.zeros(38, "f4"))


def test_a_program_that_is_no_compiler(compiler, monkeypatch):
    monkeypatch.setenv("CC", "true")
    with pytest.raises(BuildError, match=r"true ended well but wrote no kernels_0\.o"):
        autocomp.optimize(GRAPH.format(n=39))


def test_a_path_with_spaces_in_quotes_and_options_with_quotes(compiler, monkeypatch):
    path = compiler('exec gcc "$@"', "gcc --version", name="my cc")
    for n, wanted in enumerate((str(path), f'"{path}" -DONE=1', f"'{path}' '-DTEXT=\"a b\"'"), 40):
        monkeypatch.setenv("CC", wanted)
        np.testing.assert_allclose(autocomp.optimize(GRAPH.format(n=n))(np.zeros(n, "f4")), 1)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_that_is_none(compiler, monkeypatch, text):
    compiler('exec gcc "$@"', "gcc --version")
    monkeypatch.setenv(commands.SECONDS, text)
    with pytest.raises(BuildError, match=f"AUTOCOMP_BUILD_SECONDS is '{text}'"):
        autocomp.optimize(GRAPH.format(n=44))


@pytest.mark.parametrize("how", ["exits with binary output", "writes no file", "writes an empty file", "is killed", "hangs"])
@pytest.mark.parametrize(("toolchain", "command"), [(Maca("xcore1000"), "mxcc"), (Ascend("dav-c220"), "bisheng")], ids=["maca", "ascend"])
def test_compilers_of_vendors(compiler, tmp_path, monkeypatch, toolchain, command, how):
    body, _ = BODIES[how]
    compiler(body, name=command)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BuildError, match="kernel f") as e:
        toolchain.compile_object("f", "the text of f")
    assert command in Path(e.value.log).read_text()
    assert "the text of f" in Path(e.value.log).read_text()
    assert not left_behind()


def test_another_compiler_under_the_same_name_is_another_key(compiler):
    from autocomp.targets.cpu.toolchain import Toolchain

    path = compiler('exec gcc "$@"')
    first = Toolchain().key()
    assert Toolchain().key() == first
    path.write_text(path.read_text() + "# edited\n")
    assert Toolchain().key() != first


def test_where_no_log_can_be_written_the_error_still_comes(compiler, monkeypatch):
    compiler('echo "x.c:1: error: out of order" >&2; exit 1')
    monkeypatch.setattr(commands, "keep_log", lambda text: None)
    with pytest.raises(BuildError, match=r"cc failed with exit code 1: x\.c:1: error: out of order") as e:
        autocomp.optimize(GRAPH.format(n=45))
    assert e.value.log is None
    assert "could not be kept" in e.value.hint


def test_an_interruption_ends_what_runs(tmp_path):
    begun = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    begun.start()
    with pytest.raises(KeyboardInterrupt):
        commands.run([SLEEP.split(), SLEEP.split()], tmp_path, where="here", limit=30, jobs=2)
    assert not left_behind()


def test_commands_side_by_side_end_in_their_order():
    code = "import sys, time; time.sleep(float(sys.argv[1])); print(sys.argv[1])"
    done = commands.run([[sys.executable, "-c", code, s] for s in ("0.3", "0", "0.1")], where="here", limit=60, jobs=3)
    assert [e.out.strip() for e in done] == ["0.3", "0", "0.1"]
    (bad,) = commands.run([SLEEP.split(), ["false"]], where="here", limit=60, jobs=2)
    assert bad.why == "failed with exit code 1"


def test_a_command_that_could_not_be_started_once_is_tried_again(compiler, monkeypatch):
    """The machine had no room for another process: nothing is known of the compiler."""
    path = compiler('exec cc "$@"', version='exec cc "$@"')
    real, full = commands.subprocess.Popen, [True]

    def start(*args, **kw):
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **kw)

    monkeypatch.setattr(commands.subprocess, "Popen", start)
    with pytest.raises(AutocompError, match=f"cc cannot be started: No space left on device .{path}"):
        autocomp.optimize(GRAPH.format(n=33)).prepare()
    full.clear()
    np.testing.assert_allclose(autocomp.optimize(GRAPH.format(n=33))(np.zeros(33, "f4")), 1)


def test_a_write_without_a_name_tells_the_folder(monkeypatch):
    """The error of a write to an open file names none."""
    real = Path.write_text

    def full(self, text, *args, **kw):
        if self.suffix in (".c", ".h"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, text, *args, **kw)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(BuildError, match=r"No space left on device \(/.+/build\)"):
        autocomp.optimize(GRAPH.format(n=39)).prepare()


def test_a_disk_that_is_full_has_a_next_step():
    e = commands.failure(commands.Ended(("cc",), 1, "", "error: can't write: No space left on device"), "failed", "target cpu")
    assert "make room, or set $AUTOCOMP_CACHE and $TMPDIR to folders of another disk" in str(e)
