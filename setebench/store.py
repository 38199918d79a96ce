"""Result files: documents to JSON bytes and back, and writing files so that nobody ever meets half a one.

A file has one finding and one piece of evidence per line, so that `diff` and `grep` work on it. Struct fields keep
their order, the keys of free dictionaries are sorted: equal documents give equal bytes.
"""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
import secrets
import stat
import zlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

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

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def this_tool() -> Tool:
    """The tool record of documents written by this installation."""
    try:
        return Tool(name="setebench", version=version("setebench"))
    except PackageNotFoundError:
        return Tool(name="setebench", version="unknown (run without installing)")


# -- documents to bytes -------------------------------------------------------------------------------------------


def plain(value: Any, *, strict: bool = False) -> Any:
    """`value` in the types of JSON: Structs and mappings as dicts, numpy scalars and arrays as numbers and lists.

    A NaN or an infinity becomes None (in evidence it marks a point that is missing), with `strict` a ValueError.
    Raises TypeError for what has no place in a result file.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value).encode(errors="replace").decode()  # a lone surrogate (from a file name) isn't valid UTF-8
    if isinstance(value, (int, float)):
        return _number(value, strict)
    if isinstance(value, (list, tuple)):
        return [plain(each, strict=strict) for each in value]
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {stored: plain(getattr(value, name), strict=strict) for name, stored in names}
    if isinstance(value, Mapping):
        return _sorted_keys(value, strict)
    if hasattr(value, "tolist"):  # numpy arrays and scalars, without importing numpy
        return plain(value.tolist(), strict=strict)
    if isinstance(value, (set, frozenset)):
        return sorted(plain(each, strict=strict) for each in value)
    raise TypeError(f"a result file can't hold a {type(value).__name__}: {value!r}")


def _number(value: float, strict: bool) -> float | None:
    if isinstance(value, int):
        return int(value)
    if math.isfinite(value):
        return float(value)
    if strict:
        raise ValueError(f"{value} is not a value that can be stored")
    return None


def _sorted_keys(mapping: Mapping[Any, Any], strict: bool) -> dict[str, Any]:
    for key in mapping:
        if not isinstance(key, (str, int)):
            raise TypeError(f"a result file can't hold the key {key!r}; use a string")
    texts = {str(plain(key)): each for key, each in mapping.items()}
    return {key: plain(texts[key], strict=strict) for key in sorted(texts)}


def dumps(document: Document) -> bytes:
    """The document as UTF-8 JSON with a final newline.

    A bound of a finding, or evidence, that is NaN or infinite is written as null. Raises ValueError where the value
    of a finding is: no inference may say that.
    """
    for finding in document.findings:
        _require_finite(finding)
    record = plain(document)
    lines = [f"{_compact(key)}: {_entry(key, value)}" for key, value in record.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _require_finite(finding: Finding) -> None:
    try:
        plain(finding.value, strict=True)
    except ValueError as error:
        raise ValueError(f"{finding.parameter}: {error}") from error


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
    target = Path(path)
    try:
        existing = target.stat()
    except FileNotFoundError:
        existing = None
    except OSError as error:
        raise _unwritable(target, error) from error
    if existing is not None and stat.S_ISDIR(existing.st_mode):
        raise UsageError(f"{str(target)!r} is a directory; name a file")
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        return
    if existing is not None and not force:
        raise UsageError(f"{str(target)!r} exists; use --force to replace it")
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a directory that exists; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the directory {str(folder)!r} is not writable; choose another")


def write(path: str | Path, data: bytes, force: bool = False) -> None:
    """Write `data` to `path`: all of it or nothing, also when the disk is full or the user interrupts.

    An existing file is only replaced with `force` and keeps its permissions; a symbolic link keeps pointing to it.
    Devices and pipes (`/dev/null`, `/dev/fd/5`) are written directly. Raises `UsageError`.
    """
    check_target(path, force)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as special:
                special.write(data)
            return
        _write_atomically(Path(os.path.realpath(path)), data, force)
    except FileExistsError as error:
        raise UsageError(f"{str(path)!r} exists; use --force to replace it") from error
    except OSError as error:
        raise _unwritable(Path(path), error) from error


def save(document: Document, path: str | Path, force: bool = False) -> None:
    """Write a document as a result file; see `write`."""
    write(path, dumps(document), force)


def _write_atomically(target: Path, data: bytes, force: bool) -> None:
    temporary = target.parent / f".setebench-{secrets.token_hex(8)}.tmp"
    try:
        _write_new(temporary, data, like=target)
        _rename(temporary, target, force)
    finally:
        temporary.unlink(missing_ok=True)


def _write_new(path: Path, data: bytes, like: Path) -> None:
    # Opened with the mode of any new file, so that the umask holds: tempfile would leave it readable by its owner only.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
        if like.exists():
            os.fchmod(file.fileno(), stat.S_IMODE(like.stat().st_mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _rename(temporary: Path, target: Path, force: bool) -> None:
    """Without `force` by a hard link, which fails where a file has come up since; on file systems without, by name."""
    if not force:
        try:
            os.link(temporary, target)
            return
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
        if target.exists():
            raise FileExistsError(target)
    os.replace(temporary, target)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"can't write {str(path)!r}: {error.strerror or error}")


# -- bytes to documents -------------------------------------------------------------------------------------------


class _Header(msgspec.Struct):
    schema: int


def load(path: str | Path) -> Document:
    """Read a result file. Raises `UsageError` with one line for anything that isn't one this version can read."""
    where = str(path)
    document = load_as(path, Document)
    _check_tree(where, [document.evidence, document.settings, document.machine.facts, document.machine.environment])
    _check_tree(where, [[finding.value, finding.low, finding.high] for finding in document.findings])
    _check_values(where, document.findings)
    return document


def load_as(path: str | Path, form: type[Form]) -> Form:
    """Read of a result file what `form` has fields for, and no more. Raises `UsageError` as `load` does."""
    where = str(path)
    data = _read(where)
    try:
        _check_schema(where, msgspec.json.decode(data, type=_Header).schema)
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


def _check_schema(where: str, schema: int) -> None:
    if schema > SCHEMA:
        raise UsageError(
            f"{where!r} was written by a newer setebench (schema {schema}, this one reads {SCHEMA}); upgrade to read it"
        )
    if schema < 1:
        raise UsageError(f"{where!r} is not a setebench result file: there is no schema {schema}")


def _check_values(where: str, findings: list[Finding]) -> None:
    """Refuse values that their unit can't have, which readers compute with."""
    for each in findings:
        number = isinstance(each.value, (int, float)) and not isinstance(each.value, bool)
        fits = isinstance(each.value, FORMS[each.unit]) if each.unit in FORMS else number or not each.unit
        if number and each.unit in NEVER_ZERO and each.outcome is not Outcome.ABSENT:
            fits = float(each.value) > 0  # type: ignore[arg-type]
        if each.value is not None and not fits:
            raise UsageError(f"{where!r} is damaged: {each.parameter} is {each.value!r}, and its unit is {each.unit}")


def _check_tree(where: str, root: Any) -> None:
    """Refuse what the decoder lets pass and no reader expects: integers of any length, nesting of almost any depth."""
    level = [root]
    for _depth in range(DEEPEST_NESTING):
        if any(isinstance(each, int) and abs(each) > LARGEST_INTEGER for each in level):
            raise UsageError(f"{where!r} is damaged: it holds an integer of more than 64 bits")
        nested = [each for each in level if isinstance(each, (dict, list)) and each]
        if not nested:
            return
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    raise UsageError(f"{where!r} is nested too deeply for a result file")
