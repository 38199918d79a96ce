"""The documents: links lead somewhere, commands exist, lists of files match the files that there are; and the
Makefile."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from for_all import for_all

from setebench import registry
from setebench.cli.main import setebench

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
every_page = for_all({str(page.relative_to(ROOT)): (page,) for page in PAGES})
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^|\n\n)((?: {4}.*\n)+)")


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _prose(page: Path) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", _text(page)))


@pytest.mark.parametrize("name", registry.catalogue())
def test_every_scenario_has_a_page_of_its_own(name: str) -> None:
    text = _text(ROOT / f"docs/{name}.md")
    assert f"`setebench {name}" in text
    headings = " ".join(re.findall(r"^## (.+)$", FENCE.sub("", text), re.MULTILINE))
    assert "What disturbs it" in headings and "Limits" in headings, headings
    assert f"{name}.md" in _text(ROOT / "docs/index.md") and f"{name}.md" in _text(ROOT / "mkdocs.yml")


# -- links --------------------------------------------------------------------------------------------------------


def _links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", _prose(page))


@cache
def _anchors(page: Path) -> set[str]:
    """Headings as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", _text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@every_page
def test_relative_links_resolve(page: Path) -> None:
    for link in _links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_the_index_links_every_page() -> None:
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link).resolve() for link in _links(index)}
    assert {page for page in PAGES if page != index} <= linked


@every_page
def test_no_path_of_the_machine_it_was_written_on(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|tmp|root|home|opt|mnt)\b[^\s`]*", _text(page)) == []


def test_the_places_to_look_at_are_there() -> None:
    """In the table of docs/silicon.md; in a cell a name without its folder lies in that of the name before."""
    table = re.findall(r"^\| .* \|$", _text(ROOT / "docs/silicon.md").partition("## Where to look")[2], re.MULTILINE)
    cells = [re.findall(r"`([\w/.]+)`", cell) for row in table[2:] for cell in row.strip("| ").split(" | ")[1:]]
    assert sum(map(len, cells)) > 20
    for names in cells:
        folder = ROOT
        for name in names:
            path = next((each for each in (ROOT / name, folder / name) if each.exists()), None)
            assert path is not None, name
            folder = path if path.is_dir() else path.parent


# -- commands -----------------------------------------------------------------------------------------------------


def _commands(page: Path) -> list[str]:
    """Every `setebench ...` of code blocks and inline code, one each."""
    text = _text(page)
    blocks = FENCE.findall(text) + INDENTED.findall(FENCE.sub("", text))
    lines = [line for block in blocks for line in block.splitlines()]
    found = [match[1] for line in lines if (match := re.match(r"\s*(?:\$ |\w+=\S+ )?(setebench .+)$", line))]
    found += re.findall(r"`(setebench [^`\n]+)`", FENCE.sub("", text))
    return sorted({re.sub(r"\s+# .*$", "", command) for command in found})


COMMANDS = [(str(page.relative_to(ROOT)), command) for page in PAGES for command in _commands(page)]
NEW_IN_THE_TEXT = {"read-prefetch", "SCENARIO"}
"""A scenario that docs/add-a-probe.md adds, and the placeholder for any."""


def _resolved(arguments: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = setebench
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        name = "latency" if name in NEW_IN_THE_TEXT else name
        found = command.get_command(click.Context(command), name)
        assert found is not None, f"no command {name!r}"
        command = found
    return command, arguments


@for_all({f"{page}: {line}": (line,) for page, line in COMMANDS})
def test_a_command_of_the_documents_parses(line: str) -> None:
    command, arguments = _resolved(shlex.split(line)[1:])
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help", "--version"}
    used = {argument.partition("=")[0] for argument in arguments if re.match(r"--?[a-z]", argument)}
    assert used <= known
    if any(option in arguments for option in ("-h", "--help", "--version")) or isinstance(command, click.Group):
        return
    try:
        command.make_context(command.name, arguments)
    except click.UsageError as error:
        # the reader's files and directories are not here, and a bare name of a command is no call of it
        assert "does not exist" in error.message or not arguments or "requires an argument" in error.message, error


def _is_quick(line: str) -> bool:
    """Prints what is there, of machines that come with setebench; nothing is measured."""
    words = line.split()
    if "-o" in words:
        return False
    names = {"plain", "knc", "sandybridge", "zen-like"}
    return words[1:3] == ["sim", "list"] or (words[1] == "sim" and words[2] in ("truth", "show") and words[3] in names)


@pytest.mark.parametrize("line", sorted({line for _, line in COMMANDS if len(line.split()) > 2 and _is_quick(line)}))
def test_a_quick_command_of_the_documents_runs(line: str) -> None:
    result = CliRunner().invoke(setebench, shlex.split(line)[1:])
    assert result.exit_code == 0 and result.output


def test_the_commands_on_comparing_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as a reader would; what is left out of an output is marked by dots."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```console\n(.*?)^```$", _text(ROOT / "docs/compare.md"), re.MULTILINE | re.DOTALL)
    sessions = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(sessions) == 3
    for session in sessions:
        command, _, shown = session.partition("\n")
        result = CliRunner().invoke(setebench, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        printed = {line.rstrip() for line in result.stdout.splitlines()}
        assert [line for line in shown.splitlines() if line != "..." and line.rstrip() not in printed] == []


# -- what `make` takes for a reason to install anew ------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_an_installation_writes_nothing_that_makes_itself_look_old() -> None:
    """Every goal installed once more, as Cython's output lies beside its source and is newer than the installation."""
    generated = ROOT / "setebench/native/_engine.c"
    if not generated.exists():
        pytest.skip("the core was built elsewhere, and left no file of Cython's here")
    ended = subprocess.run(["make", "-pn", "clean"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    sources = re.findall(r"^SOURCES := (.*)$", ended.stdout, re.MULTILINE)
    assert len(sources) == 1, ended.stderr
    assert "setebench/native/_engine.pyx" in sources[0].split()
    assert str(generated.relative_to(ROOT)) not in sources[0].split()
