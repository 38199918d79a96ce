"""What the commands make of other people's files: mutated inputs, and what none of them should ever lead to.

    python benchmarks/mutated_inputs.py --inputs 10000 --seed 1 [--only 4711, with its command and output]

Counted are tracebacks, failures without an error line, inputs that take more than 20 seconds of CPU time or wait for
ever (twice, as a computer may stand still), ends of the process, and files that nobody named. Nothing measures this
CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from click.testing import CliRunner, Result

from setebench import export, registry
from setebench.cli.main import setebench
from setebench.errors import INTERRUPTED, UnsupportedError
from setebench.host import lock

ROOT = Path(__file__).resolve().parents[1]
CPU_SECONDS, WALL_SECONDS, MEMORY_BYTES = 20, 60, 6 << 30
TOY = "toy_machine:toy"
TOO_LATE = "too late"

TEXTS = [
    "", " ", "native", "\x1b[2J", "a\nb", "'; $(id) `id` */ \"", "=1+1", "/", "\u202e", "\x00", "x" * 70_000,
    "nan", "{}", "<script>", "%s%n", "latency.l1", "cache.l1.size", "measured", "random:1", "sim:", "é" * 300, "1e999",
]  # fmt: skip
NUMBERS = [0, -1, 1, 2, 3, 1 << 31, 1 << 63, -(1 << 63) - 1, 10**40, 0.5, -0.0, 1e-320, 1e308, 1e999, 1e999 - 1e999]
INPUTS: dict[str, str] = {}
OUTSIDE: list[str] = []
NESTED: list[Any] = [None, True, False, [], {}, [[]], {"": {}}, [None] * 3, {"a" * 300: 1}]
TOKEN = re.compile(r'"[^"\n]*"|-?\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?|\btrue\b|\bfalse\b|\bnull\b')


def mutated_text(text: str, rng: random.Random) -> bytes:
    """A text of fields in lines with values, types and names changed, and fields missing, doubled, or exchanged."""
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        tokens, lines = list(TOKEN.finditer(text)), text.split("\n")
        if tokens and rng.random() < 0.8:
            old = rng.choice(tokens)
            alike = [json.dumps(each) for each in (TEXTS if old[0].startswith('"') else NUMBERS)]
            alike += [each[0] for each in tokens if each[0][0] == old[0][0]][: len(alike)]
            new = [json.dumps(rng.choice(each)) for each in (TEXTS, NUMBERS, NESTED)]
            new += [f"-{old[0]}", f"{old[0]}0", f'"{old[0]}"', f"[{old[0]}]", "[" * 5000]
            text = text[: old.start()] + rng.choice(new if rng.random() < 0.3 else alike) + text[old.end() :]
        else:
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a : a + 1] = rng.choice([[], [lines[a]] * 2, [lines[b]], [lines[a], lines[b]], [lines[a]] * 2000])
            text = "\n".join(lines)
    return text.encode("utf-8", "surrogatepass")


def put(path: Path, text: str, rng: random.Random) -> None:
    """The mutated file, by text or by bytes, or something at its place that is no file."""
    chance, data = rng.random(), mutated_text(text, rng)
    if chance < 0.01:
        os.mkfifo(path)
    elif chance < 0.04:
        path.symlink_to(
            rng.choice([".", "/dev/zero", "/dev/null", "/dev/full", "nowhere", path.name, "/proc/self/mem"])
        )
    else:
        if chance < 0.1:
            a, n = rng.randrange(len(data) + 1), rng.choice([1, 2, 8, 500])
            data = data[:a] + rng.choice(
                [b"", rng.randbytes(n), data[a : a + n] * 50 + data[a:], b"\xff" + data[a + n :]]
            )
        path.write_bytes(data)


def made(*arguments: str) -> str:
    """What a command prints, JSON with a field in each line; it must succeed."""
    result = CliRunner().invoke(setebench, arguments)
    assert result.exit_code == 0, (arguments, result.stderr, result.exception)
    return json.dumps(json.loads(result.stdout), indent=0) if "json" in arguments else result.stdout


def originals() -> dict[str, str]:
    """Inputs that nothing is wrong with, by the names of their files."""
    loop = re.findall(r"```toml\n(name = .*?)```", (ROOT / "docs/advise-prefetch.md").read_text(), re.DOTALL)[0]
    toy = ("--machine", TOY, "--fast", "--format", "json")
    return {
        "truth.json": made("sim", "truth", "zen-like", "--format", "json"),
        "latency.json": made("latency", *toy, "--raw"),
        "run.json": made("characterize", "--only", "latency", *toy),
        "machine.toml": made("sim", "show", "zen-like"),
        "loop.toml": loop,
        "probe.txt": "repeat 8 advance=1l { load a ip=A ip_bits=0x5c0 }; start; load b+9l size=32 after=-1; stop",
    }


def reading(name: str, rng: random.Random) -> list[str]:
    """A command that reads the file of that name."""
    if name == "loop.toml":
        return ["advise-prefetch", "--describe", name, "--result", "good.json", "--machine", TOY]
    if name == "probe.txt":
        return ["show-asm", mutated_text(INPUTS[name], rng).decode("utf-8", "replace")]
    if name.endswith(".toml"):
        return rng.choice([["sim", "show", name], ["sim", "truth", name]])
    form = ["--format", rng.choice(["table", "overview", "json", "csv", "markdown"])]
    target = ["-o", rng.choice(["out.html", "out.json", "out.txt", "out"])]
    commands = [
        ["show", name, *form], ["show", name, *target], ["report", name], ["report", "good.json", name, *target],
        ["compare", name, "good.json"], ["compare", "good.json", name, "--format", "csv"], ["twin", name],
        ["export", name, "--to", rng.choice(sorted(export.formats()))], ["fleet", "compare", name, "good.json"],
        ["advise-prefetch", "--describe", "good.toml", "--result", name, "--machine", TOY],
        ["infer", name, *form], ["fleet", "compare", ".", "good.json"]]  # fmt: skip
    return rng.choice([["infer", name]] if name != "truth.json" and rng.random() < 0.4 else commands)


def command_line(rng: random.Random) -> list[str]:
    """Words of a command that exist, mutated."""
    every = [["show", "good.json"], ["sim", "schema"], ["sim", "list"], ["counters", "list"], ["doctor"],
             ["export", "good.json", "--to", "gcc"], ["compare", "good.json", "good.json"],
             ["fleet", "compare", "."], ["score", "--machines", "no"], ["sim", "truth", "plain"], ["twin", "good.json"],
             ["verify", "good.json"], ["fleet", "simulate", "--nodes", "no", "-o", "out"], ["counters", "validate"],
             [rng.choice(sorted(registry.catalogue())), "--fast"], ["characterize", "-o", "out.json"]]  # fmt: skip
    words = [*rng.choice(every), "--machine", "sim:nowhere"]
    options = ["--format", "-o", "--cpu", "--seed", "--machine", "--raw", "-q", "--to", "--plot", "--kernel"]
    for _ in range(rng.choice([1, 2, 3])):
        at = rng.randrange(len(words) + 1)
        new = [rng.choice(options), rng.choice(TEXTS), str(rng.choice(NUMBERS)), words[-1]]
        words[at : at + rng.choice([0, 1])] = [rng.choice(new)] * rng.choice([0, 1, 1])
    return [word.replace("\x00", "") for word in words]


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that notes what is written outside of the current folder."""
    writes = event in ("os.mkdir", "os.rename", "os.remove", "os.symlink", "os.truncate")
    if event == "open":
        writes = isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    path = "" if not writes or isinstance(arguments[0], int) else os.path.abspath(os.fsdecode(arguments[0]))
    if (
        path
        and not path.startswith((os.getcwd() + "/", os.environ["HOME"], "/dev/", "/proc/"))
        and "__pycache__" not in path
    ):
        OUTSIDE.append(f"{event} {path}")


def judged(words: list[str], result: Result, written: list[str]) -> str:
    """What is wrong with how a command ended, and with what it wrote; nothing is an empty text."""
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        last = [each for each in traceback.extract_tb(error.__traceback__) if str(ROOT) in each.filename][-1]
        return f"traceback: {type(error).__name__} at {Path(last.filename).relative_to(ROOT)}:{last.lineno}"
    if result.exit_code not in (0, 1, 2, 3) or (result.exit_code in (1, 2) and "Error:" not in result.stderr):
        return TOO_LATE if result.exit_code == INTERRUPTED else f"status {result.exit_code} without an error line"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", result.stderr):
        return "control characters on standard error"
    foreign = [each for each in written if each not in {word.rpartition("=")[2].split("/")[0] for word in words}]
    return f"writes {foreign[0]}" if foreign else ""


def attempt(seed: int, number: int) -> tuple[str, str, str]:
    """Draws and runs an input: its command, what is wrong, and what the command wrote and raised."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rng = random.Random(f"{seed} {number}")
        name = rng.choices([*INPUTS, ""], [6, 3, 2, 6, 2, 1, 3])[0]
        for good, kind in (("good.json", "truth.json"), ("good.toml", "loop.toml")):
            Path(good).write_text(INPUTS[kind])
        if name:
            put(Path(name), INPUTS[name], rng)
        words, before = reading(name, rng) if name else command_line(rng), set(os.listdir())
        OUTSIDE.clear()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.alarm(WALL_SECONDS)
        result = CliRunner().invoke(setebench, words)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        wrong = judged(words, result, [*sorted({*os.listdir()} - before), *OUTSIDE])
        output = result.output + "".join(traceback.format_exception(result.exception) if result.exception else [])
        os.chdir("/")
    return " ".join(words), wrong, output


def begin() -> None:
    """In the process that runs inputs, which are interrupted as by a user when their time is over."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.addaudithook(watch)


def without_this_cpu() -> None:
    """Nothing that is run measures here, or writes where a user keeps files."""

    def refuse(cpu: int | None = None) -> None:
        raise UnsupportedError("this CPU is not measured here")

    sys.modules["setebench.native.machine"] = SimpleNamespace(NativeMachine=refuse)  # type: ignore[assignment]
    sys.path.insert(0, str(ROOT / "docs/examples"))
    tempfile.tempdir = tempfile.mkdtemp()
    os.environ |= dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "MPLCONFIGDIR"), tempfile.tempdir)
    os.environ[lock.HOLDER] = "0"  # nobody is waited for either


class Runner:
    """Runs inputs in a process of their own; one that ends its process, or never ends, costs no other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pool: ProcessPoolExecutor | None = None

    def run(self, number: int) -> tuple[str, str, str]:
        """See `attempt`."""
        self.pool = self.pool or ProcessPoolExecutor(1, mp_context=get_context("fork"), initializer=begin)
        try:
            return self.pool.submit(attempt, self.seed, number).result(timeout=WALL_SECONDS + 30)
        except (RuntimeError, TimeoutError) as error:
            for process in self.pool._processes.values():
                process.kill()
            self.pool = None
            return "?", f"ends its process, or never ends: {type(error).__name__}", ""


def main() -> int:
    """The exit status is 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="go on with this input of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this input alone, and show what it wrote")
    arguments = parser.parse_args()
    without_this_cpu()
    started = time.monotonic()
    INPUTS.update(originals())
    only = arguments.only
    numbers = range(arguments.first, arguments.inputs) if only is None else range(only, only + 1)
    wrong: Counter[str] = Counter()
    runner = Runner(arguments.seed)
    for number in numbers:
        command, why, output = runner.run(number)
        if why == TOO_LATE or "never ends" in why:
            command, why, output = runner.run(number)
        wrong[why] += 1
        if why and wrong[why] <= 3:
            print(f"{number}: {command[:160]!r}: {why}", flush=True)
        if only is not None:
            print(f"setebench {command}\n{output}")
    del wrong[""]
    print(f"{len(numbers)} inputs in {time.monotonic() - started:.0f} s, {wrong.total()} with something wrong")
    print("".join(f"{count:6} {why}\n" for why, count in wrong.most_common()), end="")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
