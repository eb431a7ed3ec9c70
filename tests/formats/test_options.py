"""`WriteOptions` has the options and types of the format table and of the writers."""

import inspect
from typing import get_type_hints

import pytest

from graphport.formats import FORMATS
from graphport.formats.archive import Documents
from graphport.formats.contract import resolve
from graphport.formats.options import FileOptions, WriteOptions

TYPES = get_type_hints(WriteOptions, localns={"Documents": Documents})
WRITTEN = [kind for kind in FORMATS.values() if kind.writes]


def test_every_choice_of_a_format_has_a_type_and_every_option_a_format():
    assert TYPES.keys() == {choice for kind in FORMATS.values() for choice in kind.choices}


@pytest.mark.parametrize("kind", WRITTEN, ids=[kind.name for kind in WRITTEN])
def test_choices_are_the_keywords_of_the_writer(kind):
    keywords = {
        name
        for name, parameter in inspect.signature(resolve(kind.hooks.write)).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert keywords - {"findings"} == set(kind.choices) - set(kind.preparations)


@pytest.mark.parametrize("kind", WRITTEN, ids=[kind.name for kind in WRITTEN])
def test_the_writer_takes_the_types_that_are_reported(kind):
    parameters = inspect.signature(resolve(kind.hooks.write)).parameters
    for name in set(kind.choices) - set(kind.preparations):
        stated = {each.partition("[")[0] for each in str(parameters[name].annotation).split(" | ")}
        told = {getattr(each, "__name__", str(each)) for each in getattr(TYPES[name], "__args__", (TYPES[name],))}
        assert {each.replace("NoneType", "None") for each in told} <= stated | {"None"}, name


def test_only_the_edition_is_omitted_where_the_source_has_one():
    assert WriteOptions.__annotations__.keys() - FileOptions.__annotations__.keys() == {"edition"}
