"""`python -m setebench`, and where the program `setebench` begins."""

import sys

from setebench.errors import INTERRUPTED


def main() -> None:
    """The program. Its commands are imported in here, so that an interrupt while they are has no traceback either."""
    try:
        try:
            from setebench.cli.main import setebench
        except OSError as error:
            sys.exit(
                f"Error: the system refuses what Python itself needs to begin ({error}); run this outside the sandbox"
            )
        setebench(prog_name="setebench")
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
