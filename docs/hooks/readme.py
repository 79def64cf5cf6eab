"""The README is the first page of the site: its links to files of the checkout become links of the site.

A link to a page of the site leads to that page, one to a notebook to a copy of the file, and one to a folder, which
has no place on the site, becomes its path in code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- README.md -->"
PAGES = {"tpu_scripts/README.md": "tpu.md"}
LINK = re.compile(r"\[([^]]*)\]\(([^)\s]+)\)")


def site_link(link: re.Match[str]) -> str:
    text, target = link.groups()
    if target.startswith(("#", "https://", "http://")):
        return link[0]
    if (ROOT / target).is_dir():
        return f"`{target.rstrip('/')}`"
    return f"[{text}]({PAGES.get(target) or target.removeprefix('docs/')})"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    if MARK not in markdown:
        return markdown
    return markdown.replace(MARK, LINK.sub(site_link, (ROOT / "README.md").read_text()))


def on_files(files: Any, *, config: Any) -> Any:
    """Called by MkDocs with the files of the site: adds the notebooks, as they are."""
    from mkdocs.structure.files import File

    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        name = notebook.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(notebook)))
    return files
