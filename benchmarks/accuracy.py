"""The accuracy page, docs/accuracy.md, from a sealed score; figures for programs go to build/accuracy/accuracy.json.

    make accuracy MACHINES=200                                                # all scenarios: hours
    python benchmarks/accuracy.py --machines 200 --scenario latency           # one of them
    python benchmarks/accuracy.py --from answers.jsonl                        # of a run that is done

A score keeps its answers in --answers; where that file is there already, it goes on from it. What --from names are
files of answers (`setebench score --sealed --machines N --answers FILE`) of one inference, in which all machines that
were planned have answered; anything else is refused. What silicon answered is in the tables of docs/silicon.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from setebench.scenarios.prefetcher_map.curves import Seen, battery, measure
from setebench.scenarios.prefetcher_map.fit import Fit
from setebench.scenarios.prefetcher_map.params import Params

from setebench.errors import SetebenchError
from setebench.experiments.presence import PARAMS, Trials
from setebench.report.accuracy.scored import page
from setebench.report.text import in_columns
from setebench.scenario import Context
from setebench.score.run import read_sealed
from setebench.score.seeds import inference_hash
from setebench.score.stream import log_path
from setebench.score.tasks import with_noise
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file

ROOT = Path(__file__).resolve().parents[1]
VERDICTS = ("agree", "bounded", "contradict", "open")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="files", nargs="*", type=Path, metavar="FILE", help="make the page of these")
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--scenario", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--curves", type=int, default=0, metavar="N", help="compare the curves of N machines")
    parser.add_argument("--answers", type=Path, default=ROOT / "build/accuracy/answers.jsonl")
    parser.add_argument("--silicon", type=Path, default=ROOT / "docs/silicon.md")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/accuracy.md")
    parser.add_argument("--figures", type=Path, default=ROOT / "build/accuracy/accuracy.json")
    options = parser.parse_args()
    try:
        files = [scored(options)] if options.files is None else options.files
        runs = [read_sealed(path) for path in files]
    except SetebenchError as error:
        sys.exit(f"accuracy: {error}")
    if len({(run["inference"], run["simulator"]) for run in runs}) > 1 or any(run["sealed"]["nonce"] for run in runs):
        sys.exit("accuracy: all runs must be of one inference and simulator, and their seeds without a nonce")
    options.figures.parent.mkdir(parents=True, exist_ok=True)
    options.figures.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")
    before = [*on_silicon(options.silicon.read_text()), *standing(runs)]
    before += curves_of([name for run in runs for name in run["machines"]][: options.curves]) if options.curves else []
    options.page.write_text(page(runs, before), encoding="utf-8")


def scored(options: argparse.Namespace) -> Path:
    """The file of answers of a score which runs now, or goes on."""
    path: Path = options.answers
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        words = ["--resume", str(path)]
    else:
        words = ["--sealed", "--machines", str(options.machines), "--answers", str(path)]
        words += [word for name in options.scenario for word in ("--scenario", name)]
        words += ["--fast"] if options.fast else []
    words += ["--workers", str(options.workers)] if options.workers else []
    ended = subprocess.run([sys.executable, "-m", "setebench", "score", *words], check=False, stdout=subprocess.DEVNULL)
    if ended.returncode:
        sys.exit(ended.returncode)
    return path


def on_silicon(text: str) -> list[str]:
    """The lines on silicon: of docs/silicon.md the table of rows that plain C answers too, all runs of a CPU together,
    and the table of what verify found."""
    found = ["## On silicon", ""]
    for table in tables(text):
        head, *rows = table
        if head[:2] == ["CPU", "rows"]:
            cpus = beside_c(rows)
            heads = ["CPU", "runs", "rows", *VERDICTS]
            found += ["Rows that plain C answers too ([silicon.md](silicon.md#what-it-answered-where)):", ""]
            found += [in_columns(cpus, heads, markdown=True), ""]
        elif head[:2] == ["CPU", "twin"]:
            found += ["Random probes that were predicted ([verify.md](verify.md)), in per cent:", ""]
            found += [in_columns(rows, head, markdown=True), ""]
    return [*found, "## On simulated machines"]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of all tables of a page of Markdown, without the rules below their heads."""
    marked = groupby(text.splitlines(), lambda line: line.startswith("|"))
    found = [[re.split(r" *\| *", line.rstrip(" |"))[1:] for line in own] for is_table, own in marked if is_table]
    return [[head, *rows] for head, _rule, *rows in found]


def beside_c(rows: list[list[str]]) -> list[list[str]]:
    """For each CPU its runs, the rows of all of them, and how many stand how, with shares. A cell holds a number for
    each run, or one that all runs have."""
    cpus: dict[str, list[list[list[int]]]] = {}
    name = ""
    for cpu, _kind, *cells in rows:
        name = cpu or name
        cpus.setdefault(name, []).append([[int(number) for number in re.findall(r"\d+", cell)] for cell in cells])
    made = []
    for name, groups in cpus.items():
        runs = max(len(numbers) for group in groups for numbers in group)
        counts = [sum(sum(each) * runs // len(each) for each in own) for own in zip(*groups, strict=True)]
        shares = [f"{count} ({count / sum(counts):.0%})" for count in counts]
        made.append([re.split(r"[;:]", name)[0], str(runs), str(sum(counts)), *shares])
    return made


def standing(runs: list[dict[str, Any]]) -> list[str]:
    """Whether the runs are of the present inference, and how many sealed runs there were, stopped ones too."""
    lines = log_path().read_text().splitlines() if log_path().exists() else []
    events = [msgspec.json.decode(line)["event"] for line in lines]
    said = ", ".join(f"{events.count(event)} {event}" for event in ("begun", "ended", "stopped"))
    old = any(run["inference"] != inference_hash() for run in runs)
    changed = "**The inference has changed since the run below.** " if old else ""
    return ["", f"{changed}Sealed runs in the log (`benchmarks/sealed.jsonl`): {said}."]


def curves_of(names: list[str]) -> list[str]:
    """How well the map's rules, or its curves where no rules explain these, say which lines come on machines without
    noise: F1 over lines that come in either, beside that of a second run of the battery."""
    cells: list[set[Any]] = [set(), set(), set()]
    for name in names:
        machine = load(name)
        runs = [battery_on(each, seed) for seed, each in enumerate((machine, machine, with_noise(machine, "quiet")))]
        fit = Fit(runs[0], machine.line_size_bytes, Params())
        ruled = {each: fit.brought(runs[0][each], fit.model) for each in fit.names} if fit.explains else {}
        for own, curves, rules in zip(cells, runs, (ruled, {}, {}), strict=True):
            for curve, seen in curves.items():
                came = rules.get(curve, seen.present > 0.5) & ~np.isnan(seen.present)
                own |= {(name, curve, *cell) for cell in np.argwhere(came).tolist()}
    found, again = (2 * len(each & cells[2]) / max(len(each) + len(cells[2]), 1) for each in cells[:2])
    return ["", f"Curves of prefetchers, {len(names)} machines: F1 {found:.3f}; of a second run {again:.3f}."]


def battery_on(machine: spec.Machine, seed: int) -> dict[str, Seen]:
    """The map's curves on a simulated machine."""
    with closing(open_machine_file(machine, seed)) as opened:
        context, params = Context(machine=opened, seed=seed), Params()
        with context.memory(min(PARAMS.pool_bytes, opened.facts.memory_bytes // 4)) as region:
            trials = Trials(context, region)
            return {curve.name: measure(trials, curve, params, params.opened) for curve in battery(trials, params)}


if __name__ == "__main__":
    main()
