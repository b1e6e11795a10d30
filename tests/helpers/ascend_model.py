"""The model by its former name; it is part of the package: autocomp/simulate/ascend_model.py."""

from autocomp.simulate.ascend_model import *  # noqa: F403
from autocomp.simulate.compiler import ModelFailure  # noqa: F401
