"""What is said while the simulator is compiled."""

from __future__ import annotations

import os
import subprocess
import sys


def test_where_no_folder_keeps_the_compiled_simulator_it_is_said_what_to_set() -> None:
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"}  # there are no notebooks here
    code = "from setebench.sim import compiled; compiled.prepare()"
    with subprocess.Popen([sys.executable, "-c", code], text=True, env=nowhere, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    assert "at every run" in line and "NUMBA_CACHE_DIR" in line and os.path.join("sim", "kernel", "__pycache__") in line
