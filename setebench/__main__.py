"""`python -m setebench`, and where the program `setebench` begins."""

import sys

from setebench.errors import INTERRUPTED


def main() -> None:
    """The program. Its commands are imported in here, so that an interrupt while they are has no traceback either."""
    try:
        from setebench.cli.main import setebench

        setebench(prog_name="setebench")
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
