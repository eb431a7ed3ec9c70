"""Tables of strings, and their forms for notebooks and data frames."""

from __future__ import annotations

from typing import Any

import pytest

from graphport.core.table import Tabular, as_html, as_markdown, as_text, format_number

HEADINGS, ROWS = ["layer", "n"], [["conv", "1"], ["a|b*c", "22"]]


class Found(Tabular):
    def __init__(self, rows: list[dict[str, Any]], words: str = "") -> None:
        self.rows, self.words = rows, words

    def to_rows(self):
        return self.rows

    @property
    def caption(self):
        return self.words


def test_column_width_fits_the_widest_cell():
    assert as_text(HEADINGS, ROWS) == "layer  n\nconv   1\na|b*c  22"
    assert as_text(["a", "b"], []) == "a  b"


def test_marks_of_markdown_are_escaped():
    assert as_markdown(HEADINGS, ROWS) == "| layer | n |\n| --- | --- |\n| conv | 1 |\n| a\\|b\\*c | 22 |"
    assert as_markdown(["h"], [["x\n y"]]).splitlines()[-1] == "| x y |"
    assert all(f"\\{mark}" in as_markdown(["h"], [[mark]]) for mark in "\\|*_`<>[]#")


def test_cells_of_html_are_no_markup():
    text = as_html(["<h>"], [["a & b"]], "1 < 2")
    assert text == (
        "<table><caption>1 &lt; 2</caption><thead><tr><th>&lt;h&gt;</th></tr></thead>"
        "<tbody><tr><td>a &amp; b</td></tr></tbody></table>"
    )
    assert "caption" not in as_html(["h"], [])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (0.123456789, "0.123457"), (2.0, "2"), (None, ""), ("as it is", "as it is")],
)
def test_numbers(value, text):
    assert format_number(value) == text


def test_rows_are_a_table():
    rows = [{"a": True, "b": [1, (2.5, None)], "c": 3 + 4j}, {"a": False, "b": (), "c": "x"}]
    lines = [f"{'a':3}  {'b':8}  c", f"yes  {'1, 2.5, ':8}  (3+4j)", f"{'no':3}  {'':8}  x", "two rows"]
    assert str(Found(rows, "two rows")) == "\n".join(lines)
    assert Found(rows, "two rows")._repr_html_().startswith("<table><caption>two rows</caption><thead><tr><th>a</th>")
    assert str(Found([], "nothing")) == "nothing"
    assert str(Found([{"a": 1}])) == "a\n1"
    assert Found([])._repr_html_() == "<table><thead><tr></tr></thead><tbody></tbody></table>"


def test_table_without_caption_prints_rows_only():
    class Plain(Tabular):
        def to_rows(self):
            return [{"a": 1}]

    assert Plain().caption == ""
    assert str(Plain()) == "a\n1"
