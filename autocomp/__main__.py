"""`python -m autocomp`: the command line, for environments whose scripts are not on PATH."""

from autocomp.cli import main

if __name__ == "__main__":
    main()
