"""The pages of the site exist and name things that exist; so do the files that the README links to."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def found(name: str) -> bool:
    """Whether a dotted name is a module, or a public part of one."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, part = name.rpartition(".")
        return hasattr(importlib.import_module(home), part)
    return True


def test_every_page_is_in_the_navigation():
    navigation = re.findall(r"^\s+- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(navigation) == [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]


@pytest.mark.parametrize("page", [page for page in PAGES if ":::" in page.read_text()], ids=lambda p: p.stem)
def test_the_reference_names_what_exists(page):
    names = re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
    assert names
    assert [name for name in names if not found(name)] == []


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
