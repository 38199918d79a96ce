"""Hold a result of setebench against what a plain C program finds on the same machine.

It is a floor: what a few lines of C find in a second, setebench has to find too. A row says
    agrees        measured, within the tolerance (those of all rows are in numbers()), by an interval no wider than it
    bounded       only a bound, or an interval wider than the tolerance; it counts as open
    contradicts   both answer, and differently
    open          C answers; the result is unresolved or missing
    C can't say   the C program finds nothing, or it varies by more than a factor of two

Rows are counted in three kinds: core (clocked by the core and private to it), shared (others change them from minute
to minute) and prefetch. With --exit-code status 1 says that a row of core or prefetch contradicts, or that more than
--open % of those of core that C answers are open or bounded.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

AGREES, BOUNDED, CONTRADICTS, OPEN, SILENT = "agrees", "bounded", "contradicts", "open", "C can't say"
SHARED = ("clock", "latency.l3", "latency.l4", "latency.memory", "cache.l3", "cache.l4", "tlb.l2", "bandwidth.memory")
COUNTS = (1, 2, 3, 4, 6, 8, 12)
FAMILIES = ("l1.next_line", "l1.stream", "l1.stride", "l2.next_line", "l2.stream", "l2.stride")  # of runs
OTHERS = ("l1.other", "l2.other")


class Result:
    """The findings of a setebench result, by parameter."""

    def __init__(self, document):
        self.findings = {finding["parameter"]: finding for finding in document["findings"]}
        ticks, pace = document["machine"]["facts"].get("ticks_per_second"), self.value("clock.cycles_per_tick")
        self.cycles_per_ns = ticks * pace / 1e9 if ticks and pace else None

    def outcome(self, parameter):
        return self.findings[parameter]["outcome"] if parameter in self.findings else "missing"

    def value(self, parameter):
        return self.findings[parameter]["value"] if parameter in self.findings else None

    def width(self, parameter):
        """Width of a finding's interval; 0 where it has none."""
        finding = self.findings[parameter]
        known = isinstance(finding.get("low"), int | float) and isinstance(finding.get("high"), int | float)
        return finding["high"] - finding["low"] if known else 0.0

    def text(self, parameter, scale=1.0):
        """What a table says of a finding; numbers times `scale`."""
        outcome, value = self.outcome(parameter), self.value(parameter)
        if value is None or isinstance(value, bool):
            return outcome if value is None else str(value)
        return ("≥ " if outcome == "at_least" else "") + short(value * (scale or 1), self.findings[parameter]["unit"])


def short(value, unit=""):
    if unit == "bytes" and value >= 1024:
        return f"{value / 1024:.4g} KiB" if value < 1 << 20 else f"{value / (1 << 20):.4g} MiB"
    return f"{value:.4g}"


def seen(row):
    """A row of the C program: its value, and the range of four fifths of its rounds."""
    if row is None or row["value"] is None:
        return "—"
    value, low, high = (short(row[key], row["unit"]) for key in ("value", "low", "high"))
    spread, unit = "" if low == high == value else f" [{low}, {high}]", row["unit"]
    return value + spread + f" {unit}" * (unit != "bytes")


def band(row, low, high):
    """A row with the values of two others as its range."""
    known = all(each and each["value"] is not None for each in (row, low, high))
    return {**row, "low": low["value"], "high": high["value"]} if known else None


def number(result, parameter, row, relative, absolute=0.0, scale=1.0, spread=False):
    """Judge a number, its value times `scale`, within a tolerance of C's; of all its rounds' where they may differ."""
    if row is None or row["value"] is None or (spread and 2 * row["low"] < row["high"]):
        return parameter, seen(row), result.text(parameter, scale), SILENT
    value = result.value(parameter)
    low, high = (row["low"], row["high"]) if spread else (row["value"],) * 2
    low, high = low - max(relative * low, absolute), high + max(relative * high, absolute)
    if value is None or scale is None:
        verdict = OPEN
    elif result.outcome(parameter) == "at_least":
        verdict = CONTRADICTS if value * scale > high else BOUNDED
    elif not low <= value * scale <= high:
        verdict = CONTRADICTS
    else:
        verdict = AGREES if result.width(parameter) * scale <= high - low or high == low else BOUNDED
    return parameter, seen(row), result.text(parameter, scale), verdict


def numbers(result, rows):
    """All rows of one number each."""
    to_ns, get = 1 / result.cycles_per_ns if result.cycles_per_ns else None, rows.get
    yield number(result, "clock.cycles_per_tick", get("pace.cycles_per_tick"), 0.1, spread=True)
    yield number(result, "latency.l1", get("latency.l1"), 0.03, 0.3)
    yield number(result, "latency.l2", get("latency.l2"), 0.03, 0.3)
    yield number(result, "latency.l3", get("latency.l3"), 0.15, spread=True)
    # The clock may differ between the two; memory's time hardly does.
    yield number(result, "latency.memory", get("latency.memory.ns"), 0.15, scale=to_ns, spread=True)
    yield number(result, "cache.l1.size", get("cache.l1.size"), 0.25)
    yield number(result, "cache.l1.ways", get("cache.l1.ways"), 0)
    yield number(result, "cache.l1.line_size", get("cache.line_size"), 0)
    yield number(result, "cache.l2.size", get("cache.l2.size"), 0.25)
    last = max(name for name in ["cache.l2.size", *result.findings] if name[:7] == "cache.l" and name[8:] == ".size")
    if last != "cache.l2.size":
        # Others fill it too: what a program gets of it changes with them, also within C's minute.
        yield number(result, last, get("cache.last.reach"), 0.25, spread=True)
    yield number(result, "tlb.l1.entries.4k", get("tlb.l1.entries"), 0.03)
    yield number(result, "tlb.l1.miss_penalty.4k", get("tlb.l1.miss_penalty"), 0.15, 1)
    blurred = band(*(get(f"tlb.l2.entries.{part}_percent") for part in (50, 25, 75)))
    yield number(result, "tlb.l2.entries.4k", blurred, 0.1, spread=True)
    # It depends on whether pages share lines of the page tables.
    near, apart = get("tlb.l2.miss_penalty.adjacent"), get("tlb.l2.miss_penalty.apart")
    yield number(result, "tlb.l2.miss_penalty.4k", band(near, near, apart), 0.15, spread=True)
    yield number(result, "mshr.l1.demand", get("misses.demand.knee"), 0, 1)
    yield number(result, "mshr.l1.prefetch", get("misses.prefetch.knee"), 0, 1)
    for name, row in rows.items():
        if name.startswith(("bandwidth.l1.", "bandwidth.l2.")):
            paired = f"{name}.threads_1.per_cycle"
            known = paired in result.findings
            yield number(result, paired if known else f"{name}.threads_1", row, 0.15, scale=1.0 if known else to_ns)
        elif name.startswith("bandwidth.memory."):
            yield number(result, name, row, 0.25, spread=True)


def lead(result, family, count):
    """Lines ahead after so many accesses of a run by one instruction, as a result says; None if it does not."""
    name = f"prefetcher.{family}"
    leads = result.value(f"{name}.lead")  # of a behaviour without a name (other) this alone counts
    if leads:
        return leads[min(count, len(leads)) - 1]
    trigger, degree = result.value(f"{name}.trigger"), result.value(f"{name}.degree")
    if trigger is None or degree is None:
        return None
    furthest = result.value(f"{name}.max_distance") or 64
    return min(furthest, degree * max(0, count - trigger + 1))


def there(result, families):
    """Those present, and whether any of them may be."""
    present = {family: result.value(f"prefetcher.{family}.present") for family in families}
    return [family for family in families if present[family]], None in present.values()


def run_ahead(result, rows, mode, stride):
    """Judge what runs bring, by one instruction or by one of its own for each access."""
    leads = {count: rows.get(f"prefetch.{mode}.stride_{stride}.lead_{count}") for count in COUNTS}
    leads = {count: row for count, row in leads.items() if row and row["value"] is not None}
    families = FAMILIES
    if mode == "distinct":  # a table by instruction address sees each of them once
        index = {f: result.value(f"prefetcher.{f}.indexed_by") or "ip" * ("stride" in f) for f in families}
        families = [family for family in families if "ip" not in index[family]]
    present, maybe = there(result, [*families, *OTHERS])
    foreseen, unknown = dict.fromkeys(leads, 0), False
    for family in present:
        reported = {count: lead(result, family, count) for count in leads}
        unknown |= None in reported.values()  # present, and what it brings is not reported
        for count, lines in reported.items():  # a stride runs ahead in strides
            foreseen[count] = max(foreseen[count], (lines or 0) * (stride if "stride" in family else 1))
    sure = {count: row["low"] for count, row in leads.items() if row["low"] >= 1}  # in nine rounds of ten
    too_far = any(foreseen[count] > row["high"] + stride for count, row in leads.items())
    too_near = any(foreseen[count] < max(1, low - stride) for count, low in sure.items())
    if not sure:
        unsure = not leads or any(row["high"] >= 1 for row in leads.values())
        verdict = SILENT if unsure else CONTRADICTS if any(foreseen.values()) else AGREES
    elif too_far and not unknown:
        verdict = CONTRADICTS
    elif not present or too_near:
        verdict = OPEN if maybe or unknown else CONTRADICTS
    else:
        verdict = AGREES
    ours = " ".join(f"{row['low']:g}" + f"-{row['high']:g}" * (row["low"] < row["high"]) for row in leads.values())
    theirs = f"{' '.join(map(str, foreseen.values()))} ({', '.join(present) or 'none'})"
    what = f"lines ahead, stride {stride}, {'one instruction' if mode == 'one' else 'own instructions'}"
    return what, f"{ours or '—'} after {' '.join(map(str, leads))}", theirs, verdict


def measure(cpu, seconds):
    """Compile and run the C program."""
    compiler = shutil.which("gcc") or shutil.which("cc") or sys.exit("compare.py: no C compiler (gcc or cc) was found")
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "reference", Path(__file__).resolve().parent / "reference.c"
        subprocess.run([compiler, "-O2", "-o", program, source, "-lm"], check=True)
        arguments = [str(-1 if cpu is None else cpu), str(seconds)]  # -1: the last one
        return json.loads(subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE).stdout)


def kind(name):
    if name.startswith("lines ahead"):
        return "prefetch"
    return "shared" if name.startswith(SHARED) else "core"


def characterize(cpu):
    """A result made now."""
    with tempfile.TemporaryDirectory() as folder:
        file, where = Path(folder) / "result.json", [] if cpu is None else ["--cpu", str(cpu)]
        command = [sys.executable, "-m", "setebench", "characterize", "-q", "--no-raw", "-o", str(file), *where]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return file.read_text()


def table(lines):
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())


def judged(result, rows):
    """All rows of a comparison."""
    runs = [run_ahead(result, rows, mode, stride) for mode in ("one", "distinct") for stride in (1, 2, 4)]
    return [*numbers(result, rows), *runs]


def counted(lines):
    """How many rows of each kind there are of each verdict."""
    verdicts = [(kind(line[0]), line[3]) for line in lines]
    words = (AGREES, BOUNDED, CONTRADICTS, OPEN, SILENT)
    return {name: {word: verdicts.count((name, word)) for word in words} for name in ("core", "shared", "prefetch")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, nargs="?", help="of setebench characterize -o (default: one made now)")
    parser.add_argument("--cpu", type=int, metavar="N", help="CPU to run on (default: the last one)")
    parser.add_argument("--seconds", type=float, default=60, help="how long the C program takes (default: 60)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write all of it as JSON")
    parser.add_argument("--exit-code", action="store_true", help="status 1 if the result is below the floor")
    parser.add_argument("--open", type=float, default=25, metavar="N", help="%% of rows that may be open (default: 25)")
    options = parser.parse_args()
    try:
        result = Result(json.loads(options.result.read_text() if options.result else characterize(options.cpu)))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"compare.py: {options.result} is no result of setebench characterize -o: {error}")
    reference = measure(options.cpu, options.seconds)
    lines = judged(result, reference["rows"])
    table([("parameter", "C finds", "the result says", "verdict"), *lines])
    counts = counted(lines)
    print()
    for name, words in counts.items():
        print(f"{name:9}" + ", ".join(f"{word}: {count}" for word, count in words.items()))
    if options.output:
        keys = ("parameter", "c", "result", "verdict")
        rows = [dict(zip(keys, line, strict=True)) for line in lines]
        document = {"schema": 1, "reference": reference, "counts": counts, "rows": rows}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    wrong = counts["core"][CONTRADICTS] + counts["prefetch"][CONTRADICTS]
    answered = sum(counts["core"].values()) - counts["core"][SILENT]
    vague = (counts["core"][OPEN] + counts["core"][BOUNDED]) * 100 > options.open * answered
    return 1 if options.exit_code and (wrong or vague) else 0


if __name__ == "__main__":
    sys.exit(main())
