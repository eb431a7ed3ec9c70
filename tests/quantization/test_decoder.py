"""Language models with caches: their other inputs are derived from tokens and caches."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.quantization.decoder import decoder_of
from graphport.quantization.random_inputs import random_samples
from graphport.quantization.samples import gather
from tests.models import model, node

TOKENS, HEADS, WIDTH = 40, 2, 16
FOUR = {"weights_only": True, "weight_bits": 4, "weight_block": 16}


def cached(is_returned=True, has_encoder=False):
    """Return a model of tokens and cached keys with a mask over both; it returns the keys, or no value of that size.

    With `has_encoder` it reads keys of an encoder as well.
    """
    r = np.random.default_rng(0)
    each = WIDTH // HEADS
    constants = {
        "table": r.normal(size=(TOKENS, WIDTH)),
        "keys": r.normal(size=(WIDTH, WIDTH)) / 4,
        "head": r.normal(size=(WIDTH, TOKENS)) / 4,
    }
    constants = {name: x.astype(np.float32) for name, x in constants.items()}
    constants |= {"apart": np.asarray([0, 0, HEADS, each]), "wide": np.asarray([0, 1, WIDTH])}
    constants |= {"of_heads": np.asarray([1, 3]), "of_length": np.asarray([2])}
    nodes = [
        node("Gather", ["table", "input_ids"], ["h"]),
        node("MatMul", ["h", "keys"], ["k"], name="keys"),
        node("Reshape", ["k", "apart"], ["k4"]),
        node("Transpose", ["k4"], ["kt"], perm=[0, 2, 1, 3]),
        node("Concat", ["past", "kt"], ["present"], axis=2),
        node("Cast", ["attention_mask"], ["m"], to=1),
        node("Unsqueeze", ["m", "of_heads"], ["m4"]),
        node("Mul", ["present", "m4"], ["seen"]),
        node("ReduceSum", ["seen", "of_length"], ["own" if has_encoder else "sum"], keepdims=1),
        *([node("ReduceSum", ["encoder", "of_length"], ["cross"], keepdims=1)] if has_encoder else []),
        *([node("Add", ["own", "cross"], ["sum"])] if has_encoder else []),
        node("Reshape", ["sum", "wide"], ["all"]),
        node("Add", ["h", "all"], ["g"]),
        node("MatMul", ["g", "head"], ["y"], name="head"),
    ]
    outputs = [("y", ["N", "L", TOKENS]), *([("present", ["N", HEADS, "T", each])] if is_returned else [])]
    caches = {"past": "P", "encoder": "E"} if has_encoder else {"past": "P"}
    inputs = [(name, ["N", HEADS, length, each]) for name, length in caches.items()]
    proto = model(nodes, inputs, outputs, constants, opset=17)
    for name, dims in (("input_ids", ["N", "L"]), ("attention_mask", ["N", "A"])):
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, dims))
    return gp.from_onnx(proto)


def _tokens(count, length, seed=0):
    return np.random.default_rng(seed).integers(0, TOKENS, size=(count, length))


def test_other_decoder_inputs_follow_from_the_tokens():
    reader = decoder_of(cached().graph)
    assert reader is not None
    found = reader.inputs(_tokens(3, 5))
    assert {name: (x.shape, str(x.dtype)) for name, x in found.items()} == {
        "input_ids": ((3, 5), "int64"),
        "attention_mask": ((3, 5), "int64"),
        "past": ((3, HEADS, 0, WIDTH // HEADS), "float32"),
    }
    assert np.all(found["attention_mask"] == 1)
    # The input of an encoder has a symbolic length, too, but no output extends it.
    assert decoder_of(cached(is_returned=False).graph) is None


def test_a_cache_of_an_encoder_is_not_empty():
    graph = cached(has_encoder=True).graph
    reader = decoder_of(graph)
    assert reader is not None
    found = reader.inputs(_tokens(3, 5))
    assert found["past"].shape == (3, HEADS, 0, WIDTH // HEADS)
    assert found["encoder"].shape == (3, HEADS, 5, WIDTH // HEADS)
    assert np.all(found["encoder"] != 0)


def test_random_token_samples_have_an_empty_past():
    drawn, is_likely = random_samples(cached().graph)
    assert is_likely
    assert len(drawn) > 8
    assert len(np.unique([given["input_ids"] for given in drawn])) == TOKENS
    report = gp.quantize(cached(), **FOUR).report
    assert report.snr_db > 15
    assert report.samples == 0
    assert gp.cast(cached(), "float16").report.snr_db > 50


def test_random_samples_search_consistent_sizes_without_a_cache():
    found = cached(is_returned=False)
    drawn, is_likely = random_samples(found.graph)
    assert not is_likely
    gp.run(found, drawn[0])
    assert gp.quantize(found, **FOUR).report.snr_db > 15


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_tokens(12, 9), id="rows of equal length"),
        pytest.param([_tokens(1, 3 + number % 4, number) for number in range(12)], id="rows of several lengths"),
        pytest.param([{"input_ids": _tokens(2, 3 + number, number)} for number in range(6)], id="by name"),
    ],
)
def test_tokens_are_sufficient_for_calibration(data):
    found = cached()
    samples = gather(found.graph, data)
    assert samples.count == 12
    for inputs, count in samples.runs(4):
        length = inputs["input_ids"].shape[1]
        assert inputs["attention_mask"].shape == (count, length)
        assert inputs["past"].shape == (count, HEADS, 0, WIDTH // HEADS)
    made = gp.quantize(found, data, **FOUR)
    assert made.report.samples == 12
    assert made.report.snr_db > 15


def test_tokens_are_read_from_a_file_or_a_folder(tmp_path):
    np.save(tmp_path / "all.npy", _tokens(5, 7))
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(3):
        np.save(folder / f"{number}.npy", _tokens(2, 4 + number))
    graph = cached().graph
    assert gather(graph, tmp_path / "all.npy").count == 5
    lengths = [inputs["past"].shape[0] and inputs["input_ids"].shape[1] for inputs, _ in gather(graph, folder).runs(8)]
    assert lengths == [4, 5, 6]


def test_past_input_is_optional():
    found = cached()
    past = np.random.default_rng(1).normal(size=(8, HEADS, 3, WIDTH // HEADS)).astype(np.float32)
    given = {"input_ids": _tokens(8, 4), "attention_mask": np.ones((8, 7), np.int64), "past": past}
    assert next(gather(found.graph, given).runs(8))[0]["past"].shape == past.shape
    nothing = {"attention_mask": np.ones((8, 4), np.int64), "past": past[:, :, :0]}
    assert next(gather(found.graph, given | nothing).runs(8))[0]["past"].size == 0
    # Empty tokens are no samples.
    with pytest.raises(gp.DiagnosticError, match="QUANT0002"):
        gather(found.graph, {**given, "input_ids": _tokens(8, 0)})


def test_perplexity_option_reports_source_and_target(tmp_path):
    found, tokens = cached(), _tokens(6, 9, 3)
    source, target, text = tmp_path / "net.onnx", tmp_path / "out.onnx", tmp_path / "text.npy"
    gp.save(found, source)
    np.save(text, tokens)
    line = ["quantize", str(source), str(target), "--weights-only", "--weight-bits", "4", "--block", "16"]
    line += ["--perplexity", str(text), "--no-latency", "--no-verify"]
    ended = CliRunner().invoke(cli, [*line, "--json"])
    assert ended.exit_code == 0, ended.output
    document = json.loads(ended.stdout)
    assert not document["front"]
    for name, path in (("source", source), ("target", target)):
        loaded = gp.load(path)
        expected = gp.perplexity(loaded, tokens)(lambda inputs, loaded=loaded: dict(gp.run(loaded, inputs).items()))
        assert document["metric"][name] == pytest.approx(expected, rel=0.02)
    assert "perplexity: " in CliRunner().invoke(cli, line).stdout
