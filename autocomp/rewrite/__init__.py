"""Rules: files and functions -> Rule, the `where` language, and soundness checks."""

from autocomp.rewrite.load import load_rules, parse_rules
from autocomp.rewrite.rule import Example, Rule, RuleSet, describe

__all__ = ["Example", "Rule", "RuleSet", "describe", "load_rules", "parse_rules"]
