"""The accuracy page, docs/accuracy.md, from sealed scores; its figures for programs go to build/accuracy/accuracy.json.

    make accuracy NONCE="a nonce that the judge gives" MACHINES=300           # all scenarios: hours
    python benchmarks/accuracy.py --nonce NONCE --scenario latency            # one of them
    python benchmarks/accuracy.py --from counters.jsonl advice.jsonl          # of answers that there are

A score keeps its answers in --answers; where that file is there already, it goes on from it. What --from names are
files of answers (`setebench score --answers`), also of runs that are not complete: each becomes a run of the page, in
this order. The page says how many machines each table rests on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import msgspec

from setebench.errors import SetebenchError
from setebench.report.accuracy.page import page, published
from setebench.score.run import read_sealed
from setebench.score.stream import read

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="files", nargs="*", type=Path, metavar="FILE", help="make the page of these")
    parser.add_argument("--nonce", help="of the sealed run")
    parser.add_argument("--machines", type=int, default=300)
    parser.add_argument("--scenario", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--answers", type=Path, default=ROOT / "build/accuracy/answers.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/accuracy.md")
    parser.add_argument("--figures", type=Path, default=ROOT / "build/accuracy/accuracy.json")
    options = parser.parse_args()
    if options.files is None and not options.nonce:
        parser.error("give --nonce NONCE for a sealed run, or --from FILE... for answers that there are")
    try:
        made = published([read_sealed(path) for path in options.files or [scored(options)]])
    except SetebenchError as error:
        sys.exit(f"accuracy: {error}")
    options.figures.parent.mkdir(parents=True, exist_ok=True)
    options.figures.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    options.page.write_text(page(made), encoding="utf-8")


def scored(options: argparse.Namespace) -> Path:
    """The file of answers of a score which runs now, or goes on."""
    path: Path = options.answers
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        nonce = read(path)[0].nonce
        if nonce != options.nonce:
            sys.exit(f"accuracy: {path} is of a run with another nonce, {nonce!r}; name another --answers")
        words = ["--resume", str(path)]
    else:
        words = ["--sealed", options.nonce, "--machines", str(options.machines), "--answers", str(path)]
        words += [word for name in options.scenario for word in ("--scenario", name)]
        words += ["--fast"] if options.fast else []
    words += ["--workers", str(options.workers)] if options.workers else []
    ended = subprocess.run([sys.executable, "-m", "setebench", "score", *words], check=False, stdout=subprocess.DEVNULL)
    if ended.returncode:
        sys.exit(ended.returncode)
    return path


if __name__ == "__main__":
    main()
