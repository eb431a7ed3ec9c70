"""Facts of operands are reused for operands with renamed symbols, and equal the facts inferred directly."""

from __future__ import annotations

from unittest.mock import patch

import onnx
import openvino
import pytest
from benchmarks.files import onnx_decoder
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.dims import Symbol, maximum
from graphport.core.facts import TensorFact
from graphport.formats.onnx import from_proto
from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.ops.infer import Inference
from graphport.ops.renaming import MIN_RENAMED_SYMBOLS, Renaming
from tests.draws import times
from tests.ops.facts import f32, i64, ints
from tests.ops.test_shape_arithmetic import graphs


def stated(fact):
    """All fields of a fact, not abridged."""
    return repr((str(fact), *[getattr(fact, name, None) for name in ("shape", "elements", "reals")]))


def told(graph, findings):
    """Return all facts, symbols, definitions, constraints and findings of a graph."""
    known = graph.extents
    facts = {value.name: stated(value.fact) for inner in walk(graph) for value in inner.values()}
    constraints = [str(each) for each in known.constraints]
    return facts, list(known.declared), known.definitions, constraints, list(map(str, findings))


def without():
    """Disable the reuse, so that every operation is inferred."""
    return patch.object(Renaming, "alike", lambda *_: None)


def together(proto, names):
    """One graph with a copy of `proto` for each of `names`: of the symbols B, T, H, in that order."""
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    for field in ("node", "input", "output"):
        whole.graph.ClearField(field)
    constants = {each.name for each in proto.graph.initializer}
    for number, symbols in enumerate(names):

        def own(name, number=number):
            return name if not name or name in constants else f"{name}_{number}"

        for each in proto.graph.node:
            node = whole.graph.node.add()
            node.CopyFrom(each)
            node.input[:], node.output[:] = map(own, each.input), map(own, each.output)
        for field in ("input", "output"):
            for each in getattr(proto.graph, field):
                value = getattr(whole.graph, field).add()
                value.CopyFrom(each)
                value.name = own(each.name)
                for dim in value.type.tensor_type.shape.dim:
                    if dim.dim_param:
                        dim.dim_param = symbols["BTH".index(dim.dim_param)]
    return whole


NAMES = st.lists(
    st.permutations([["b0", "t0", "x"], ["b1", "t1", "x"], ["z2", "c", "a"]]).map(lambda x: x[0]), max_size=3
)


@settings(max_examples=times(60), deadline=None)
@given(graphs(), NAMES)
def test_renamed_subgraphs_get_the_facts_of_full_inference(proto, names):
    whole = together(proto, [["B", "T", "H"], ["B10", "T10", "H10"], ["B2", "T2", "x"], *names])
    assert (
        len({dim.dim_param for each in whole.graph.input for dim in each.type.tensor_type.shape.dim})
        > MIN_RENAMED_SYMBOLS
    )
    found = told(*legalize(from_proto(whole)))
    with without():
        assert told(*legalize(from_proto(whole))) == found


@pytest.mark.parametrize("is_raw", [True, False])
def test_decoder_with_distinct_cache_symbols_gets_full_inference_facts(tmp_path, is_raw):
    path = tmp_path / "decoder.xml"
    openvino.save_model(openvino.convert_model(onnx_decoder(tmp_path / "a.onnx", 8)), path, compress_to_fp16=False)
    asked = 0
    infer_operator_of = Inference.infer_operator

    def counted(self, *rest):
        nonlocal asked
        asked += 1
        return infer_operator_of(self, *rest)

    with patch.object(Inference, "infer_operator", counted):
        model = gp.load(path, raw=is_raw)
    once = asked
    with without(), patch.object(Inference, "infer_operator", counted):
        again = gp.load(path, raw=is_raw)
    assert told(model.graph, model.findings) == told(again.graph, again.findings)
    assert 2 * once < asked - once


def of_many():
    """Return a `Renaming` that expects a graph with many symbols."""
    found = Renaming()
    found.expect(MIN_RENAMED_SYMBOLS)
    return found


def alike(*operands, **attributes):
    return of_many().alike(operands, attributes)


A, B, C = (Symbol(name) for name in "abc")


def test_names_are_of_no_account_and_their_order_is():
    renaming = of_many()
    first, again, turned = (renaming.alike([f32(*dims)], {}) for dims in ((A, B), (A, C), (C, B)))
    assert first.key == again.key != turned.key
    mixed = [renaming.alike([f32(x), f32(y)], {}).key for x, y in ((A, B), (B, C), (B, A), (B, B))]
    assert mixed[0] == mixed[1]
    assert len(set(mixed)) == 3


def test_few_symbols_are_reported_by_their_names():
    renaming = Renaming()
    first, other = f32(A, B), f32(B, C)
    few = [renaming.alike([fact], {}).key for fact in (first, f32(A, B), other)]
    assert few[0] == few[1] != few[2]
    renaming.expect(MIN_RENAMED_SYMBOLS - 1)
    assert renaming.alike([other], {}).key == few[2]
    renaming.expect(MIN_RENAMED_SYMBOLS)
    many = [renaming.alike([fact], {}).key for fact in (first, other, f32(B, C))]
    assert many[0] == many[1] == many[2]
    assert many[0] not in few


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Symbol("d", 0), id="bounds"),
        pytest.param(Symbol("d" * 80), id="a name that is longer than a term may be"),
        pytest.param(A + 1, id="an expression"),
        pytest.param(3, id="a number"),
    ],
)
def test_renaming_key_distinguishes_other_operand_facts(other):
    renaming = of_many()
    assert renaming.alike([f32(A)], {}).key != renaming.alike([f32(other)], {}).key


@pytest.mark.parametrize(
    ("operands", "attributes"),
    [
        pytest.param([f32(A), f32(Symbol("a", 0))], {}, id="two symbols of one name"),
        pytest.param([f32(A)], {"shape": (A,)}, id="a symbol in an attribute"),
        pytest.param([f32(A)], {"like": f32(A)}, id="a fact in an attribute"),
    ],
)
def test_renaming_is_disabled_if_symbol_names_may_matter(operands, attributes):
    assert of_many().alike(operands, attributes) is None


@pytest.mark.parametrize("symbols", [0, MIN_RENAMED_SYMBOLS])
def test_each_requirement_is_listed_once(symbols):
    inference = Inference()
    inference.renaming.expect(symbols)
    add = registry.op_defs()["Add"]
    required = []
    for left, right in ((A, B), (B, C), (B, C), (A, B)):
        inference.required.clear()
        (fact,) = inference.answer(add, [f32(left, 4), f32(right, 4)], {}, 1)
        assert fact == f32(maximum(left, right), 4)
        required.append([str(each) for each in inference.required])
    assert required == [["a = b, or one of them is 1"], ["b = c, or one of them is 1"], [], []]
    # The memory of constraints is bounded; a forgotten constraint is added again.
    inference._held.clear()
    inference._handed.clear()
    inference.required.clear()
    inference.answer(add, [f32(A, 4), f32(B, 4)], {}, 1)
    assert [str(each) for each in inference.required] == required[0]


def test_renamed_facts_use_the_symbols_of_the_operands():
    inference = Inference()
    op_defs = registry.op_defs()
    for x, y in ((A, B), (B, C)):
        (joined,) = inference.answer(op_defs["Concat"], [f32(x), f32(2 * y)], {"axis": 0}, 1)
        assert joined == f32(x + 2 * y)
        assert joined.shape[0].bounds == (x + 2 * y).bounds
        (shape,) = inference.answer(op_defs["Shape"], [f32(x, 3, y)], {}, 1)
        assert shape == ints(x, 3, y)
        (reshaped,) = inference.answer(op_defs["Reshape"], [f32(x, 6), ints(x, 2, -1)], {}, 1)
        assert reshaped == f32(x, 2, 3)
        (found,) = inference.answer(op_defs["NonZero"], [f32(x)], {}, 1)
        assert isinstance(found, TensorFact)
        assert found.shape[0] == 1
        assert found == Inference().answer(op_defs["NonZero"], [f32(x)], {}, 1)[0]
    assert i64(A) != i64(B)
