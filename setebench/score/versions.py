"""Another version of the inference, from the repository that this one lies in, put beside this version's simulator:
both are then asked about the same machines."""

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
_SIMULATOR = "sim"


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
    """A temporary folder with the package as it was at the commit, but with the simulator of now: what PYTHONPATH must
    begin with to import it. Raises `UsageError` where the commit has no such package.

    Rooms that the old version lacks are put beside it, because today's simulator may need them; no inference of then
    knows of them. The simulator is linked, not copied, so that its compiled form is found again."""
    with tempfile.TemporaryDirectory(prefix="setebench-") as name:
        folder = Path(name)
        _unpack(commit, folder)
        package = folder / "setebench"
        if (package / _SIMULATOR).exists():
            shutil.rmtree(package / _SIMULATOR)
        (folder / "scenarios").rename(package / "scenarios")
        for room in _PACKAGE.iterdir():
            lacks = not (package / room.name).exists() and not _is_replaced(package, room)
            if lacks and (room.is_dir() or room.suffix == ".py"):
                (package / room.name).symlink_to(room)
        yield folder


def _is_replaced(package: Path, room: Path) -> bool:
    """Whether the old version has the room in the other form: a module that has become a folder, or the reverse."""
    other = room.with_suffix("") if room.suffix else room.with_suffix(".py")
    return room.name != _SIMULATOR and (package / other.name).exists()


def _unpack(commit: str, folder: Path) -> None:
    printed = _git("archive", "--format=tar", commit, "--", "setebench", "scenarios")
    if printed is None:
        raise UsageError(f"the commit {commit[:12]} holds no setebench to judge against")
    with tarfile.open(fileobj=BytesIO(printed)) as archive:
        archive.extractall(folder, filter="data")


def _git(*arguments: str) -> bytes | None:
    """What git prints, about the repository that holds this package; None where it fails or isn't there."""
    command = ["git", "-C", str(_REPOSITORY), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
