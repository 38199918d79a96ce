"""What identifies a version of the inference, and seeds that nobody could know before it was written.

The hash is of what the interpreter makes of the sources: comments, docstrings and layout don't change it, anything that
could change an answer does. From it follow the seeds of a sealed run, and from a nonce if whoever judges gives one.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from setebench import registry

CARRYING = frozenset(
    (
        *("campaign", "cli", "compare", "doctor", "errors", "export", "fleet", "host", "judge", "recording"),
        *("integrations", "native", "references", "registry", "report", "score", "session", "sim", "store", "truth"),
    )
)
"""Rooms below setebench that only carry, run, judge or show; what is in all others takes part in inference."""

FIRST_SEALED = 1_000_000
"""Seeds below are for development."""

_SEEDS = 1 << 32
"""Sealed seeds lie below this and FIRST_SEALED: four thousand million machines, so that none is met twice by chance."""


def sealed_seeds(nonce: str, inference: str, count: int) -> list[int]:
    """`count` different seeds from FIRST_SEALED on: of more, the first ones are the same."""
    seeds: dict[int, None] = {}
    number = 0
    while len(seeds) < count:
        drawn = hashlib.sha256(f"{inference}\0{number}\0{nonce}".encode()).digest()
        seeds.setdefault(FIRST_SEALED + int.from_bytes(drawn[:8], "big") % (_SEEDS - FIRST_SEALED))
        number += 1
    return list(seeds)


def drawn(numbers: Iterable[int]) -> dict[str, int]:
    """The random machines of these numbers, and with which seed each is run: it says nothing of the machine."""
    named = ((number, hashlib.sha256(f"run of {number}".encode()).digest()) for number in numbers)
    return {f"random:{number}": int.from_bytes(digest[:4], "big") for number, digest in named}


@cache
def inference_hash() -> str:
    """SHA-256 of the parsed inference as it lies in the sources now, changes that nobody committed included."""
    return _hash(_inference_files())


@cache
def simulator_hash() -> str:
    """SHA-256 of the parsed simulator: the population is another one where this differs."""
    return _hash((f"setebench/{name}", path) for name, path in _below(_package() / "sim"))


def sources_hash() -> str:
    """Of both."""
    return hashlib.sha256(f"{inference_hash()} {simulator_hash()}".encode()).hexdigest()


def _package() -> Path:
    return Path(__file__).resolve().parents[1]


def _inference_files() -> Iterator[tuple[str, Path]]:
    """Name and path of every file: of the package, and of its scenarios."""
    for name, path in _below(_package()):
        if Path(name).parts[0].removesuffix(".py") not in (*CARRYING, "scenarios"):
            yield f"setebench/{name}", path
    folder = registry.own_folder()
    if folder is not None:
        yield from ((f"scenarios/{name}", path) for name, path in _below(folder))


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    return ((str(path.relative_to(folder)), path) for path in folder.rglob("*.py"))


def _hash(files: Iterable[tuple[str, Path]]) -> str:
    whole = hashlib.sha256()
    for name, path in sorted(files):
        whole.update(f"{name}\0{code_text(path.read_bytes())}\0".encode(errors="surrogatepass"))
    return whole.hexdigest()


class _Bare(ast.NodeTransformer):
    """Takes out docstrings and other strings that only stand there."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def code_text(source: bytes) -> str:
    """The parsed source as text again: without comments, layout, and strings that only stand there."""
    return ast.unparse(_Bare().visit(ast.parse(source)))
