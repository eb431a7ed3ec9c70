"""Every diagnostic has a page of its own in the documentation, made from what `graphport explain` knows."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

from graphport.cli.explain import diagnostics
from tools import diagnostic_pages

PAGES = diagnostic_pages.pages()
TABLE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text(encoding="utf-8")


def test_there_is_a_page_for_each_code_of_the_table():
    assert set(PAGES) == set(re.findall(r"</a>`([A-Z]+\d{4})`", TABLE))


def test_a_page_says_what_is_wrong_what_helps_and_shows_both():
    page = PAGES["NNEF0302"]
    found = diagnostics()["NNEF0302"]
    assert page.startswith("# NNEF0302\n\nError, found by `formats/nnef/")
    assert all(text in page for text in (found["wrong"].rstrip(), found["right"].rstrip()))
    assert "**What helps**" in page


def test_the_table_leads_to_the_pages():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="diagnostics.md"))
    linked = diagnostic_pages.on_page_markdown(TABLE, page, None, None)
    assert set(re.findall(r"\]\(diagnostics/(\w+)\.md\)", linked)) == set(PAGES)
    other = SimpleNamespace(file=SimpleNamespace(src_uri="nnef.md"))
    assert diagnostic_pages.on_page_markdown(TABLE, other, None, None) == TABLE


def test_texts_are_no_markup():
    assert all("<" not in re.sub(r"```.*?```|\\<|`[^`]*`", "", text, flags=re.DOTALL) for text in PAGES.values())
