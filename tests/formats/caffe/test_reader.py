from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.storage import View
from graphport.formats import FORMATS, recognize
from graphport.formats.caffe import read, versions
from graphport.ir.graph import Graph
from graphport.ir.verify import verify
from tests.formats.caffe.networks import Network, blob_bytes, length_field

CONV = 'layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 2 kernel_size: 3 } }'
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }'


def written(folder: Path, text: str, name: str = "net.prototxt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def graph_of(folder: Path, text: str) -> Graph:
    graph, _ = read(written(folder, text))
    verify(graph)
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph]


def error_codes(folder: Path, text: str) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        read(written(folder, text))
    return [finding.code for finding in caught.value.diagnostics]


def warning_codes(folder: Path, text: str) -> list[str]:
    return [finding.code for finding in read(written(folder, text))[1]]


def test_a_layer_is_a_node_with_its_location(tmp_path):
    graph = graph_of(tmp_path, f"{INPUT}\n{CONV}")
    (node,) = graph
    assert (node.op, node.name, node.origin.line) == ("caffe.Convolution", "c", 2)
    assert node.attributes == {"num_output": 2, "kernel_size": (3,)}
    assert [value.name for value in graph.inputs] == ["x"]
    assert [value.name for value in graph.outputs] == ["y"]


def test_fillers_and_engines_are_no_attributes(tmp_path):
    text = CONV.replace("kernel_size: 3", 'kernel_size: 3 engine: CUDNN weight_filler { type: "xavier" }')
    (node,) = graph_of(tmp_path, f"{INPUT} {text} ")
    assert node.attributes == {"num_output": 2, "kernel_size": (3,)}


def test_in_place_layer_creates_a_new_value(tmp_path):
    relu = 'layer { name: "r" type: "ReLU" bottom: "y" top: "y" }'
    again = relu.replace('"r"', '"s"')
    graph = graph_of(tmp_path, f"{INPUT} {CONV} {relu} {again}")
    assert [node.output.name for node in graph] == ["y.c", "y.r", "y"]
    assert [value.name for value in graph.outputs] == ["y"]


def test_an_input_keeps_its_name_when_it_is_replaced(tmp_path):
    graph = graph_of(tmp_path, f'{INPUT} layer {{ name: "r" type: "ReLU" bottom: "x" top: "x" }}')
    assert [value.name for value in graph.inputs] == ["x"]
    assert [value.name for value in graph.outputs] == ["x.r"]


def test_unused_blobs_are_outputs(tmp_path):
    more = 'layer { name: "a" type: "ReLU" bottom: "y" top: "a" } layer { name: "b" type: "TanH" bottom: "y" top: "b" }'
    sinks = "layer { name: 's' type: 'Silence' bottom: 'b' } layer { name: 'f' type: 'HDF5Output' bottom: 'y' }"
    graph = graph_of(tmp_path, f"{INPUT} {CONV} {more} {sinks}")
    assert [value.name for value in graph.outputs] == ["a"]
    assert [node.op for node in gp.load(tmp_path / "net.prototxt").graph] == ["Conv", "Relu", "Tanh"]


@pytest.mark.parametrize(
    ("rule", "is_there"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("exclude { phase: TRAIN }", True),
        ("exclude { phase: TEST }", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
        ("include { min_level: 1 }", False),
        ("include { max_level: 0 }", True),
        ("include { max_level: -1 }", False),
        ("include { stage: 'deploy' }", False),
        ("include { not_stage: 'deploy' }", True),
        ("exclude { stage: 'deploy' }", True),
    ],
)
def test_include_and_exclude_rules_select_inference_layers(tmp_path, rule, is_there):
    layer = f'layer {{ name: "r" type: "ReLU" bottom: "y" top: "y" {rule} }}'
    assert ("caffe.ReLU" in ops(graph_of(tmp_path, f"{INPUT} {CONV} {layer}"))) == is_there


def test_stages_of_the_network_count(tmp_path):
    layer = 'layer { name: "r" type: "ReLU" bottom: "y" top: "y" include { stage: "deploy" min_level: 2 } }'
    state = 'state { stage: "deploy" stage: "b" level: 2 }'
    assert "caffe.ReLU" in ops(graph_of(tmp_path, f"{state} {INPUT} {CONV} {layer}"))


def test_training_network_is_read_for_inference(tmp_path):
    assert warning_codes(tmp_path, f"state {{ phase: TRAIN }} {INPUT} {CONV}") == ["CAFFE0205"]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        pytest.param('input: "x" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 9', (1, 3, 8, 9), id="four numbers"),
        pytest.param('input: "x" input_shape { dim: 2 dim: 3 }', (2, 3), id="a shape"),
        pytest.param('input: "x"', None, id="no shape"),
        pytest.param('layer { type: "Input" top: "x" }', None, id="a layer without shape"),
        pytest.param(
            'layer { type: "Input" top: "x" input_param { shape { dim: 0 dim: 3 } } }',
            (Symbol("x.0"), 3),
            id="an open extent",
        ),
        pytest.param(
            'layer { type: "MemoryData" top: "x" top: "l" memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 } }',
            (2, 3, 4, 5),
            id="memory",
        ),
        pytest.param(
            'layer { type: "Data" top: "x" top: "l" data_param { batch_size: 2 } transform_param { crop_size: 7 mean_value: 1 mean_value: 2 mean_value: 3 } }',
            (2, 3, 7, 7),
            id="a data base",
        ),
        pytest.param(
            'layer { type: "ImageData" top: "x" top: "l" image_data_param { batch_size: 2 new_height: 5 new_width: 6 is_color: false } }',
            (2, 1, 5, 6),
            id="pictures",
        ),
        pytest.param(
            'layer { type: "DummyData" top: "x" dummy_data_param { num: 2 channels: 3 height: 4 width: 5 } }',
            (2, 3, 4, 5),
            id="dummy data",
        ),
        pytest.param('layer { type: "Python" top: "x" python_param { module: "m" } }', None, id="a layer of Python"),
    ],
)
def test_data_layers_are_inputs(tmp_path, text, shape):
    graph = graph_of(tmp_path, f'{text} layer {{ name: "r" type: "ReLU" bottom: "x" top: "y" }}')
    assert graph.inputs[0].name == "x"
    assert graph.inputs[0].fact.shape == shape


def test_data_layers_of_both_phases_become_one_input(tmp_path):
    both = "".join(
        f'layer {{ name: "data" type: "Data" top: "x" include {{ phase: {phase} }} data_param {{ batch_size: {n} }} }}'
        for phase, n in (("TRAIN", 32), ("TEST", 8))
    )
    graph = graph_of(tmp_path, f'{both} layer {{ name: "r" type: "ReLU" bottom: "x" top: "y" }}')
    assert graph.inputs[0].fact.shape[0] == 8


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("name: 'empty'", "CAFFE0210", id="no layers"),
        pytest.param('layer { name: "a" bottom: "x" top: "y" }', "CAFFE0207", id="no type"),
        pytest.param(CONV, "CAFFE0208", id="a blob that nobody writes"),
        pytest.param(f"{INPUT} {INPUT}", "CAFFE0209", id="an input twice"),
        pytest.param(f"{INPUT} {CONV} {CONV}", "CAFFE0209", id="a blob written twice"),
        pytest.param(
            f'{INPUT} layer {{ type: "Slice" bottom: "x" top: "a" top: "a" }}', "CAFFE0209", id="one blob as two tops"
        ),
        pytest.param(
            f'{INPUT} layer {{ type: "ReLU" bottom: "x" top: "y" include {{ }} exclude {{ }} }}',
            "CAFFE0206",
            id="included and excluded",
        ),
        pytest.param(
            f'input: "x" input: "z" input_dim: 1 input_dim: 2 {CONV}', "CAFFE0211", id="not four numbers each"
        ),
    ],
)
def test_invalid_network_is_reported(tmp_path, text, code):
    assert code in error_codes(tmp_path, text)


def test_missing_blob_is_reported_once(tmp_path):
    follow = 'layer { name: "r" type: "ReLU" bottom: "y" top: "z" }'
    assert error_codes(tmp_path, f"{CONV} {follow}") == ["CAFFE0208"]


def test_the_nearest_blob_is_named(tmp_path):
    pooled = CONV.replace('"y"', '"pool_1"')
    with pytest.raises(DiagnosticError, match="did you mean 'pool_1'"):
        read(written(tmp_path, f'{INPUT} {pooled} layer {{ type: "ReLU" bottom: "pool1" top: "z" }}'))


def test_version_1_is_read_as_version_2(tmp_path):
    text = """
    name: "old" input: "x" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
    layers { name: "c" type: CONVOLUTION bottom: "x" top: "y" blobs_lr: 1 blobs_lr: 2 weight_decay: 0 param: "w"
      convolution_param { num_output: 2 kernel_size: 3 } }
    layers { name: "r" type: RELU bottom: "y" top: "y" relu_param { negative_slope: 0.5 } }
    layers { name: "t" type: TANH bottom: "y" top: "t" } layers { name: "l" type: LRN bottom: "t" top: "l" }
    layers { name: "b" type: BNLL bottom: "l" top: "b" } layers { name: "a" type: ABSVAL bottom: "b" top: "a" }
    layers { name: "i" type: INNER_PRODUCT bottom: "a" top: "i" inner_product_param { num_output: 4 } }
    layers { name: "s" type: SOFTMAX bottom: "i" top: "s" }
    layers { name: "loss" type: SOFTMAX_LOSS bottom: "i" bottom: "x" top: "loss" }
    """
    graph = graph_of(tmp_path, text)
    assert versions(graph) == {"layers": "1"}
    words = "Convolution ReLU TanH LRN BNLL AbsVal InnerProduct Softmax SoftmaxWithLoss"
    assert [node.op_type for node in graph] == words.split()
    assert graph.first_node.attributes == {"num_output": 2, "kernel_size": (3,)}
    specs = graph.first_node.notes["layer"].messages("param")
    assert [(spec.text("name"), spec.has("lr_mult")) for spec in specs] == [("w", True), ("", True)]


def test_version_0_is_read_as_version_2(tmp_path):
    text = """
    input: "x" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
    layers { layer { name: "p" type: "padding" pad: 2 } bottom: "x" top: "p" }
    layers { layer { name: "c" type: "conv" num_output: 4 kernelsize: 3 group: 1 stride: 2 biasterm: false
      weight_filler { type: "gaussian" } blobs_lr: 1 } bottom: "p" top: "c" }
    layers { layer { name: "r" type: "relu" } bottom: "c" top: "c" }
    layers { layer { name: "q" type: "pool" pool: AVE kernelsize: 2 stride: 2 } bottom: "c" top: "q" }
    layers { layer { name: "n" type: "lrn" local_size: 5 alpha: 0.1 beta: 0.75 } bottom: "q" top: "n" }
    layers { layer { name: "d" type: "dropout" dropout_ratio: 0.5 } bottom: "n" top: "n" }
    layers { layer { name: "i" type: "innerproduct" num_output: 3 } bottom: "n" top: "i" }
    layers { layer { name: "s" type: "softmax" } bottom: "i" top: "s" }
    """
    graph = graph_of(tmp_path, text)
    assert versions(graph) == {"layers": "0"}
    assert [node.op_type for node in graph] == [
        "Convolution",
        "ReLU",
        "Pooling",
        "LRN",
        "Dropout",
        "InnerProduct",
        "Softmax",
    ]
    convolution = {"num_output": 4, "kernel_size": (3,), "group": 1, "stride": (2,), "bias_term": False, "pad": (2,)}
    assert graph.first_node.attributes == convolution
    assert graph.first_node.inputs[0].name == "x"
    assert gp.load(tmp_path / "net.prototxt").outputs["s"].fact.shape == (1, 3)


def test_caffemodel_weights_are_assigned_by_layer_name(tmp_path):
    net = Network("net")
    net.input("x", 1, 3, 8, 8)
    net.conv("c", "x", 3, 4)
    graph, warnings = read(net.save(tmp_path))
    assert warnings == []
    assert [tuple(value.fact.shape) for value in graph.constants] == [(4, 3, 3, 3), (4,)]
    assert all(isinstance(value.storage, View) for value in graph.constants)
    np.testing.assert_array_equal(graph.first_node.inputs[1].storage.numpy(), net.weights["c"][0])


def test_weights_of_the_first_version_are_reshaped(tmp_path):
    net = Network("net")
    net.input("x", 1, 3, 2, 2)
    net.layer("InnerProduct", "i", "x", blobs=[net.normal(5, 12), net.normal(5)], inner_product_param="num_output: 5")
    new, old = (gp.load(net.save(tmp_path / folder, legacy=legacy)) for folder, legacy in (("a", False), ("b", True)))
    assert gp.compare(new, old).passed


def test_a_file_of_weights_has_its_network_inside(tmp_path):
    net = Network("net")
    net.input("x", 1, 3, 8, 8)
    net.conv("c", "x", 3, 4)
    gp.convert(net.save(tmp_path), tmp_path / "all.prototxt")
    expected = gp.load(tmp_path / "all.prototxt")
    (tmp_path / "all.prototxt").unlink()
    alone = gp.load(tmp_path / "all.caffemodel")
    assert alone.format == "caffe"
    assert gp.compare(expected, alone).passed


def test_single_caffemodel_is_used_with_a_finding(tmp_path):
    net = Network("net")
    net.input("x", 1, 3, 8, 8)
    net.conv("c", "x", 3, 4)
    path = net.save(tmp_path)
    path.with_suffix(".caffemodel").rename(tmp_path / "snapshot.caffemodel")
    graph, warnings = read(path)
    assert [finding.code for finding in warnings] == ["CAFFE0305"]
    assert all(value.storage is not None for value in graph.constants)


def test_ambiguous_caffemodel_files_are_not_used(tmp_path):
    path = written(tmp_path, f"{INPUT} {CONV}")
    for name in ("a", "b"):
        (tmp_path / f"{name}.caffemodel").write_bytes(length_field(1, b"net"))
    graph, warnings = read(path)
    assert (list(graph.constants), warnings) == ([], [])


def test_weights_of_another_network_are_noticed(tmp_path):
    path = written(tmp_path, f"{INPUT} {CONV}")
    layer = length_field(1, b"other") + length_field(7, blob_bytes(np.ones(2)))
    (tmp_path / "net.caffemodel").write_bytes(length_field(1, b"net") + length_field(100, layer))
    assert [finding.code for finding in read(path)[1]] == ["CAFFE0307"]


def test_weights_of_another_shape_are_an_error(tmp_path):
    net = Network("net")
    net.input("x", 1, 3, 8, 8)
    net.conv("c", "x", 4, 4)
    findings = gp.check(net.save(tmp_path))
    assert [finding.code for finding in findings] == ["SHAPE0001"]
    assert "weights have shape [4, 4, 3, 3], expected [4, 3, 3, 3]" in findings[0].message


def test_shapes_are_inferred_without_weights(tmp_path):
    model = gp.load(written(tmp_path, f"{INPUT} {CONV}"))
    assert model.outputs["y"].fact.shape == (1, 2, 6, 6)
    assert [node.op for node in model.graph] == ["Conv"]


def test_unknown_layer_keeps_its_attributes(tmp_path):
    more = 'layer { name: "f" type: "Fancy" bottom: "y" top: "z" fancy_param { gain: 2 mode: HARD tags: "a" tags: "b" inner { k: 1.5 } } }'
    graph, warnings = read(written(tmp_path, f"{INPUT} {CONV} {more}"))
    assert [finding.code for finding in warnings] == ["CAFFE0201"]
    assert graph.last_node.op == "caffe.Fancy"
    said = (("gain", 2), ("mode", "HARD"), ("tags", ("a", "b")), ("inner", (("k", 1.5),)))
    assert graph.last_node.attributes == {"fancy_param": said}
    assert [finding.code for finding in gp.check(tmp_path / "net.prototxt")] == ["CAFFE0201", "LEG0001"]


def test_unknown_parameter_makes_the_layer_opaque(tmp_path):
    text = CONV.replace("kernel_size: 3", "kernel_size: 3 wobble: 2")
    model = gp.load(written(tmp_path, f"{INPUT} {text}"))
    assert [node.op for node in model.graph] == ["caffe.Convolution"]
    assert any("unsupported parameter wobble" in finding.message for finding in gp.check(tmp_path / "net.prototxt"))


def test_extents_can_be_bound(tmp_path):
    text = INPUT.replace("dim: 1 dim: 3 dim: 8 dim: 8", "dim: 0 dim: 3 dim: 0 dim: 0")
    path = written(tmp_path, f"{text} {CONV}")
    assert gp.load(path, shapes={"x": (2, 3, 5, 6)}).outputs["y"].fact.shape == (2, 2, 3, 4)


@pytest.mark.parametrize("name", ["net.prototxt", "net.txt"])
def test_prototxt_is_recognized_by_content(tmp_path, name):
    assert recognize(written(tmp_path, f"# made by hand\n{INPUT} {CONV}", name)) is FORMATS["caffe"]


def test_caffemodel_is_recognized_by_content(tmp_path):
    net = Network("net")
    net.input("x", 1, 3, 8, 8)
    net.conv("c", "x", 3, 4)
    model = net.save(tmp_path).with_suffix(".caffemodel").rename(tmp_path / "weights.bin")
    assert recognize(model) is FORMATS["caffe"]


def test_a_text_that_is_no_utf_8_is_refused(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_bytes(b'name: "\xff" layer { type: "ReLU" bottom: "x" top: "y" }')
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    assert caught.value.diagnostics[0].code == "CAFFE0103"


def test_parameter_layer_becomes_a_constant(tmp_path):
    net = Network("net")
    net.input("x", 2, 3)
    net.layer("Parameter", "p", blobs=[net.normal(2, 3)], parameter_param="shape { dim: 2 dim: 3 }")
    net.layer("Eltwise", "y", "x", "p")
    model = gp.load(net.save(tmp_path))
    x = net.normal(2, 3)
    np.testing.assert_allclose(gp.run(model, {"x": x})["y"], x + net.weights["p"][0], rtol=1e-6)
