"""A decoder and its twin with a cache in one file, against ONNX Runtime on both files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import graphport as gp
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError
from graphport.ir.verify import verify
from tests.models import model, node, typed, write_onnx

RANDOM = np.random.default_rng(0)
WIDTH, WORDS = 64, 300
EMBEDDING = RANDOM.normal(size=(WORDS, WIDTH)).astype(np.float32)
WEIGHTS = {name: RANDOM.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8 for name in ("q", "k", "v")}
PRESENT = ["present.0.key", "present.0.value"]
PAST = ["past_key_values.0.key", "past_key_values.0.value"]


def decoder(*, has_past: bool) -> onnx.ModelProto:
    """Masked attention over the tokens and the cache, as optimum exports it: without head axis and scaling."""
    new = ["k_new", "v_new"]
    projections = [("q", "query"), ("k", new[0] if has_past else PRESENT[0]), ("v", new[1] if has_past else PRESENT[1])]
    nodes = [
        node("Gather", ["embedding", "input_ids"], ["x"], name="embed"),
        *(node("MatMul", ["x", weight], [result], name=f"{weight}_proj") for weight, result in projections),
    ]
    if has_past:
        pairs = zip(PAST, new, PRESENT, strict=True)
        nodes += [node("Concat", [past, each], [present], axis=1) for past, each, present in pairs]
    nodes += [
        node("Transpose", [PRESENT[0]], ["key_t"], perm=[0, 2, 1]),
        node("MatMul", ["query", "key_t"], ["scores"], name="scores"),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "one"], ["row"]),
        node("Sub", ["row", "unit"], ["hidden"]),
        node("Mul", ["hidden", "large"], ["bias"]),
        node("Add", ["scores", "bias"], ["masked"]),
        node("Softmax", ["masked"], ["weights"], axis=-1),
        node("MatMul", ["weights", PRESENT[1]], ["context"], name="context"),
        node("Transpose", ["embedding"], ["head"], perm=[1, 0]),
        node("MatMul", ["context", "head"], ["logits"], name="lm_head"),
    ]
    one, unit = np.array([1]), np.array(1, np.float32)
    constants = {"embedding": EMBEDDING, **WEIGHTS, "one": one, "unit": unit, "large": np.array(1e4, np.float32)}
    tokens, whole = (1, "past + 1") if has_past else ("sequence", "sequence")
    ids = [("input_ids", ["batch", tokens]), ("attention_mask", ["batch", whole])]
    cache = [typed(name, ["batch", "past", WIDTH]) for name in PAST] if has_past else []
    present = [typed(name, ["batch", whole, WIDTH]) for name in PRESENT]
    inputs = [*(typed(name, shape, TensorProto.INT64) for name, shape in ids), *cache]
    return model(nodes, inputs, [typed("logits", ["batch", tokens, WORDS]), *present], constants)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the decoder, its twin with a cache, the merged file, and the document of the command."""
    folder = tmp_path_factory.mktemp("decoders")
    paths = [write_onnx(folder / f"{name}.onnx", decoder(has_past=name == "past")) for name in ("first", "past")]
    result = CliRunner().invoke(
        cli, ["merge", *map(str, paths), str(folder / "merged.onnx"), "--branch", "use_cache_branch", "--json"]
    )
    assert result.exit_code == 0, result.output
    return *paths, folder / "merged.onnx", json.loads(result.stdout)


def computed(path, feeds) -> list[Any]:
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["logits", *PRESENT], feeds)


def test_the_layout_is_that_of_optimum(files):
    merged = onnx.load(files[2])
    onnx.checker.check_model(merged, full_check=True)
    inputs = ["input_ids", "attention_mask", *PAST, "use_cache_branch"]
    assert [each.name for each in merged.graph.input] == inputs
    assert [each.name for each in merged.graph.output] == ["logits", *PRESENT]
    flag = merged.graph.input[-1].type.tensor_type
    assert (flag.elem_type, [dim.dim_value for dim in flag.shape.dim]) == (TensorProto.BOOL, [1])
    (branch,) = merged.graph.node
    assert (branch.op_type, list(branch.input)) == ("If", ["use_cache_branch"])
    bodies = {each.name: each.g for each in branch.attribute}
    concatenations = {name: [each.op_type for each in body.node].count("Concat") for name, body in bodies.items()}
    assert concatenations == {"then_branch": 2, "else_branch": 0}
    assert not any(body.input or body.initializer for body in bodies.values())


def test_weights_are_stored_once(files):
    merged = onnx.load(files[2])
    large = [each for each in merged.graph.initializer if len(each.raw_data) > 1000]
    assert len(large) == 1 + len(WEIGHTS)
    assert files[2].stat().st_size < 1.1 * files[1].stat().st_size


def test_each_branch_computes_its_model(files):
    first, past, merged, _ = files
    ids, mask = np.array([[5, 7, 11], [2, 3, 4]]), np.array([[1, 1, 1], [0, 1, 1]])
    empty = {name: np.zeros((2, 0, WIDTH), np.float32) for name in PAST}
    begin = {"input_ids": ids, "attention_mask": mask}
    found = computed(merged, {**begin, **empty, "use_cache_branch": np.array([False])})
    expected = computed(first, begin)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    step = {"input_ids": np.array([[9], [8]]), "attention_mask": np.array([[1, 1, 1, 1], [0, 1, 1, 1]])}
    step |= dict(zip(PAST, expected[1:], strict=True))
    found = computed(merged, {**step, "use_cache_branch": np.array([True])})
    for x, y in zip(found, computed(past, step), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("convert", "least_db"),
    [
        pytest.param(lambda x: gp.cast(x, "float16"), 50, id="float16"),
        pytest.param(lambda x: gp.quantize(x, dynamic=True), 25, id="dynamic int8"),
        pytest.param(lambda x: gp.quantize(x, weights_only=True), 30, id="8-bit weights"),
        pytest.param(lambda x: gp.quantize(x, weights_only=True, weight_bits=4), 8, id="4-bit weights"),
    ],
)
def test_branches_are_converted_as_models(files, tmp_path, convert, least_db):
    path = tmp_path / "converted.onnx"
    gp.save(convert(files[2]), path)
    written = onnx.load(path)
    (branch,) = [each for each in written.graph.node if each.op_type == "If"]
    assert not any(each.g.initializer for each in branch.attribute)  # both branches read the same weights
    assert [each.name for each in written.graph.input] == [each.name for each in onnx.load(files[2]).graph.input]
    assert path.stat().st_size < files[2].stat().st_size
    for has_past in (False, True):
        length = 1 if has_past else 3
        feeds = {
            "input_ids": RANDOM.integers(0, WORDS, (2, length)),
            "attention_mask": np.ones((2, 5 if has_past else 3), np.int64),
            **{name: RANDOM.normal(size=(2, 4 if has_past else 0, WIDTH)).astype(np.float32) for name in PAST},
            "use_cache_branch": np.array([has_past]),
        }
        types = {
            each.name: helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type) for each in written.graph.input
        }
        found = computed(path, {name: array.astype(types[name]) for name, array in feeds.items()})
        for x, y in zip(computed(files[2], feeds), found, strict=True):
            noise = np.sum((x - y.astype(np.float64)) ** 2)
            assert 10 * np.log10(np.sum(x.astype(np.float64) ** 2) / max(noise, 1e-30)) >= least_db


def test_the_file_is_proven(files):
    document = files[3]
    assert document["verify"]["passed"]
    assert document["verdict"] == "consistent"  # the other side is the merged graph in memory
    assert document["diagnostics"] == []


def test_a_constant_cache_is_returned_from_the_input():
    """The cache of the encoder does not change, so optimum's twin has no outputs for it."""
    first = model([node("Mul", ["x", "x"], ["present.0.encoder.key"])], [("x", [2])], [("present.0.encoder.key", [2])])
    last = model([node("Neg", ["x"], ["n"])], [("x", [2]), ("past_key_values.0.encoder.key", [2])], [("n", [2])])
    del last.graph.output[:], last.graph.node[:]
    found = gp.merge(first, last, branch="use_cache_branch")
    verify(found.graph)
    x, cache = np.array([2, 3], np.float32), np.array([5, 7], np.float32)
    for flag, expected in ((False, x * x), (True, cache)):
        inputs = {"x": x, "past_key_values.0.encoder.key": cache, "use_cache_branch": np.array([flag])}
        np.testing.assert_array_equal(gp.run(found, inputs)["present.0.encoder.key"], expected)


T5 = Path(__file__).parent / "formats" / "onnx" / "data" / "t5_decoder"


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """Return the bytes of a T5 decoder merged by optimum and by graphport, and the document of the command."""
    path = tmp_path_factory.mktemp("t5") / "merged.onnx"
    parts = [str(T5 / f"{name}.onnx.gz") for name in ("decoder_model", "decoder_with_past_model")]
    options = ["--branch", "use_cache_branch", "--proof-effort", "0", "--json"]
    result = CliRunner().invoke(cli, ["merge", *parts, str(path), *options])
    assert result.exit_code == 0, result.output
    optimum = gzip.decompress((T5 / "decoder_model_merged.onnx.gz").read_bytes())
    return optimum, path.read_bytes(), json.loads(result.stdout)


def test_the_merge_of_a_t5_has_the_interface_of_optimum(t5):
    def ports(data, kind):
        values = getattr(onnx.load_from_string(data).graph, kind)
        return [(each.name, each.type.tensor_type.elem_type, len(each.type.tensor_type.shape.dim)) for each in values]

    for kind in ("input", "output"):
        assert ports(t5[1], kind) == ports(t5[0], kind)


def test_merged_t5_decoder_matches_its_parts(t5):
    sessions: Any = [onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]) for data in t5[:2]]
    random = np.random.default_rng(1)
    for batch, new, past, source in ((1, 4, 0, 3), (2, 1, 5, 2)):
        sizes = {"batch_size": batch, "decoder_sequence_length": new, "past_decoder_sequence_length": past}
        sizes["encoder_sequence_length"] = source
        feeds = {
            port.name: random.normal(size=[sizes.get(dim, dim) for dim in port.shape]).astype(np.float32)
            for port in sessions[0].get_inputs()
            if port.type == "tensor(float)"
        }
        feeds |= {"input_ids": random.integers(0, 11, (batch, new)), "use_cache_branch": np.array([past > 0])}
        feeds["encoder_attention_mask"] = np.ones((batch, source), np.int64)
        names = [port.name for port in sessions[0].get_outputs()]
        expected, found = (dict(zip(names, session.run(names, feeds), strict=True)) for session in sessions)
        if past:  # optimum returns an empty constant for the cache of the encoder
            kept = [name for name in names if "encoder" in name.split(".")]
            assert len(kept) == 2
            expected |= {name: feeds[name.replace("present", "past_key_values")] for name in kept}
        for name in names:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_inputs_unused_by_a_branch_have_the_sizes_of_others(t5):
    assert t5[2]["diagnostics"] == []


def unary(op: str, name: str, output: str = "y", dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    return model([node(op, [name], [output])], [typed(name, [2], dtype)], [typed(output, [2], dtype)])


@pytest.mark.parametrize(
    ("a", "b", "branch", "code"),
    [
        pytest.param(unary("Neg", "x"), unary("Abs", "x", "z"), "flag", "EDIT0013", id="other outputs"),
        pytest.param(
            unary("Neg", "x"), unary("Abs", "x", dtype=TensorProto.INT32), "flag", "EDIT0013", id="other types"
        ),
        pytest.param(unary("Neg", "x"), unary("Abs", "x"), "x", "EDIT0008", id="a name that is in use"),
    ],
)
def test_models_that_are_no_twins_are_refused(a, b, branch, code):
    with pytest.raises(DiagnosticError) as caught:
        gp.merge(a, b, branch=branch)
    assert code in {finding.code for finding in caught.value.diagnostics}


def test_a_dim_that_differs_becomes_open():
    a, b = (model([node("Neg", ["x"], ["y"])], [("x", [size])], [("y", [size])]) for size in (2, 3))
    found = gp.merge(a, b, branch="flag")
    assert str(found.inputs["x"].fact) == "float32[x_0]"
