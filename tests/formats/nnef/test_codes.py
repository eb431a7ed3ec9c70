"""Every finding that the language can make has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "src" / "graphport" / "formats" / "nnef"
CODE = re.compile(r"NNEF0(?!7)\d{3}")


def codes(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in folder.rglob("*.py"):
        if path.name != "test_codes.py":
            for code in CODE.findall(path.read_text(encoding="utf-8")):
                found.setdefault(code, []).append(path.name)
    return found


def test_every_code_of_the_language_is_tested():
    assert set(codes(SOURCES)) - set(codes(Path(__file__).parent)) == set()


def test_no_test_waits_for_a_code_that_nothing_makes():
    assert set(codes(Path(__file__).parent)) - set(codes(SOURCES)) == set()
