"""The e-graph. egglog asks for the user's cache folder when it is imported, and fails where nobody says where their home is."""

import os

from autocomp.files import user_folder
from autocomp.store import private_folder

if not user_folder("cache").is_absolute():
    os.environ["XDG_CACHE_HOME"] = str(private_folder())
    try:
        import egglog  # noqa: F401
    finally:
        del os.environ["XDG_CACHE_HOME"]
