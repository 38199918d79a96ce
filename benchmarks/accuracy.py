"""The accuracy page: docs/accuracy.md and docs/accuracy.json, from sealed scores.

    make accuracy NONCE="a nonce that the judge gives" MACHINES=300           # all scenarios: hours
    python benchmarks/accuracy.py --nonce NONCE --scenario latency            # one of them
    python benchmarks/accuracy.py --from counters.json advice.jsonl           # of scores that there are

A score runs with its answers in --answers; where that file is there already, it goes on from it. What --from names are
score documents (`setebench score --format json`) or files of answers (`--answers`), also of runs that are not complete:
each becomes a run of the page, in this order, behind those that --keep names of the page that there is. The page says
how many machines each table rests on. Figures of twins are those that benchmarks/verify_twins.py puts
into docs/accuracy.json by --page; they stay.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from setebench.errors import SetebenchError
from setebench.report.accuracy.page import page, published
from setebench.score.run import read_document
from setebench.score.stream import read as read_answers

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    options = _options()
    try:
        made = published([read_document(path) for path in _scores(options)], kept(options.docs, options.keep))
    except SetebenchError as error:
        sys.exit(f"accuracy: {error}")
    write(made | of_twins(options.docs), options.docs)


def kept(docs: Path, letters: Collection[str]) -> list[dict[str, Any]]:
    """The runs of these letters that the page has."""
    return [run for run in _there(docs).get("runs", []) if run["run"] in letters]


def of_twins(docs: Path) -> dict[str, Any]:
    """The figures of twins that the page has."""
    there = _there(docs)
    return {key: there[key] for key in ("twins",) if key in there}


def _there(docs: Path) -> dict[str, Any]:
    file = docs / "accuracy.json"
    found: dict[str, Any] = msgspec.json.decode(file.read_bytes()) if file.exists() else {}
    return found


def add(key: str, figures: dict[str, Any], docs: Path = ROOT / "docs") -> None:
    """Put figures of twins into the page that there is."""
    write(_there(docs) | {key: figures}, docs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="files", nargs="*", type=Path, metavar="FILE", help="make the page of these")
    parser.add_argument(
        "--keep", nargs="*", default=[], metavar="RUN", help="runs of the page that there is: A, B, ..."
    )
    parser.add_argument("--nonce", help="of the sealed run")
    parser.add_argument("--machines", type=int, default=300)
    parser.add_argument("--scenario", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--noise", default="drawn")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--answers", type=Path, default=ROOT / "build/accuracy.jsonl")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page")
    options = parser.parse_args()
    if options.files is None and not options.nonce:
        parser.error("give --nonce NONCE for a sealed run, or --from FILE... for scores that there are")
    return options


def _scores(options: argparse.Namespace) -> list[Path]:
    """Existing files, or that of a score which runs now."""
    if options.files is not None:
        return list(options.files)
    options.answers.parent.mkdir(parents=True, exist_ok=True)
    form = ["--format", "json", "-o", str(options.answers.with_suffix(".json")), "--force"]
    place = ["--workers", str(options.workers)] if options.workers else []
    ended = subprocess.run([sys.executable, "-m", "setebench", "score", *_asked(options), *form, *place], check=False)
    if ended.returncode:
        sys.exit(ended.returncode)
    return [options.answers.with_suffix(".json")]


def _asked(options: argparse.Namespace) -> Iterator[str]:
    if options.answers.exists():
        plan, _ = read_answers(options.answers)
        if plan.nonce != options.nonce:
            sys.exit(
                f"accuracy: {options.answers} is of a run with another nonce, {plan.nonce!r}; name another --answers"
            )
        yield from ("--resume", str(options.answers))
        return
    yield from ("--sealed", options.nonce, "--machines", str(options.machines), "--noise", options.noise)
    yield from ("--answers", str(options.answers))
    for name in options.scenario:
        yield from ("--scenario", name)
    if options.fast:
        yield "--fast"


def write(made: dict[str, Any], docs: Path) -> None:
    """The page and its JSON in a folder."""
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "accuracy.json").write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    (docs / "accuracy.md").write_text(page(made), encoding="utf-8")


if __name__ == "__main__":
    main()
