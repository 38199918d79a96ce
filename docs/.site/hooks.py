"""What `mkdocs` needs to know of this repository: pages that lie outside docs/, and anchors as GitHub makes them.

The pages are written to be read in the repository, so they link README.md and others one folder up. In the site those
become pages of their own, below `project/`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {"README.md": "project/readme-first.md"} | {
    name: f"project/{name.lower()}" for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
}
"""Files of the repository that become pages. (A README.md would take the place of a folder's index page.)"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    for name, page in OUTSIDE.items():
        text = _inward((ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "project/LICENSE.txt", content=(ROOT / "LICENSE").read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Turn links out of docs/ to the pages made of what they lead to."""
    for name, target in OUTSIDE.items():
        markdown = markdown.replace(f"](../{name}", f"]({target}")
    return markdown.replace("](../LICENSE)", "](project/LICENSE.txt)")


def _inward(text: str) -> str:
    """A page of the repository's root, one folder below docs/: its links."""
    for name, target in OUTSIDE.items():
        text = text.replace(f"]({name}", f"]({Path(target).name}")
    return re.sub(r"\]\(docs/", "](../", text).replace("](LICENSE)", "](LICENSE.txt)")
