"""Fusion of adjacent operators into layers: products and sums, pads, joined axes."""

from __future__ import annotations

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.passes.form_gemm import form_gemm
from graphport.passes.fuse_bias import fuse_bias
from graphport.passes.fuse_pads import fuse_pads
from graphport.passes.journal import Journal
from graphport.passes.unflatten_products import unflatten_products
from tests.passes.alone import done, read, reasons
from tests.passes.cases import F, bn, node, norm, some


def test_matmul_and_add_form_a_gemm():
    matrix, rest = (("x", (3, 4)),), {"w": some(4, 6)}
    product = node("MatMul", "x w", "h")
    for c, is_one in (
        ((6,), 1),
        ((1, 6), 1),
        ((3, 6), 1),
        ((3, 1), 1),
        ((1,), 1),
        ((), 0),
        ((2, 3, 6), 0),
        ((1, 3, 6), 0),
    ):
        for operands in ("h c", "c h"):
            ops, journal = done(
                form_gemm,
                [product, node("Add", operands, "y")],
                matrix,
                exact=False,
                dtypes={"c": F},
                c=some(*c),
                **rest,
            )
            assert ops == (["Gemm"] if is_one else ["MatMul", "Add"])
            assert [note.text for note in journal.done] == (["fused with y to a Gemm"] if is_one else [])
    grows = [product, node("Add", "h c", "y")]
    ops, journal = done(form_gemm, grows, (("x", (1, 4)),), exact=False, c=some(3, 6), **rest)
    assert (ops, len(journal.left)) == (["MatMul", "Add"], 1)
    ops, journal = done(form_gemm, grows, matrix, outputs=("y", "h"), c=some(6), **rest)
    assert (ops, reasons(journal)) == (["MatMul", "Add"], ["h has another consumer"])
    for inputs, given in (
        ((("x", (2, 3, 4)),), {"c": some(6), **rest}),
        ((("x", (3, 4)), ("w", (4, 6))), {"c": some(6)}),
        ((("x", (3, 4)), ("z", (6,))), rest),
    ):
        nodes = [product, node("Add", "h z" if "c" not in given else "h c", "y")]
        assert done(form_gemm, nodes, inputs, **given)[0] == ["MatMul", "Add"]
    assert done(form_gemm, [node("Relu", "x", "h"), node("Add", "h c", "y")], c=some(4))[0] == ["Relu", "Add"]


def test_addends_that_become_a_bias():
    conv, w = node("Conv", "x w", "h"), {"w": some(5, 3, 2)}
    for op, operands in (("Add", "h c"), ("Add", "c h"), ("Sub", "h c"), ("Sub", "c h")):
        ops, journal = done(fuse_bias, [conv, node(op, operands, "y")], exact=False, c=some(5, 1), **w)
        assert ops == ["Conv"]
        assert [note.text for note in journal.done] == ["folded into the bias of Conv"]
    for c in ((3,), (2, 1, 1), (1, 1, 3)):
        ops, journal = done(fuse_bias, [conv, node("Add", "h c", "y")], c=some(*c), **w)
        assert (ops, len(journal.left)) == (["Conv", "Add"], 1)
    ops, journal = done(fuse_bias, [conv, node("Add", "h c", "y")], outputs=("y", "h"), c=some(5, 1), **w)
    assert (ops, reasons(journal)) == (["Conv", "Add"], ["h has another consumer"])
    assert (
        done(fuse_bias, [node("MatMul", "x w", "h"), node("Add", "h c", "y")], c=some(2), w=some(4, 2))[0][0]
        == "MatMul"
    )
    assert done(fuse_bias, [conv, node("Add", "h h", "y")], **w)[0] == ["Conv", "Add"]
    assert done(fuse_bias, [bn("x", "h"), node("Add", "h c", "y")], exact=False, c=some(3, 1), **norm(3))[0] == [
        "BatchNormalization"
    ]


def test_gemm_fuses_a_bias_that_keeps_its_result_shape():
    gemm, rest = node("Gemm", "x w", "h"), {"w": some(4, 6)}
    for c, is_one in (((6,), 1), ((3, 6), 1), ((3, 1), 1), ((), 1), ((1, 3, 6), 0), ((2, 3, 6), 0)):
        ops, journal = done(
            fuse_bias, [gemm, node("Add", "h c", "y")], (("x", (3, 4)),), exact=False, c=some(*c), **rest
        )
        assert ops == (["Gemm"] if is_one else ["Gemm", "Add"])
        assert len(journal.left) == 1 - is_one
    ops, _ = done(fuse_bias, [gemm, node("Sub", "h c", "y")], (("x", (3, 4)),), exact=False, c=some(6), **rest)
    assert ops == ["Gemm"]
    for fact in (UNKNOWN, TensorFact(DType.FLOAT32, None)):
        graph, journal = read([gemm, node("Add", "h c", "y")], (("x", (3, 4)),), c=some(6), **rest), Journal()
        graph.first.output.fact = fact
        fuse_bias(graph, journal)
        assert reasons(journal) == ["the shape of h is unknown"]


def test_pads_of_a_convolution():
    conv = node("Conv", "h w", "y")
    for pads, reason in (
        ([0, 0, 1, 0, 0, 2], None),
        ([0, 0, 0, 0, 0, 0], None),
        ([1, 0, 0, 0, 0, 0], "it crops"),
        ([0, 1, 0, 0, 0, 0], "it crops"),
        ([0, 0, 0, 1, 0, 0], "it crops"),
        ([0, 0, 0, 0, 1, 0], "it crops"),
        ([0, 0, -1, 0, 0, 2], "it crops"),
    ):
        channels = 3 + pads[1] + pads[4]
        ops, journal = done(fuse_pads, [node("Pad", "x p", "h"), conv], exact=False, p=pads, w=some(5, channels, 2))
        assert ops == (["Conv"] if reason is None else ["Pad", "Conv"])
        assert [text[: len(reason or "")] for text in reasons(journal)] == ([] if reason is None else [reason])
    graph = read(
        [node("Pad", "x p", "h"), node("Conv", "h w", "y", pads=[3, 4])],
        p=np.array([0, 0, 1, 0, 0, 2]),
        w=some(5, 3, 2),
    )
    fuse_pads(graph, Journal())
    assert graph.last.attributes["pads"] == (4, 6)


def test_a_product_of_joined_axes_with_another_consumer_is_unchanged():
    nodes = [
        node("Reshape", "x f", "r"),
        node("MatMul", "r w", "p"),
        node("Add", "p b", "a"),
        node("Reshape", "a s", "y"),
    ]
    constants = {"f": [-1, 4], "w": some(4, 5), "b": some(5), "s": [2, 3, 5]}
    assert done(unflatten_products, nodes, exact=False, **constants)[0] == ["MatMul", "Add"]
    for name in ("p", "a"):
        ops, _ = done(unflatten_products, nodes, outputs=("y", name), exact=False, **constants)
        assert ops == ["Reshape", "MatMul", "Add", "Reshape"]
    for b in (some(6, 5), some(1, 5), np.float32(2)):
        ops, _ = done(unflatten_products, nodes, exact=False, **(constants | {"b": b}))
        assert ops == ["Reshape", "MatMul", "Add", "Reshape"]
    plain = [nodes[0], nodes[1], node("Reshape", "p s", "y")]
    assert done(unflatten_products, plain, exact=False, **constants)[0] == ["MatMul"]
    assert done(unflatten_products, plain, outputs=("y", "p"), exact=False, **constants)[0] == [
        "Reshape",
        "MatMul",
        "Reshape",
    ]
    for s in ([3, 2, 5], [6, 5], [1, 6, 5], [2, 3, 1, 5]):
        ops, _ = done(unflatten_products, plain, exact=False, **(constants | {"s": s}))
        assert ops == ["Reshape", "MatMul", "Reshape"]
    for f, w, s in (
        ([6, 4], some(4, 5), [2, 3, 5]),
        ([8, 3], some(3, 5), [2, 4, 5]),
        ([-1, 2, 4], some(4, 5), [2, 3, 5]),
    ):
        ops, _ = done(unflatten_products, plain, exact=False, f=f, w=w, s=s)
        assert (ops == ["MatMul"]) is (f == [6, 4])
