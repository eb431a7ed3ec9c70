"""Reading PNNX: the content of the graph, and errors of a file."""

from __future__ import annotations

import io
import random
import struct
import zipfile

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.storage import MappedFile
from graphport.formats import recognize
from graphport.formats.pnnx import read, write
from tests.formats.pnnx import samples

LINES = """7767517
4 3
pnnx.Input               in                       0 1 x #x=(1,4)f32
nn.Linear                fc                       1 1 x h bias=True in_features=4 out_features=2 @bias=(2)f32 @weight=(2,4)f32 #x=(1,4)f32 #h=(1,2)f32
F.relu                   act                      1 1 h y $input=h #h=(1,2)f32 #y=(1,2)f32
pnnx.Output              out                      1 0 y #y=(1,2)f32
"""
WEIGHTS = {"fc.bias": np.array([0.5, -9], "f4"), "fc.weight": np.arange(8, dtype="f4").reshape(2, 4)}
NONE = {"fc.none": np.empty(0, "f4")}


def model(folder, text=LINES, weights=WEIGHTS, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(folder / "net.pnnx.bin", "w", compression) as archive:
        for name, array in weights.items():
            archive.writestr(zipfile.ZipInfo(name), array.tobytes(), compression)
    path = folder / "net.pnnx.param"
    path.write_text(text)
    return path


def codes(path, **options):
    with pytest.raises(DiagnosticError) as caught:
        read(path, **options)
    return [finding.code for finding in caught.value.diagnostics if finding.is_error]


def test_a_type_is_an_op_type_and_its_parameters_are_attributes(tmp_path):
    graph, findings = read(model(tmp_path))
    assert findings == []
    linear, relu = graph
    assert (linear.op, linear.name) == ("pnnx.nn.Linear", "fc")
    assert linear.attributes["in_features"] == 4
    assert linear.attributes["@weight"].numpy().tolist() == WEIGHTS["fc.weight"].tolist()
    assert (relu.op, relu.inputs[0].name, relu.output.name) == ("pnnx.F.relu", "h", "y")
    assert relu.origin.line == 5
    assert [str(value.fact) for value in graph.inputs] == ["float32[1, 4]"]


def test_it_runs(tmp_path):
    loaded = gp.load(model(tmp_path))
    x = np.ones((1, 4), np.float32)
    assert gp.run(loaded, {"x": x})["y"].tolist() == [[6.5, 13.0]]


def test_weights_are_read_on_first_use(tmp_path, monkeypatch):
    path = model(tmp_path)
    seen = []
    view = MappedFile.view
    monkeypatch.setattr(
        MappedFile, "view", lambda self, start, length: seen.append(length) or view(self, start, length)
    )
    read(path)
    assert max(seen) <= 46


def test_content_is_recognized_whatever_the_name(tmp_path):
    path = model(tmp_path)
    other = tmp_path / "net.param"
    path.rename(other)
    assert recognize(other).name == "pnnx"


def test_an_operand_that_is_given_twice_has_both_names(tmp_path):
    text = """7767517
3 2
pnnx.Input in 0 1 x #x=(3)f32
torch.maximum m 2 1 x x y $input=x $other=x
pnnx.Output out 1 0 y
"""
    graph, _ = read(model(tmp_path, text, {}))
    assert graph.first_node.attributes["$"] == ("input", "other")


def test_a_tuple_is_several_outputs(tmp_path):
    text = """7767517
5 4
pnnx.Input in 0 1 x #x=(3)f32
F.relu r 1 1 x a #a=(3)f32
F.tanh t 1 1 x b #b=(3)f32
prim::TupleConstruct tu 2 1 a b c
pnnx.Output out 1 0 c
"""
    assert list(gp.load(model(tmp_path, text, {})).outputs) == ["a", "b"]


FAULTS = [
    pytest.param("", "PNNX0001", id="empty"),
    pytest.param("7767518\n1 1\n", "PNNX0001", id="another magic number"),
    pytest.param("7767517\n", "PNNX0002", id="no counts"),
    pytest.param("7767517\n9 3\n", "PNNX0002", id="counts of more than there is"),
    pytest.param(LINES.replace("4 3", "4 2"), "PNNX0002", id="fewer operands than there are"),
    pytest.param(LINES.replace("1 1 x h", "9 1 x h"), "PNNX0003", id="more operands than words"),
    pytest.param(LINES.replace("1 1 x h", "1 999999999 x h"), "PNNX0003", id="very many results"),
    pytest.param(LINES.replace("bias=True", "bias"), "PNNX0003", id="a word that is no parameter"),
    pytest.param(LINES.replace("1 1 h y", "1 1 z y"), "PNNX0004", id="an operand from nowhere"),
    pytest.param(LINES.replace("1 1 h y", "1 1 y y"), "PNNX0004", id="an operator that reads its own result"),
    pytest.param(LINES.replace("1 1 h y", "1 1 h h"), "PNNX0005", id="a result that is there already"),
    pytest.param(LINES.replace("#y=(1,2)f32\npnnx", "#y=(1,b)f32\npnnx"), "PNNX0006", id="a shape that is none"),
    pytest.param(LINES.replace("in_features=4", "in_features=4x"), "PNNX0007", id="a number that is none"),
    pytest.param(LINES.replace("in_features=4", "in_features=4 in_features=5"), "PNNX0007", id="a parameter twice"),
    pytest.param(LINES.replace("$input=h", "$input=x"), "PNNX0007", id="a name for another's operand"),
    pytest.param(LINES.replace("@weight=(2,4)f32", "@weight=(2,5)f32"), "PNNX0106", id="another length"),
    pytest.param(LINES.replace("@weight=(2,4)f32", "@weight=(99999999,99999999)f32"), "PNNX0106", id="huge"),
    pytest.param(LINES.replace("@weight=(2,4)f32", "@weight=(2,?)f32"), "PNNX0106", id="an open length"),
    pytest.param(
        LINES.replace("@bias=(2)f32", "@none=(0,4294967296,4294967296)f32"),
        "PNNX0106",
        id="no numbers, of a shape past all memory",
    ),
    pytest.param(LINES.replace("@weight", "@kernel"), "PNNX0105", id="a weight that is not there"),
]


@pytest.mark.parametrize(("text", "code"), FAULTS)
def test_fault_of_the_text_is_a_diagnostic(tmp_path, text, code):
    path = model(tmp_path, text, WEIGHTS | NONE)
    assert code in codes(path)


def test_all_faults_are_reported_at_once(tmp_path):
    text = LINES.replace("1 1 h y", "1 1 z y").replace("in_features=4", "in_features=4x")
    assert set(codes(model(tmp_path, text))) == {"PNNX0004", "PNNX0007"}


def test_place_is_line_and_column(tmp_path):
    with pytest.raises(DiagnosticError) as caught:
        read(model(tmp_path, LINES.replace("1 1 h y", "1 1 z y")))
    span = caught.value.diagnostics[0].span
    assert (span.line, span.column) == (5, 55)


def test_missing_weights_are_reported(tmp_path):
    path = model(tmp_path)
    (tmp_path / "net.pnnx.bin").unlink()
    assert codes(path) == ["PNNX0101"]


def test_compressed_weights_are_refused(tmp_path):
    assert codes(model(tmp_path, compression=zipfile.ZIP_DEFLATED)) == ["PNNX0103"]


def test_a_member_that_is_there_twice_is_refused(tmp_path):
    path = model(tmp_path)
    data = (tmp_path / "net.pnnx.bin").read_bytes()
    member = data[: data.index(b"PK\3\4", 4)]
    (tmp_path / "net.pnnx.bin").write_bytes(member + data)
    assert codes(path) == ["PNNX0104"]


@pytest.mark.parametrize("name", ["conv2", "linear", "embed"])
def test_no_damage_to_an_archive_is_a_fault_of_ours(tmp_path, name):
    path = samples.unpack(name, tmp_path)
    weights = tmp_path / f"{name}{samples.WEIGHTS}"
    whole = weights.read_bytes()
    draw = random.Random(0)
    for _ in range(200):
        damaged = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.5 else whole)
        for _ in range(draw.randrange(4)):
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.choice([0, 1, 0x50, 0xFF, draw.randrange(256)])
        weights.write_bytes(damaged)
        assert {finding.code[:6] for finding in gp.check(path)} <= {"PNNX01"}


@pytest.mark.parametrize("name", ["t_index2", "LSTM2", "F_interp_bilinear"])
def test_no_damage_to_a_text_is_a_fault_of_ours(tmp_path, name):
    path = samples.unpack(name, tmp_path)
    whole = path.read_text()
    draw = random.Random(1)
    for _ in range(150):
        at = draw.randrange(len(whole))
        text = (
            whole[:at]
            + draw.choice(["", " ", "=", "9", "-", "(", "@", "#", "\0", "é"])
            + whole[at + draw.randrange(3) :]
        )
        path.write_text(text)
        try:
            gp.check(path)
        except DiagnosticError:
            pytest.fail("check returns its findings")


def test_lengths_of_64_bits_that_lie_are_refused(tmp_path):
    path = samples.unpack("linear", tmp_path)
    weights = tmp_path / f"linear{samples.WEIGHTS}"
    data = bytearray(weights.read_bytes())
    place = data.index(b"\1\0\x1c\0") + 4
    data[place : place + 16] = struct.pack("<QQ", 1 << 62, 1 << 62)
    weights.write_bytes(data)
    assert codes(path) == ["PNNX0102"]


def test_broken_expression_is_a_warning_where_it_is_read_and_an_error_where_it_is_checked(tmp_path):
    text = """7767517
3 2
pnnx.Input in 0 1 x #x=(3)f32
pnnx.Expression e 1 1 x y expr=expm1,@0 #x=(3)f32 #y=(3)f32
pnnx.Output out 1 0 y
"""
    path = model(tmp_path, text, {})
    loaded = gp.load(path)
    assert any("expm1(@0)" in str(finding) for finding in loaded.findings)
    x = np.array([1e-4, 0, 1], np.float32)
    np.testing.assert_allclose(gp.run(loaded, {"x": x})["y"], np.expm1(x), rtol=1e-6)
    (finding, *_) = gp.check(path)
    assert finding.is_error
    assert (finding.span.line, finding.span.column) == (4, 37)


def test_an_archive_of_the_old_layout_stays_one(tmp_path):
    path = model(tmp_path)
    graph, _ = read(path)
    write(graph, tmp_path / "again.pnnx.param")
    old = (tmp_path / "again.pnnx.bin").read_bytes()
    assert b"PK\6\6" not in old
    with zipfile.ZipFile(io.BytesIO(old)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["fc.bias", "fc.weight"]


def test_unknown_types_are_written_back(tmp_path):
    text = LINES.replace("F.relu  ", "my.Thing").replace("$input=h", "who=knows $input=h")
    path = model(tmp_path, text)
    gp.convert(path, tmp_path / "again.pnnx.param", verify=False)
    assert (tmp_path / "again.pnnx.param").read_text() == text
    assert gp.convert(path, tmp_path / "net.onnx", verify=False).unsupported == {"pnnx.my.Thing": 1}


def test_it_becomes_onnx(tmp_path):
    import onnx

    report = gp.convert(model(tmp_path), tmp_path / "net.onnx")
    assert report.passed
    assert report.verification is not None
    onnx.checker.check_model(tmp_path / "net.onnx", full_check=True)


def test_complex_tensors_stay_in_the_text_as_they_are(tmp_path):
    rows = [
        "pnnx.Input               in                       0 1 x #x=(2,4)f32",
        "torch.fft.fft            f                        1 1 x y dim=-1 n=None norm=None $input=x #x=(2,4)f32 #y=(2,4)c64",
        "pnnx.Expression          a                        1 1 y z expr=abs(@0) #y=(2,4)c64 #z=(2,4)f32",
        "pnnx.Output              out                      1 0 z #z=(2,4)f32",
    ]
    text = "\n".join(["7767517", "4 3", *rows, ""])
    path = model(tmp_path, text)
    report = gp.convert(path, tmp_path / "again.pnnx.param")
    assert report.passed
    assert not report.findings
    assert (tmp_path / "again.pnnx.param").read_text() == text
