from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.formats.nnef.container.syntax import Edition, TypeName
from graphport.formats.nnef.container.types import (
    ANY,
    EMPTY,
    GENERIC,
    INTEGER,
    LOGICAL,
    SCALAR,
    STRING,
    UNKNOWN,
    array_of,
    castable,
    casts,
    common,
    declared,
    generic_choices,
    tensor_of,
    tuple_of,
    type_name,
    with_generic,
)
from tests.every import every
from tests.formats.nnef.trees import types as type_trees

REAL, INDEX, TRUTH, LOOSE = tensor_of(SCALAR), tensor_of(INTEGER), tensor_of(LOGICAL), tensor_of(None)


@every(
    ("given", "wanted", "answer"),
    [
        pytest.param(SCALAR, REAL, True, id="a scalar for a tensor of scalars"),
        pytest.param(INTEGER, REAL, False, id="an integer for a tensor of scalars"),
        pytest.param(INTEGER, SCALAR, False, id="an integer for a scalar"),
        pytest.param(INTEGER, INDEX, True, id="an integer for a tensor of integers"),
        pytest.param(LOGICAL, TRUTH, True, id="a logical for a tensor of logicals"),
        pytest.param(SCALAR, TRUTH, False, id="a scalar for a tensor of logicals"),
        pytest.param(STRING, LOOSE, False, id="a string for a tensor"),
        pytest.param(SCALAR, LOOSE, True, id="a scalar for any tensor"),
        pytest.param(REAL, SCALAR, False, id="a tensor for a scalar"),
        pytest.param(SCALAR, GENERIC, True, id="a scalar for a generic attribute"),
        pytest.param(STRING, GENERIC, True, id="a string for a generic attribute"),
        pytest.param(REAL, tensor_of(GENERIC), True, id="a bound tensor for a generic one"),
        pytest.param(LOOSE, tensor_of(GENERIC), False, id="an unbound tensor for a generic one"),
        pytest.param(REAL, LOOSE, True, id="a bound tensor for an unbound one"),
        pytest.param(REAL, TRUTH, False, id="tensors of two data-types"),
        pytest.param(EMPTY, array_of(REAL), True, id="no items for any array"),
        pytest.param(EMPTY, REAL, False, id="no items for a tensor"),
        pytest.param(array_of(SCALAR), array_of(REAL), True, id="arrays item by item"),
        pytest.param(array_of(INTEGER), array_of(REAL), False, id="arrays whose items differ"),
        pytest.param(tuple_of(SCALAR, INTEGER), tuple_of(REAL, INTEGER), True, id="tuples item by item"),
        pytest.param(tuple_of(SCALAR, INTEGER), tuple_of(REAL, INTEGER, INTEGER), False, id="tuples of two lengths"),
        pytest.param(array_of(SCALAR), tuple_of(SCALAR, SCALAR), False, id="an array for a tuple"),
        pytest.param(SCALAR, tensor_of(ANY), True, id="provisional: a scalar for a tensor"),
        pytest.param(INTEGER, tensor_of(ANY), False, id="provisional: an extent for a tensor"),
        pytest.param(TRUTH, tensor_of(ANY), True, id="provisional: any tensor for a tensor"),
        pytest.param(UNKNOWN, REAL, True, id="what is unknown has been reported"),
    ],
)
def test_implicit_casts(given, wanted, answer):
    assert castable(given, wanted) is answer


def test_the_common_type_is_one_of_the_two():
    assert common(SCALAR, REAL) is REAL
    assert common(REAL, SCALAR) is REAL
    assert common(EMPTY, array_of(INTEGER)) is array_of(INTEGER)
    assert common(INTEGER, SCALAR) is None


def test_generics_are_found_and_filled_in():
    pattern = tuple_of(array_of(tensor_of(GENERIC)), GENERIC, STRING)
    given = tuple_of(array_of(INDEX), LOGICAL, STRING)
    assert set(generic_choices(pattern, given)) == {INTEGER, LOGICAL}
    assert with_generic(pattern, INTEGER) is tuple_of(array_of(INDEX), INTEGER, STRING)
    assert set(generic_choices(array_of(tensor_of(GENERIC)), EMPTY)) == set()


def test_values_are_cast_where_tensors_or_scalars_are_declared():
    assert casts(array_of(REAL))
    assert casts(SCALAR)
    assert not casts(array_of(INTEGER))


def test_types_are_spelled_in_their_edition():
    assert type_name(array_of(tuple_of(INTEGER, REAL))) == "(integer, tensor<scalar>)[]"
    assert type_name(array_of(INTEGER), Edition.PROVISIONAL) == "extent[]"
    assert type_name(INDEX, Edition.PROVISIONAL) == "tensor of coordinate data"
    assert type_name(declared(TypeName("tensor")), Edition.PROVISIONAL) == "tensor"


@given(st.sampled_from([*Edition]).flatmap(type_trees))
def test_every_written_type_casts_to_itself(node):
    kind = declared(node)
    assert castable(kind, kind)
    assert common(kind, kind) is kind
    assert declared(node) is kind
