"""Syntactic variants of one small file: our diagnostics for each, and whether the runtime accepts it.

The rows follow the clauses of the file format. Where `taken` differs from our result, we accept an unambiguous file
with a warning, or refuse a file that is no XML or that the runtime misreads.
"""

import numpy as np
import pytest

import graphport as gp
from tests.every import every

BASE = """<?xml version="1.0"?>
<net name="f" version="11">
	<layers>
		<layer id="0" name="x" type="Parameter" version="opset1">
			<data shape="1,4" element_type="f32" />
			<output><port id="0" precision="FP32" names="xt"><dim>1</dim><dim>4</dim></port></output>
		</layer>
		<layer id="1" name="w" type="Const" version="opset1">
			<data element_type="f32" shape="4" offset="0" size="16" />
			<output><port id="0" precision="FP32" ><dim>4</dim></port></output>
		</layer>
		<layer id="2" name="add" type="Add" version="opset1">
			<data auto_broadcast="numpy" />
			<input>
				<port id="0" precision="FP32"><dim>1</dim><dim>4</dim></port>
				<port id="1" precision="FP32"><dim>4</dim></port>
			</input>
			<output><port id="2" precision="FP32" names="yt"><dim>1</dim><dim>4</dim></port></output>
		</layer>
		<layer id="3" name="result" type="Result" version="opset1">
			<input><port id="0" precision="FP32"><dim>1</dim><dim>4</dim></port></input>
		</layer>
	</layers>
	<edges>
		<edge from-layer="0" from-port="0" to-layer="2" to-port="0" />
		<edge from-layer="1" from-port="0" to-layer="2" to-port="1" />
		<edge from-layer="2" from-port="2" to-layer="3" to-port="0" />
	</edges>
	<rt_info />
</net>
"""
UNCHECKED = ("-2,4", "3..1,4", f"{2**63},4")
"""Shapes that the runtime reads as something else, and cannot compile."""
LAYER = '<layer id="2" name="add" type="Add" version="opset1">'
DATA = '<data auto_broadcast="numpy" />'
LAST = '<edge from-layer="2" from-port="2" to-layer="3" to-port="0" />'
X, W, Y, RESULT = 'names="xt"><dim>1</dim>', '"FP32" ><dim>4</dim>', 'names="yt"><dim>1</dim>', 'put><port id="0" pre'
E = "error"
WARN = "warning"
RT_INFO = '<attribute name="fused_names" version="0" value="a" /><attribute name="mine" version="0" value="b" />'
DEAD = '<layer id="9" name="d" type="{}" version="opset1"><output><port id="0" precision="FP32" /></output></layer></layers>'


def row(clause, *changes, says=(), taken=None):
    """A file with these changes, our findings, and whether the runtime accepts it (default: as we do)."""
    expected = [] if not says else says if isinstance(says, list) else [says]
    refuses = any(severity == E for severity, _ in expected)
    return pytest.param(changes, expected, not refuses if taken is None else taken, id=clause)


def renamed(old, new):
    """Layer 3 by another number, and its edge too."""
    return [('"3" name="result"', f'"{old}" name="result"'), ('to-layer="3"', f'to-layer="{new}"')]


ROWS = [
    # The file
    row("as it is"),
    row("version 9", ('"11"', '"9"'), says=(E, "OV0006")),
    row("version 12", ('"11"', '"12"'), says=(E, "OV0006")),
    row("no version", (' version="11"', ""), says=(E, "OV0006")),
    row("version 11.0", ('"11"', '"11.0"'), says=(E, "OV0006"), taken=False),
    row("the root in capitals", ("<net ", "<NET "), ("</net>", "</NET>")),
    row("another root", ("<net ", "<nets "), ("</net>", "</nets>"), says=(E, "OV0005")),
    row("no name", (' name="f"', "")),
    row("lines that end as on Windows", ("\n", "\r\n")),
    row("no declaration", ('<?xml version="1.0"?>\n', "")),
    row("comments", ("<layers>", "<!-- a --><layers><!-- <layer> -->")),
    row("an instruction", ("<layers>", "<?a b?><layers>")),
    row("no rt_info", ("<rt_info />", "")),
    row("an element that nobody knows", ("<rt_info />", "<rt_info /><mine a='1'><b /></mine>")),
    row("two sections of layers", ("<layers>", "<layers></layers><layers>"), says=(E, "OV0111"), taken=True),
    row("an attribute twice is no XML", (DATA, '<data a="" a="" />'), says=(E, "OV0001"), taken=True),
    row("text behind the end is no XML", ("</net>", "</net>text"), says=(E, "OV0001"), taken=True),
    # Numbers and names of layers
    row("no id", ('id="2" name', "name"), says=(E, "OV0101")),
    row("no name of a layer", ('name="add" ', ""), says=(E, "OV0101")),
    row("no type", ('type="Add" ', ""), says=(E, "OV0101")),
    row("no version of a layer", ('type="Add" version="opset1"', 'type="Add"'), says=(E, "OV0101")),
    row("numbers with gaps", *renamed("30", "30")),
    row("a number with a zero in front", *renamed("03", "3")),
    row("a number with a blank in front", *renamed(" 3", "3")),
    row("a number with a sign", *renamed("+3", "3")),
    row("an edge to a number with a zero in front", *renamed("3", "03")),
    row("a negative number", *renamed("-3", "-3"), says=(E, "OV0102")),
    row("a number in words", *renamed("three", "three"), says=(E, "OV0102")),
    row("a number with a letter behind", *renamed("3x", "3"), says=(E, "OV0102")),
    row("2 to the 63 as a number", *renamed(2**63, 2**63), says=(E, "OV0102")),
    row("the largest number", *renamed(2**63 - 1, 2**63 - 1)),
    row("a number twice", ('"1" name="w"', '"0" name="w"'), says=(E, "OV0103")),
    row("an empty name", ('name="add"', 'name=""')),
    row("a name twice", ('name="add"', 'name="x"')),
    row("an attribute of a layer that nobody knows", (LAYER, LAYER.replace(">", ' mine="1">'))),
    row("an element of a layer that nobody knows", (DATA, DATA + "<mine a='1'><b /></mine>")),
    row("a layer that nobody needs", ("</layers>", DEAD.format("ReLU"))),
    row("a layer that nobody needs or knows", ("</layers>", DEAD.format("Foo")), says=(WARN, "OV0201")),
    # Ports
    row("any numbers of ports", ('id="1" pre', 'id="77" pre'), ('to-port="1"', 'to-port="77"')),
    row("no number of a port", ('id="1" pre', "pre"), says=(E, "OV0102")),
    row("a port in words", ('id="1" pre', 'id="b" pre'), ('to-port="1"', 'to-port="b"'), says=(E, "OV0102")),
    row("a negative port", ('id="1" pre', 'id="-1" pre'), ('to-port="1"', 'to-port="-1"'), says=(E, "OV0102")),
    row("no precision of an operand", ('id="1" precision="FP32"', 'id="1"')),
    row("a precision of an operand that is none", ('id="1" precision="FP32"', 'id="1" precision="FP33"')),
    row("no precision", ('id="2" precision="FP32"', 'id="2"'), says=(E, "OV0107")),
    row("no precision of a Parameter", ('precision="FP32" names="xt"', 'names="xt"'), says=(E, "OV0107")),
    row("no precision of a Const", (W, W.replace('"FP32" ', '"" ')), says=(E, "OV0107")),
    row("a precision that is none", ('id="2" precision="FP32"', 'id="2" precision="FP33"'), says=(E, "OV0107")),
    row("a precision as attributes spell it", ('id="2" precision="FP32"', 'id="2" precision="f32"')),
    row("the case of a precision", ('"FP32" names="yt"', '"fp32" names="yt"'), says=(WARN, "OV0107"), taken=False),
    row("a precision that is not inferred", ('"FP32" names="yt"', '"I64" names="yt"'), says=(WARN, "SHAPE0002")),
    row("the precision of a Parameter", ('"FP32" names="xt"', '"I64" names="xt"'), says=(WARN, "OV0112")),
    row("the precision of a Const", (W, W.replace("FP32", "I64")), says=(WARN, "OV0112")),
    row("a dim that is not inferred", (Y, Y.replace("1", "7")), says=[(WARN, "OV0112"), (WARN, "SHAPE0002")]),
    row("a rank that is not inferred", (Y, 'names="yt">'), says=[(WARN, "OV0112"), (WARN, "SHAPE0002")]),
    row(
        "a dim of an input port",
        (RESULT + 'cision="FP32"><dim>1', RESULT + 'cision="FP32"><dim>7'),
        says=(WARN, "OV0112"),
    ),
    row("an open dim of an input port", (RESULT + 'cision="FP32"><dim>1', RESULT + 'cision="FP32"><dim>-1')),
    row("operands of two shapes that are not broadcast", (DATA, DATA.replace("numpy", "none")), says=(E, "SHAPE0001")),
    row("a dim of a Parameter", (X, X.replace("1", "2")), says=(WARN, "OV0112")),
    row("a dim of a Const", (W, W.replace("4", "5")), says=(WARN, "OV0112")),
    row("an open dim", (Y, Y.replace("1", "-1"))),
    row("a dim below -1", (Y, Y.replace("1", "-2")), says=(E, "OV0108")),
    row("a dim in words", (Y, Y.replace("1", "N")), says=(E, "OV0108")),
    row(
        "a dim of an operand in words",
        (RESULT, RESULT),
        ("</dim></port></input>", "</dim><dim>N</dim></port></input>"),
        says=(E, "OV0108"),
    ),
    row("a dim with blanks", (Y, Y.replace("1", " 1 "))),
    row("a dim that begins as a number", (Y, Y.replace("1", "1..3"))),
    row("an empty dim", (Y, Y.replace("1", "")), says=(E, "OV0108")),
    row("a dim of 2 to the 63", (Y, Y.replace("1", str(2**63))), says=(E, "OV0108")),
    # Types and versions
    row("the case of a type", ('"Add"', '"aDD"')),
    row("Parameter in lower case", ('"Parameter"', '"parameter"'), says=(WARN, "OV0201")),
    row("Result in lower case", ('"Result"', '"result"'), says=(WARN, "OV0201")),
    row("Const in lower case", ('"Const"', '"const"'), says=(E, "OV0201")),
    row("a later set", (LAYER, LAYER.replace("opset1", "opset16"))),
    row("a set that lacks it", (LAYER, LAYER.replace("opset1", "opset17")), says=(WARN, "OV0201"), taken=False),
    # Attributes
    row("the case of an enumeration", ('"numpy"', '"NUMPY"')),
    row("no such word of an enumeration", ('"numpy"', '"foo"'), says=(E, "OV0203")),
    row("a default", (DATA, "")),
    row("an attribute that nobody knows", ('"numpy"', '"numpy" mine="1"'), says=(WARN, "OV0205")),
    row("data twice", (DATA, DATA + '<data auto_broadcast="foo" />')),
    row("the case of an element type", ('"1,4" element_type="f32"', '"1,4" element_type="F32"')),
    row(
        "an element type as ports spell it",
        ('"1,4" element_type="f32"', '"1,4" element_type="FP32"'),
        says=(E, "OV0203"),
    ),
    row("no element type", ('shape="1,4" element_type="f32"', 'shape="1,4"'), says=(E, "OV0203"), taken=True),
    # Shapes of Parameters
    *(
        row(f"shape {text!r}", ('shape="1,4"', f'shape="{text}"'))
        for text in ("?,4", "-1,4", "1..3,4", "..3,4", "1..,4", "..,4", "[1,4]", " 1 , 4 ", "1..1,4", "01,4")
    ),
    *(
        row(f"shape {text!r}", ('shape="1,4"', f'shape="{text}"'), says=(E, "OV0204"), taken=text in UNCHECKED)
        for text in ("N,4", "1,4,", "1;4", "1x,4", *UNCHECKED)
    ),
    # Const
    *(
        row(f"offset {text!r}", ('offset="0"', f'offset="{text}"'), says=(E, code))
        for text, code in (
            ("-1", "OV0303"),
            ("a", "OV0303"),
            ("0x0", "OV0303"),
            (2**63, "OV0302"),
            (2**64 + 8, "OV0302"),
            ("24", "OV0302"),
        )
    ),
    row("an offset that is not aligned", ('offset="0"', 'offset="3"')),
    row("more bytes than elements take", ('size="16"', 'size="20"')),
    row("fewer bytes than elements take", ('size="16"', 'size="15"'), says=(E, "OV0304")),
    *(
        row(f"no {name} of a Const", (f' {name}="{value}"', ""), says=(E, "OV0202"))
        for name, value in (("size", "16"), ("offset", "0"), ("shape", "4"))
    ),
    row("a shape of a Const that ends with a comma", ('shape="4"', 'shape="4,"')),
    row("an open shape of a Const", ('shape="4"', 'shape="?"'), says=(E, "OV0303")),
    row(
        "a shape whose size wraps to 0",
        ('shape="4"', f'shape="{2**32}, {2**32}"'),
        ('size="16"', 'size="0"'),
        says=(E, "OV0304"),
    ),
    # Edges
    row("no edge to a Result", (LAST, ""), says=(E, "OV0106")),
    row("an edge twice", (LAST, LAST + LAST), says=(E, "OV0105")),
    row("an edge from nowhere", (LAST, LAST.replace('r="2"', 'r="8"')), says=(E, "OV0104")),
    row("an edge to nowhere", (LAST, LAST.replace('r="3"', 'r="8"')), says=[(WARN, "OV0104"), (E, "OV0106")]),
    row("an edge from no port", (LAST, LAST.replace('from-port="2"', 'from-port="8"')), says=(E, "OV0104")),
    row("an edge to no port", (LAST, LAST.replace('to-port="0"', 'to-port="8"')), says=(E, "OV0104")),
    row("an edge without an end", (LAST, LAST.replace(' to-port="0"', "")), says=(E, "OV0104")),
    row("something else among the edges", (LAST, LAST + "<mine />")),
    row("an edge that says more", (LAST, LAST.replace("<edge", '<edge mine="1"'))),
    # Preserved content
    row("names of a tensor", (' names="yt"', r' names="a,b\,c,d"')),
    row("attributes of the run time", (DATA, f"{DATA}<rt_info>{RT_INFO}</rt_info>")),
    row(
        "a tree of the run time",
        ("<rt_info />", "<rt_info><a value='1' /><info name='b c' value='2' /><n><m /></n></rt_info>"),
    ),
    row(
        "legacy sections",
        ('"11"', '"10"'),
        (
            "<rt_info />",
            "<meta_data><MO_version value='1' /></meta_data><quantization_parameters>a</quantization_parameters>",
        ),
    ),
]


def written(folder, changes):
    text = BASE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, str(new))
    path = folder / "model.xml"
    path.write_text(text, newline="")
    path.with_suffix(".bin").write_bytes(np.arange(1, 6, dtype=np.float32).tobytes())
    return path


@every(("changes", "expected", "taken"), ROWS)
def test_what_is_written_of_a_spelling(changes, expected, taken, tmp_path):
    path = written(tmp_path, changes)
    found = [(str(finding.severity), finding.code) for finding in gp.check(path)]
    assert found[: len(expected)] == expected
    if not any(severity == E for severity, _ in expected):
        assert found == expected
        assert len(gp.load(path).outputs) == ('"result" version' not in path.read_text())


@every(("changes", "expected", "taken"), ROWS)
def test_the_runtime_takes_what_we_take(changes, expected, taken, tmp_path):
    import openvino

    path = str(written(tmp_path, changes))
    if taken:
        openvino.Core().read_model(path)
    else:
        with pytest.raises(RuntimeError):
            openvino.Core().read_model(path)
