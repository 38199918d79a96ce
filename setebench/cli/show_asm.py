"""`setebench show-asm`: the machine code of a probe or a snippet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from setebench.cli.output import print_text
from setebench.errors import UsageError
from setebench.probe import BRACKETS

if TYPE_CHECKING:
    from setebench.native.disassemble import Part

EPILOG = """\b
PROBE is a list of statements, separated by ; or line ends; # starts a comment:
  load BASE[+OFFSET] [size=8|16|32|64] [ip=NAME] [ip_bits=NUMBER] [after=-1]
  store ...     as load          prefetch BASE[+OFFSET] [hint=t0|t1|t2|nta|w] ...
  flush BASE[+OFFSET] [how=clflush|clflushopt|clwb]
  chase BASE[+OFFSET] STEPS [size=...] [work=...]
  fence [m|l|s|serialize]        wait CYCLES      nop COUNT
  multiply COUNT [chained|free]  add COUNT        transfer COUNT    barrier
  start [INTERVAL] [bracket=NAME] [dither=yes|no]  stop [INTERVAL] [bracket=NAME]
  repeat COUNT [advance=OFFSET] { STATEMENTS }
A BASE is any name. An OFFSET is in bytes, lines of 64 bytes (3l) or pages of 4096 (2p).

\b
Examples:
  setebench show-asm 'flush a; fence; start; load a+64; stop'
  setebench show-asm 'repeat 8 advance=1l { load a ip=A ip_bits=0x5c0 }; fence; start; load a+9l; stop'
  setebench show-asm --bracket rdtscp 'load a; start; load b size=32 after=-1; stop'
"""


@click.command("show-asm", epilog=EPILOG)
@click.argument("probe", required=False)
@click.option("--snippet", metavar="NAME", help="Show the snippet NAME with its declared facts.")
@click.option("--list", "listing", is_flag=True, help="List all snippets.")
@click.option(
    "--bracket",
    metavar="|".join(BRACKETS),
    default="lfence",
    show_default=True,
    help="Clock bracket of every start and stop without one. (A measurement uses the best one of the CPU.)",
)
def show_asm(probe: str | None, snippet: str | None, listing: bool, bracket: str) -> None:
    """Show the machine code that PROBE becomes on this CPU, operation by operation.

    PROBE is in the pattern notation below. Nothing is run. Addresses count from the start of the code; instructions
    that a probe places by ip_bits come last.
    """
    if sum((probe is not None, snippet is not None, listing)) != 1:
        raise UsageError("give one of PROBE, --snippet NAME and --list")
    text = (
        _listing() if listing else _snippet_text(snippet) if snippet is not None else _probe_text(probe or "", bracket)
    )
    print_text(text.encode())


def _probe_text(source: str, bracket: str) -> str:
    from setebench.native.disassemble import disassemble
    from setebench.probe import notation

    return "\n".join(_part_text(part) for part in disassemble(notation.parse(source), bracket=bracket))


def _part_text(part: Part) -> str:
    width = max((len(line.code) for line in part.lines), default=0)
    lines = [f"{part.title} ({part.code_bytes} bytes)".lstrip()]
    lines += [f"  {line.offset:6x}  {line.code.hex(' '):<{3 * width - 1}}  {line.text}" for line in part.lines]
    return "\n".join(lines) + "\n"


def _snippet_text(name: str) -> str:
    from setebench.native.disassemble import snippet

    found = snippet(name)
    facts = {
        "snippet": found.name,
        "for": found.description,
        "CPU feature": found.feature or "none",
        "touches": found.touches or "nothing",
        "bytes accessed": str(found.size or "none"),
        "patched": "; ".join(found.fields) or "nothing",
    }
    head = "".join(f"{key + ':':<16}{value}\n" for key, value in facts.items())
    return "\n".join([head, *(_part_text(part) for part in found.variants)])


def _listing() -> str:
    from setebench.native.disassemble import snippets
    from setebench.report.text import in_columns

    rows = [(one.name, one.feature, one.touches, str(one.size or ""), one.description) for one in snippets()]
    return in_columns(rows, ("snippet", "CPU feature", "touches", "bytes", "for")) + "\n"
