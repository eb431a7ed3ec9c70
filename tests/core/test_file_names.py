"""Paths that are made of any names are relative, distinct and interpreted by no system."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphport.core.file_names import FileNames, is_safe, safe_part, safe_path

HOSTILE = (
    *("../../up", "/abs/x", "..", ".", "", "a/../b", "C:/x", "C:x", "\\\\host\\share", "..\\x", "a\\..\\b", "~/x"),
    *("CON", "con", "aux", "AUX.dat", "NUL.tar.gz", "COM1", "lpt9.x", "COM\u00b9", "LPT\u00b3.y", "COM0", "CONIN$"),
    *(
        "CON .txt",
        "a/CON/b",
        "PRN.",
        "a.",
        "a ",
        "a. .",
        " a",
        "a/b./c ",
        "a:b",
        "a*b?",
        "a\0b",
        "a\nb",
        "\x7f",
        "\x9b",
    ),
    *(
        "x" * 300,
        "\u6f22" * 100,
        "/".join("abcdefgh" * 9),
        "a/" * 5000,
        ".bashrc",
        ".git/config",
        "\u202etxt",
        "\ud800",
    ),
    *("W", "w", "\u00c5", "A\u030a", "a.dat", "a.dat/b", "a", "a/b", "\u017f", "s", "\ufb01", "fi", "_", "__"),
)
TEXT = st.text(st.characters(exclude_categories=[]) | st.sampled_from("./\\: aAcCoOnN12"), max_size=30)


def faults(path: str) -> list[str]:
    """Everything about a path that a system interprets, by Microsoft's and POSIX's rules."""
    found = [] if path and not path.startswith("/") else ["absolute or empty"]
    for part in path.split("/"):
        stem = part.split(".")[0].rstrip(" ").upper()
        found += (
            ["reserved"] if re.fullmatch(r"CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9\xb9\xb2\xb3]", stem) else []
        )
        found += ["special"] if part in ("", ".", "..") or part[-1] in ". " or part[0] in ". " else []
        found += ["character"] if re.search(r'[\x00-\x1f\x7f-\x9f<>:"\\|?*\ud800-\udfff\u2028-\u202e]', part) else []
        found += ["long"] if len(part.encode("utf-8", "surrogatepass")) > 240 else []
    return found + (["long"] if len(path.encode("utf-8", "surrogatepass")) > 1000 else [])


@given(st.lists(TEXT | st.sampled_from(HOSTILE), max_size=20))
@example(list(HOSTILE))
@example(["a", "a.dat/b", "a/b"])
@example(["a.dat/b", "a"])
def test_paths_of_any_names_are_safe_and_distinct(names):
    made = FileNames(".dat")
    paths = [f"{made.make(name)}.dat" for name in names]
    assert [(path, faults(path)) for path in paths if faults(path)] == []
    folded = [unicodedata.normalize("NFD", path.casefold()) for path in paths]
    assert len(set(folded)) == len(folded)
    folders = {path[:place] for path in folded for place, character in enumerate(path) if character == "/"}
    assert not folders & set(folded)


@given(TEXT | st.sampled_from(HOSTILE))
def test_safe_path_is_idempotent(name):
    path = safe_path(name)
    assert safe_path(path) == path
    assert is_safe(path) == bool(path)
    part = safe_part(name)
    assert "/" not in part
    assert safe_part(part) == part
    assert not part or faults(part) == []


@pytest.mark.parametrize(
    "name", ["conv1", "backbone.layer1.0.conv1", "layer1/conv/weight", "a b", "\u6f22\u5b57", "w_1-2"]
)
def test_ordinary_file_names_are_kept(name):
    assert FileNames().make(name) == name


def test_equal_contents_with_equal_name_share_a_path():
    made = FileNames()
    assert [made.make("w", 1), made.make("w", 1), made.make("W", 2), made.make("w", 1)] == ["w", "w", "W_1", "w"]
