"""`python -m setebench`."""

from setebench.cli.main import main

main()
