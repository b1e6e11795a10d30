"""Who may put something into the cache, and what becomes of libraries and device code in it that are not what was written."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import autocomp
from autocomp import store
from autocomp.errors import AutocompError
from autocomp.runtime import build
from autocomp.trace import Trace
from autocomp.tune.use import database_path
from tests.helpers.repeats import repeats
from tests.helpers.shared_files import new_cache

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")
GRAPH = "graph g\ninput x: f32[{n}]\n%0 = neg(x)\n%1 = exp(%0)\noutput y = %1\n"
EVIL = """
#include <stdio.h>
__attribute__((constructor)) static void planted(void) { FILE *f = fopen("{mark}", "w"); fclose(f); }
void ac_run(void *const *t, const long *z, void *s, int a, int b) {{}}
void ac_threads(int n) {{}}
"""


@pytest.fixture(autouse=True)
def as_at_the_start(monkeypatch):
    """A process that has loaded nothing yet and has no folder of its own."""
    monkeypatch.setattr(build, "_loaded", {})
    store._private_of.cache_clear()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A new cache folder."""
    return new_cache(tmp_path / "cache", monkeypatch)


def compiled(n=51):
    """(whether the library was found, the notes); the program gives the right result."""
    trace = Trace()
    np.testing.assert_allclose(autocomp.optimize(GRAPH.format(n=n), trace=trace)(np.zeros(n, "f4")), 1)
    notes = [e.data.get("text", "") for e in trace.of("note")]
    return any(e.name == "build cache" and e.data["text"].startswith("found") for e in trace.of("note")), notes


def entry(cache, kind="build"):
    (found,) = (cache / kind).glob("*.entry")
    return found


def damages(raw: bytes) -> dict[str, bytes]:
    """24 ways in which an entry is not what was written."""
    random.seed(7)
    head, _, library = raw.partition(b"\n")
    header = head + b"\n"
    flip = lambda at: raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :]
    out = {f"one bit of byte {at}": flip(at) for at in sorted(random.sample(range(len(header), len(raw)), 12))}
    out |= {f"cut to {k}/8": raw[: len(raw) * k // 8] for k in range(8)}
    out["header alone"] = header
    out["zeros behind the header"] = header + bytes(len(library))
    out["the library without a header"] = library
    out["more behind it"] = raw + b"more"
    assert len(out) == 24
    return out


class Prebuilt:
    """A toolchain whose library is there already."""

    def __init__(self, folder):
        (folder / "a.c").write_text("int answer(void) { return 42; }")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "a.so", folder / "a.c"], check=True)
        self.library = folder / "a.so"

    def key(self):
        return "prebuilt"

    def compile(self, folder, names, out):
        shutil.copy(self.library, out)


def test_damaged_libraries_are_built_again(cache, tmp_path):
    tools = Prebuilt(tmp_path)

    def built():
        build._loaded.clear()
        trace = Trace()
        assert ctypes.CDLL(str(build.build_library({"a.c": "its text"}, tools, trace))).answer() == 42
        return [e.data["text"] for e in trace.of("note")]

    assert built() == []
    good = entry(cache).read_bytes()
    for how, raw in damages(good).items():
        entry(cache).write_bytes(raw)
        (note,) = built()
        assert note.startswith(f"{entry(cache)} is damaged"), how
        assert entry(cache).read_bytes() == good, how
        assert built() == [f"found {entry(cache).stem}"], how


def test_a_planted_library_is_not_loaded(cache, tmp_path):
    compiled()
    (tmp_path / "evil.c").write_text(EVIL.replace("{mark}", str(tmp_path / "mark")).replace("{{", "{").replace("}}", "}"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "evil.so", tmp_path / "evil.c"], check=True)
    evil = (tmp_path / "evil.so").read_bytes()
    build._loaded.clear()
    place = entry(cache)
    place.write_bytes(place.read_bytes().partition(b"\n")[0] + b"\n" + evil)
    assert not compiled()[0]
    assert not (tmp_path / "mark").exists()
    ctypes.CDLL(str(tmp_path / "evil.so"))  # which would have run
    assert (tmp_path / "mark").exists()


def test_a_whole_entry_whose_library_does_not_load_is_a_miss(cache):
    compiled()
    place = entry(cache)
    place.write_bytes(store.seal(build.LIBRARY, place.stem, b"no library at all"))
    build._loaded.clear()
    found, notes = compiled()
    assert not found
    assert any("cannot be loaded" in n for n in notes)
    assert compiled()[0]


def test_what_is_loaded_is_not_what_can_still_be_written(cache):
    """The file in the cache may be cut or replaced while a program that came from it runs."""
    program = autocomp.optimize(GRAPH.format(n=52))
    entry(cache).write_bytes(b"")
    np.testing.assert_allclose(program(np.zeros(52, "f4")), 1)
    loaded = Path(program.executor.library.path)
    assert stat.S_IMODE(loaded.parent.stat().st_mode) == 0o700
    assert cache not in loaded.parents


def test_damaged_device_code_is_compiled_again(cache):
    class Tools:
        compiled = 0

        def key(self):
            return "tools"

        def compile_object(self, name, text):
            Tools.compiled += 1
            return b"code of " + name.encode()

    trace = Trace()
    make = lambda: build.build_objects({"a": "text"}, Tools(), trace)
    assert make() == make() == {"a": b"code of a"}
    assert Tools.compiled == 1
    place = entry(cache, "objects")
    for raw in (b"", place.read_bytes()[:-1], b"code of b", place.read_bytes() + b"x"):
        before = Tools.compiled
        place.write_bytes(raw)
        assert make() == {"a": b"code of a"}
        assert Tools.compiled == before + 1


# ---- whose the folder is
def modes(folder):
    return {p: stat.S_IMODE(p.stat().st_mode) for p in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("mask", [0o000, repeats(0o022, of="0o000"), repeats(0o077, of="0o777"), 0o777])
def test_folders_and_entries_are_this_users_whatever_the_umask_is(tmp_path, mask):
    cache = tmp_path / "above" / "cache"
    code = f"import os; os.umask({mask}); import autocomp; autocomp.optimize({GRAPH.format(n=53)!r})([0] * 53)"
    code = code.replace("([0] * 53)", ".verify()")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "AUTOCOMP_CACHE": str(cache)}, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for path, mode in modes(cache.parent).items():
        assert mode & 0o077 == 0, path
        assert mode & 0o700 == (0o700 if path.is_dir() and mask != 0o777 else mode & 0o600), path


def planted_link(cache):
    cache.with_name("elsewhere").mkdir()
    cache.symlink_to(cache.with_name("elsewhere"))


def planted_open(cache):
    cache.mkdir()
    cache.chmod(0o777)


def planted_below(cache):
    cache.parent.chmod(0o777)


def planted_subfolder(cache):
    (cache / "build").mkdir(parents=True, mode=0o700)
    (cache / "build").chmod(0o777)


def planted_sublink(cache):
    cache.mkdir(mode=0o700)
    (cache / "build").symlink_to(cache.parent)


HOLES = {"a link": (planted_link, "is a symbolic link"), "open to all": (planted_open, "may be written by others (mode 777)"),
         "below a folder that is": (planted_below, "which others may write (mode 777)"),
         "a folder in it is": (planted_subfolder, "has a folder build that may be written by others (mode 777)"),
         "a folder in it is a link": (planted_sublink, "has a folder build that is a symbolic link")}  # fmt: skip


@pytest.mark.parametrize("how", HOLES)
def test_a_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch, how):
    make, said = HOLES[how]
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    cache = home / "cache"
    monkeypatch.setenv("AUTOCOMP_CACHE", str(cache))
    make(cache)
    found, notes = compiled(54)
    assert not found
    assert any(f"{cache} cannot be used: it " in n and said in n for n in notes), notes
    assert not [p for p in cache.parent.rglob("*.entry") if p.parent.name == "build"]
    assert len(notes) == len(set(notes))
    private = store.private_folder()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert compiled(54)[0]  # in this process it is kept


@pytest.mark.parametrize(("owner", "said"), [("root", "belongs to user 4242"), ("parent", "which belongs to user 4242")])
def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch, owner, said):
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    cache = tmp_path / "theirs" / "cache"
    cache.mkdir(parents=True, mode=0o700)
    os.chown(cache if owner == "root" else cache.parent, 4242, 4242)
    monkeypatch.setenv("AUTOCOMP_CACHE", str(cache))
    found, notes = compiled(55)
    assert not found
    assert any(said in n for n in notes)
    with pytest.raises(AutocompError, match=r"the cache folder cannot be used: it .*4242"):
        database_path(autocomp.Options())


def test_a_cache_of_roots_may_be_read_by_others_only_where_it_is_writable_for_them(tmp_path, monkeypatch):
    """A folder of root is as good as the system itself; who cannot write it has a folder for the process."""
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o755)
    monkeypatch.setattr(os, "access", lambda *a: False)
    monkeypatch.setenv("AUTOCOMP_CACHE", str(cache))
    trace = Trace()
    assert store.folder("build", trace) == store.private_folder() / "build"
    assert "cannot be written (Permission denied)" in trace.of("note")[0].data["text"]


def test_a_link_on_the_way_is_followed_where_nobody_else_could_have_made_it(tmp_path):
    (tmp_path / "real" / "home").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert store.why_not_ours(tmp_path / "link" / "home" / "cache") == ""
    (tmp_path / "real").chmod(0o777)
    assert "real, which others may write" in store.why_not_ours(tmp_path / "link" / "home" / "cache")
    (tmp_path / "round").symlink_to("round")
    assert "Too many levels of symbolic links" in store.why_not_ours(tmp_path / "round" / "cache")


def test_a_group_of_one_is_no_other(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o770)
    monkeypatch.setattr(store, "_private_group", lambda gid: True)
    assert store.why_not_ours(tmp_path / "cache") == ""
    monkeypatch.setattr(store, "_private_group", lambda gid: False)
    assert "may be written by others (mode 770)" in store.why_not_ours(tmp_path / "cache")


PROGRAM = """
import os, sys, autocomp
{first}
t = autocomp.Trace()
p = autocomp.optimize({graph!r}, trace=t)
p.verify()
print([e.data.get('text') for e in t.of('note') if e.name == 'cache'])
"""


@pytest.mark.parametrize(("name", "env", "first", "said"), [
    ("no HOME", {"HOME": None}, "import pwd; pwd.getpwuid = lambda n: {}[n]", "is no absolute path (is $HOME set?)"),
    ("HOME that cannot be made", {"HOME": "/proc/home"}, "", "cannot be written"),
    ("XDG_CACHE_HOME that is a file", {"XDG_CACHE_HOME": "/dev/null"}, "", "cannot be"),
    ("read-only", {"XDG_CACHE_HOME": "/proc"}, "", "cannot be written"),
])  # fmt: skip
def test_where_there_is_no_cache_folder_to_use(tmp_path, name, env, first, said):
    base = {k: v for k, v in os.environ.items() if k not in ("AUTOCOMP_CACHE", "XDG_CACHE_HOME", *env)}
    base |= {k: v for k, v in env.items() if v is not None}
    program = tmp_path / "p.py"
    program.write_text(PROGRAM.format(graph=GRAPH.format(n=56), first=first))
    done = subprocess.run([sys.executable, str(program)], env=base, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["p.py"]


def test_a_private_folder_goes_with_its_process_and_not_with_its_children(tmp_path):
    code = ("import os; from autocomp.store import private_folder; p = private_folder(); pid = os.fork()\n"
            "if pid == 0:\n    q = private_folder(); assert q != p and q.is_dir(); raise SystemExit\n"
            "os.waitpid(pid, 0); assert p.is_dir(); print(p)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert done.stdout.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_work_folders_of_killed_processes_are_removed_and_others_stay(cache):
    with store.work_folder("build") as mine:
        left = mine.with_name("work-left")
        left.mkdir()
        fresh = mine.with_name("new-folder")
        fresh.mkdir()
        with store.work_folder("build") as second:
            assert mine.is_dir()
            assert not left.exists()
            assert fresh.is_dir()  # it may be about to be locked
            assert second != mine
    os.utime(fresh, (0, 0))
    with store.work_folder("build"):
        assert not fresh.exists()
    assert not list((cache / "build").iterdir())


# ---- versions
def test_an_edit_that_keeps_size_and_time_is_another_version(tmp_path, monkeypatch):
    package = tmp_path / "ours"
    package.mkdir()
    source = package / "a.py"
    source.write_text("x = 1\n")
    os.utime(source, ns=(10**18, 10**18))
    monkeypatch.setattr(store, "OURS", ("ours",))
    monkeypatch.setattr(store, "files", lambda name: package)
    monkeypatch.setattr(store, "_BEGUN", 2**62)
    fresh = store.package_stamp.__wrapped__
    first = fresh()
    assert fresh() == first
    source.write_text("x = 2\n")
    os.utime(source, ns=(10**18, 10**18))
    second = fresh()
    assert second != first
    (package / "table.cuh").write_text("1")
    assert fresh() not in (first, second)


def test_a_process_that_runs_older_code_than_the_disk_has_shares_nothing(tmp_path, monkeypatch):
    package = tmp_path / "ours"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(store, "OURS", ("ours",))
    monkeypatch.setattr(store, "files", lambda name: package)
    monkeypatch.setattr(store, "_BEGUN", 0)
    fresh = store.package_stamp.__wrapped__
    assert fresh() != fresh()
