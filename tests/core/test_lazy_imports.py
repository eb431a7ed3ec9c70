"""Names that are imported when they are first used."""

from __future__ import annotations

import json.decoder

import pytest

from graphport.core.lazy_imports import first_used


def test_a_name_is_found_where_it_is_at_home_and_no_other_one_is():
    find = first_used("package", {"JSONDecoder": "json.decoder"})
    assert find("JSONDecoder") is json.decoder.JSONDecoder
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'loads'"):
        find("loads")
