"""The command line, called in this process: what a shell would see of it without the second that a new process takes to begin."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from autocomp import cli


def call(*args: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `autocomp args`. What `cli.main` lets through (a traceback in a shell) is raised."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", ["autocomp", *args]), redirect_stdout(out), redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    return code, out.getvalue(), err.getvalue()
