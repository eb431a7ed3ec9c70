"""Words of `ai.onnx.ml` as the reference computes them, against ONNX Runtime, with attributes drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RNG = np.random.default_rng(11)
TEXTS = ["a", "b", "c", "d"]
BRANCHES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def both(
    folder: Path, op_type: str, inputs: Sequence[np.ndarray], outputs: int = 1, version: int = 3, **said: Any
) -> None:
    names = [f"x{place}" for place in range(len(inputs))]
    is_kept = said.pop("is_kept", True)
    node = helper.make_node(op_type, names, [f"y{n}" for n in range(outputs)], domain="ai.onnx.ml", **said)
    given = [
        helper.make_tensor_value_info(
            name, TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
        )
        for name, x in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph(
        [node], "net", given, [helper.make_empty_tensor_value_info(f"y{n}") for n in range(outputs)]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    (folder / "m.onnx").write_bytes(content)
    feeds = dict(zip(names, inputs, strict=True))
    wanted = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feeds)
    loaded = gp.load(folder / "m.onnx")
    assert is_kept or all(not each.dialect for each in loaded.graph)
    found = gp.run(loaded, feeds, backend="reference").ordered
    assert len(found) == len(wanted) == outputs
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, list):
            for ours, theirs in zip(a, b, strict=True):
                assert ours == pytest.approx(theirs)
        elif b.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, np.asarray(b), rtol=2e-5, atol=1e-6)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def test_scaling_and_selection(tmp_path):
    x = floats(5, 4)
    both(tmp_path, "Scaler", [x], offset=floats(4).tolist(), scale=floats(4).tolist(), is_kept=False)
    both(tmp_path, "Scaler", [x.astype(np.float64)], offset=[0.5], scale=[2.0], is_kept=False)
    for norm in ("MAX", "L1", "L2"):
        both(tmp_path, "Normalizer", [x], norm=norm)
    both(tmp_path, "Binarizer", [x], threshold=0.25, is_kept=False)
    both(tmp_path, "ArrayFeatureExtractor", [x, np.array([[3, 0, 0]])], is_kept=False)
    both(tmp_path, "ArrayFeatureExtractor", [x[0], np.array([1, 2])], is_kept=False)
    both(tmp_path, "FeatureVectorizer", [x, floats(5, 2)], inputdimensions=[4, 2], is_kept=False)
    holes = x.copy()
    holes[1, 2] = holes[0, 0] = np.nan
    both(
        tmp_path,
        "Imputer",
        [holes],
        imputed_value_floats=floats(4).tolist(),
        replaced_value_float=float("nan"),
        is_kept=False,
    )
    both(
        tmp_path,
        "Imputer",
        [np.array([[0, 1], [2, 0]])],
        imputed_value_int64s=[7],
        replaced_value_int64=0,
        is_kept=False,
    )


def test_labels(tmp_path):
    texts = np.array([["a", "d"], ["b", "x"]], object)
    both(tmp_path, "OneHotEncoder", [texts], cats_strings=TEXTS, zeros=1)
    both(tmp_path, "OneHotEncoder", [np.array([3, 1, 9])], cats_int64s=[1, 3], zeros=1, is_kept=False)
    both(tmp_path, "LabelEncoder", [texts], version=2, keys_strings=TEXTS, values_int64s=[4, 3, 2, 1], default_int64=9)
    both(tmp_path, "LabelEncoder", [texts], version=2, keys_strings=TEXTS, values_floats=[0.1, 0.2, 0.3, 0.4])
    both(tmp_path, "LabelEncoder", [np.array([5, 6])], version=2, keys_int64s=[6], values_strings=["six"])
    numbers = np.array([[5, 6], [7, 6]])
    both(tmp_path, "LabelEncoder", [numbers], version=2, keys_int64s=[7, 6], values_int64s=[1, 2], is_kept=False)
    both(tmp_path, "LabelEncoder", [numbers], version=2, keys_int64s=[7, 6], values_floats=[0.5, 2.0], is_kept=False)
    both(tmp_path, "LabelEncoder", [texts], version=1, classes_strings=TEXTS)
    both(tmp_path, "ZipMap", [floats(3, 2)], version=1, classlabels_strings=["p", "q"])
    both(tmp_path, "ZipMap", [floats(3, 2)], version=1, classlabels_int64s=[5, 4])


def test_an_entry_that_is_no_category_is_reported(tmp_path):
    with pytest.raises(DiagnosticError, match="not one of the categories"):
        _only(tmp_path)


def _only(folder: Path) -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_int64s=[1], zeros=0)
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [1])
    graph = helper.make_graph([node], "net", [x], [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    (folder / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    gp.run(gp.load(folder / "m.onnx"), {"x": np.array([2])}, backend="reference")


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(tmp_path, transform):
    x = floats(6, 4)
    for classes in (2, 3):
        said: dict[str, Any] = {"coefficients": floats(classes * 4).tolist(), "intercepts": floats(classes).tolist()}
        both(
            tmp_path,
            "LinearClassifier",
            [x],
            2,
            1,
            classlabels_ints=[4, 9, 1][:classes],
            is_kept=False,
            post_transform=transform,
            **said,
        )
        both(
            tmp_path,
            "LinearClassifier",
            [x],
            2,
            1,
            classlabels_strings=TEXTS[:classes],
            post_transform=transform,
            **said,
        )
        both(tmp_path, "LinearRegressor", [x], 1, 1, targets=classes, is_kept=False, **said)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "SIGMOID", "RBF"])
def test_regression_by_support_vectors(tmp_path, kernel):
    said: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.3, 0.1, 2.0], "rho": [0.5]}
    vectors: dict[str, Any] = {"support_vectors": floats(12).tolist(), "n_supports": 3}
    both(
        tmp_path,
        "SVMRegressor",
        [floats(6, 4)],
        1,
        1,
        coefficients=floats(3).tolist(),
        is_kept=False,
        **vectors,
        **said,
    )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF"])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_classification_by_support_vectors(tmp_path, kernel, classes):
    counts = [3, 2, 4, 1][:classes]
    said: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.3, 0.1, 2.0], "vectors_per_class": counts}
    said |= {"rho": floats(classes * (classes - 1) // 2).tolist(), "support_vectors": floats(sum(counts) * 4).tolist()}
    said["coefficients"] = floats((classes - 1) * sum(counts)).tolist()
    for labels in ({"classlabels_ints": [7, 3, 5, 1][:classes]}, {"classlabels_strings": TEXTS[:classes]}):
        both(tmp_path, "SVMClassifier", [floats(9, 4)], 2, 1, is_kept=False, **labels, **said)


def ensemble(kind: str, count: int, trees: int, *, is_positive: bool = False) -> dict[str, Any]:
    """Trees of three levels, of which one ends early."""
    nodes: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes")}
    nodes |= {name: [] for name in ("truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for node in range(7):
            is_leaf = node > 2 or (tree == 1 and node == 2)
            row = (tree, node, int(RNG.integers(4)), float(np.float32(RNG.normal())))
            mode = "LEAF" if is_leaf else BRANCHES[(tree + node) % 4]
            down = (0, 0) if is_leaf else (2 * node + 1, 2 * node + 2)
            for name, each in zip(nodes, (*row, mode, *down, int(RNG.integers(2))), strict=True):
                nodes[name].append(each)
            for target in range(count) if is_leaf else ():
                weight = float(np.float32(RNG.random() if is_positive else RNG.normal()))
                for name, each in zip(leaves, (tree, node, target, weight), strict=True):
                    leaves[name].append(each)
    said = {f"nodes_{name}": each for name, each in nodes.items()}
    names = {name: f"{kind}_{name}" for name in leaves}
    return said | {names[name]: each for name, each in leaves.items()}


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_that_regress(tmp_path, function):
    x = floats(20, 4)
    x[3, 1] = np.nan
    for targets in (1, 3):
        said = ensemble("target", targets, 4)
        both(tmp_path, "TreeEnsembleRegressor", [x], 1, 1, n_targets=targets, aggregate_function=function, **said)
        both(tmp_path, "TreeEnsembleRegressor", [x], 1, 1, n_targets=targets, base_values=[0.5] * targets, **said)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("is_positive", [True, False])
def test_trees_that_classify(tmp_path, transform, is_positive):
    x = floats(20, 4)
    # With scores of both of two classes ONNX Runtime does not take the larger one.
    for classes, labels in ((3, [7, 8, 9]), (1, [0, 1])):
        said = ensemble("class", classes, 4, is_positive=is_positive)
        if classes == 1 and transform == "SOFTMAX":
            continue  # ONNX Runtime gives the other class what no text says
        both(tmp_path, "TreeEnsembleClassifier", [x], 2, 1, classlabels_int64s=labels, post_transform=transform, **said)
    said = ensemble("class", 3, 2)
    both(tmp_path, "TreeEnsembleClassifier", [x], 2, 1, classlabels_strings=TEXTS[:3], post_transform=transform, **said)


def trees(op_type: str, x: np.ndarray, folder: Path, version: int = 3, **said: Any) -> None:
    """A tree ensemble as IR computes what ONNX Runtime does."""
    outputs = ["label", "scores"] if op_type.endswith("Classifier") else ["y"]
    node = helper.make_node(op_type, ["x"], outputs, domain="ai.onnx.ml", **said)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", x.shape[1]])]
    graph = helper.make_graph([node], "net", given, [helper.make_empty_tensor_value_info(name) for name in outputs])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    (folder / "m.onnx").write_bytes(content)
    expected: Any = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    loaded = gp.load(folder / "m.onnx")
    assert [each.op_type for each in loaded.graph] == [op_type]
    for value, array in zip(loaded.graph.outputs, expected, strict=True):
        if "classlabels_strings" in said:
            break
        assert value.fact.shape is not None
        assert list(value.fact.shape[1:]) == list(np.shape(array)[1:])
    gp.save(loaded, folder / "m.xml")
    compiled = openvino.Core().compile_model(folder / "m.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([x])
    for port, array in zip(compiled.outputs, expected, strict=True):
        np.testing.assert_allclose(found[port], np.asarray(array), rtol=2e-5, atol=1e-6)


def test_trees_become_tables_in_other_formats(tmp_path):
    x = floats(20, 4)
    x[3, 1] = np.nan
    for targets, function in ((1, "SUM"), (3, "AVERAGE")):
        said = ensemble("target", targets, 4)
        trees("TreeEnsembleRegressor", x, tmp_path, n_targets=targets, aggregate_function=function, **said)
    for classes, labels, is_positive in ((3, [7, 8, 9], False), (1, [0, 1], True), (1, [4, 2], False)):
        said = ensemble("class", classes, 4, is_positive=is_positive)
        trees("TreeEnsembleClassifier", x, tmp_path, classlabels_int64s=labels, **said)
        trees("TreeEnsembleClassifier", x, tmp_path, classlabels_int64s=labels, post_transform="LOGISTIC", **said)


@pytest.mark.parametrize("aggregation", [0, 1, 2, 3])
def test_tree_ensemble_of_opset_5(tmp_path, aggregation):
    def tensor(values: Any, dtype: Any) -> Any:
        return numpy_helper.from_array(np.array(values, dtype))

    said = {
        "tree_roots": [0, 2],
        "nodes_modes": tensor([0, 1, 3], np.uint8),
        "nodes_splits": tensor([0.2, -0.3, 0.1], np.float32),
        "nodes_featureids": [0, 1, 2],
        "nodes_truenodeids": [1, 1, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [0, 2, 4],
        "nodes_falseleafs": [1, 1, 1],
        "nodes_missing_value_tracks_true": [0, 1, 0],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": tensor([0.5, -1.5, 2.0, 3.0, -0.25], np.float32),
        "n_targets": 2,
        "aggregate_function": aggregation,
    }
    x = floats(20, 4)
    x[3, 1] = np.nan
    both(tmp_path, "TreeEnsemble", [x], 1, 5, **said)
    if aggregation < 2:
        trees("TreeEnsemble", x, tmp_path, 5, **said)


def test_trees_with_labels_that_are_strings_stay_in_onnx(tmp_path):
    said = ensemble("class", 3, 2)
    with pytest.raises(DiagnosticError, match="string labels"):
        trees("TreeEnsembleClassifier", floats(4, 4), tmp_path, classlabels_strings=TEXTS[:3], **said)
