"""Rules: files and functions -> Rule, the `where` language, and soundness checks."""

from autocomp.rewrite.check import CheckResult, check_rule
from autocomp.rewrite.load import load_rules, parse_rules
from autocomp.rewrite.rule import Example, Rule, RuleSet, describe

__all__ = ["CheckResult", "Example", "Rule", "RuleSet", "check_rule", "describe", "load_rules", "parse_rules"]
