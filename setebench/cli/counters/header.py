"""`setebench counters header`: where C and C++ programs find the two functions that mark regions."""

from __future__ import annotations

from importlib.resources import files

import click

from setebench.cli.output import print_text


@click.command()
@click.option("--dir", "folder", is_flag=True, help="Print the folder instead, for the compiler's -I.")
def header(folder: bool) -> None:
    """Print the path of setebench.h. It marks regions of C and C++ programs; there is nothing to link.

    cc -I"$(setebench counters header --dir)" program.c
    """
    place = files("setebench") / "include"
    print_text(f"{place if folder else place / 'setebench.h'}\n")
