"""Result files: documents to JSON bytes and back, and writing files so that nobody ever meets half a one.

A file has one finding and one piece of evidence per line, so that `diff` and `grep` work on it. Struct fields keep
their order, the keys of free dictionaries are sorted: equal documents give equal bytes.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import stat
import zlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from setebench import files
from setebench.errors import UsageError
from setebench.results import SCHEMA, Document, Finding, Outcome, Tool

MOST_VALUES = 1 << 23
"""Of a file: eight million, twice what a matrix of all pairs of 384 CPUs holds. Each takes some 64 bytes of memory once
it is read, so that a file of nothing but empty lists would take thirty times its size."""

DEEPEST_NESTING = 64
FORMS: dict[str, type] = {"bool": bool, "string": str, "list": list}
"""What values are by their unit; those of all other units are numbers."""

NEVER_ZERO = ("bytes", "ways")
LARGEST_INTEGER = (1 << 64) - 1
Form = TypeVar("Form")
"""What a file is read as."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def this_tool() -> Tool:
    """The tool record of documents written by this installation."""
    return Tool(name="setebench", version=version("setebench"))


# -- documents to bytes -------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """`value` in the types of JSON: Structs and mappings as dicts, numpy's scalars and arrays as numbers and lists;
    sets and keys are sorted. A NaN or an infinity becomes None: it marks a point that is missing.

    Raises TypeError for what has no place in a result file."""
    built = msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_without_numpy)
    try:
        return msgspec.json.decode(msgspec.json.encode(built))
    except UnicodeEncodeError:  # a lone surrogate, of a file's name
        return plain(json.loads(_SURROGATE.sub("?", json.dumps(built))))


def _without_numpy(value: Any) -> Any:
    """An array or a scalar of numpy as lists and numbers, without importing numpy."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"a result file can't hold a {type(value).__name__}: {value!r}")
    return value.tolist()


def dumps(document: Document) -> bytes:
    """The document as UTF-8 JSON with a final newline.

    A bound of a finding, or evidence, that is NaN or infinite is written as null. Raises as `require_finite`."""
    for finding in document.findings:
        require_finite(finding)
    record = plain(document)
    lines = [f"{_compact(key)}: {_entry(key, value)}" for key, value in record.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def part(record: Any, name: str) -> dict[str, Any]:
    """The table of that name in a record of a result file, which may be anybody's: empty where there is none."""
    found = record.get(name) if isinstance(record, Mapping) else None
    return found if isinstance(found, dict) else {}


def pretty(value: Any) -> str:
    """What a command prints as JSON: `value` as `plain` makes it, on indented lines, with a final newline."""
    return json.dumps(plain(value), ensure_ascii=False, indent=2) + "\n"


def require_finite(finding: Finding) -> None:
    """Raise ValueError where the value of a finding is a NaN or an infinity: no inference may say that."""
    stored = plain(finding.value)
    if finding.value is not None and None in (stored if isinstance(stored, list) else [stored]):
        raise ValueError(f"{finding.parameter}: {finding.value} is not a value that can be stored")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _entry(key: str, value: Any) -> str:
    if key == "findings" and value:
        return "[\n  " + ",\n  ".join(_compact(each) for each in value) + "\n]"
    if key == "evidence" and value:
        return "{\n  " + ",\n  ".join(f"{_compact(name)}: {_compact(each)}" for name, each in value.items()) + "\n}"
    return _compact(value)


# -- files --------------------------------------------------------------------------------------------------------


def check_target(path: str | Path, force: bool) -> None:
    """Raise `UsageError` now for what would keep `write` from writing `path` later, after minutes of measuring."""
    name, folder = str(path), os.path.dirname(os.path.realpath(path))
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        kind = None
    except OSError as error:
        raise _unwritable(path, error) from error
    if kind == stat.S_IFDIR:
        raise UsageError(f"{name!r} is a directory; name a file")
    if kind == stat.S_IFREG and not force:
        raise UsageError(f"{name!r} exists; use --force to replace it")
    if kind in (None, stat.S_IFREG):
        if not os.path.isdir(folder):
            raise UsageError(f"{folder!r} is not a directory that exists; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"the directory {folder!r} is not writable; choose another")


def write(path: str | Path, data: bytes, force: bool = False) -> None:
    """Write `data` to `path`: all of it or nothing, also when the disk is full or the user interrupts.

    An existing file is only replaced with `force` and keeps its permissions; a symbolic link keeps pointing to it.
    Devices and pipes (`/dev/null`, `/dev/fd/5`) are written directly. Raises `UsageError`."""
    check_target(path, force)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as special:
                special.write(data)
        else:
            _write_atomically(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise _unwritable(path, error) from error


def _write_atomically(target: Path, data: bytes) -> None:
    temporary = target.parent / f".setebench-{secrets.token_hex(8)}.tmp"
    try:
        # with the mode of any new file, so that the umask holds: tempfile would leave it readable by its owner only
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(path: Path) -> bool:
    """Make a folder where it isn't there; whether it holds anything. Raises `UsageError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        return any(path.iterdir())
    except OSError as error:
        raise UsageError(f"can't use the directory {str(path)!r}: {error.strerror or error}") from error


def _unwritable(path: str | Path, error: OSError) -> UsageError:
    return UsageError(f"can't write {str(path)!r}: {error.strerror or error}")


def save(document: Document, path: str | Path, force: bool = False) -> None:
    """Write a document as a result file; see `write`."""
    write(path, dumps(document), force)


# -- bytes to documents -------------------------------------------------------------------------------------------


class _Header(msgspec.Struct):
    schema: Annotated[int, msgspec.Meta(ge=1)]


def load(path: str | Path) -> Document:
    """Read a result file. Raises `UsageError` with one line for anything that isn't one this version can read."""
    document = load_as(path, Document)
    numbers = [(finding.value, finding.low, finding.high) for finding in document.findings]
    machine = document.machine
    _check_tree(str(path), [document.evidence, document.settings, machine.facts, machine.environment, *numbers])
    for each in document.findings:
        if not _fits(each):
            what = f"{each.parameter} is {each.value!r}, and its unit is {each.unit}"
            raise UsageError(f"{str(path)!r} is damaged: {what}")
    return document


def load_as(path: str | Path, form: type[Form]) -> Form:
    """Read of a result file what `form` has fields for, and no more. Raises `UsageError` as `load` does."""
    where = str(path)
    data = _read(where)
    try:
        schema = msgspec.json.decode(data, type=_Header).schema
        if schema > SCHEMA:
            raise UsageError(f"{where!r} was written by a newer setebench (schema {schema}, this one reads {SCHEMA})")
        return msgspec.json.decode(data, type=form)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where!r} is not a setebench result file: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where!r} is damaged or cut short: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{where!r} is nested too deeply for a result file") from error


def _read(where: str) -> bytes:
    try:
        with files.opened(where) as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(files.MOST_BYTES + 1)
    except (OSError, ValueError, EOFError, zlib.error) as error:  # ValueError: a null character in the name
        raise UsageError(f"can't read {where!r}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > files.MOST_BYTES:
        raise UsageError(f"{where!r} is larger than {files.MOST_BYTES >> 20} MiB; that is no result file")
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise UsageError(f"{where!r} holds more than {MOST_VALUES:,} values; that is no result file")
    if not data.strip():
        raise UsageError(f"{where!r} is empty")
    return data


def _fits(finding: Finding) -> bool:
    """Whether the value is one that its unit can have, which readers compute with."""
    value, unit = finding.value, finding.unit
    if value is None or not unit:
        return True
    if unit in FORMS:
        return isinstance(value, FORMS[unit])
    number = finding.number
    return number is not None and (unit not in NEVER_ZERO or finding.outcome is Outcome.ABSENT or number > 0)


def _check_tree(where: str, root: Any) -> None:
    """Refuse what the decoder lets pass and no reader expects: integers of any length, nesting of almost any depth."""
    level = [root]
    for _depth in range(DEEPEST_NESTING):
        if any(isinstance(each, int) and abs(each) > LARGEST_INTEGER for each in level):
            raise UsageError(f"{where!r} is damaged: it holds an integer of more than 64 bits")
        nested = [each for each in level if isinstance(each, (dict, list, tuple)) and each]
        if not nested:
            return
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    raise UsageError(f"{where!r} is nested too deeply for a result file")
