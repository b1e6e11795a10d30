"""Pages that quote the code say what it says today: docs/tour.md, docs/schedules.md, the targets' READMEs."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import PART, ROOT, filled, parts


@pytest.mark.parametrize("path", parts(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_page_says_what_the_code_says(path: Path) -> None:
    page, said = path.read_text(encoding="utf-8"), parts()[path]()
    assert filled(page, said) == page, "python docs/generate.py (make docs) writes it anew"
    assert {name for name, _ in PART.findall(page)} == set(said)


def test_a_part_is_replaced_and_the_rest_of_the_page_stays() -> None:
    page = "a\n<!-- generated: one -->\nold\n<!-- end -->\nb\n"
    assert filled(page, {"one": "new\n"}) == "a\n<!-- generated: one -->\nnew\n<!-- end -->\nb\n"
