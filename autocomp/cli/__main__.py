"""`python -m autocomp.cli`."""

from autocomp.cli import main

main()
