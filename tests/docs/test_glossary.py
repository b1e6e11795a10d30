"""docs/glossary.md: files, schedule fields and directives that it names exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from autocomp.ir.schedule import Schedule

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_every_file_that_it_names_is_there() -> None:
    names = set(re.findall(r"`([\w./]+\.(?:py|yaml))`", PAGE))
    folders = [ROOT, ROOT / "targets" / "cuda", ROOT / "targets" / "simt", ROOT / "autocomp" / "egraph"]
    assert len(names) > 30
    assert sorted(n for n in names if not any((f / n).is_file() for f in folders)) == []


def test_every_word_of_a_schedule_is_a_field_or_a_directive() -> None:
    from autocomp.ir.directives import DIRECTIVES

    marked = {w for words in re.findall(r"((?:`\w+`(?:, )?)+) \(S", PAGE) for w in re.findall(r"`(\w+)`", words)}
    known = {f.name for f in fields(Schedule)} | set(DIRECTIVES)
    assert len(marked) > 20
    assert sorted(marked - known) == []


def test_terms_that_a_cuda_engineer_searches() -> None:
    for term in ("TMA", "PDL", "warp specialisation", "ping-pong", "multicast", "split-K", "stream-K", "setmaxnreg", "swizzle", "epilogue",
                 "persistent", "cp.async", "mbarrier", "wgmma", "implicit GEMM", "DSMEM"):  # fmt: skip
        assert f"| {term}" in PAGE or re.search(rf"^\|[^|]*{re.escape(term)}[^|]*\|", PAGE, re.MULTILINE), term
