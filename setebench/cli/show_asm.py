"""`setebench show-asm`: the machine code of a probe."""

from __future__ import annotations

import click

from setebench.cli.output import print_text

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
  setebench show-asm 'load a; start bracket=rdtscp; load b size=32 after=-1; stop bracket=rdtscp'
"""


@click.command("show-asm", epilog=EPILOG)
@click.argument("probe")
def show_asm(probe: str) -> None:
    """Show the machine code that PROBE becomes on this CPU, operation by operation.

    PROBE is in the pattern notation below. Nothing is run. Addresses count from the start of the code; instructions
    that a probe places by ip_bits come last. A start or stop that names no bracket gets lfence here; a measurement
    uses the best one of the CPU.
    """
    from setebench.native.disassemble import disassemble
    from setebench.probe import notation

    readable = probe.encode(errors="surrogateescape").decode(errors="replace")  # arguments may be any bytes
    print_text("\n".join(disassemble(notation.parse(readable))))
