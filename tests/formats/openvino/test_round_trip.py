"""What was read is written again: byte for byte where nobody changed it, and else with the change alone."""

import re
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.core.storage import storage_of
from graphport.formats.openvino import read, write
from graphport.ir import rewrite
from graphport.ir.verify import verify
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

DATA = Path(__file__).parent / "data"
FILES = sorted(path.name for path in DATA.glob("*.xml"))


MEANS = {"normalize_variance": "true", "eps": "0.001", "eps_mode": "INSIDE_SQRT"}


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_runtime_come_back_byte_for_byte(name, tmp_path):
    graph, findings = read(DATA / name)
    verify(graph)
    assert not findings
    write(graph, tmp_path / name)
    assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()
    weights = Path(name).with_suffix(".bin")
    assert (tmp_path / weights).read_bytes() == (DATA / weights).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_copy_of_the_graph_is_written_alike(name, tmp_path):
    write(rewrite.copy(read(DATA / name)[0]), tmp_path / name)
    assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


@pytest.mark.parametrize("attributes", ['a="1"', 'a="{}"'], ids=["alike", "different"])
def test_names_of_tensors_come_back_byte_for_byte(attributes, tmp_path):
    names = ["a", "b,c", "", "e &amp; f", "g>", "a", "h"]
    ports = [
        f"\t\t\t<data {attributes.format(n)} />\n\t\t\t<output>\n"
        f'\t\t\t\t<port id="0" precision="FP32" names="{name}">\n\t\t\t\t\t<dim>2</dim>\n\t\t\t\t</port>\n'
        '\t\t\t\t<port id="1" precision="FP32" />\n'
        f'\t\t\t\t<port id="2" precision="FP32" names="z{n}" />\n\t\t\t</output>\n'
        for n, name in enumerate(names)
    ]
    layers = [
        f'\t\t<layer id="{n}" name="n{n}" type="T" version="extension">\n{inside}\t\t</layer>\n'
        for n, inside in enumerate(ports)
    ]
    text = (
        '<?xml version="1.0"?>\n<net name="n" version="11">\n'
        f"\t<layers>\n{''.join(layers)}\t</layers>\n\t<edges />\n\t<rt_info />\n</net>\n"
    )
    (tmp_path / "a.xml").write_text(text)
    graph = read(tmp_path / "a.xml")[0]
    write(graph, tmp_path / "b.xml")
    assert (tmp_path / "b.xml").read_text() == text
    found = [[value.name for value in node.results] for node in graph]
    assert found[0] == ["a", "n0.1", "z0"]
    assert found[1:3] == [["b", "n1.1", "z1"], ["n2.0", "n2.1", "z2"]]
    assert found[3][0] == "e & f"
    assert found[6] == ["h", "n6.1", "z6"]


def test_converting_to_the_same_format_keeps_every_byte(tmp_path):
    gp.convert(DATA / "stateful.xml", tmp_path / "a.xml", verify=False)
    assert (tmp_path / "a.xml").read_bytes() == (DATA / "stateful.xml").read_bytes()


def difference(name, folder, change):
    """Lines of a file that are not what they were, after `change` to its graph."""
    graph = read(DATA / name)[0]
    change(graph)
    write(graph, folder / name)
    old = (DATA / name).read_text().splitlines()
    return [line.strip() for line in (folder / name).read_text().splitlines() if line not in old]


def test_an_attribute_that_changes_changes_its_text_alone(tmp_path):
    def change(graph):
        (node,) = [node for node in graph if node.op_type == "opset14.MaxPool"]
        node.attributes["strides"] = (1, 3)

    (line,) = difference("maxpool14_ceil_torch.xml", tmp_path, change)
    assert 'strides="1, 3"' in line
    assert 'rounding_type="ceil_torch"' in line


def test_numbers_that_change_are_written_and_the_others_stay(tmp_path):
    def change(graph):
        value = next(iter(graph.constants))
        value.storage = storage_of(np.full(value.storage.shape, 7), value.storage.dtype)

    difference("stateful.xml", tmp_path, change)
    graph = read(tmp_path / "stateful.xml")[0]
    assert [value.storage.numpy().tolist() for value in graph.constants] == [[[7.0] * 4]]


def test_a_node_that_goes_leaves_a_valid_file(tmp_path):
    def change(graph):
        node = next(node for node in graph if node.op_type == "opset1.Add")
        node.output.replace_uses(node.operand(0))
        graph.remove(node)

    difference("stateful.xml", tmp_path, change)
    assert [node.op_type for node in read(tmp_path / "stateful.xml")[0]] == ["opset6.ReadValue", "opset6.Assign"]


def test_equal_weights_are_stored_once(tmp_path):
    layers = [parameter("x", "4"), constant("a", [1, 2, 3, 4], "float32"), constant("b", [1, 2, 3, 4], "float32")]
    layers += [Layer("y", "opset1.Add", {}, ["x", "a"]), Layer("z", "opset1.Multiply", {}, ["y", "b"])]
    model = gp.load(write_ir(tmp_path, layers, ["z"]))
    for value in model.graph.constants:
        value.storage = storage_of(value.storage.numpy().copy())
    gp.save(model, tmp_path / "twin.xml")
    assert (tmp_path / "twin.bin").stat().st_size == 16
    assert gp.compare(model, gp.load(tmp_path / "twin.xml")).passed


@pytest.mark.parametrize("version", [10, 11])
def test_both_versions_are_written(version, tmp_path):
    layers = [parameter("x", "2..8,3"), Layer("y", "opset1.ReLU", {}, ["x"])]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    gp.save(model, tmp_path / "out.xml", ir_version=version)
    again = gp.load(tmp_path / "out.xml")
    assert f'version="{version}"' in (tmp_path / "out.xml").read_text()
    assert list(again.inputs) == ["x"]
    assert list(again.outputs) == ["y"]
    assert again.inputs["x"].fact == model.inputs["x"].fact


def test_newer_operation_sets_are_refused_where_asked(tmp_path):
    layers = [parameter("x", "2,3"), Layer("y", "opset7.Gelu", {"approximation_mode": "tanh"}, ["x"])]
    model = gp.load(write_ir(tmp_path, layers, ["y"]), raw=True)
    gp.save(model, tmp_path / "new.xml", ir_opset=7)
    with pytest.raises(gp.DiagnosticError, match="OV0503"):
        gp.save(model, tmp_path / "old.xml", ir_opset=6)
    assert not (tmp_path / "old.xml").exists()
    assert not (tmp_path / "old.bin").exists()


def test_newer_op_types_are_converted_to_older_ones(tmp_path):
    # Kept from AVX-512, OpenVINO ends over means of a number of entries that 16 does not divide.
    layers = [parameter("x", "2,16"), constant("axes", [-1], "int64"), Layer("n", "opset6.MVN", MEANS, ["x", "axes"])]
    path = write_ir(tmp_path, [*layers, Layer("y", "opset7.Gelu", {"approximation_mode": "tanh"}, ["n"])], ["y"])
    report = gp.convert(path, tmp_path / "old.xml", ir_opset=5)
    assert report.verification.passed
    text = (tmp_path / "old.xml").read_text()
    assert not re.search(r'version="opset([6-9]|1\d)"', text)
    gp.convert(path, tmp_path / "same.xml", ir_opset=7)
    assert 'type="MVN" version="opset6"' in (tmp_path / "same.xml").read_text()


def test_unknown_layers_survive(tmp_path):
    layers = [parameter("x", "2,3"), Layer("y", "extension_of_mine.Magic", {"spell": "a b"}, ["x"])]
    path = write_ir(tmp_path, layers, ["y"])
    model = gp.load(path)
    assert [node.op for node in model.graph] == ["openvino.extension_of_mine.Magic"]
    gp.save(model, tmp_path / "out.xml")
    (node,) = gp.load(tmp_path / "out.xml", raw=True).graph
    assert (node.op_type, node.attributes) == ("extension_of_mine.Magic", {"spell": "a b"})


def test_tensor_names_are_kept(tmp_path):
    layers = [parameter("x", "2,3"), Layer("y", "opset1.ReLU", {}, ["x"])]
    path = write_ir(tmp_path, layers, ["y"])
    port = '<port id="1" precision="UNSPECIFIED"'
    path.write_text(path.read_text().replace(port, port + r' names="first\,one,second"'))
    model = gp.load(path)
    assert list(model.outputs) == ["first,one"]
    gp.save(model, tmp_path / "out.xml")
    assert r'names="first\,one,second"' in (tmp_path / "out.xml").read_text()


def test_layers_in_another_order_are_written_as_they_stood(tmp_path):
    layers = [Layer("b", "opset1.Tanh", {}, ["a"]), Layer("a", "opset1.ReLU", {}, ["x"]), parameter("x", "1,4")]
    path = write_ir(tmp_path, layers, ["b"])
    write(read(path)[0], tmp_path / "again.xml")
    names = [re.findall(r'<layer id="\d+" name="(\w+)"', each.read_text()) for each in (path, tmp_path / "again.xml")]
    assert names[0] == names[1] == ["b", "a", "x", "result0"]
    assert [node.name for node in read(tmp_path / "again.xml")[0]] == ["a", "b"]


def test_in_version_10_inputs_and_outputs_are_called_after_their_layers(tmp_path):
    layers = [parameter("Parameter_1", "2,3"), parameter("second", "2,3")]
    layers.append(Layer("y", "opset1.Add", {"auto_broadcast": "numpy"}, ["Parameter_1", "second"]))
    path = write_ir(tmp_path, layers, ["y", "y"])
    text = path.read_text()
    for number, name in enumerate(("second", "x", "sum")):
        port = f'<port id="{2 if name == "sum" else 0}" precision="UNSPECIFIED"'
        text = text.replace(port, f'{port} names="{name}"', 1) if number != 1 else text
    text = text.replace('type="Result"', 'type="Result" output_names="sum"')
    path.write_text(text)
    model = gp.load(path)
    gp.save(model, tmp_path / "old.xml", ir_version=10)
    assert "names=" not in (tmp_path / "old.xml").read_text()
    again = gp.load(tmp_path / "old.xml")
    assert (list(again.inputs), list(again.outputs)) == (list(model.inputs), list(model.outputs))


def test_a_model_is_not_called_as_its_weights(tmp_path):
    path = write_ir(tmp_path, [parameter("x", "2,3"), Layer("y", "opset1.ReLU", {}, ["x"])], ["y"])
    with pytest.raises(gp.DiagnosticError, match="OV0507"):
        gp.convert(path, tmp_path / "out.bin", format="openvino")
    assert not (tmp_path / "out.bin").exists()
