"""Perplexity as a measure of plans: its formula, what models read, goals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.test_weights_alone import TOKENS, _tokens, decoder


def _expected(found, tokens):
    """The definition, token by token."""
    logits = gp.run(found, {"ids": tokens[:, :-1]})["y"].astype(np.float64)
    spent = []
    for row, following in zip(logits, tokens[:, 1:], strict=True):
        for x, token in zip(row, following, strict=True):
            spent.append(np.log(np.sum(np.exp(x))) - x[token])
    return np.exp(np.mean(spent))


def _runner(found):
    return lambda inputs: dict(gp.run(found, inputs).items())


def test_it_is_the_exponential_of_the_mean_surprise():
    found, tokens = decoder(), _tokens(11, 9)["ids"]
    measure = gp.perplexity(found, tokens)
    assert -measure(_runner(found)) == pytest.approx(_expected(found, tokens), rel=1e-6)


def test_masks_and_positions_are_generated():
    r = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "table": r.normal(size=(TOKENS, 8)).astype(np.float32),
        "head": r.normal(size=(8, TOKENS)),
    }
    constants["head"] = constants["head"].astype(np.float32)
    nodes = [
        node("Gather", ["table", "ids"], ["h"]),
        node("Cast", ["attention_mask"], ["m"], to=1),
        node("Cast", ["position_ids"], ["p"], to=1),
        node("Mul", ["m", "p"], ["mp"]),
        node("Unsqueeze", ["mp", "axis"], ["u"]),
        node("Add", ["h", "u"], ["g"]),
        node("MatMul", ["g", "head"], ["y"]),
    ]
    constants["axis"] = np.asarray([2], np.int64)
    names = ("ids", "attention_mask", "position_ids")
    proto = model(nodes, [("x", ["N", 1])], [("y", None)], constants, opset=17)
    del proto.graph.input[:]
    kind = onnx.TensorProto.INT64
    proto.graph.input.extend(onnx.helper.make_tensor_value_info(name, kind, ["N", "L"]) for name in names)
    found, tokens = gp.from_onnx(proto), _tokens(5, 7)["ids"]
    given = {"ids": tokens[:, :-1], "attention_mask": np.ones((5, 6), np.int64)}
    given["position_ids"] = np.broadcast_to(np.arange(6), (5, 6))
    logits = gp.run(found, given)["y"].astype(np.float64)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = np.exp(-np.log(np.take_along_axis(p, tokens[:, 1:, None], 2)).mean())
    assert -gp.perplexity(found, tokens)(_runner(found)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("tokens", [np.zeros((3, 1), np.int64), np.zeros(5, np.int64), np.zeros((3, 4), np.float32)])
def test_inputs_that_are_not_token_sequences_are_refused(tokens):
    with pytest.raises(gp.DiagnosticError, match="QUANT0031"):
        gp.perplexity(decoder(), tokens)


def test_perplexity_rejects_models_with_other_inputs(tmp_path):
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0031.*has inputs other than tokens"):
        gp.perplexity(nets.residual(), _tokens()["ids"])
    (tmp_path / "broken.npy").write_bytes(b"nothing")
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0031.*cannot be read"):
        gp.perplexity(decoder(), tmp_path / "broken.npy")


def test_it_is_a_goal_of_the_command(tmp_path):
    found, tokens = decoder(), _tokens(12, 9)["ids"]
    source, text, target = tmp_path / "net.onnx", tmp_path / "text.npy", tmp_path / "out.onnx"
    gp.save(found, source)
    np.save(text, tokens)
    real = -gp.perplexity(found, tokens)(_runner(found))
    line = ["quantize", str(source), str(target), "--weights-only", "--weight-bits", "4", "--block", "16"]
    line += ["--perplexity", str(text), "--no-latency", "--no-verify", "--json"]
    ended = CliRunner().invoke(cli, [*line, "--max-perplexity", str(real * 1.01)])
    assert ended.exit_code == 0, ended.output
    document = json.loads(ended.stdout)
    assert -document["chosen"]["metric"] <= real * 1.01
    assert -gp.perplexity(found, tokens)(_runner(gp.load(target))) == pytest.approx(
        -document["chosen"]["metric"], rel=0.02
    )
    missed = CliRunner().invoke(cli, [*line, "--max-perplexity", "1.0"])
    assert missed.exit_code == 1
    told = {each["code"]: each["message"] for each in json.loads(missed.stdout)["diagnostics"]}
    assert "the goal of a perplexity of 1 is not met" in told["QUANT0022"]
    # Weights are stored in halves and in codes, though no layer computes on integers.
    assert "QUANT0021" not in told
