"""The pages of operators in the documentation are made from the op pages."""

from __future__ import annotations

import re

import pytest

from graphport.formats import FORMATS
from graphport.ops import operator_manual, registry
from tests.every import every
from tools import operator_pages

PAGES = operator_pages.pages()


def test_there_is_a_page_for_each_family_and_an_index():
    assert list(PAGES) == ["index", *operator_manual.by_family()]


@every("name", sorted(registry.op_defs()))
def test_every_operator_has_a_section_and_a_line(name):
    page = registry.op_defs()[name]
    text = PAGES[operator_manual.family(page)]
    assert len(re.findall(rf"^## {name}$", text, re.MULTILINE)) == 1
    assert f"[{name}]({operator_manual.family(page)}.md#{name.lower().replace('.', '')})" in PAGES["index"]
    assert operator_manual.signature(page, 90) in text


@every("name", PAGES)
def test_table_rows_have_the_width_of_their_heading(name):
    width = 0
    for line in PAGES[name].splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        assert cells == width, line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x [*s]", r"x \[\*s\]"),
        ("`x * y` and *z*", r"`x * y` and \*z\*"),
        ("`a | b` | c", r"`a \| b` \| c"),
        ("<T> under_score", r"\<T\> under\_score"),
    ],
)
def test_markdown_markup_is_escaped(text, expected):
    assert operator_pages.escaped(text) == expected


def test_raises_section_is_a_list():
    assert "Raises:\n\n- ShapeError: " in PAGES["convolution"]


def test_formats_are_the_columns():
    assert f"| operator | {' | '.join(FORMATS)} | meaning |" in PAGES["index"]


def test_they_are_written_into_a_folder(tmp_path, capsys):
    assert operator_pages.main([str(tmp_path / "pages")]) == 0
    assert {path.stem for path in (tmp_path / "pages").iterdir()} == set(PAGES)
    assert operator_pages.main([]) == 2
    assert "FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["one", "two"]])
def test_wrong_arguments_print_the_usage(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert operator_pages.main(arguments) == 2
    assert "FOLDER" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
