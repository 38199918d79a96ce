"""What `setebench fleet compare` takes for many results: CPU seconds, and the most memory.

    python benchmarks/fleet_scale.py --results 1000 10000

Results are made of the true values of a simulated machine (--machine) cut or repeated to --parameters; each number
has the relative error and interval of a recorded run's finding, drawn anew, and one node in a hundred answers 10 %
later in one latency. Every result also carries as much evidence as one of `setebench characterize` without raw answers.
The comparison runs in a process of its own; what is timed is all of it, from its start to its end, with files in the
page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from setebench import store
from setebench.score import fleet as made
from setebench.sim.files.loader import load
from setebench.sim.truth.parameters import truth

EVIDENCE_BYTES = 20_000


def errors(recording: made.Recording) -> list[tuple[float, float]]:
    """Relative error and half width of every latency in the recorded runs."""
    usual = {finding.parameter: finding.value for finding in truth(load("plain"))}
    found = []
    for run in recording.runs:
        for each in run.findings:
            true = usual.get(each.parameter)
            if _plain_latency(each.parameter) and true and each.low is not None and each.high is not None:
                found.append((float(each.value) / float(true) - 1, (each.high - each.low) / 2 / float(true)))  # type: ignore[arg-type]
    return found


def _plain_latency(parameter: str) -> bool:
    return parameter.startswith("latency") and "vector" not in parameter


def parameters(machine: str, count: int) -> list[dict[str, Any]]:
    """True findings, so many of them."""
    known = [store.plain(finding) for finding in truth(load(machine))]
    repeated = [{**each, "parameter": f"{each['parameter']}.{turn}"} for turn in range(1, 9) for each in known]
    return (known + repeated)[:count]


def write(folder: Path, results: int, runs: int, asked: argparse.Namespace) -> int:
    """Result files, `runs` of each node; returns their bytes."""
    rng = np.random.default_rng(asked.seed)
    drawn = errors(made.read_recording(asked.recorded))
    usual = parameters(asked.machine, asked.parameters)
    evidence = json.dumps({"points": [[0.125, 7]] * (EVIDENCE_BYTES // 12)})
    size = 0
    for number in range(results):
        node = number // runs
        places = rng.integers(len(drawn), size=len(usual))
        findings = [_erred(each, *drawn[place]) for each, place in zip(usual, places, strict=True)]
        if node % 100 == 7:
            slow = next(each for each in findings if each["parameter"] == "latency.l2")
            slow |= {name: slow[name] * 1.1 for name in ("value", "low", "high")}
        head: dict[str, Any] = {"schema": 1, "tool": {"name": "setebench", "version": "0.1.0"}, "settings": {}}
        head |= {"machine": {"kind": "sim", "name": "sim:fleet", "facts": {}, "environment": {}}}
        head |= {"started": "2026-01-01T00:00:00+00:00", "elapsed_seconds": 1.0, "findings": findings}
        text = json.dumps(head)[:-1] + f', "evidence": {evidence}}}'
        (folder / f"n{node:05d}.run-{number % runs}.json").write_text(text)
        size += len(text)
    return size


def _erred(finding: dict[str, Any], error: float, half: float) -> dict[str, Any]:
    value = finding["value"]
    if isinstance(value, bool) or not isinstance(value, float):
        return finding
    near = value * (1 + error)
    return {**finding, "value": near, "low": near - value * half, "high": near + value * half, "method": "drawn"}


def measured(folder: Path) -> tuple[float, float, str]:
    """CPU seconds, MiB at most, and the summary line of one comparison."""
    command = [sys.executable, "-m", "setebench", "fleet", "compare", str(folder), "-q"]
    reader, writer = os.pipe()
    with subprocess.Popen(command, stdout=writer) as process:
        os.close(writer)
        with os.fdopen(reader) as output:
            text = output.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text.split("\n", 1)[0]


def main() -> None:
    """Print a line for each number of results."""
    parser = argparse.ArgumentParser(description="Time and memory of setebench fleet compare")
    parser.add_argument("--results", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--runs", type=int, default=2, help="of each node")
    parser.add_argument("--parameters", type=int, default=200)
    parser.add_argument("--machine", default="sandybridge")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recorded", type=Path, default=Path("tests/fixtures/fleet/recorded.json"))
    asked = parser.parse_args()
    for results in asked.results:
        with tempfile.TemporaryDirectory() as folder:
            size = write(Path(folder), results, asked.runs, asked)
            seconds, mebibytes, summary = measured(Path(folder))
        print(f"{results} results, {size >> 20} MiB: {seconds:.1f} CPU s, {mebibytes:.0f} MiB at most", flush=True)
        print(f"  {summary}", flush=True)


if __name__ == "__main__":
    main()
