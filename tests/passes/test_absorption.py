"""An affine map after or before weighted operators is fused into their weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.dims import Symbol
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.verify import verify
from graphport.passes.absorption import absorb_after, absorb_before, add_to_gemm, is_absorbing, is_foldable_before
from graphport.passes.affine import Affine
from graphport.passes.journal import NotApplicable
from tests.every import every
from tests.laws import computed
from tests.passes.cases import info, model, node, norm, some

B4, C2, C4 = some(4, seed=1), some(2, 4, seed=1), some(3, 4, seed=1)


@dataclass(frozen=True)
class Weighted:
    """An operator on `x` of a shape, and the sizes of axis 1 before and after it."""

    op: str
    shape: tuple[int, ...]
    channels: int
    maps: int
    constants: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    operands: str = ""

    def graph(self, *more: str) -> Any:
        operands = self.operands or f"x {' '.join(self.constants)}"
        nodes = [node(self.op, operands, "y", **self.attributes)]
        inputs = [info("x", self.shape), *[info(name, self.constants[name].shape) for name in more]]
        constants = {name: array for name, array in self.constants.items() if name not in more}
        return gp.from_onnx(model(nodes, inputs, [info("y", None)], constants)).graph

    def along(self, array, rank):
        """Numbers along axis 1 of a value of a rank."""
        return np.asarray(array).reshape(-1, *[1] * (rank - 2))


AFTER = {
    "conv": Weighted("Conv", (2, 4, 5, 5), 4, 6, {"w": some(6, 4, 2, 2)}),
    "conv with a bias": Weighted("Conv", (2, 4, 7), 4, 6, {"w": some(6, 4, 3), "b": some(6)}),
    "conv of groups": Weighted("Conv", (2, 4, 7), 4, 6, {"w": some(6, 2, 3), "b": some(6)}, {"group": 2}),
    "transposed": Weighted("ConvTranspose", (2, 4, 3, 3), 4, 5, {"w": some(4, 5, 2, 2), "b": some(5)}),
    "transposed groups": Weighted("ConvTranspose", (1, 4, 3), 4, 6, {"w": some(4, 3, 2)}, {"group": 2}),
    "gemm": Weighted("Gemm", (3, 4), 4, 6, {"w": some(4, 6)}, {"alpha": 0.5}),
    "gemm turned": Weighted("Gemm", (3, 4), 4, 6, {"w": some(6, 4), "b": some(6)}, {"transB": 1, "beta": 2.0}),
    "gemm of a matrix": Weighted("Gemm", (3, 4), 4, 6, {"w": some(4, 6), "b": some(3, 6)}, {"beta": 0.25}),
    "gemm of columns": Weighted("Gemm", (4, 3), 4, 6, {"w": some(4, 6), "b": some(6)}, {"transA": 1}),
    "norm": Weighted("BatchNormalization", (2, 5, 3), 5, 5, norm(5)),
}
FACTOR = {
    "product": Weighted("MatMul", (3, 4), 4, 6, {"w": some(4, 6)}),
    "product of rows": Weighted("MatMul", (2, 4, 3), 4, 5, {"w": some(5, 4)}, operands="w x"),
    "product of batches": Weighted("MatMul", (2, 3, 4, 4), 3, 3, {"w": some(3, 4, 6)}),
    "square rows": Weighted("MatMul", (4, 4), 4, 4, {"w": some(4, 4)}, operands="x w"),
}
BEFORE = {
    "conv": Weighted("Conv", (2, 4, 5, 5), 4, 6, {"w": some(6, 4, 2, 2)}),
    "conv with a bias": Weighted("Conv", (2, 4, 7), 4, 6, {"w": some(6, 4, 3), "b": some(6)}, {"pads": (0, 0)}),
    "conv of groups": Weighted("Conv", (2, 4, 7), 4, 6, {"w": some(6, 2, 3), "b": some(6)}, {"group": 2}),
    "conv on valid places": Weighted("Conv", (2, 4, 7), 4, 6, {"w": some(6, 4, 3)}, {"auto_pad": "VALID"}),
    "gemm": Weighted("Gemm", (3, 4), 4, 6, {"w": some(4, 6)}, {"alpha": 0.5}),
    "gemm turned": Weighted("Gemm", (3, 4), 4, 6, {"w": some(6, 4), "b": some(6)}, {"transB": 1, "beta": 2.0}),
    "gemm of a matrix": Weighted(
        "Gemm", (3, 4), 4, 6, {"w": some(4, 6), "b": some(3, 6)}, {"alpha": 3.0, "beta": 0.25}
    ),
    "product": Weighted("MatMul", (3, 4), 4, 6, {"w": some(4, 6)}),
}


def maps_of(count):
    """Maps with one number for all or one for each of `count` entries, and with parts that are not there."""
    for seed, length in enumerate((1, count)):
        k, s = 2 + some(length, seed=seed).astype(float), some(length, seed=seed + 9).astype(float)
        yield from ((k, s), (k, None), (None, s), (k, np.zeros(length)))


def numbers_of(weighted, graph):
    x = some(*weighted.shape, seed=7)
    (found,) = computed(graph, {"x": x})
    return x, found


def ones(array):
    return np.ones(1) if array is None else array


def zeros(array):
    return np.zeros(1) if array is None else array


@every("name", list(AFTER))
def test_a_map_after_is_in_the_weights(name):
    weighted = AFTER[name]
    for k, s in maps_of(weighted.maps):
        _, before = numbers_of(weighted, weighted.graph())
        graph = weighted.graph()
        absorb_after(graph.first, Affine(k, s))
        verify(graph)
        _, after = numbers_of(weighted, graph)
        rank = before.ndim
        np.testing.assert_allclose(
            after, before * weighted.along(ones(k), rank) + weighted.along(zeros(s), rank), rtol=1e-4, atol=1e-5
        )
        assert [each.op for each in graph] == [weighted.op]
        assert graph.first.operands[1].fact.dtype is graph.inputs[0].fact.dtype


@every("name", list(FACTOR))
def test_factor_after_matmul_is_absorbed_by_the_operand_with_the_channels(name):
    weighted = FACTOR[name]
    for k, _ in maps_of(weighted.maps):
        _, before = numbers_of(weighted, weighted.graph())
        graph = weighted.graph()
        absorb_after(graph.first, Affine(k, None))
        _, after = numbers_of(weighted, graph)
        np.testing.assert_allclose(after, before * weighted.along(ones(k), before.ndim), rtol=1e-4, atol=1e-5)
        untouched = weighted.graph()
        with pytest.raises(NotApplicable, match="has no bias"):
            absorb_after(untouched.first, Affine(k, np.ones(1)))
        assert str(untouched) == str(weighted.graph())


@every("name", list(BEFORE))
def test_a_map_before_is_in_the_weights(name):
    weighted = BEFORE[name]
    for k, s in maps_of(weighted.channels):
        given = weighted.graph()
        x = some(*weighted.shape, seed=7)
        mapped = x * weighted.along(ones(k), x.ndim) + weighted.along(zeros(s), x.ndim)
        (expected,) = computed(given, {"x": mapped.astype(np.float32)})
        graph = weighted.graph()
        absorb_before(graph.first, Affine(k, s))
        verify(graph)
        (found,) = computed(graph, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_padding_reads_zeros_which_a_factor_leaves_and_a_summand_does_not():
    k, s = np.arange(2.0, 6.0), np.array([0.0, 0.0, 0.0, 1.0])
    for attributes in ({"pads": (1, 0)}, {"pads": (0, 1)}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}):
        weighted = Weighted("Conv", (2, 4, 7), 4, 6, {"w": some(6, 4, 3)}, attributes)
        untouched = weighted.graph()
        with pytest.raises(NotApplicable, match="the convolution pads"):
            absorb_before(untouched.first, Affine(k, s))
        assert str(untouched) == str(weighted.graph())
        for nothing in (None, np.zeros(4)):
            graph, x = weighted.graph(), some(2, 4, 7)
            absorb_before(graph.first, Affine(k, nothing))
            (expected,) = computed(weighted.graph(), {"x": x * weighted.along(k, 3).astype(np.float32)})
            np.testing.assert_allclose(computed(graph, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)
            assert graph.first.operand(2) is None


def refused(weighted, absorb, affine, match, *computed_operands):
    """A refusal does not change the graph."""
    graph = weighted.graph(*computed_operands)
    before = str(graph)
    with pytest.raises(NotApplicable, match=match):
        absorb(graph.first, affine)
    assert str(graph) == before


@every("name", list(AFTER))
def test_factor_and_bias_after_need_one_element_per_output_channel_or_one(name):
    weighted = AFTER[name]
    for length in (2, weighted.maps + 1):
        refused(weighted, absorb_after, Affine(np.ones(length), None), f"{length} elements do not match")
    if weighted.op != "Gemm":  # a Gemm adds whatever broadcasts to its result
        refused(weighted, absorb_after, Affine(None, np.ones(weighted.maps + 1)), "do not match")


@every("name", list(FACTOR))
def test_factors_that_no_operand_of_a_product_has_an_axis_for(name):
    refused(FACTOR[name], absorb_after, Affine(np.ones(7), None), "no constant operand")


@every("name", list(BEFORE))
def test_factor_and_bias_before_need_one_element_per_input_channel_or_one(name):
    weighted = BEFORE[name]
    for affine in (Affine(np.ones(3), None), Affine(None, np.ones(5)), Affine(np.ones(4), np.ones(5))):
        refused(weighted, absorb_before, affine, "do not match 4 channels")


@every(("name", "absorb"), [*((n, absorb_after) for n in AFTER), *((n, absorb_before) for n in BEFORE)])
def test_computed_weights_and_biases_absorb_nothing(name, absorb):
    weighted = (AFTER if absorb is absorb_after else BEFORE)[name]
    first, *rest = list(weighted.constants)
    if weighted.op == "BatchNormalization":
        refused(weighted, absorb, Affine(np.full(1, 2.0), None), "not (a )?float constant", first)
        refused(weighted, absorb, Affine(None, np.ones(1)), "not (a )?float constant", rest[0])
        return
    refused(weighted, absorb, Affine(np.full(1, 2.0), None), "the weight w of .* is not a float constant", first)
    for bias in rest:
        refused(weighted, absorb, Affine(None, np.ones(1)), f"the bias of {weighted.op} is not constant", bias)


@every("name", [*AFTER, *FACTOR])
def test_numbers_that_would_be_infinite_are_refused(name):
    weighted = (AFTER | FACTOR)[name]
    refused(weighted, absorb_after, Affine(np.array([1e39]), None), "would overflow float32")
    if name in AFTER:
        refused(weighted, absorb_after, Affine(None, np.array([1e39])), "would overflow float32")


def test_bias_is_absorbed_next_to_a_computed_weight():
    for name in ("conv", "conv of groups", "transposed", "gemm", "gemm turned"):
        weighted = AFTER[name]
        graph, w = weighted.graph("w"), weighted.constants["w"]
        absorb_after(graph.first, Affine(None, np.arange(float(weighted.maps))))
        x, before = numbers_of(weighted, weighted.graph())
        (after,) = computed(graph, {"x": x, "w": w})
        np.testing.assert_allclose(after, before + weighted.along(np.arange(weighted.maps), before.ndim), rtol=1e-4)


def test_without_a_factor_a_product_stays():
    graph = FACTOR["product"].graph()
    absorb_after(graph.first, Affine(None, None))
    assert str(graph) == str(FACTOR["product"].graph())


def test_matmul_absorbs_preceding_map_only_for_matrices():
    for constant, shape in (((4, 6), (2, 3, 4)), ((2, 4, 6), (3, 4)), ((4,), (3, 4))):
        weighted = Weighted("MatMul", shape, 4, 6, {"w": some(*constant)})
        refused(weighted, absorb_before, Affine(np.full(4, 2.0), None), "not a matrix")
    graph = BEFORE["product"].graph()
    graph.inputs[0].fact = TensorFact(graph.inputs[0].fact.dtype, None)
    with pytest.raises(NotApplicable, match="not a matrix"):
        absorb_before(graph.first, Affine(np.full(4, 2.0), None))


def test_absorbed_bias_turns_matmul_into_gemm():
    for affine, op in ((Affine(np.full(4, 2.0), None), "MatMul"), (Affine(None, np.ones(1)), "Gemm")):
        graph = BEFORE["product"].graph()
        absorb_before(graph.first, affine)
        assert graph.first.op == op


def test_gemm_with_transposed_input_absorbs_no_preceding_map():
    weighted = AFTER["gemm of columns"]
    refused(weighted, absorb_before, Affine(np.full(4, 2.0), None), "rows of the product")


def test_unknown_output_channel_count_is_not_applicable():
    affine = Affine(np.full(6, 2.0), None)
    shapes: list[Any] = [UNKNOWN, None, (Symbol("M"), Symbol("K"), 2)]
    for unknown in shapes:
        for name in ("conv", "transposed"):
            graph = AFTER[name].graph("w")
            fact = graph.inputs[1].fact
            graph.inputs[1].fact = unknown if unknown is UNKNOWN else TensorFact(fact.dtype, unknown)
            with pytest.raises(NotApplicable, match="the number of channels is unknown"):
                absorb_after(graph.first, affine)


def test_unknown_dtype_is_not_applicable():
    graph = AFTER["conv"].graph()
    for value in graph.first.operands:
        value.fact = UNKNOWN if value.is_input else TensorFact(None, value.fact.shape)
    with pytest.raises(NotApplicable, match="element type is unknown"):
        absorb_after(graph.first, Affine(np.full(6, 2.0), None))


def test_absorbed_constants_keep_their_name_or_use_the_node_name():
    graph = AFTER["conv with a bias"].graph()
    absorb_after(graph.first, Affine(np.full(6, 2.0), np.ones(6)))
    assert [value.name for value in graph.first.operands] == ["x", "w", "b"]
    graph = AFTER["conv"].graph()
    graph.first.name = "layer"
    absorb_after(graph.first, Affine(None, np.ones(6)))
    assert [value.name for value in graph.first.operands] == ["x", "w", "layer.bias"]
    graph = AFTER["conv"].graph()
    absorb_after(graph.first, Affine(None, np.ones(6)))
    assert graph.first.operands[2].name == "y.bias"


def test_gemm_absorbs_any_bias_that_broadcasts_to_its_result():
    for name in ("gemm", "gemm turned", "gemm of a matrix"):
        weighted = AFTER[name]
        for array in (np.asarray(2.0), some(6).astype(float), some(3, 1).astype(float), some(3, 6).astype(float)):
            graph = weighted.graph()
            add_to_gemm(graph.first, array)
            _, before = numbers_of(weighted, weighted.graph())
            _, after = numbers_of(weighted, graph)
            np.testing.assert_allclose(after, before + array, rtol=1e-4, atol=1e-5)
            assert graph.first.operands[2].fact.rank >= 1
    refused(AFTER["gemm turned"], lambda each, _: add_to_gemm(each, np.ones(1)), None, "the bias of Gemm", "b")


def test_which_operators_take_a_map():
    weighted = {each.op: each.graph().first for each in [*AFTER.values(), *BEFORE.values()]}
    other: Any = gp.from_onnx(model([node("Relu", "x", "y")], [info("x", [2])], [info("y", None)])).graph.first_node
    assert {op for op, each in weighted.items() if is_absorbing(each)} == set(weighted)
    assert {op for op, each in weighted.items() if is_foldable_before(each)} == {"Conv", "Gemm", "MatMul"}
    assert not is_absorbing(other)
    assert not is_foldable_before(other)
