"""Names that are imported when they are first used."""

from __future__ import annotations

import json.decoder

import pytest

from graphport.core.lazy_imports import first_used


def test_lazy_import_resolves_only_declared_names():
    find = first_used("package", {"JSONDecoder": "json.decoder"})
    assert find("JSONDecoder") is json.decoder.JSONDecoder
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'loads'"):
        find("loads")
