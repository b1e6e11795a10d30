"""Random inputs of tests. Where CI is set, the same in every run; elsewhere others in each, by a seed that pytest's first lines say.
AUTOCOMP_TEST_SEED=n draws those of seed n again."""

from __future__ import annotations

import os
import secrets

import numpy as np

SEED = int(os.environ.setdefault("AUTOCOMP_TEST_SEED", "20261123" if os.environ.get("CI") else str(secrets.randbelow(1 << 30))))
_draws = [0]  # of the test that runs


def start() -> None:
    """Before each test: what it draws does not depend on the tests before it."""
    _draws[0] = 0


def rng() -> np.random.Generator:
    """A generator for a test's inputs; another one at each call."""
    _draws[0] += 1
    return np.random.default_rng([SEED, _draws[0]])


def seed() -> int:
    """A seed for `Program.verify` and `random_inputs`."""
    return int(rng().integers(1 << 30))
