"""Rules about schedules as people write them: wrong ones are refused, with the kernel or the word, right ones are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autocomp.check.rules import check_kernel_rule
from autocomp.errors import RuleError
from autocomp.rewrite import load_rules, parse_rules

SETS = Path(__file__).parent / "sets"
RULES = load_rules()
SOME = 6  # kernels; `autocomp rules check` takes 20


def texts(name: str) -> dict[str, str]:
    """The text of each rule by its name: some cannot be read."""
    found = re.split(r"(?m)^(?=- name)", (SETS / f"{name}.yaml").read_text())[1:]
    return {t.partition("/")[2].splitlines()[0]: t for t in found}


WRONG, RIGHT = texts("wrong_schedules"), texts("right_schedules")
UNREAD = {"no-skew": "a skew's factor is a whole number other than 0", "no-such-words": "no target has the instruction 'wmma16'",
          "no-slots": "stages is a whole number, 1 or more", "unknown-directive": "unknown op 'use_textures'"}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in WRONG if n not in UNREAD])
def test_a_wrong_rule_is_refuted_with_its_kernel(name: str):
    (rule,) = parse_rules(WRONG[name], "wrong.yaml")
    found = check_kernel_rule(rule, RULES, SOME)
    assert found.status == "refuted", found
    assert re.search(r"it makes '.*' of .* - (order|capacity)", found.detail), found.detail


@pytest.mark.parametrize("name", UNREAD)
def test_words_and_numbers_that_no_schedule_has_are_refused(name: str):
    with pytest.raises(RuleError, match=re.escape(UNREAD[name])):
        parse_rules(WRONG[name], "wrong.yaml")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_rule_is_checked(name: str):
    (rule,) = parse_rules(RIGHT[name], "right.yaml")
    found = check_kernel_rule(rule, RULES, SOME)
    assert found.status.startswith("checked-"), found
