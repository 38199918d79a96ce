"""`python -m setebench`, and where the program `setebench` begins."""

import errno
import os
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
    except OSError as error:  # of a line that click writes itself, as --help: all else names a file
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try again at exit
        sys.exit(f"Error: can't write to standard output: {error.strerror}")


if __name__ == "__main__":
    main()
