"""Every diagnostic has a page in the documentation and a row in the table of codes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

from graphport.cli.explain import diagnostics
from tools import diagnostic_pages

PAGES = diagnostic_pages.pages()
DOCUMENT = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text(encoding="utf-8")


def test_page_contains_description_remedy_and_examples():
    page = PAGES["NNEF0302"]
    found = diagnostics()["NNEF0302"]
    assert page.startswith("# NNEF0302\n\nError, found by `formats/nnef/")
    assert all(text in page for text in (found["wrong"].rstrip(), found["right"].rstrip()))
    assert "**What helps**" in page


def test_the_table_has_a_row_with_anchor_and_link_for_each_code():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="diagnostics.md"))
    text = diagnostic_pages.on_page_markdown(DOCUMENT, page, None, None)
    assert set(re.findall(r'<a id="(?:\w+)"></a>\[`(\w+)`\]\(diagnostics/\1\.md\) \| ', text)) == set(PAGES)
    assert {code.lower() for code in PAGES} == set(re.findall(r'<a id="(\w+)">', text))
    other = SimpleNamespace(file=SimpleNamespace(src_uri="nnef.md"))
    assert diagnostic_pages.on_page_markdown(DOCUMENT, other, None, None) == DOCUMENT


def test_row_has_the_first_message_and_a_non_error_severity():
    found = {
        "IO0001": {"severity": "error", "sentences": ["…", "a|b", "c"]},
        "RUN0001": {"severity": "warning", "sentences": ["d"]},
    }
    rows = diagnostic_pages.table(found)
    assert "[`IO0001`](diagnostics/IO0001.md) | a\\|b |" in rows
    assert "[`RUN0001`](diagnostics/RUN0001.md) | *warning:* d |" in rows


def test_texts_are_no_markup():
    assert all("<" not in re.sub(r"```.*?```|\\<|`[^`]*`", "", text, flags=re.DOTALL) for text in PAGES.values())
