"""Layers whose operands, results and attributes are not what their operation takes: a finding each, and no more."""

import random

import pytest

import graphport as gp
from graphport.formats.openvino.container import operators
from tests.every import every
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

WORDS = [
    found.op_type
    for versions in operators.table().values()
    for found in versions
    if found.type not in ("Parameter", "Const", "Result")
]
SHAPES = ["1,2,3,4", "3", "2,3", "2", "?,3", "...", "", "0,3"]
TYPES = ["f32", "i64", "boolean", "string", "u8"]
TEXTS = {
    "int": ["0", "1", "2", "-1", "99999999999"],
    "float": ["0.5", "-1", "0"],
    "bool": ["true", "false"],
    "enum": ["constant", "max", "linear", "forward", "same_upper"],
    "text": ["a", ""],
    "type": ["f32", "i64", "string", "dynamic", "u1", "nf4"],
    "shape": ["1,2", "..."],
    "ints": ["", "1", "1,1", "0,0,0", "-1,2"],
    "floats": ["", "0.5", "1,2"],
    "strs": ["", "tanh", "sigmoid,tanh"],
}


def odd_operand(name, choose):
    match choose.randrange(4):
        case 0:
            return constant(name, choose.choice([1, [1, -1], [[2, 3]]]), choose.choice(["int64", "float32"]))
        case _:
            return parameter(name, choose.choice(SHAPES), choose.choice(TYPES))


def codes(path):
    return {finding.code for finding in gp.check(path) if finding.is_error}


@every("op_type", WORDS)
def test_odd_operands_and_attributes_are_found_or_taken(op_type, tmp_path):
    choose = random.Random(op_type)
    operator = operators.find_operator(op_type)
    said = [k for k in operator.keywords if k.text is None or choose.random() < 0.5]
    data = {keyword.spelling: choose.choice(TEXTS[keyword.kind]) for keyword in said}
    operands = [odd_operand(f"i{n}", choose) for n in range(choose.randrange(7))]
    odd = Layer("y", op_type, data, [operand.name for operand in operands], outputs=choose.choice([1, 2]))
    assert codes(write_ir(tmp_path, [*operands, odd], ["y"])) <= {"SHAPE0001", "SHAPE0002", "OV0202", "OV0203"}


@pytest.mark.parametrize(
    ("reads", "outputs", "told"),
    [
        pytest.param([], 1, "its 0 operands do not match its signature", id="too few operands"),
        pytest.param(["x", "x"], 1, "its 2 operands do not match its signature", id="too many operands"),
        pytest.param(["x"], 2, "it has 2 results, expected at most 1", id="too many results"),
    ],
)
def test_the_numbers_of_operands_and_results_are_reported(reads, outputs, told, tmp_path):
    path = write_ir(tmp_path, [parameter("x", "2"), Layer("y", "opset1.ReLU", {}, reads, outputs)], ["y"])
    (finding,) = [finding for finding in gp.check(path) if finding.is_error]
    assert finding.code == "SHAPE0001"
    assert told in finding.message
    assert finding.span.place == 'layer 1 "y"'


def test_a_port_without_dims_may_be_of_any_rank(tmp_path):
    layers = [parameter("x", "..."), Layer("y", "opset1.ReLU", {}, ["x"])]
    path = write_ir(tmp_path, layers, ["y"])
    path.write_text(path.read_text().replace('precision="UNSPECIFIED"', 'precision="FP32"'))
    assert not gp.check(path)
    assert gp.load(path).outputs["y"].fact.shape is None


def test_layers_that_no_output_needs_are_omitted(tmp_path):
    layers = [
        parameter("x", "2"),
        Layer("y", "opset1.ReLU", {}, ["x"]),
        Layer("a", "mine.Foo", {}, ["y"]),
        Layer("b", "opset1.Tanh", {}, ["a"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    assert [node.op for node in gp.load(path).graph] == ["Relu"]
    assert [node.name for node in gp.load(path, raw=True).graph] == ["y", "a", "b"]
