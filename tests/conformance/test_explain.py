"""The right side of each example of `graphport explain` has no finding of its code, and ends well."""

from __future__ import annotations

import os

import pytest

from tests.cli.examples import check_side, groups

pytestmark = [
    pytest.mark.conformance(always=True),
    pytest.mark.skipif(os.name == "nt", reason="examples are commands of a POSIX shell"),
]


@pytest.mark.parametrize("group", groups())
def test_right_examples_have_no_finding(group, tmp_path, monkeypatch):
    for code in groups()[group]:
        check_side(code, "right", tmp_path, monkeypatch)
