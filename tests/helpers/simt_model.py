"""The model by its former name; it is part of the package: autocomp/simulate/simt_model.py."""

from autocomp.simulate.compiler import ModelFailure  # noqa: F401
from autocomp.simulate.simt_model import *  # noqa: F403
