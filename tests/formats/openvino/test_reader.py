"""Reading files, and the errors of invalid files: a diagnostic with a code, a line and a layer for each."""

import re

import numpy as np
import pytest

import graphport as gp
from graphport.core.dims import bounds
from graphport.core.dtypes import DType
from graphport.formats.openvino import recognizes, versions
from graphport.formats.openvino.container.limits import Limits
from graphport.formats.openvino.container.reader import read
from graphport.ops.declare import ElementTypeError, ShapeError
from graphport.ops.infer import is_foreign
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir


def relu(folder, shape="1,4", **options):
    return write_ir(folder, [parameter("x", shape), Layer("y", "opset1.ReLU", {}, ["x"])], ["y"], **options)


def with_constant(folder):
    layers = [parameter("x", "4"), constant("w", [1, 2, 3, 4], "float32"), Layer("y", "opset1.Add", {}, ["x", "w"])]
    return write_ir(folder, layers, ["y"])


def edited(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


def codes(path):
    return [(str(finding.severity), finding.code) for finding in gp.check(path)]


# Shapes of inputs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1,3", [(1, 1), (3, 3)], id="numbers"),
        pytest.param(" 1 , 3 ", [(1, 1), (3, 3)], id="blanks"),
        pytest.param("[1,3]", [(1, 1), (3, 3)], id="brackets"),
        pytest.param("?,3", [(1, None), (3, 3)], id="open"),
        pytest.param("-1,3", [(1, None), (3, 3)], id="open as a number"),
        pytest.param("2..5,3", [(2, 5), (3, 3)], id="interval"),
        pytest.param("2..,..4", [(2, None), (0, 4)], id="half open"),
        pytest.param("..,3", [(1, None), (3, 3)], id="open on both sides"),
        pytest.param("4..4", [(4, 4)], id="interval of one"),
        pytest.param("", [], id="scalar"),
    ],
)
def test_shape_of_a_parameter(text, expected, tmp_path):
    fact = gp.load(relu(tmp_path, text)).inputs["x"].fact
    assert [bounds(dim) for dim in fact.shape] == expected


def test_parameter_of_any_rank(tmp_path):
    assert gp.load(relu(tmp_path, "...")).inputs["x"].fact.shape is None


@pytest.mark.parametrize("text", ["N", "1,,2", "5..2", "1..2..3", "99999999999999999999", "-2"])
def test_shapes_that_cannot_be_read(text, tmp_path):
    assert codes(relu(tmp_path, text)) == [("error", "OV0204")]


# The XML


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param([('<?xml version="1.0"?>', '<?xml version="1.0"?><!DOCTYPE net>')], "OV0003", id="document type"),
        pytest.param(
            [('<?xml version="1.0"?>', '<!DOCTYPE net [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>')], "OV0003", id="entities"
        ),
        pytest.param([("</net>", "")], "OV0001", id="cut"),
        pytest.param([("</net>", "&nothing;</net>")], "OV0001", id="unknown entity"),
        pytest.param([('version="11"', 'version="9"')], "OV0006", id="version 9"),
        pytest.param([('version="11"', "")], "OV0006", id="no version"),
        pytest.param([("<net", "<network"), ("</net>", "</network>")], "OV0005", id="no net"),
        pytest.param([('id="1" name="y"', 'id="0" name="y"')], "OV0103", id="a number twice"),
        pytest.param([('id="1" name="y"', 'id="one" name="y"')], "OV0102", id="a number in words"),
        pytest.param([('id="1" name="y"', 'id="99999999999999999999" name="y"')], "OV0102", id="a number too long"),
        pytest.param([('id="1" name="y"', 'id="1"')], "OV0101", id="no name"),
        pytest.param([('from-layer="0"', 'from-layer="7"')], "OV0104", id="edge from nowhere"),
        pytest.param([('to-port="0"', 'to-port="5"')], "OV0104", id="edge to no port"),
        pytest.param([('from-layer="0" ', "")], "OV0104", id="edge without beginning"),
        pytest.param([('precision="UNSPECIFIED"', 'precision="FP33"')], "OV0107", id="no precision"),
        pytest.param([('type="ReLU"', 'type="Constant"')], "OV0201", id="Const by another name"),
        pytest.param([('element_type="f32"', 'element_type="f33"')], "OV0203", id="unknown element type"),
    ],
)
def test_fault_of_the_text_is_found(changes, code, tmp_path):
    found = [finding.code for finding in gp.check(edited(relu(tmp_path), *changes)) if finding.is_error]
    assert found[:1] == [code]


def test_cycle_is_named(tmp_path):
    path = edited(
        relu(tmp_path), ('from-layer="0" from-port="0" to-layer="1"', 'from-layer="1" from-port="1" to-layer="1"')
    )
    (finding,) = gp.check(path)
    assert (finding.code, finding.span.line, finding.span.place) == ("OV0110", 8, 'layer 1 "y"')


def test_unconnected_operand_is_found(tmp_path):
    path = relu(tmp_path)
    text = path.read_text()
    path.write_text(text.replace(re.search(r"<edge .*\n", text)[0], "", 1))
    assert codes(path) == [("error", "OV0106")]


def test_two_edges_on_one_port_are_found(tmp_path):
    path = relu(tmp_path)
    edge = re.search(r"<edge .*\n", path.read_text())[0]
    assert codes(edited(path, (edge, edge + edge))) == [("error", "OV0105")]


def test_layers_in_any_order_are_sorted(tmp_path):
    path = write_ir(
        tmp_path,
        [Layer("z", "opset1.Tanh", {}, ["y"]), Layer("y", "opset1.ReLU", {}, ["x"]), parameter("x", "2")],
        ["z"],
    )
    assert [node.name for node in gp.load(path, raw=True).graph] == ["y", "z"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_encodings(encoding, tmp_path):
    path = relu(tmp_path)
    path.write_bytes(path.read_text().replace('name="y"', 'name="größe"').encode(encoding))
    assert list(gp.load(path).outputs) == ["größe"]


def test_places_count_characters(tmp_path):
    path = edited(relu(tmp_path), ('<net name="test"', '<net name="größe"'), ('type="ReLU"', 'type="Rolu"'))
    (finding,) = [finding for finding in gp.check(path) if finding.code == "OV0201"]
    assert finding.span.line == 8
    assert finding.span.source.text[finding.span.start : finding.span.stop] == "<layer"


def test_text_that_is_no_utf_8(tmp_path):
    path = relu(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'name="y"', b'name="\xff"'))
    assert codes(path) == [("error", "OV0002")]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("<a>" * 1000 + "</a>" * 1000, id="depth"),
        pytest.param("<a/>" * 1001, id="elements"),
        pytest.param("<a " + " ".join(f'b{n}=""' for n in range(20_000)) + "/>", id="attributes"),
        pytest.param(f'<a b="{"c" * 200_000}"/>', id="length"),
    ],
)
def test_limits(content, tmp_path):
    path = edited(relu(tmp_path), ("<rt_info />", content))
    with pytest.raises(gp.DiagnosticError, match="OV0004"):
        read(path, limits=Limits(elements=1000, tag=199_000))


def test_files_that_are_too_long_are_not_read(tmp_path):
    with pytest.raises(gp.DiagnosticError, match="OV0004"):
        read(relu(tmp_path), limits=Limits(size=100))


# Attributes


def test_attributes_are_complete_and_typed(tmp_path):
    data = {"kernel": "2, 3", "strides": "1,2", "pads_begin": "0,0", "pads_end": "0,0", "exclude-pad": "TRUE"}
    layers = [parameter("x", "1,2,8,8"), Layer("y", "opset1.AvgPool", data, ["x"])]
    (node,) = gp.load(write_ir(tmp_path, layers, ["y"]), raw=True).graph
    assert node.attributes == {
        "kernel": (2, 3),
        "strides": (1, 2),
        "pads_begin": (0, 0),
        "pads_end": (0, 0),
        "exclude_pad": True,
        "auto_pad": "explicit",
        "rounding_type": "floor",
    }


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("opset13.add", "opset1.Add"),
        ("opset1.ADD", "opset1.Add"),
        ("opset16.Maximum", "opset1.Maximum"),
        ("opset12.Power", "opset1.Power"),
    ],
)
def test_op_types_are_those_of_their_first_operation_set(op_type, expected, tmp_path):
    layers = [parameter("x", "2"), parameter("z", "2"), Layer("y", op_type, {}, ["x", "z"])]
    (node,) = gp.load(write_ir(tmp_path, layers, ["y"]), raw=True).graph
    assert node.op_type == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({"special_zero": "1"}, [], id="a bool as a number"),
        pytest.param({"special_zero": "yes"}, [("warning", "OV0203")], id="no bool"),
        pytest.param({}, [("warning", "OV0202")], id="left out"),
        pytest.param({"special_zero": "true", "magic": "1"}, [("warning", "OV0205")], id="unknown"),
    ],
)
def test_ignored_attributes_are_reported(data, expected, tmp_path):
    layers = [parameter("x", "2,3"), constant("s", [6], "int64"), Layer("y", "opset1.Reshape", data, ["x", "s"])]
    assert codes(write_ir(tmp_path, layers, ["y"])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("nan", [("error", "OV0203")]), ("1e400", [("error", "OV0203")]), ("-inf", []), ("1e-400", [])],
)
def test_numbers_that_nothing_is_computed_with_are_reported(text, expected, tmp_path):
    file = write_ir(tmp_path, [parameter("x", "2,3"), Layer("y", "opset1.Elu", {"alpha": text}, ["x"])], ["y"])
    assert codes(file) == expected


@pytest.mark.parametrize(
    ("op_type", "data", "code"),
    [
        pytest.param(
            "opset1.Convolution", {"pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}, "OV0202", id="missing"
        ),
        pytest.param("opset4.Range", {}, "OV0202", id="no type of the result"),
        pytest.param("opset4.Range", {"output_type": "f33"}, "OV0203", id="no type at all"),
        pytest.param("opset1.Add", {"auto_broadcast": "foo"}, "OV0203", id="no such way to broadcast"),
        pytest.param("opset1.Concat", {"axis": "one"}, "OV0203", id="no number"),
        pytest.param("opset1.Concat", {"axis": "9" * 30}, "OV0203", id="a number too long"),
    ],
)
def test_faults_of_attributes(op_type, data, code, tmp_path):
    layers = [parameter("x", "2"), Layer("y", op_type, data, ["x", "x", "x"])]
    assert code in [finding.code for finding in gp.check(write_ir(tmp_path, layers, ["y"]))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1x", (1, 1), id="text behind it"),
        pytest.param("1.9", (1, 1), id="a fraction"),
        pytest.param("1e3", (1, 1), id="an exponent"),
        pytest.param("1 3", (1, 1), id="a second one"),
        pytest.param("1,1,", (1, 1), id="a comma at the end"),
    ],
)
def test_of_a_number_its_beginning_is_taken_and_reported(text, expected, tmp_path):
    import openvino

    window = {"strides": text if "," in text else f"{text},1", "pads_begin": "0,0", "pads_end": "0,0"}
    layers = [
        parameter("x", "1,1,8,8"),
        parameter("w", "1,1,3,3"),
        Layer("y", "opset1.Convolution", {**window, "dilations": "1,1"}, ["x", "w"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    assert codes(path) == [("warning", "OV0203")]
    (node,) = gp.load(path, raw=True).graph
    assert node.attributes["strides"] == expected
    assert openvino.Core().read_model(path).outputs[0].get_partial_shape().to_shape() == openvino.Shape([1, 1, 6, 6])
    gp.save(gp.load(path, raw=True), path)
    assert f'strides="{window["strides"]}"' in path.read_text()


@pytest.mark.parametrize("shape", ["3,1", "1,3", "3", "2,3,1"])
def test_operands_that_are_not_broadcast_have_one_shape(shape, tmp_path):
    layers = [parameter("x", "2,3"), parameter("z", shape), Layer("y", "opset1.Add", {"auto_broadcast": "none"}, "xz")]
    assert codes(write_ir(tmp_path, layers, ["y"])) == [("error", "SHAPE0001")]


@pytest.mark.parametrize("shape", ["2,3", "2,?", "..."])
def test_operands_of_one_shape_need_no_broadcast(shape, tmp_path):
    layers = [parameter("x", "2,3"), parameter("z", shape), Layer("y", "opset1.Add", {"auto_broadcast": "none"}, "xz")]
    path = write_ir(tmp_path, layers, ["y"])
    assert not gp.check(path)
    assert [node.op for node in gp.load(path).graph] == ["Add"]


PDPD_AXIS = "auto_broadcast.auto_broadcast_axis"
FITTED = {"opset1.Power": np.power, "opset1.Less": np.less, "opset1.Maximum": np.maximum}


@pytest.mark.parametrize("op_type", FITTED)
@pytest.mark.parametrize(
    ("shape", "axis", "fitted"),
    [
        pytest.param((3,), 1, (1, 3, 1), id="an axis in the middle"),
        pytest.param((2, 3), 0, (2, 3, 1), id="axes at the beginning"),
        pytest.param((2,), None, (2, 1, 1), id="the first axis where none is said"),
        pytest.param((3, 4), -1, (1, 3, 4), id="axes at the end"),
        pytest.param((2, 1, 4), 0, (2, 1, 4), id="an axis of 1 between"),
        pytest.param((), -1, (1, 1, 1), id="a scalar"),
    ],
)
def test_operands_are_fitted_from_an_axis_on(op_type, shape, axis, fitted, tmp_path):
    openvino = pytest.importorskip("openvino")
    rule = {"auto_broadcast": "pdpd"} | ({} if axis is None else {PDPD_AXIS: axis})
    dims = ",".join(map(str, shape))
    path = write_ir(tmp_path, [parameter("x", "2,3,4"), parameter("z", dims), Layer("y", op_type, rule, "xz")], ["y"])
    assert not gp.check(path)
    assert openvino.Core().read_model(path).outputs[0].get_shape() == openvino.Shape([2, 3, 4])
    feeds = {"x": np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4) / 8}
    feeds["z"] = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape) / 4
    expected = FITTED[op_type](feeds["x"], feeds["z"].reshape(fitted))
    model = gp.load(path)
    np.testing.assert_allclose(gp.run(model, feeds, backend="reference")["y"], expected, rtol=1e-5)
    gp.save(model, tmp_path / "again.xml")
    again = openvino.Core().compile_model(tmp_path / "again.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_allclose(again(list(feeds.values()))[0], expected, rtol=1e-5)


def test_a_choice_is_fitted_from_an_axis_on(tmp_path):
    layers = [parameter("c", "3", "boolean"), parameter("x", "2,3,4"), parameter("z", "3,1")]
    rule = {"auto_broadcast": "pdpd", PDPD_AXIS: 1}
    path = write_ir(tmp_path, [*layers, Layer("y", "opset1.Select", rule, "cxz")], ["y"])
    feeds = {"c": np.array([True, False, True]), "x": np.ones((2, 3, 4), np.float32)}
    feeds["z"] = np.array([[5], [6], [7]], np.float32)
    expected = np.where(feeds["c"][:, None], feeds["x"], feeds["z"])
    assert np.array_equal(gp.run(gp.load(path), feeds, backend="reference")["y"], expected)


@pytest.mark.parametrize(
    ("shape", "axis"), [("3,4", 2), ("3,4", -2), ("2,2,3,4", -1), ("4", 1), ("2,3,5", 0)], ids=lambda found: f"{found}"
)
def test_operands_that_do_not_fit_from_an_axis_on_are_refused(shape, axis, tmp_path):
    layers = [parameter("x", "2,3,4"), parameter("z", shape)]
    rule = {"auto_broadcast": "pdpd", PDPD_AXIS: axis}
    path = write_ir(tmp_path, [*layers, Layer("y", "opset1.Add", rule, "xz")], ["y"])
    assert codes(path) == [("error", "SHAPE0001")]


def test_where_operands_are_fitted_from_stays_in_the_file(tmp_path):
    layers = [parameter("x", "2,3,4"), parameter("z", "3"), parameter("s", "1")]
    rule = {"auto_broadcast": "pdpd", PDPD_AXIS: 1}
    fitted = Layer("y", "opset1.Add", rule, "xz")
    path = write_ir(tmp_path, [*layers, fitted, Layer("t", "opset1.Add", {}, "ys")], ["t"])
    model = gp.load(path, raw=True)
    assert next(iter(model.graph)).attributes == {"auto_broadcast": "pdpd", "auto_broadcast_axis": 1}
    gp.save(model, tmp_path / "again.xml")
    assert (tmp_path / "again.xml").read_text().count(f'{PDPD_AXIS}="1"') == 1


@pytest.mark.parametrize("batches", [2, 2_000_000_000, -3])
def test_axes_of_batches_stand_in_front_of_the_one_that_is_gathered_from(batches, tmp_path):
    layers = [parameter("x", "2,5,3"), parameter("i", "2,4", "i64"), constant("axis", 1, "int64")]
    gather = Layer("y", "opset8.Gather", {"batch_dims": batches}, ["x", "i", "axis"])
    assert codes(write_ir(tmp_path, [*layers, gather], ["y"])) == [("error", "SHAPE0001")]


@pytest.mark.parametrize(("size", "code"), [(0, ("error", "SHAPE0001")), (2**31 - 1, ("warning", "LEG0001"))])
def test_windows_of_a_normalization_have_some_entries_and_not_billions(size, code, tmp_path):
    said = {"alpha": 0.3, "beta": 0.7, "bias": 1.5, "size": size}
    layers = [parameter("x", "1,4,5,6"), constant("axes", [2, 3], "int64")]
    path = write_ir(tmp_path, [*layers, Layer("y", "opset1.LRN", said, ["x", "axes"])], ["y"])
    assert codes(path) == [code]


def test_result_in_lower_case_is_no_output(tmp_path):
    path = edited(relu(tmp_path), ('type="Result"', 'type="result"'))
    assert codes(path)[0] == ("warning", "OV0201")
    assert not gp.load(path, raw=True).outputs


def test_declared_types_that_contradict_are_warnings(tmp_path):
    path = edited(relu(tmp_path), ('<port id="1" precision="UNSPECIFIED"', '<port id="1" precision="I64"'))
    assert codes(path)[0] == ("warning", "SHAPE0002")


# Weights


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param([('offset="0"', 'offset="18446744073709551608"')], "OV0302", id="offset past 64 bits"),
        pytest.param([('offset="0"', 'offset="1"')], "OV0302", id="one byte too far"),
        pytest.param([('offset="0"', 'offset="-1"')], "OV0303", id="before the file"),
        pytest.param([('size="16"', 'size="15"')], "OV0304", id="too small"),
        pytest.param(
            [('shape="4"', 'shape="4294967296, 4294967296"'), ('size="16"', 'size="0"')], "OV0304", id="wraps to 0"
        ),
        pytest.param(
            [('shape="4"', 'shape="0, 4294967296, 4294967296"'), ('size="16"', 'size="0"')],
            "OV0304",
            id="no numbers, of a shape past all memory",
        ),
        pytest.param([('shape="4"', 'shape="four"')], "OV0303", id="shape in words"),
        pytest.param([('shape="4" ', "")], "OV0202", id="no shape"),
        pytest.param([('element_type="f32" shape="4"', 'element_type="f33" shape="4"')], "OV0203", id="no type"),
    ],
)
def test_faults_of_constants(changes, code, tmp_path):
    path = with_constant(tmp_path)
    data = re.search(r"<data element_type.*offset.*/>", path.read_text())[0]
    changed = data
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new)
    assert codes(edited(path, (data, changed))) == [("error", code)]


def test_weights_that_do_not_exist(tmp_path):
    path = with_constant(tmp_path)
    path.with_suffix(".bin").unlink()
    (finding,) = gp.check(path)
    assert (finding.code, finding.span.line, finding.span.place) == ("OV0301", 8, 'layer 1 "w"')


def test_a_model_without_constants_needs_no_weights(tmp_path):
    path = relu(tmp_path)
    path.with_suffix(".bin").unlink()
    assert not gp.check(path)


# 0x21 0x43 0xb5 0x9e 0x00 0xff
RAW = bytes.fromhex("2143b59e00ff")


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "expected"),
    [
        ("u4", "8", DType.UINT4, [1, 2, 3, 4, 5, 11, 14, 9]),
        ("i4", "8", DType.INT4, [1, 2, 3, 4, 5, -5, -2, -7]),
        ("f4e2m1", "8", DType.FLOAT4E2M1, [0.5, 1, 1.5, 2, 3, -1.5, -4, -0.5]),
        ("u2", "4", DType.UINT2, [1, 0, 2, 0]),
        ("u1", "8", DType.UINT8, [0, 0, 1, 0, 0, 0, 0, 1]),
        ("u8", "6", DType.UINT8, [33, 67, 181, 158, 0, 255]),
        ("u16", "3", DType.UINT16, [17185, 40629, 65280]),
        # Bytes 0 and 1 hold the low two bits of eight elements from the highest bits on, byte 2 their high bits.
        ("u3", "8", DType.UINT8, [0 + 4, 2, 0 + 4, 1 + 4, 1, 0 + 4, 0, 3 + 4]),
        # Bytes 0 and 1 hold the low nibbles of four elements, the higher one first, byte 2 the high two bits of each.
        ("u6", "4", DType.UINT8, [2 + 32, 1 + 48, 4 + 16, 3 + 16]),
        ("nf4", "2", DType.FLOAT32, [-0.6961928, -0.52507305]),
    ],
)
def test_narrow_types(name, shape, dtype, expected, tmp_path):
    layers = [
        parameter("x", "1"),
        Layer("w", "opset1.Const", {"element_type": name, "shape": shape, "offset": RAW, "size": 0}),
        Layer("y", "opset1.Add", {}, ["x", "x"]),
        Layer("z", "my.Reader", {}, ["w"]),
    ]
    path = write_ir(tmp_path, layers, ["y", "z"])
    graph, _ = read(path)
    (value,) = graph.constants
    assert value.fact.dtype is dtype
    np.testing.assert_allclose(value.storage.numpy().astype(np.float64), expected, rtol=1e-6)


def texts(*ends, body=b"abc", count=None):
    return np.array([len(ends) if count is None else count, 0, *ends], "<i4").tobytes() + body


def write_texts(folder, raw, shape):
    layers = [
        Layer("w", "opset1.Const", {"element_type": "string", "shape": shape, "offset": raw, "size": 0}),
        Layer("y", "my.Reader", {}, ["w"]),
    ]
    return write_ir(folder, layers, ["y"])


def test_texts(tmp_path):
    graph, _ = read(write_texts(tmp_path, texts(1, 1, 3), "3"))
    (value,) = graph.constants
    assert value.storage.numpy().tolist() == ["a", "", "bc"]


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        pytest.param(texts(1, 3), "3", id="another number of texts"),
        pytest.param(texts(3, 1), "2", id="an end before the last one"),
        pytest.param(texts(1, 4), "2", id="an end past the last byte"),
        pytest.param(texts(-1), "1", id="an end before the first byte"),
        pytest.param(texts(1)[:4], "1", id="cut in the head"),
    ],
)
def test_damaged_texts(raw, shape, tmp_path):
    assert ("error", "OV0305") in codes(write_texts(tmp_path, raw, shape))


# The whole


def test_version_10_has_no_tensor_names(tmp_path):
    path = relu(tmp_path, version="10", ports=' names="t"')
    model = gp.load(path)
    assert list(model.inputs) == ["x"]
    assert list(model.outputs) == ["y"]
    assert versions(read(path)[0]) == {"ir": "10", "opset": "1"}


def test_value_returned_twice_has_two_names(tmp_path):
    path = write_ir(tmp_path, [parameter("x", "2"), Layer("y", "opset1.ReLU", {}, ["x"])], ["y", "y", "x"])
    x = np.array([-1, 2], np.float32)
    found = gp.run(gp.load(path), {"x": x})
    assert [array.tolist() for array in found.values()] == [[0, 2], [0, 2], [-1, 2]]


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.xml", b"", True),
        ("a", b'<?xml version="1.0"?>\n<net name="x" version="11">', True),
        ("a", b"\xef\xbb\xbf<Net>", True),
        ("a", '<?xml version="1.0"?><net>'.encode("utf-16"), True),
        ("a", b"<html>", False),
        ("a.onnx", b"\x08\x07", False),
    ],
)
def test_recognized_by_content_then_by_name(name, head, expected, tmp_path):
    assert recognizes(tmp_path / name, head) is expected


@pytest.mark.parametrize(
    ("error", "dialect", "expected"),
    [(ElementTypeError, "openvino", True), (ElementTypeError, "nnef", False), (ShapeError, "openvino", False)],
)
def test_a_type_that_onnx_does_not_compute_in_leaves_a_layer_as_it_is(error, dialect, expected):
    assert is_foreign(error("x is uint8"), dialect) is expected
