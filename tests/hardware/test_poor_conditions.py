"""The program where rights, memory or time are short: it still measures, or says in one line why not."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from native_fixture import command, environment, in_python, setebench
from sandbox import error_of, refused, without

NOBODY = 65534


ON_ONE_CPU = """
import os
one = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {one})
from setebench.native.machine import NativeMachine
facts = NativeMachine().facts
print(facts.cpus == (one,), facts.siblings == ((one,),))
"""


def test_no_cpu_is_offered_that_this_process_may_not_use() -> None:
    """Questions about other cores take theirs from the groups that share a core."""
    done = in_python(ON_ONE_CPU)
    assert done.stdout.split() == ["True", "True"], done.stderr


MEASURE = """
from setebench.native.machine import NativeMachine
from setebench.errors import SetebenchError
from setebench.machine import run_interleaved
from setebench.probe import Base, Probe
import numpy as np

try:
    machine = NativeMachine()
    region = machine.allocate(1 << 20, 4096)
    line = Base("line")
    warm = Probe().load(line).fence().start().load(line).stop()
    cold = Probe().flush(line).fence().wait(1000).fence().start().load(line).stop()
    hit, miss = run_interleaved(machine, [warm, cold], {line: region.random_lines(2000, 1)}, np.random.default_rng(1))
    print(hit.mean() < np.median(miss) * 2, np.median(hit) < np.median(miss), machine.facts.page_sizes)
except SetebenchError as error:
    print(type(error).__name__, error)
"""


AS_NOBODY = f"""
import os
from setebench.native.machine import NativeMachine
NativeMachine().close()
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
assert os.getuid() != 0
"""
"""Drops every right, after a machine was opened once: the interpreter may lie where nobody may look, and libraries
import parts of themselves when these are first used. Tests that don't run as root are unprivileged as they are."""


def _limit(kind: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (most, most))


def test_an_unprivileged_user_can_measure_without_the_right_to_lock_memory() -> None:
    """Root may lock whatever the limit, so the right itself is dropped as well."""
    done = in_python(AS_NOBODY + MEASURE, limits=_limit(resource.RLIMIT_MEMLOCK, 0))
    assert done.stdout.split()[:2] == ["True", "True"], done.stdout + done.stderr


def behind(front: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program behind these words."""
    return command([*front, sys.executable, "-m", "setebench", *arguments])


@pytest.mark.parametrize(
    "front",
    [
        pytest.param(lambda: without("HUGE_PAGES"), id="a kernel without transparent huge pages"),
        pytest.param(lambda: refused("madvise"), id="no advice on memory"),
        pytest.param(lambda: without("PINNING_OTHERS"), id="a thread pins itself alone"),
        pytest.param(lambda: refused("sched_getaffinity"), id="only /proc says which CPUs there are"),
        pytest.param(lambda: ["taskset", "-c", "0", *refused("sched_setaffinity")], id="pinned from outside"),
    ],
)
def test_it_measures_without(front: Callable[[], list[str]]) -> None:
    done = command([*front(), sys.executable, "-c", MEASURE])
    assert done.stdout.split()[:2] == ["True", "True"], done.stdout + done.stderr


def test_what_was_measured_is_written_though_no_thread_can_be_let_go(tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    done = behind(without("PINNING_OTHERS"), "latency", "--fast", "-o", str(target))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert json.loads(target.read_text())["findings"]


@pytest.mark.parametrize(
    ("front", "says"),
    [
        pytest.param(lambda: without("PINNING"), "sched_setaffinity is refused", id="pinning"),
        pytest.param(lambda: refused("sched_setaffinity"), "sched_setaffinity is refused", id="the call"),
        pytest.param(lambda: refused("code"), "no probe can be run on this CPU.*deny_execmem", id="code"),
    ],
)
def test_what_it_can_not_do_without_it_says_in_one_line(front: Callable[[], list[str]], says: str) -> None:
    if says.startswith("sched") and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("pinned to the one CPU that there is already")
    assert re.search(says, error_of(behind(front(), "latency", "--fast")))


def test_with_little_address_space_it_measures_or_says_so_in_one_line(tmp_path: Path) -> None:
    """Enough to start, not enough for the largest working memory: it goes on with less, or ends with one line."""
    # linear algebra takes its buffers at its first use, and dies where it can't have them
    libraries = "import numpy, scipy.linalg\none = numpy.eye(300)\nscipy.linalg.solve(one @ one, one)\n"
    loaded = "import setebench.native.machine\nfrom setebench.registry import scenario\nscenario('latency')\n"
    used = in_python(libraries + loaded + "print(open('/proc/self/status').read())")
    peak = re.search(r"VmPeak:\s+(\d+) kB", used.stdout)
    assert peak is not None
    most = (int(peak[1]) << 10) + (64 << 20)
    target = tmp_path / "found.json"
    done = setebench("latency", "--fast", "-o", str(target), limits=_limit(resource.RLIMIT_AS, most))
    if done.returncode == 0:  # a log has a line in ten seconds at most, and that one may be another
        assert json.loads(target.read_text())["findings"]
    else:
        assert done.returncode in (1, 2), done.stderr
        assert re.search(r"MiB|memory", done.stderr)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("after_seconds", [0.0, 1.0])
def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path, after_seconds: float) -> None:
    """Right behind the first word of progress, and in the middle of measuring."""
    target = tmp_path / "found.json"
    line = [sys.executable, "-m", "setebench", "latency", "-o", str(target)]
    child = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    assert child.stderr is not None
    said = [child.stderr.readline()]
    time.sleep(after_seconds)
    child.send_signal(signal.SIGINT)
    stdout, rest = child.communicate(timeout=60)
    said += rest.splitlines()
    assert child.returncode == 130, said
    assert stdout == ""
    assert said[-1].startswith("Interrupted; nothing was written"), said
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


def test_a_closed_machine_lets_its_memory_go() -> None:
    """Opening and closing again and again grows neither mappings nor threads."""
    code = """
from setebench.native.machine import NativeMachine
from setebench.probe import Probe
sizes = []
for _ in range(6):
    machine = NativeMachine()
    machine.run(Probe().start().stop(), 10)
    machine.close()
    sizes.append(len(open("/proc/self/maps").readlines()))
print(sizes[-1] - sizes[1])
"""
    done = in_python(code)
    assert int(done.stdout) < 20, done.stderr
