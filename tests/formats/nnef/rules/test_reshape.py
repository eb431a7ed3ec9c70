"""Reshaping in NNEF: what its words mean, and that saying a page in it keeps the meaning."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.core.dims import Symbol
from graphport.core.facts import TensorFact
from graphport.ops import operator_manual
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Identity,
    Reshape,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from graphport.ops.infer import Inference
from tests.ops.oracle import compare, run_word, there_and_back

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)

RESHAPES = [
    ((6, 20), 0, -1, (6, 20)),
    ((0, -1), 0, -1, (2, 60)),
    ((-1,), 1, 2, (2, 12, 5)),
    ((2, 2), 2, 1, (2, 3, 2, 2, 5)),
    ((0, -1, 2), 1, 2, (2, 3, 2, 2, 5)),
    ((1,), 2, 0, (2, 3, 1, 4, 5)),
    ((-1,), 0, 4, (120,)),
    ((2, 3, 4, 5), 0, -1, (2, 3, 4, 5)),
    ((-1, 10), 2, -1, (2, 3, 2, 10)),
]


@pytest.mark.parametrize(("shape", "start", "count", "expected"), RESHAPES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_reshape_replaces_a_range_of_axes(shape, start, count, expected, symbolic):
    found = run_word("nnef", "reshape", [X], symbolic=symbolic, shape=shape, axis_start=start, axis_count=count)[0]
    compare(found, X.reshape(expected))


def test_reshape_takes_an_extent_that_is_open():
    x = np.zeros((4, 6), np.float32)
    n = Symbol("i0_0")
    found = run_word("nnef", "reshape", [x], symbolic=True, shape=(n, 2, 3), axis_start=0, axis_count=-1)[0]
    assert found.shape == (4, 2, 3)


def test_reshape_refuses_what_does_not_fit():
    with pytest.raises(ShapeError, match="exceed the rank 4"):
        run_word("nnef", "reshape", [X], shape=(1,), axis_start=3, axis_count=2)
    with pytest.raises(ShapeError, match="12 elements do not fill"):
        run_word("nnef", "reshape", [X], shape=(5,), axis_start=1, axis_count=2)
    n, m = Symbol("A"), Symbol("B")
    with pytest.raises(UnsupportedError, match="more than one unknown extent in the result"):
        run_word("nnef", "reshape", [X], symbolic=True, shape=(n, m), axis_start=0, axis_count=-1)


@pytest.mark.parametrize("symbolic", [False, True])
def test_squeeze_and_unsqueeze(symbolic):
    x = X[:, :1, :, :1]
    compare(run_word("nnef", "squeeze", [x], symbolic=symbolic, axes=(1, 3))[0], x[:, 0, :, 0])
    compare(run_word("nnef", "squeeze", [x], symbolic=symbolic, axes=())[0], x)
    compare(run_word("nnef", "unsqueeze", [X], symbolic=symbolic, axes=(3, 0))[0], X[None, :, :, None])
    with pytest.raises(ShapeError, match="axis -1 is out of range"):
        run_word("nnef", "squeeze", [x], axes=(-1,))
    with pytest.raises(ShapeError, match="axis 6 is out of range"):
        run_word("nnef", "unsqueeze", [X], axes=(0, 6))


def test_transpose_leaves_the_last_axes():
    compare(run_word("nnef", "transpose", [X], axes=(1, 0))[0], X.transpose(1, 0, 2, 3))
    compare(run_word("nnef", "transpose", [X], axes=(3, 1, 0, 2))[0], X.transpose(3, 1, 0, 2))


@pytest.mark.parametrize("symbolic", [False, True])
def test_concat_and_stack(symbolic):
    compare(run_word("nnef", "concat", [X, X, X], symbolic=symbolic, axis=1)[0], np.concatenate([X, X, X], 1))
    for axis in (0, 2, 4):
        compare(run_word("nnef", "stack", [X, X + 1], symbolic=symbolic, axis=axis)[0], np.stack([X, X + 1], axis))
    with pytest.raises(ShapeError, match="axis 5 is out of range"):
        run_word("nnef", "stack", [X], axis=5)
    with pytest.raises(ShapeError, match="axis 4 is out of range"):
        run_word("nnef", "concat", [X], axis=4)


@pytest.mark.parametrize("axis", [0, 1, 3])
@pytest.mark.parametrize("symbolic", [False, True])
def test_unstack_takes_entries_apart(axis, symbolic):
    parts = run_word("nnef", "unstack", [X], symbolic=symbolic, outputs=X.shape[axis], axis=axis)
    assert len(parts) == X.shape[axis]
    for place, part in enumerate(parts):
        compare(part, np.take(X, place, axis))


def test_unstack_of_one_entry():
    (part,) = run_word("nnef", "unstack", [X[:1]], axis=0)
    compare(part, X[0])


@pytest.mark.parametrize(("ratios", "symbolic"), [((1, 3), False), ((1, 1), False), ((1, 1), True), ((2, 1, 1), False)])
def test_split_is_in_proportion(ratios, symbolic):
    parts = run_word("nnef", "split", [X], symbolic=symbolic, outputs=len(ratios), axis=2, ratios=ratios)
    for part, expected in zip(parts, np.split(X, np.cumsum(ratios)[:-1] * (4 // sum(ratios)), 2), strict=True):
        compare(part, expected)


def test_split_refuses_what_does_not_part():
    for ratios in ((1, 2), (), (0, 4)):
        with pytest.raises(ShapeError, match="do not divide an extent of 4"):
            run_word("nnef", "split", [X], axis=2, ratios=ratios)
    with pytest.raises(UnsupportedError, match="of an unknown extent"):
        run_word("nnef", "split", [X], symbolic=True, axis=2, ratios=(1, 3))


def test_tile_repeats():
    compare(run_word("nnef", "tile", [X], symbolic=True, repeats=(1, 2, 1, 3))[0], np.tile(X, (1, 2, 1, 3)))
    with pytest.raises(ShapeError, match="2 repeats for a tensor of rank 4"):
        run_word("nnef", "tile", [X], repeats=(1, 2))
    with pytest.raises(UnsupportedError, match="an unknown extent"):
        run_word("nnef", "tile", [X], repeats=(1, Symbol("N"), 1, 1))


# Export rules


@pytest.mark.parametrize("target", [[6, 20], [0, -1], [-1], [0, 0, 20], [2, 3, 4, 5, 1]])
def test_exporting_reshape_preserves_its_semantics(target):
    assert there_and_back(Reshape, [X, np.array(target)], constants=(1,)) == ["reshape"]
    assert there_and_back(Reshape, [X, np.array(target)], constants=(1,), symbolic=-1 in target)


def test_exporting_reshape_to_a_shape_of_dims():
    from graphport.conversion.export import export_graph
    from graphport.conversion.legalize import legalize
    from graphport.core.dtypes import DType
    from graphport.ir.graph import Graph
    from graphport.ops.builder import Builder
    from graphport.ops.definitions.arithmetic import Mul
    from graphport.ops.definitions.reshape import Shape

    graph = Graph("one")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N", 1), 4, Symbol("M", 1))))
    b = Builder(Inference(), graph)
    batch = b(Shape, x, start=0, end=1)
    rest = b(Mul, b(Shape, x, start=2, end=3), b.constant(np.array([4])))
    graph.add_output(b(Reshape, x, b(Concat, batch, rest, axis=0)))
    said, findings = export_graph(graph, "nnef")
    assert not findings
    assert [node.attributes["shape"] for node in said if node.op_type == "reshape"] == [(0, -1)]
    back, findings = legalize(said)
    assert not findings
    assert str(back.outputs[0].fact) == "float32[N, 4*M]"


def test_shapes_that_reshape_cannot_express():
    assert there_and_back(Reshape, [X, np.array([6, 20])]) is None
    empty = np.zeros((2, 0), np.float32)
    assert there_and_back(Reshape, [empty, np.array([0, 4])], constants=(1,), allowzero=1) is None


@pytest.mark.parametrize("axis", range(-4, 5))
@pytest.mark.parametrize("symbolic", [False, True])
def test_exporting_flatten_preserves_its_semantics(axis, symbolic):
    assert there_and_back(Flatten, [X], axis=axis, symbolic=symbolic)


@pytest.mark.parametrize("axes", [None, [1], [-1, 1]])
def test_exporting_squeeze_preserves_its_semantics(axes):
    x = X[:, :1, :, :1]
    assert there_and_back(Squeeze, [x, None if axes is None else np.array(axes)], constants=(1,)) == ["squeeze"]
    assert there_and_back(Squeeze, [x], symbolic=True) is None
    assert there_and_back(Squeeze, [x, np.array([1])]) is None


@pytest.mark.parametrize("axes", [[0], [-1, 1], [2, 0]])
def test_exporting_unsqueeze_preserves_its_semantics(axes):
    assert there_and_back(Unsqueeze, [X, np.array(axes)], constants=(1,), symbolic=True) == ["unsqueeze"]
    assert there_and_back(Unsqueeze, [X, np.array(axes)]) is None


@pytest.mark.parametrize("perm", [None, (3, 1, 0, 2)])
def test_exporting_transpose_preserves_its_semantics(perm):
    assert there_and_back(Transpose, [X], perm=perm, symbolic=True) == ["transpose"]
    assert there_and_back(Identity, [X]) == ["copy"]


@pytest.mark.parametrize("axis", [1, -3])
def test_exporting_concat_preserves_its_semantics(axis):
    assert there_and_back(Concat, [X, X, X], axis=axis, symbolic=True) == ["concat"]


def test_exporting_split_preserves_its_semantics():
    assert there_and_back(Split, [X, np.array([2, 2])], constants=(1,), axis=2, outputs=2) == ["split"]
    assert there_and_back(Split, [X, np.array([1, 3])], constants=(1,), axis=-2, outputs=2) == ["split"]
    assert there_and_back(Split, [X, None], axis=1, num_outputs=3, outputs=3) == ["split"]
    assert there_and_back(Split, [X, None], axis=1, num_outputs=2, outputs=2) is None
    assert there_and_back(Split, [X, None], axis=1, num_outputs=3, outputs=3, symbolic=True) is None
    assert there_and_back(Split, [X, np.array([2, 2])], axis=2, outputs=2) is None
    assert there_and_back(Split, [X, np.array([0, 4])], constants=(1,), axis=2, outputs=2) is None


def test_exporting_tile_preserves_its_semantics():
    assert there_and_back(Tile, [X, np.array([1, 2, 1, 1])], constants=(1,), symbolic=True) == ["tile"]
    assert there_and_back(Tile, [X, np.array([1, 0, 1, 1])], constants=(1,)) is None
    assert there_and_back(Tile, [X, np.array([1, 2, 1, 1])]) is None


@pytest.mark.parametrize(("shape", "target"), [((3, 1), [2, 3, 4]), ((3, 1), [3, 1]), ((2, 3), [1]), ((1,), [5])])
def test_exporting_expand_preserves_its_semantics(shape, target):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert there_and_back(Expand, [x, np.array(target)], constants=(1,))
    assert there_and_back(Expand, [x, np.array(target)]) is None


def test_scalars_are_copied():
    # tract cannot join the repeats along no axis to a list.
    nothing = np.array([], np.int64)
    assert there_and_back(Expand, [np.array(3, np.float32), nothing], constants=(1,)) == ["copy"]
    assert there_and_back(Tile, [np.array(3, np.float32), nothing], constants=(1,)) == ["copy"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_exporting_blocks_keeps_their_meaning(mode):
    x = np.arange(2 * 12 * 2 * 3, dtype=np.float32).reshape(2, 12, 2, 3)
    assert there_and_back(DepthToSpace, [x], blocksize=2, mode=mode)
    assert there_and_back(SpaceToDepth, [x.reshape(2, 2, 6, 6)], blocksize=2)
    assert there_and_back(SpaceToDepth, [x.reshape(2, 2, 6, 6)], blocksize=2, symbolic=True)


def test_every_op_type_has_one_way():
    assert {"reshape", "squeeze", "concat", "stack", "unstack", "tile"} <= set(operator_manual.registered("nnef"))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_size_that_an_open_size_divides_is_refused(tmp_path, is_open):
    """tract 0.23.9 rejects `reshape(x, shape = [(M/N), (N)])` and `[-1, (N)]` with "Can't divide M by N"."""
    nodes = [
        helper.make_node("Shape", ["z"], ["n"]),
        helper.make_node("Concat", ["rest", "n"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    sizes = [("x", ["M"]), ("z", ["N" if is_open else 3])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])]
    rest = numpy_helper.from_array(np.array([-1]), "rest")
    model = helper.make_model(
        helper.make_graph(nodes, "net", inputs, outputs, [rest]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    report = gp.convert(model, tmp_path / "net.nnef.tgz", verify=False)
    reasons = [each.message for each in report.findings if "only by constants" in each.message]
    assert bool(reasons) == bool(report.unsupported) == is_open
