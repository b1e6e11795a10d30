"""The command line: `autocomp COMMAND`, typer on top of the Python API.

Exit codes: 0 good, 1 the input is at fault, 2 usage, 3 verification failed, 130 interrupted.
"""

from __future__ import annotations

import errno
import sys
from contextlib import suppress

from autocomp.cli.interrupts import Interrupts, leaving

with leaving():  # nothing is begun while modules are read
    from autocomp.cli import machine, programs, rules, tuning  # noqa: F401  # each adds its commands to `app`
    from autocomp.cli.carets import with_caret
    from autocomp.cli.shared import INTERRUPTED, app, err
    from autocomp.errors import AutocompError


def main() -> None:
    """Entry point: errors of ours are one clear text on stderr and their exit code, never a traceback."""
    with Interrupts() as interrupts:
        try:
            _main()
        except Exception:
            if not interrupts.came:
                raise
            _interrupted()  # an extension module makes an ImportError of an interrupt, a callback of C passes by it


def _interrupted() -> None:
    err.print(INTERRUPTED, highlight=False)
    sys.exit(130)


def _main() -> None:
    with suppress(AttributeError):  # of a stream that is none of Python's: what its encoding lacks (a path, a table's line) is written out
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        _interrupted()
    except AutocompError as e:
        err.print(f"error: {type(e).__name__}: {with_caret(e)}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(e.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as e:
        if e.filename is not None or e.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):  # then it is no stream of ours
            raise
        err.print(f"error: what it says cannot be written: {e.strerror}\n  next: free space where the output goes, or name another place",
                  markup=False, highlight=False, soft_wrap=True)  # fmt: skip
        with suppress(OSError):
            sys.stdout.close()  # what is left is not tried again at the end
        sys.exit(1)
