"""The documentation site: every page is in its navigation, and every link between pages leads somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from tests.docs.commands import ROOT

spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs" / "build_site.py")
build_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build_site)
MKDOCS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def places(nav: list) -> list[str]:
    found = []
    for entry in nav:
        (value,) = entry.values()
        found += places(value) if isinstance(value, list) else [value]
    return found


def test_every_page_is_in_the_navigation_or_in_the_list_of_pages(tmp_path):
    staged = {path.as_posix() for path in build_site.stage(tmp_path / "pages")}
    named = places(MKDOCS["nav"])
    assert set(named) <= staged and len(set(named)) == len(named)
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in staged - set(named):
        if re.fullmatch(r"docs/[^/]+\.md|examples/.*ipynb", page):
            assert f"]({Path(page).name}" in listed, page


def test_every_link_between_pages_leads_somewhere(tmp_path):
    links = 0
    for page in build_site.stage(tmp_path):
        if page.suffix != ".md":
            continue
        text = re.sub(r"^```.*?^```$|`[^`]*`", "", (tmp_path / page).read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            links += 1
            assert (tmp_path / page.parent / target).exists(), f"{page} links to {target}"
    assert links > 100


def test_every_name_of_the_api_reference_exists():
    names = re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M)
    assert len(names) > 8
    for name in names:
        module, _, attribute = name.rpartition(".")
        if not importlib.util.find_spec(module) or not hasattr(importlib.import_module(module), attribute):
            importlib.import_module(name)


def test_the_site_is_built(tmp_path, monkeypatch):
    pytest.importorskip("mkdocstrings", reason="the extra 'docs' is not installed")
    pytest.importorskip("mkdocs_jupyter", reason="the extra 'docs' is not installed")
    assert build_site.main() == 0
    assert "global_tau" in Path(ROOT / "site" / "docs" / "api.html").read_text(encoding="utf-8")
