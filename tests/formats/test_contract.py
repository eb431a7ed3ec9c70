"""The records by which formats register: complete, and each hook is a function that exists."""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import fields
from importlib import import_module

import pytest

from graphport import formats
from graphport.formats import FORMATS, PACKAGES
from graphport.formats.contract import Hooks, resolve

POSITIONAL = {"recognize": 2, "read": 1, "write": 2, "versions": 1}
"""Number of positional arguments of hooks."""


@pytest.mark.parametrize("name", PACKAGES)
def test_each_hook_is_a_function_with_the_arguments_of_its_type(name):
    format = FORMATS[name]
    assert format.name == name
    for field in fields(Hooks):
        hook = getattr(format.hooks, field.name)
        if hook is None:
            continue
        function = resolve(hook)
        assert callable(function), field.name
        signature = inspect.signature(function)
        signature.bind_partial(*[None] * POSITIONAL.get(field.name, 0))


@pytest.mark.parametrize("name", PACKAGES)
def test_the_readers_options_are_its_keywords(name):
    format = FORMATS[name]
    keywords = inspect.signature(resolve(format.hooks.read)).parameters
    assert set(format.options) <= set(keywords)


def test_each_package_with_a_record_is_registered():
    found = {module.name for module in pkgutil.iter_modules(formats.__path__) if module.ispkg} - {"recognition"}
    registered = {package.split(".")[2] for package in PACKAGES.values()}
    assert found == registered
    for package in PACKAGES.values():
        assert import_module(package).FORMAT is FORMATS[import_module(package).FORMAT.name]
