"""Symbolic dims that depend on each other without a node that relates them: runs determine them for two sizes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

import graphport as gp
from graphport.runtimes.inputs import open_axes
from graphport.runtimes.relations import candidates, completed, search
from tests.models import write_onnx
from tests.passes.cases import info, model, node, some

I64 = TensorProto.INT64
TABLES = {"embedding": some(9, 4), "zero": np.array(0), "one": np.array(1), "last": np.array([2])}


def covered(mask: str, length: str, by: str) -> list[onnx.NodeProto]:
    """Return nodes that gather the elements of a mask below a length, so that a shorter mask is out of bounds.

    For shape inference, the length depends on the elements of the mask.
    """
    return [
        node("ReduceSum", mask, f"{by}_sum", keepdims=0),
        node("Mul", f"{by}_sum zero", f"{by}_nothing"),
        node("Add", f"{length} {by}_nothing", f"{by}_number"),
        node("Range", f"zero {by}_number one", f"{by}_places"),
        node("Gather", f"{mask} {by}_places", f"{by}_whole", axis=1),
        node("Cast", f"{by}_whole", f"{by}_real", to=TensorProto.FLOAT),
        node("Unsqueeze", f"{by}_real last", by),
    ]


def decoder(caches: tuple[str, ...] = ("P",), more: int = 0) -> onnx.ModelProto:
    """Return a decoder with a cache and an attention mask, which is `more` longer than required."""
    names = [f"past{index}" for index in range(len(caches))]
    nodes = [
        node("Gather", "embedding ids", "x0"),
        node("Shape", "past0", "past_shape"),
        node("Gather", "past_shape one", "length_of_past"),
        node("Shape", "ids", "ids_shape"),
        node("Gather", "ids_shape one", "tokens"),
        node("Add", "length_of_past tokens", "least_total"),
        node("Add", "least_total more", "total"),
        *covered("mask", "total", "counted"),
        node("ReduceSum", "counted one_axis", "number", keepdims=1),
    ]
    for index, name in enumerate(names):
        nodes += [
            node("Mul", f"x{index} number", f"x{index + 1}"),
            node("Concat", f"{name} x{index + 1}", f"present{index}", axis=1),
        ]
    inputs = [info("ids", ["B", "T"], I64), info("mask", ["B", "M"], I64)]
    inputs += [info(name, ["B", length, 4]) for name, length in zip(names, caches, strict=True)]
    outputs = [info(f"present{index}", None) for index in range(len(names))]
    return model(nodes, inputs, outputs, TABLES | {"more": np.array(more), "one_axis": np.array([1])})


def test_mask_length_relation_is_inferred_from_runs(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", decoder())
    proof = gp.convert(path, tmp_path / "net.xml").proof
    assert proof.passed
    assert proof.relations == ("M = P+T",)
    assert all(sizes["M"] == sizes["P"] + sizes["T"] for sizes in proof.sizes)
    assert len({sizes["T"] for sizes in proof.sizes}) >= 2
    assert len({sizes["P"] for sizes in proof.sizes}) >= 2
    assert "sizes (M = P+T, taken from what runs)" in proof.sentence
    assert proof.as_json()["relations"] == ["M = P+T"]


def test_dims_without_relation_get_no_constraint(tmp_path):
    nodes = [node("Gather", "embedding ids", "x"), node("Concat", "past x", "y", axis=1)]
    inputs = [info("ids", ["B", "T"], I64), info("past", ["B", "P", 4])]
    path = write_onnx(tmp_path / "net.onnx", model(nodes, inputs, [info("y", None)], {"embedding": some(9, 4)}))
    proof = gp.verify(path, path)
    assert len(proof.sizes) >= 2
    assert proof.relations == ()


def test_sizes_without_relation_limit_the_tested_sizes(tmp_path):
    # The mask has eight entries more: the eight of a first try do, but no others.
    path = write_onnx(tmp_path / "net.onnx", decoder(more=6))
    proof = gp.verify(path, path)
    assert proof.passed
    assert len(proof.sizes) == 1 or proof.sizes[0]["M"] >= 8
    assert proof.relations == ()


def test_two_size_relations_are_found_together(tmp_path):
    # An encoder's mask has the length of its input; the decoder's also covers the cache.
    proto = decoder()
    body = proto.graph
    body.node.extend(
        [
            node("Shape", "seen", "seen_shape"),
            node("Gather", "seen_shape one", "seen_length"),
            *covered("seen_mask", "seen_length", "attended"),
            node("Mul", "seen attended", "z"),
        ]
    )
    body.input.extend([info("seen_mask", ["B", "N"], I64), info("seen", ["B", "S", 4])])
    body.output.append(info("z", None))
    path = write_onnx(tmp_path / "net.onnx", proto)
    proof = gp.verify(path, path)
    assert proof.relations == ("M = P+T", "N = S")
    assert len(proof.sizes) >= 2
    assert "(M = P+T and 1 more (--json lists all), taken from what runs)" in proof.sentence


def test_size_relation_may_contain_a_constant_offset(tmp_path):
    proto = decoder()
    proto.graph.input[0].CopyFrom(info("ids", ["B", 1], I64))
    read = gp.load(write_onnx(tmp_path / "net.onnx", proto)).graph
    free = open_axes(read)[1]
    found = search(read, free, {"B": 3, "M": 7, "P": 5}, [], lambda tried: tried["M"] == tried["P"] + 1)
    assert {name: str(dim) for name, dim in found.items()} == {"M": "P+1"}


def test_broadcast_operands_compare_equal(tmp_path):
    nodes = [node("Add", "a b", "c"), node("Concat", "c d", "y", axis=0), node("Mul", "y e", "z")]
    lengths = {"a": ["A"], "b": ["B"], "d": ["D"], "e": ["E"]}
    proto = model(nodes, [info(name, shape) for name, shape in lengths.items()], [info("z", None)])
    read = gp.load(write_onnx(tmp_path / "net.onnx", proto)).graph
    free = dict(read.extents.declared)
    first = next(candidates(read, free))
    assert {name: str(dim) for name, dim in first.items()} == {"B": "A", "E": "A+D"}


def test_caches_of_equal_shape_get_equal_lengths(tmp_path):
    proto = decoder(("P", "Q", "R", "S", "U", "V"))
    read = gp.load(write_onnx(tmp_path / "net.onnx", proto)).graph
    free = open_axes(read)[1]
    sizes = {"B": 3, "T": 7, "M": 2} | {name: 11 + index for index, name in enumerate("PQRSUV")}
    asked = []

    def runs(tried):
        asked.append(tried)
        return tried["M"] == tried["P"] + tried["T"] and len({tried[name] for name in "PQRSUV"}) == 1

    found = search(read, free, sizes, [sizes], runs)
    assert {name: str(dim) for name, dim in found.items()} == {"M": "P+T"} | dict.fromkeys("QRSUV", "P")
    assert len(asked) <= 5


def test_candidate_relations_are_unique_and_consistent(tmp_path):
    read = gp.load(write_onnx(tmp_path / "net.onnx", decoder(("P", "Q", "R")))).graph
    free = open_axes(read)[1]
    sizes = dict.fromkeys(free, 5) | {"B": 3}
    every = list(candidates(read, free))
    assert len(every) > 50
    assert all(every.index(relations) == index for index, relations in enumerate(every))
    for relations in every:
        found = completed(relations, sizes)
        assert completed(relations, found) == found


def test_many_caches_are_no_reason_to_try_without_end(tmp_path):
    lengths = tuple(f"L{index}" for index in range(80))
    read = gp.load(write_onnx(tmp_path / "net.onnx", decoder(lengths))).graph
    free = open_axes(read)[1]
    assert len(list(candidates(read, free))) <= 400


def test_no_window_is_larger_than_the_image_of_a_proof(tmp_path):
    # ONNX Runtime computes such a pooling with `ceil_mode`, and OpenVINO refuses it.
    for op in ("AveragePool", "MaxPool"):
        pool = node(op, "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        proto = model([pool], [info("x", ["N", 3, "H", "W"])], [info("y", None)], opset=19)
        proof = gp.convert(write_onnx(tmp_path / f"{op}.onnx", proto), tmp_path / f"{op}.xml").proof
        assert proof is not None
        assert proof.passed, proof
        assert len(proof.sizes) >= 2
        assert all(sizes["H"] > 1 and sizes["W"] > 1 for sizes in proof.sizes)
