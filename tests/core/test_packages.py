"""Packages that are not always there."""

import importlib

import pytest

from graphport.core.packages import without


def test_what_is_hidden_is_not_found_and_comes_back():
    import json.tool as known

    with without("json.tool"), pytest.raises(ImportError):
        importlib.import_module("json.tool")
    assert importlib.import_module("json.tool") is known


def test_what_was_never_imported_can_be_afterwards():
    with without("this"), pytest.raises(ImportError):
        importlib.import_module("this.that")
    assert importlib.util.find_spec("this") is not None
