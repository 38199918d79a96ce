"""Another version of the inference, from the repository that this one lies in, put beside this version's simulator:
both then run on the same machines."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from setebench.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_REPOSITORY = _PACKAGE.parent

SPOKEN = frozenset(("sim", "counters", "errors", "kernels", "machine", "probe", "results", "store"))
"""The simulator, and what it must have in common with whoever uses it: how a probe and a machine are written
down, and how findings are. None of them infers."""


def commit_of(name: str) -> str:
    """The full id of the commit that git calls `name`. Raises `UsageError` for none, and outside a repository."""
    printed = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if printed is None:
        raise UsageError(f"there is no commit {name!r} in {str(_REPOSITORY)!r}; --against needs a git checkout")
    return printed.decode().strip()


def present_commit() -> tuple[str, bool] | None:
    """The commit that is checked out, and whether sources differ from it; None outside a repository."""
    head = _git("rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        return None
    changed = _git("status", "--porcelain", "--", "setebench", "scenarios")
    return head.decode().strip(), changed is None or bool(changed.strip())


@contextmanager
def other_version(commit: str) -> Iterator[Path]:
    """A temporary folder with the package as it was at the commit, but with the simulator of now, and with the rooms in
    which its language stands: what PYTHONPATH must begin with to import it. Raises `UsageError` where the commit has no
    such package.

    Rooms that the old version lacks are put beside it, because today's simulator may need them; no inference of then
    knows of them. Rooms of now are linked, not copied, so that the simulator's compiled form is found again."""
    printed = _git("archive", "--format=tar", commit, "--", "setebench", "scenarios")
    if printed is None:
        raise UsageError(f"the commit {commit[:12]} holds no setebench to judge against")
    with tempfile.TemporaryDirectory(prefix="setebench-") as name:
        folder = Path(name)
        with tarfile.open(fileobj=BytesIO(printed)) as archive:
            archive.extractall(folder, filter="data")
        package = folder / "setebench"
        (folder / "scenarios").rename(package / "scenarios")
        for room in (each for each in _PACKAGE.iterdir() if each.is_dir() or each.suffix == ".py"):
            then = (package / room.stem, package / f"{room.stem}.py")
            if room.stem in SPOKEN:
                shutil.rmtree(then[0], ignore_errors=True)
                then[1].unlink(missing_ok=True)
            if not any(each.exists() for each in then):
                (package / room.name).symlink_to(room)
        yield folder


def _git(*arguments: str) -> bytes | None:
    """What git prints, about the repository that holds this package; None where it fails or isn't there."""
    command = ["git", "-C", str(_REPOSITORY), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
