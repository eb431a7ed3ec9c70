"""Packages that are not always there."""

import importlib

import pytest

from graphport.core.packages import distribution, install, is_older, is_there, requirement, without


def test_without_hides_a_module_temporarily():
    import json.tool as known

    with without("json.tool"), pytest.raises(ImportError):
        importlib.import_module("json.tool")
    assert importlib.import_module("json.tool") is known


def test_modules_can_be_imported_after_a_refusal():
    with without("this"), pytest.raises(ImportError):
        importlib.import_module("this.that")
    assert importlib.util.find_spec("this") is not None


def test_nested_without_keeps_the_module_hidden():
    with without("this"):
        with without("this"):
            pass
        with pytest.raises(ImportError):
            importlib.import_module("this")


def test_installed_runtimes_have_a_distribution_and_a_version():
    import numpy as np

    assert is_there("numpy")
    assert not is_there("no_such_module_at_all")
    assert distribution("numpy") == ("numpy", np.__version__)
    assert distribution("no_such_module_at_all") is None
    # Its distribution has another name than the module.
    import yaml

    assert distribution("yaml") == ("PyYAML", yaml.__version__)


@pytest.mark.parametrize(
    ("version", "least", "expected"),
    [
        ("1.2.3", "1.3", True),
        ("1.3.0", "1.3", False),
        ("1.10", "1.9", False),
        ("1.9", "1.10", True),
        ("2.0", "1.99", False),
        ("0.9", "1.0", True),
        ("unknown", "1.0", False),
        ("1.0", "unknown", False),
        ("1.30rc1", "1.31", True),
    ],
)
def test_is_older_compares_major_and_minor_version(version, least, expected):
    assert is_older(version, least) is expected


def test_a_package_is_requested_in_the_versions_that_work():
    assert requirement("numpy").startswith("numpy")
    assert ">=" in requirement("numpy")
    assert ";" not in requirement("onnxruntime")
    assert requirement("ONNXRuntime").startswith("onnxruntime")
    assert requirement("ai_edge_litert").startswith("ai-edge-litert<")
    assert requirement("no-such-package") == "no-such-package"
    assert install("no-such-package") == "pip install no-such-package"
    assert install("numpy") == f"pip install '{requirement('numpy')}'"
