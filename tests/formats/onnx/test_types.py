from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, TypeProto, helper

from graphport.core.dims import Symbol, parse_dim
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, UNKNOWN, OptionalFact, SequenceFact, TensorFact
from graphport.formats.onnx.container import types

FLOAT = TypeProto(tensor_type=TypeProto.Tensor(elem_type=TensorProto.FLOAT))


def test_every_element_type_has_the_number_and_the_width_of_onnx() -> None:
    assert set(types.CODES) == set(DType)
    for dtype, code in types.CODES.items():
        if dtype is not DType.STRING:
            assert np.dtype(helper.tensor_dtype_to_np_dtype(code)) == dtype.numpy, dtype


@pytest.mark.parametrize(
    "fact",
    [
        TensorFact(DType.FLOAT32, None),
        TensorFact(DType.INT4, ()),
        TensorFact(DType.BFLOAT16, (1, Symbol("batch size"), parse_dim("2*H"))),
        SequenceFact(TensorFact(DType.STRING, (3,))),
        OptionalFact(SequenceFact(TensorFact(DType.INT64, None))),
    ],
    ids=str,
)
def test_facts_round_trip_through_types(fact: types.Fact) -> None:
    assert types.read_type(types.write_type(fact)) == (fact, True)


@pytest.mark.parametrize("name", ["?", "", "-1", "*", "\0open", "~1f"])
def test_invalid_dim_name_becomes_an_unknown_dim(name: str) -> None:
    proto = helper.make_tensor_type_proto(TensorProto.FLOAT, [name])
    assert types.read_type(proto) == (TensorFact(DType.FLOAT32, (OPEN,)), False)


@pytest.mark.parametrize("dim", [-1, None])
def test_a_negative_or_absent_dim_is_open(dim: int | None) -> None:
    fact, is_all = types.read_type(helper.make_tensor_type_proto(TensorProto.FLOAT, [dim, 3]))
    assert (fact, is_all) == (TensorFact(DType.FLOAT32, (OPEN, 3)), False)


@pytest.mark.parametrize("name", ["batch size", "unk:0", "1..64", "ceil(N/2)", "N"])
def test_any_op_type_names_a_dim(name: str) -> None:
    fact, is_all = types.read_type(helper.make_tensor_type_proto(TensorProto.FLOAT, [name]))
    assert fact == TensorFact(DType.FLOAT32, (parse_dim(name),))
    assert is_all


def test_a_dim_that_was_named_by_us_is_written_without_a_name() -> None:
    proto = types.write_type(TensorFact(DType.FLOAT32, (Symbol("x.0"), Symbol("x.0"))), "x")
    assert [dim.dim_param for dim in proto.tensor_type.shape.dim] == ["", "x.0"]


def test_generated_dim_names_are_not_written() -> None:
    for dim in (OPEN, OPEN * 2):
        proto = types.write_type(TensorFact(DType.FLOAT32, (dim,)))
        assert proto.tensor_type.shape.dim[0].WhichOneof("value") is None


def test_denotations_are_more_than_a_fact_states() -> None:
    proto = helper.make_tensor_type_proto(TensorProto.FLOAT, [1], ["BATCH"])
    assert types.read_type(proto) == (TensorFact(DType.FLOAT32, (1,)), False)


@pytest.mark.parametrize("code", [27, 99, -1])
def test_an_unknown_element_type_is_refused(code: int) -> None:
    with pytest.raises(types.UnknownTypeError, match=str(code)):
        types.read_type(TypeProto(tensor_type=TypeProto.Tensor(elem_type=code)))


def test_maps_have_no_fact() -> None:
    proto = TypeProto(map_type=TypeProto.Map(key_type=TensorProto.INT64, value_type=FLOAT))
    assert types.read_type(proto) == (UNKNOWN, False)
