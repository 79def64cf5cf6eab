"""The pages of the site exist and name things that exist; so do the files that the README links to."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import wearjax

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


def module_of(name: str):
    """The module, or the one that a part of a module is written in."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, part = name.rpartition(".")
        return inspect.getmodule(getattr(importlib.import_module(module), part))


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


@pytest.fixture(scope="module")
def readme_hook():
    """The hook with which the site takes the README in."""
    file = ROOT / "docs" / "hooks" / "readme.py"
    spec = importlib.util.spec_from_file_location("readme_hook", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_home_page_lead_to_pages_and_files_of_the_site(readme_hook):
    home = readme_hook.on_page_markdown((ROOT / "docs" / "index.md").read_text())
    assert "# wearjax" in home
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", home) if not link.startswith(("#", "http"))]
    assert {"tpu.md", "scale.md"} <= set(links)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]
    files = [file.relative_to(ROOT).as_posix() for file in (ROOT / "notebooks").glob("*.ipynb")]
    assert [link for link in links if link not in pages + files] == []


def test_the_home_page_shows_folders_that_the_site_has_not_as_their_path(readme_hook):
    text = f"{readme_hook.MARK} "
    assert readme_hook.LINK.sub(readme_hook.site_link, "[golden](tests/golden)") == "`tests/golden`"
    assert readme_hook.on_page_markdown("no mark") == "no mark"
    assert "](tests/" not in readme_hook.on_page_markdown(text)


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "wearjax.md").read_text()
    public = [name for name in wearjax.__all__ if not name.startswith("__")]
    assert [name for name in public if f"::: wearjax.{name}\n" not in text] == []


def documented(docstring: str) -> list[str]:
    """What the section Args of a docstring names, one entry a line."""
    lines = docstring.splitlines()
    if "Args:" not in lines:
        return []
    section = lines[lines.index("Args:") + 1 :]
    end = next((place for place, line in enumerate(section) if line and not line.startswith(" ")), None)
    return [line.split(":")[0].strip() for line in section[:end] if re.match(r" {4}\S", line)]


def parameters(node: ast.AST) -> dict[str, bool]:
    """Names that a function or a class takes, with their stars, and whether they have a type."""
    if isinstance(node, ast.ClassDef):
        made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        if made:
            return parameters(made[0])
        fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        return {ast.unparse(field.target): True for field in fields}
    given = node.args
    starred = [("*", given.vararg), ("**", given.kwarg)]
    named = [("", one) for one in given.posonlyargs + given.args + given.kwonlyargs]
    return {star + one.arg: one.annotation is not None for star, one in named + starred if one}


def undocumentable(source: str) -> list[str]:
    """Entries under Args that no parameter with a type has the name of: the strict build refuses them."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        known = parameters(node)
        names = documented(ast.get_docstring(node) or "")
        found += [f"{node.name}: {name}" for name in names if not known.get(name)]
    return found


def test_what_undocumentable_finds():
    start = 'def f(a: int, b: int, c, *d: int, **e: int):\n    """Adds.\n\n    Args:\n        '
    for wrong in ("a, b: numbers", "c: without a type", "g: unknown", "d: without its star"):
        assert undocumentable(f'{start}{wrong}\n    """') == [f"f: {wrong.split(':')[0]}"]
    right = "a: one.\n            And: more.\n        *d: rest\n        **e: options\n\n    Raises:\n        E: no"
    assert undocumentable(f'{start}{right}\n    """') == []
    fields = '"""An A.\n\n    Args:\n        x: one\n        y: none\n    """\n    x: int'
    assert undocumentable(f"class A:\n    {fields}") == ["A: y"]


@pytest.mark.parametrize("page", [page for page in PAGES if ":::" in page.read_text()], ids=lambda p: p.stem)
def test_docstrings_of_the_reference_name_parameters(page):
    wrong = []
    for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
        wrong += [f"{name}, {entry}" for entry in undocumentable(inspect.getsource(module_of(name)))]
    assert wrong == []
