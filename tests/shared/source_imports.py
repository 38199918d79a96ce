"""The project's modules and what each imports, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "setebench.native._engine"


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "setebench" else ("setebench", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    _module(path): path for folder in ("setebench", "scenarios") for path in sorted((ROOT / folder).rglob("*.py"))
}


@cache
def tree(name: str) -> ast.Module:
    """The module parsed."""
    return ast.parse(SOURCES[name].read_text(encoding="utf-8"))


def named(node: ast.AST, package: str = "") -> Iterator[str]:
    """The modules that a statement of a module in `package` imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        own_folder = package.startswith("setebench.scenarios.") and package.count(".") > node.level
        assert not node.level or own_folder, "imports name their module in full, but for those in a scenario's folder"
        start = package.rsplit(".", node.level - 1)[0] if node.level else ""
        module = ".".join(part for part in (start, node.module or "") if part)
        # `from setebench import store` imports setebench.store
        for alias in node.names:
            longer = f"{module}.{alias.name}"
            yield longer if longer in SOURCES or longer == ENGINE else module


def package_of(name: str) -> str:
    """The package that relative imports of a module start from."""
    return name if SOURCES[name].name == "__init__.py" else name.rpartition(".")[0]


@cache
def imports(name: str) -> frozenset[str]:
    """Every module that `name` imports anywhere, in functions and for types too."""
    return frozenset(imported for node in ast.walk(tree(name)) for imported in named(node, package_of(name)))
