"""Regions between the markers of `torch.vmap` are maps over slices; incomplete regions are unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.pytorch.graph_passes.vmap import map_regions
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify

SPACE = "torch._functorch.predispatch."
WHOLE, SLICE = TensorFact(DType.FLOAT32, (5, 2)), TensorFact(DType.FLOAT32, (2,))


class Region:
    """`y = op(x)` for slices along axis `source`, stacked along `target`; `w` is common to all."""

    def __init__(self, source: Any = 0, target: Any = 0, result: Any = WHOLE) -> None:
        self.graph: Any = Graph()
        self.x, self.w = (self.graph.add_input(name, WHOLE) for name in "xw")
        self.enter = self.put(f"{SPACE}_vmap_increment_nesting", results=0)
        self.slice = self.put(f"{SPACE}_add_batch_dim", self.x, fact=SLICE, **{"1": source, "2": 1}).output
        self.made = self.put("aten.mul.Tensor", self.slice, self.w, fact=SLICE).output
        whole = {"1": 1, "2": 5, "3": target}
        self.whole = self.put(f"{SPACE}_remove_batch_dim", self.made, fact=result, **whole).output
        self.leave = self.put(f"{SPACE}_vmap_decrement_nesting", results=0)
        self.graph.set_outputs([self.put("aten.relu.default", self.whole, fact=WHOLE).output])

    def put(self, op_type, *operands, fact: Any = UNKNOWN, results=1, before=None, **attributes) -> Any:
        made = [Value(self.graph.fresh("v"), fact) for _ in range(results)]
        node = Node(op_type, list(operands), made, attributes, dialect="pytorch")
        return self.graph.append(node) if before is None else self.graph.insert_before(before, node)

    def mapped(self) -> list[str]:
        map_regions(self.graph)
        verify(self.graph)
        return [each.op_type for each in self.graph]


def moves(graph):
    return [(n.attributes["source"], n.attributes["destination"]) for n in graph if n.op_type == "aten.movedim.int"]


@pytest.mark.parametrize("source", [0, 1, -1])
@pytest.mark.parametrize("target", [0, 1, -1])
def test_a_region_is_a_map_over_its_slices(source, target):
    region = Region(source, target)
    words = region.mapped()
    assert words == [
        *["aten.movedim.int"] * (source != 0),
        "higher_order.map_impl",
        *["aten.movedim.int"] * (target != 0),
        "aten.relu.default",
    ]
    assert moves(region.graph) == [(source, 0)] * (source != 0) + [(0, target)] * (target != 0)
    (made,) = [each for each in region.graph if each.op_type == "higher_order.map_impl"]
    assert made.operands == [region.x] if source == 0 else made.operands[0].producer.operands == [region.x]
    (body,) = made.bodies()
    assert [value.fact for value in body.inputs] == [SLICE]
    (inner,) = body
    assert (inner.op_type, inner.operands) == ("aten.mul.Tensor", [body.inputs[0], region.w])
    assert body.outputs == [inner.output]
    assert inner.output.fact == SLICE
    assert made.output.fact == (WHOLE if target == 0 else TensorFact(DType.FLOAT32, None))
    assert len(made.attributes) == 2


def test_unknown_slice_facts_give_an_unknown_result():
    region = Region(0, 1, UNKNOWN)
    region.mapped()
    (made,) = [each for each in region.graph if each.op_type == "higher_order.map_impl"]
    assert made.output.fact == UNKNOWN


def test_unbatched_result_is_expanded():
    region = Region()
    (removed,) = [each for each in region.graph if each.op_type.endswith("_remove_batch_dim")]
    removed.set_input(0, region.w)
    assert region.mapped() == ["higher_order.map_impl", "aten.relu.default"]
    (body,) = region.graph.first.bodies()
    assert [each.op_type for each in body] == ["aten.mul.Tensor", "aten.alias.default"]
    assert body.last.operands == [region.w]
    assert body.outputs == [body.last.output]


def test_unbatched_nodes_stay_outside_the_map():
    region = Region()
    outside = region.put("aten.neg.default", region.w, fact=WHOLE, before=region.leave).output
    product = region.made.producer
    region.graph.move_before(product, outside.producer)
    product.set_input(1, outside)
    assert region.mapped() == ["aten.neg.default", "higher_order.map_impl", "aten.relu.default"]


@pytest.mark.parametrize(("source", "target"), [(True, 0), (None, 0), (0, None), (0, False), ("0", 0)])
def test_an_axis_that_is_no_number_leaves_the_region(source, target):
    region = Region(source, target)
    before = [each.op_type for each in region.graph]
    assert region.mapped() == before


def test_markers_without_slices_and_without_their_end_stay():
    region = Region()
    region.graph.remove(region.leave)
    before = [each.op_type for each in region.graph]
    assert region.mapped() == before
    region = Region()
    region.graph.remove(region.enter)
    before = [each.op_type for each in region.graph]
    assert region.mapped() == before
    region = Region()
    region.enter.restate(region.enter.op_type, "custom", {})
    before = [each.op_type for each in region.graph]
    assert region.mapped() == before
    region = Region()
    (added,) = [each for each in region.graph if each.op_type.endswith("_add_batch_dim")]
    added.restate("aten.relu.default", "pytorch", {})
    before = [each.op_type for each in region.graph]
    assert region.mapped() == before


def test_a_region_in_a_region_is_a_map_in_a_map():
    region = Region()
    enter = region.put(f"{SPACE}_vmap_increment_nesting", results=0, before=region.made.producer)
    inner = region.put(
        f"{SPACE}_add_batch_dim",
        region.slice,
        fact=TensorFact(DType.FLOAT32, ()),
        before=region.made.producer,
        **{"1": 0, "2": 2},
    ).output
    region.made.producer.set_input(0, inner)
    (removed,) = [each for each in region.graph if each.op_type.endswith("_remove_batch_dim")]
    whole = region.put(
        f"{SPACE}_remove_batch_dim", region.made, fact=SLICE, before=removed, **{"1": 2, "2": 2, "3": 0}
    ).output
    region.put(f"{SPACE}_vmap_decrement_nesting", results=0, before=removed)
    removed.set_input(0, whole)
    assert region.mapped() == ["higher_order.map_impl", "aten.relu.default"]
    (body,) = region.graph.first.bodies()
    assert [each.op_type for each in body] == ["higher_order.map_impl"]
    (innermost,) = body.first.bodies()
    assert [each.op_type for each in innermost] == ["aten.mul.Tensor"]
    assert enter.graph is None


def test_branch_is_mapped_only_if_it_reads_a_slice():
    for read in ("slice", "w", "both"):
        region = Region()
        body = Graph("branch")
        region.graph.share_names(body)
        values = {"slice": [region.slice], "w": [region.w], "both": [region.w, region.slice]}[read]
        made = Value(region.graph.fresh("v"), SLICE)
        body.append(Node("aten.cat.default", values, [made], {}, dialect="pytorch"))
        body.add_output(made)
        product = region.made.producer
        branch = region.put("higher_order.cond", region.w, fact=SLICE, before=product, **{"1": body}).output
        product.set_input(1, branch)
        words = region.mapped()
        inside = ["higher_order.map_impl", "aten.relu.default"]
        assert words == (inside if read != "w" else ["higher_order.cond", *inside])
        (slices,) = next(each for each in region.graph if each.op_type == "higher_order.map_impl").bodies()
        assert [each.op_type for each in slices] == ["higher_order.cond", "aten.mul.Tensor"][read == "w" :]


def test_nodes_that_depend_on_a_slice_are_mapped():
    region = Region()
    product = region.made.producer
    both = region.put("aten.split.Tensor", region.slice, fact=SLICE, results=2, before=product)
    last = region.put("aten.neg.default", both.results[1], fact=SLICE, before=product).output
    product.set_input(0, last)
    assert region.mapped() == ["higher_order.map_impl", "aten.relu.default"]
    (body,) = region.graph.first.bodies()
    assert [each.op_type for each in body] == ["aten.split.Tensor", "aten.neg.default", "aten.mul.Tensor"]
    assert [len(each.results) for each in body] == [2, 1, 1]
