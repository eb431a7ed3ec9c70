"""Archives that somebody tampered with: refused with a finding, and nothing in them is run."""

import json
import time
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.dtypes import DType
from graphport.core.storage import Bytes
from graphport.formats.pytorch import pt2
from graphport.formats.pytorch.pt2.container import Container
from graphport.formats.pytorch.pt2.schema import SchemaError
from graphport.formats.pytorch.pt2.symbolic_sizes import OPAQUE, ExtentError, Extents
from graphport.formats.pytorch.pt2.unpickle import tensors

NAMES = Path(__file__).parent / "programs" / "names.pt2"


def members():
    """The content of a good archive by name."""
    with zipfile.ZipFile(NAMES) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(content, compression=zipfile.ZIP_STORED):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def edited(ending, edit):
    """The archive with the JSON of one member edited."""
    content = members()
    name = next(name for name in content if name.endswith(ending))
    document = json.loads(content[name])
    edit(document)
    return packed(content | {name: json.dumps(document).encode()})


def codes(data):
    start = time.process_time()
    with pytest.raises(DiagnosticError) as raised:
        pt2.read_bytes(data)
    assert time.process_time() - start < 1
    return [finding.code for finding in raised.value.diagnostics]


def weight(document, **changes):
    payload = next(iter(document["config"].values()))
    payload |= {key: value for key, value in changes.items() if key in ("path_name", "use_pickle")}
    payload["tensor_meta"] |= {key: value for key, value in changes.items() if key not in ("path_name", "use_pickle")}


def graph(document):
    return document["graph_module"]["graph"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"use_pickle": True}, id="a weight that is a pickle"),
        pytest.param({"path_name": "../../../etc/passwd"}, id="a payload outside"),
        pytest.param({"sizes": [{"as_int": 1 << 40}, {"as_int": 4}]}, id="more than the payload has"),
        pytest.param(
            {"sizes": [{"as_int": 0}, {"as_int": 1 << 40}, {"as_int": 1 << 40}], "strides": [{"as_int": 0}] * 3},
            id="no numbers, of a shape past all memory",
        ),
        pytest.param({"strides": [{"as_int": 1 << 62}, {"as_int": 1 << 62}]}, id="strides that overflow"),
        pytest.param({"storage_offset": {"as_int": -4}}, id="negative size, stride or offset"),
        pytest.param({"layout": 1}, id="sparse"),
        pytest.param({"dtype": 99}, id="an element type that is none"),
    ],
)
def test_inconsistent_weights_config_is_rejected(changes):
    assert codes(edited("_weights_config.json", lambda document: weight(document, **changes))) == ["PT0011"]


def test_use_before_definition_is_rejected():
    assert codes(edited("model.json", lambda document: graph(document)["nodes"].reverse())) == ["PT0011"]


def _swap(document):
    specs = document["graph_module"]["signature"]["output_specs"]
    specs[0], specs[1] = specs[1], specs[0]


def _name_another(document):
    names = [node["outputs"][0]["as_tensor"]["name"] for node in graph(document)["nodes"]]
    returned = document["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]
    returned["name"] = next(name for name in names if name != returned["name"])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_swap, id="another order"),
        pytest.param(_name_another, id="another value"),
        pytest.param(lambda document: graph(document)["outputs"].pop(), id="another number"),
    ],
)
def test_inconsistent_signature_is_rejected(change):
    assert codes(edited("model.json", change)) == ["PT0011"]


def test_an_archive_of_several_programs_wants_a_name():
    content = members()
    name = next(name for name in content if name.endswith("models/model.json"))
    data = packed(content | {name.replace("model.json", "other.json"): content[name]})
    assert codes(data) == ["PT0008"]


def test_bombs_and_other_archives_are_refused():
    content = members()
    name = next(name for name in content if name.endswith("models/model.json"))
    assert codes(packed(content | {name: b" " * (8 << 20)}, zipfile.ZIP_DEFLATED)) == ["PT0003"]
    assert codes(packed(content | {name: b"[" * 100_000})) == ["PT0006"]
    assert codes(packed({"a/data/aotinductor/model/x.so": b""})) == ["PT0007"]
    assert codes(b"PK\3\4") == ["PT0001"]


def test_repacked_archive_is_read():
    made, _ = pt2.read_bytes(packed(members(), zipfile.ZIP_DEFLATED))
    assert [value.name for value in made.outputs] == ["logits", "parts.0", "parts.3", "deep.again"]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "eval('1')",
        "Symbol('x', positive=True",
        "9" * 30,
        "(" * 200 + "1" + ")" * 200,
        "Add(1, 2",
        "Mul(2)) + 1",
        "",
    ],
)
def test_invalid_size_expression_is_rejected_without_evaluation(text):
    with pytest.raises(ExtentError):
        Extents().parse(text)


def test_sizes_are_read_in_both_spellings():
    extents = Extents()
    written = "Add(Mul(Integer(2), Symbol('s6', positive=True, integer=True)), Integer(1))"
    assert str(extents.parse(written)) == str(extents.parse("2*s6 + 1")) == "2*s6+1"
    assert str(extents.parse("FloorDiv(Symbol('s1', integer=True), Integer(2))")) == "s1//2"
    assert extents.parse("2**3 + (-1)**5 + 1**99999999999") == 8
    assert extents.parse("Symbol('s6')**20") is OPAQUE


def test_pickle_with_other_globals_is_rejected():
    for code in (b"\x80\x02cposix\nsystem\n(X\x04\x00\x00\x00truetR.", b"\x80\x02cbuiltins\neval\n.", b"\x80\x02\x93."):
        with pytest.raises(ValueError, match="pickle"):
            tensors(code)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 20 + "9" + "**8)" * 20, id="powers of powers"),
        pytest.param("*".join(["9" * 19] * 600), id="a product past 64 bits"),
        pytest.param("9**9**9**9", id="a tower of powers"),
        pytest.param("LShift(Integer(1), Integer(100))", id="a shift past 64 bits"),
        pytest.param("(" * 20 + "(a+b)" + "**8)" * 20, id="powers of sums"),
    ],
)
def test_oversized_size_expression_is_rejected_quickly(text):
    start = time.process_time()
    with pytest.raises(ExtentError):
        Extents().parse(text)
    assert time.process_time() - start < 1


def test_a_pickled_tensor_of_more_axes_than_any_is_refused():
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0aX\x03\0\0\0cpuK\x01tQ"
    axes = b"(" + b"K\x02" * 65 + b"t"
    call = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + axes + axes + b"\x89}tR"
    with pytest.raises(SchemaError, match="more than 64 axes"):
        tensors(b"\x80\x02}X\x01\0\0\0w" + call + b"s.")


def test_untyped_storage_uses_the_tensor_dtype():
    storage = b"(X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\0aX\x03\0\0\0cpuK\x06tQ"
    for name, expected in ((b"ctorch\nuint16\n", (DType.UINT16, 3)), (b"ctorch\nFloatStorage\n", None)):
        call = b"ctorch._utils\n_rebuild_tensor_v3\n(" + storage + b"K\0K\x03\x85K\x01\x85\x89}" + name + b"tR"
        pickled = b"\x80\x02}X\x01\0\0\0w" + call + b"s."
        if expected is None:
            with pytest.raises(SchemaError, match="without an element type"):
                tensors(pickled)
        else:
            found = tensors(pickled)["w"]
            assert ((found.storage.dtype, found.storage.length), found.sizes) == (expected, (3,))


def test_repeated_decompression_is_limited():
    data = packed({"a/x": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)
    container = Container(Bytes(data), Source("m.pt2"))
    with pytest.raises(DiagnosticError, match="PT0003"):
        [container.placed("x") for _ in range(40)]
