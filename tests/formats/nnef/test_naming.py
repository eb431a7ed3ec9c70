from __future__ import annotations

import numpy as np
import pytest

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.naming import Labels, Names
from graphport.formats.nnef.container.syntax import Edition
from graphport.ir.graph import Graph, Value


def graph_with(*names: str) -> Graph:
    graph = Graph("net")
    for name in names:
        graph.adopt_input(Value(name))
    return graph


@pytest.mark.parametrize(
    ("edition", "name", "expected"),
    [
        (Edition.FINAL, "extent", "extent"),
        (Edition.PROVISIONAL, "extent", "_extent"),
        (Edition.FINAL, "yield", "_yield"),
        (Edition.PROVISIONAL, "yield", "yield"),
        (Edition.FINAL, "if", "_if"),
        (Edition.FINAL, "", "_"),
        (Edition.FINAL, "a-b", "a_b"),
    ],
)
def test_keywords_of_the_edition_are_no_names(edition, name, expected):
    graph = graph_with(name)
    names = Names(graph, edition, (), strict=True)
    assert names[graph.inputs[0]] == expected
    assert names.original(graph.inputs[0]) == (None if name == expected else name)


def test_values_without_name_take_none():
    graph = graph_with("a", "a.")
    nameless, named = graph.inputs
    assert Names(graph, Edition.FINAL, {nameless}, strict=True)[named] == "a_"


def test_a_name_for_nobody_is_free():
    names = Names(graph_with("unused"), Edition.FINAL, (), strict=True)
    assert [names.unused(), names.unused()] == ["unused_1", "unused_2"]
    assert names.bent == {}


def variable(name: str, numbers: object, label: str | None = None) -> Value:
    storage = storage_of(np.asarray(numbers, np.float32))
    value = Value(name, TensorFact.of(storage), storage=storage)
    if label is not None:
        value.notes["label"] = label
    return value


def test_labels_differ_in_more_than_case():
    labels = Labels()
    found = [labels.of(variable(name, [1.0]), "x") for name in ("w", "W", "w", "w_1")]
    assert found == ["w", "W_1", "w_2", "w_1_1"]


def test_a_label_with_the_same_numbers_is_shared():
    labels, value = Labels(), variable("a", [1.0], "w")
    twin = Value("b", value.fact, storage=value.storage)
    twin.notes["label"] = "w"
    assert [labels.of(value, "a"), labels.of(twin, "b"), labels.of(value, "a")] == ["w", "w", "w"]


@pytest.mark.parametrize("label", ["", "../w", "/w", "a b", "ü", "a/../../w"])
def test_a_label_that_is_none_is_replaced_by_the_name(label):
    assert Labels().of(variable("w.1", [1.0], label), "w_1") == "w.1"


def test_a_long_name_makes_a_label_that_is_a_file_name():
    assert Labels().of(variable("w" * 5000 + "/b", [1.0]), "x") == "w" * 200 + "/b"
