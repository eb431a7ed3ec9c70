"""Files that the runtime writes during the test: written again byte for byte, with equal results."""

import numpy as np
import openvino as ov
import pytest
from openvino import Model, PartialShape, Shape, Type
from openvino import opset13 as op

import graphport as gp
from graphport.formats.openvino import read, write
from tests.every import every

TYPES = [
    "boolean",
    "bf16",
    "f16",
    "f32",
    "f64",
    "f4e2m1",
    "f8e4m3",
    "f8e5m2",
    "f8e8m0",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u1",
    "u2",
    "u3",
    "u4",
    "u6",
    "u8",
    "u16",
    "u32",
    "u64",
    "nf4",
]
NAMES = ["a b", "<&>\"'", "tab\there", "line\nfeed", "größe", "日本", "back\\slash", "\\,", ",", "a,b", "é😀", "/a/b:0"]


def comes_back(model, folder):
    """Return the graph of the file that the runtime writes."""
    path, again = folder / "model.xml", folder / "again.xml"
    ov.serialize(model, path)
    graph, findings = read(path)
    assert not findings
    write(graph, again)
    assert again.read_bytes() == path.read_bytes()
    assert again.with_suffix(".bin").read_bytes() == path.with_suffix(".bin").read_bytes()
    return graph


def unary(shape, kind=Type.f32, name="x"):
    x = op.parameter(PartialShape(shape), kind, name=name)
    return Model([op.result(op.relu(x))], [x], "unary")


@every("count", [1, 7, 8, 13])
@every("name", TYPES)
def test_every_element_type(name, count, tmp_path):
    kind = getattr(Type, name)
    tensor = ov.Tensor(kind, Shape([count]))
    raw = tensor.data.reshape(-1).view(np.uint8)
    raw[:] = np.random.default_rng(count).integers(0, 2 if name == "boolean" else 128, raw.size)
    stored = ov.op.Constant(tensor)
    graph = comes_back(Model([op.result(stored), op.result(op.convert(stored, "f32"))], [], name), tmp_path)
    (value,) = graph.constants
    (converted,) = [node for node in ov.Core().read_model(tmp_path / "model.xml").get_ops() if "Convert" in str(node)]
    outputs = [ov.Tensor(Type.f32, Shape([count]))]
    assert converted.evaluate(outputs, [tensor])
    with np.errstate(over="ignore"):
        found = value.storage.numpy().astype(np.float32)
    np.testing.assert_array_equal(found, outputs[0].data)


@every("name", TYPES)
def test_inputs_of_every_element_type(name, tmp_path):
    x = op.parameter([2, 3], getattr(Type, name))
    assert len(comes_back(Model([op.result(x)], [x], name), tmp_path).inputs) == 1


def test_texts(tmp_path):
    texts = ["a", "", 'größe,<&>"', "x" * 300]
    stored = ov.op.Constant(ov.Tensor(np.array(texts)))
    graph = comes_back(Model([op.result(stored)], [], "texts"), tmp_path)
    assert next(iter(graph.constants)).storage.numpy().tolist() == texts


@pytest.mark.parametrize("name", NAMES)
def test_names(name, tmp_path):
    x = op.parameter([1, -1], Type.f32, name=name)
    x.output(0).set_names({name, "a,b", "c\\,d"})
    y = op.relu(x, name=f"{name}_y")
    y.output(0).set_names({f"y,{name}"})
    graph = comes_back(Model([op.result(y, name=f"result {name}")], [x], name), tmp_path)
    assert len(graph.outputs) == 1
    assert graph.outputs[0].name == f"y,{name}"


@pytest.mark.parametrize("shape", ["?", "0,3", "?,3", "1..3,..4,2..,?", "...", "2,0,3", "1..1"])
def test_shapes(shape, tmp_path):
    comes_back(unary(shape), tmp_path)


def test_what_is_written_beside_the_graph(tmp_path):
    model = unary("2,3")
    model.set_rt_info("a b", ["conversion_parameters", "x y"])
    model.set_rt_info({"k": "v", "n": {"z": 1}}, "tree")
    model.set_rt_info('<&>"', "marks")
    model.inputs[0].get_node().set_layout(ov.Layout("NC"))
    comes_back(model, tmp_path)


def test_a_model_with_preprocessing(tmp_path):
    from openvino.preprocess import PrePostProcessor

    steps = PrePostProcessor(unary("1,3,4,4"))
    steps.input().tensor().set_element_type(Type.u8).set_layout(ov.Layout("NHWC"))
    steps.input().model().set_layout(ov.Layout("NCHW"))
    steps.input().preprocess().convert_element_type(Type.f32).mean([1, 2, 3]).scale([2, 3, 4])
    model = steps.build()
    comes_back(model, tmp_path)
    x = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
    loaded = gp.load(tmp_path / "model.xml")
    (found,) = gp.run(loaded, {next(iter(loaded.inputs)): x}).values()
    np.testing.assert_allclose(found, ov.Core().compile_model(model, "CPU")([x])[0], rtol=1e-5, atol=1e-5)
