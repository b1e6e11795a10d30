"""Random inputs of tests: the same in every run, whichever tests ran before. AUTOCOMP_TEST_SEED=n draws others, and property tests then
explore; AUTOCOMP_TEST_SEED=any takes a seed that pytest's first lines say."""

from __future__ import annotations

import os
import random
import secrets
import sys

import numpy as np

KEPT = 20261123  # of a run that asks for none
_wanted = os.environ.get("AUTOCOMP_TEST_SEED", str(KEPT))
SEED = secrets.randbelow(1 << 30) if _wanted == "any" else int(_wanted)
os.environ["AUTOCOMP_TEST_SEED"] = str(SEED)  # of the processes that share the work
_draws = [0]  # of the test that runs


def start() -> None:
    """Before each file and each test: what it draws, also by torch and `random`, does not depend on those before it."""
    _draws[0] = 0
    random.seed(SEED)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(SEED)  # torch.manual_seed notes a stack for each device that is not used yet
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(SEED)


def rng() -> np.random.Generator:
    """A generator for a test's inputs; another one at each call."""
    _draws[0] += 1
    return np.random.default_rng([SEED, _draws[0]])


def seed() -> int:
    """A seed for `Program.verify` and `random_inputs`."""
    return int(rng().integers(1 << 30))
