"""Files that are damaged or made to do harm, each built by a function that is given the path of its `.xml`."""

from __future__ import annotations

import gzip
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.formats.openvino.documents import Constant, Layer, constant, network, parameter, write_ir

Build = Callable[[Path], None]
HEAD = '<?xml version="1.0"?>\n'
RELU = [parameter("x", "1,4"), Layer("y", "opset1.ReLU", {}, ["x"])]
SUM = [parameter("x", "4"), constant("w", [1, 2, 3, 4], "float32"), Layer("y", "opset1.Add", {}, ["x", "w"])]
KINDS: dict[str, Build] = {}
"""By what is wrong."""
ACCEPTED: dict[str, Build] = {}
"""What looks like harm, and is none."""
TOLD: dict[str, Build] = {}
"""What is kept as it stands, with a warning."""
LATE: dict[str, Build] = {}
"""What is right as a file, and cannot be run."""


def net(layers: list[Any], results: list[str] | None = None) -> str:
    body, _ = network(layers, results or ["y"])
    return f'<net name="n" version="11">\n{body}<rt_info />\n</net>\n'


def text(kind: str, content: str | Callable[[], str | bytes], into: dict[str, Build] = KINDS) -> None:
    """A file of this text, without weights."""

    def build(path: Path) -> None:
        made = content if isinstance(content, str) else content()
        path.write_bytes(made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass"))

    into[kind] = build


def layers(kind: str, *given: Layer | Constant, result: str = "y", into: dict[str, Build] = KINDS) -> None:
    """A file of these layers."""
    into[kind] = lambda path: _moved(write_ir(path.parent, given, [result]), path)


def _moved(made: Path, path: Path) -> None:
    made.with_suffix(".bin").replace(path.with_suffix(".bin"))
    made.replace(path)


def changed(kind: str, *changes: tuple[str, str], given: list[Any] = SUM, into: dict[str, Build] = KINDS) -> None:
    """A sound file with texts in it replaced."""

    def build(path: Path) -> None:
        _moved(write_ir(path.parent, given, ["y"]), path)
        found = path.read_text()
        for old, new in changes:
            if old not in found:
                raise ValueError(old)
            found = found.replace(old, new)
        path.write_text(found)

    into[kind] = build


def built(kind: str, into: dict[str, Build] = KINDS) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        into[kind] = build
        return build

    return register


def with_rt_info(content: str) -> str:
    return HEAD + net(RELU).replace("<rt_info />", f"<rt_info>{content}</rt_info>")


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
text("a billion laughs", f'{HEAD}<!DOCTYPE net [<!ENTITY a0 "ha">{LAUGHS}]>' + net(RELU).replace('"n"', '"&a11;"'))
text(
    "entities that grow by squares",
    lambda: f'{HEAD}<!DOCTYPE net [<!ENTITY a "{"b" * 99_999}">]><net>{"&a;" * 99_999}</net>',
)
text("an entity that is a file", f'{HEAD}<!DOCTYPE net [<!ENTITY a SYSTEM "file:///etc/hostname">]><net name="&a;" />')
text("a document type elsewhere", f'{HEAD}<!DOCTYPE net SYSTEM "https://example.org/net.dtd">{net(RELU)}')
text(
    "an entity of the document type",
    f'{HEAD}<!DOCTYPE net [<!ENTITY % a SYSTEM "file:///etc/hostname">%a;]>{net(RELU)}',
)
text("a bare document type", f"{HEAD}<!DOCTYPE net>{net(RELU)}")
text("an entity that nobody declares", with_rt_info("&nothing;"))
text("100,000 elements within each other", lambda: "<net>" * 100_000 + "</net>" * 100_000)
text("300 elements within each other", lambda: with_rt_info("<a>" * 300 + "</a>" * 300))
text("a million elements", lambda: with_rt_info("<a/>" * 1_000_001))
text("a million attributes", lambda: with_rt_info("<a " + " ".join(f'b{n}=""' for n in range(1_000_000)) + " />"))
text("10,000 attributes", lambda: with_rt_info("<a " + " ".join(f'b{n}=""' for n in range(10_000)) + " />"))
text("an attribute of 10 MB", lambda: with_rt_info(f'<a b="{"c" * 10_000_000}" />'))
text("a name of 10 MB", lambda: with_rt_info(f"<{'a' * 10_000_000} />"))
text("a tag of 10 MB that does not end", lambda: with_rt_info(f'<a b="{"c" * 10_000_000}'))
text("a comment that does not end", lambda: HEAD + "<!--" + "-" * 10_000_000)
text("a section of text that does not end", lambda: HEAD + "<net><![CDATA[" + "]" * 1_000_000)
text("a declaration of 10 MB", lambda: f"<?xml {'version ' * 1_000_000}?><net />")
text("tags that do not match", with_rt_info("<a></b>"))
text("cut in the middle", (HEAD + net(RELU))[:500])
text("cut in a tag", (HEAD + net(RELU))[: (HEAD + net(RELU)).index("<edge ") + 9])
text("two roots", HEAD + net(RELU) + net(RELU))
text("text in front", "hello " + HEAD + net(RELU))
text("nothing", "")
text("nothing but blanks", " \n" * 1000)
text("nothing but a mark", b"\xef\xbb\xbf".decode())
text("a NUL in a name", lambda: (HEAD + net(RELU)).replace('name="y"', 'name="y\0"'))
text("a NUL in front", lambda: "\0" + HEAD + net(RELU))
text("nothing but NULs", lambda: b"\0" * 100_000)
text("a control character", lambda: with_rt_info("<a b='&#1;' />"))
text("a character past the last one", lambda: with_rt_info("<a b='&#x110000;' />"))
text("a surrogate", lambda: with_rt_info("<a b='&#xD800;' />"))
text("a surrogate as bytes", lambda: with_rt_info("<a b='\ud800' />"))
text("bytes that are no UTF-8", lambda: (HEAD + net(RELU)).encode().replace(b'"y"', b'"\xff\xfe\xfd"'))
text("a character in too many bytes", lambda: (HEAD + net(RELU)).encode().replace(b'"y"', b'"\xc0\xaf"'))
text("UTF-16 that ends within a character", lambda: (HEAD + net(RELU)).encode("utf-16")[:-1])
text("UTF-16 without a mark", lambda: (HEAD + net(RELU)).encode("utf-16-le"), ACCEPTED)
text("UTF-32", lambda: (HEAD + net(RELU)).encode("utf-32"), ACCEPTED)
text("UTF-32 that ends within a character", lambda: (HEAD + net(RELU)).encode("utf-32")[:-1])
text("an encoding that nobody knows", '<?xml version="1.0" encoding="EBCDIC-INT"?>' + net(RELU))
text(
    "an encoding that it is not in",
    lambda: ('<?xml version="1.0" encoding="us-ascii"?>' + net(RELU)).encode().replace(b'"y"', b'"\xe4"'),
)
text("compressed", lambda: gzip.compress((HEAD + net(RELU)).encode()), ACCEPTED)
text("an archive", lambda: b"PK\x03\x04" + b"\0" * 1000)
text("a program", lambda: b"\x7fELF" + bytes(range(256)) * 100)
text("a page of the web", "<!doctype html><html><body>404</body></html>")
text("another root", "<model><net version='11' /></model>")
text("no version", HEAD + net(RELU).replace(' version="11"', ""))
text("version 7", HEAD + net(RELU).replace('version="11"', 'version="7"'))
text("version 12", HEAD + net(RELU).replace('version="11"', 'version="12"'))
text("a version of 5,000 digits", lambda: HEAD + net(RELU).replace('version="11"', f'version="{"1" * 5000}"'))
text("spaces of names", '<a:net xmlns:a="b" version="11" />')
text("a comment of 10 MB", lambda: HEAD.replace("\n", f"<!--{'-+' * 5_000_000}-->") + net(RELU), ACCEPTED)
text("50,000 notes", lambda: with_rt_info("<a b='c' />" * 50_000), ACCEPTED)

# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@built("a folder")
def _(path: Path) -> None:
    path.mkdir()


@built("a pipe that nobody writes to")
def _(path: Path) -> None:
    os.mkfifo(path)


@built("a link to nothing")
def _(path: Path) -> None:
    path.symlink_to("nothing.xml")


@built("a link to itself")
def _(path: Path) -> None:
    path.symlink_to(path.name)


@built("a hole of 1 TB")
def _(path: Path) -> None:
    path.write_text(HEAD + net(RELU))
    os.truncate(path, 1 << 40)


def weights(kind: str, change: Build, into: dict[str, Build] = KINDS) -> None:
    """A sound file whose `.bin` is something else."""

    def build(path: Path) -> None:
        _moved(write_ir(path.parent, SUM, ["y"]), path)
        path.with_suffix(".bin").unlink()
        change(path.with_suffix(".bin"))

    into[kind] = build


weights("no weights", lambda _: None)
weights("empty weights", lambda path: path.touch())


def _cut(path: Path) -> None:
    path.write_bytes(b"\0" * 15)


weights("weights that are cut", _cut)
weights("weights that are a folder", lambda path: path.mkdir())
weights("weights that are a pipe", os.mkfifo)
weights("weights that are a link to nothing", lambda path: path.symlink_to("nothing.bin"))


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


weights("weights with a hole of 1 TB", _sparse, ACCEPTED)

# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

for what, number in [
    ("past the file", "4"),
    ("past 63 bits", str(2**63)),
    ("past 64 bits", str(2**64 + 8)),
    ("of 5,000 digits", "9" * 5000),
    ("below 0", "-8"),
    ("in words", "zero"),
    ("in other digits", "٣"),
]:
    changed(f"an offset {what}", ('offset="0"', f'offset="{number}"'))
    changed(f"a size {what}", ('size="16"', f'size="{"17" if number == "4" else number}"'))
changed("a shape of 10^18 elements", ('shape="4"', 'shape="1000000, 1000000, 1000000"'))
changed("a shape that wraps to 0", ('shape="4"', f'shape="{2**32}, {2**32}"'), ('size="16"', 'size="0"'))
changed("a shape of 5,000 digits", ('shape="4"', f'shape="{"9" * 5000}"'))
changed("a shape of a million dims", ('shape="4"', f'shape="{"1," * 1_000_000}1"'))
changed("a shape below 0", ('shape="4"', 'shape="-4"'))
changed("an input of a million dims", ('shape="1,4"', f'shape="{"?," * 1_000_000}?"'), given=RELU)
changed("an input of 2 to the 64", ('shape="1,4"', f'shape="{2**64},4"'), given=RELU)
changed("an input between 5,000 digits", ('shape="1,4"', f'shape="{"1" * 5000}..{"2" * 5000}"'), given=RELU)
changed("a type of 10 KB", ('element_type="f32" shape="4"', f'element_type="{"f" * 10_000}" shape="4"'))
changed("a number of a layer of 5,000 digits", ('id="1" name="w"', f'id="{"1" * 5000}" name="w"'))


def texts(kind: str, *ends: int, shape: str = "2", count: int | None = None) -> None:
    raw = struct.pack(f"<{len(ends) + 2}i", len(ends) if count is None else count, 0, *ends) + b"abc"
    data = {"element_type": "string", "shape": shape, "offset": raw, "size": 0}
    layers(kind, Layer("w", "opset1.Const", data), Layer("y", "mine.Reader", {}, ["w"]))


texts("more texts than bytes", 1, 2, count=2**31 - 1, shape=str(2**31 - 1))
texts("fewer texts than the shape", 1, 2, shape="3")
texts("texts less than none", 1, 2, count=-1)
texts("a text that ends past the last byte", 1, 2**31 - 1)
texts("a text that ends in front of itself", 3, 1)

# ── layers and edges ──────────────────────────────────────────────────────────────────────────────────────────────────

EDGE = '<edge from-layer="0" from-port="0" to-layer="1" to-port="0" />'
changed("a layer that waits for itself", (EDGE, EDGE.replace('r="0" from-port="0"', 'r="1" from-port="1"')), given=RELU)
layers(
    "two layers that wait for each other", Layer("a", "opset1.ReLU", {}, ["y"]), Layer("y", "opset1.Tanh", {}, ["a"])
)
KINDS["10,000 layers that wait for each other"] = lambda path: _ring(path, 10_000)
changed("an edge from nowhere", (EDGE, EDGE.replace('r="0" from-port="0"', 'r="5" from-port="0"')), given=RELU)
changed("an edge from a port that is none", (EDGE, EDGE.replace('from-port="0"', 'from-port="99999"')), given=RELU)
changed("an edge to a port that is none", (EDGE, EDGE.replace('to-port="0"', f'to-port="{2**70}"')), given=RELU)
changed(
    "100,000 edges from nowhere",
    ("</edges>", EDGE.replace('from-layer="0"', 'from-layer="7"') * 100_000 + "</edges>"),
    given=RELU,
)
changed(
    "100,000 edges to nowhere",
    ("</edges>", EDGE.replace('to-layer="1"', 'to-layer="7"') * 100_000 + "</edges>"),
    given=RELU,
    into=TOLD,
)
changed("100,000 edges to one port", ("</edges>", EDGE * 100_000 + "</edges>"), given=RELU)
changed("a number of two layers", ('id="1" name="y"', 'id="0" name="y"'), given=RELU)
changed(
    "a number of two ports", ('<port id="1" precision="FP32" /></input>', '<port id="0" precision="FP32" /></input>')
)
changed("a port by no number", ('<input><port id="0"', '<input><port id="a"'))
changed(
    "50,000 ports of nothing",
    (
        '<input><port id="0" precision="FP32" />',
        '<input><port id="0" />' + "".join(f'<port id="{n}" />' for n in range(9, 50_009)),
    ),
    given=RELU,
)
changed("a layer of no type", ('type="ReLU" ', ""), given=RELU)
changed("Const by another name", ('type="Const"', 'type="Constant"'))


def _ring(path: Path, count: int) -> None:
    ring = [
        Layer("y", "opset1.ReLU", {}, [f"a{count - 1}"]),
        *(Layer(f"a{n}", "opset1.ReLU", {}, [f"a{n - 1}" if n else "y"]) for n in range(count)),
    ]
    _moved(write_ir(path.parent, ring, ["y"]), path)


# ── operations ────────────────────────────────────────────────────────────────────────────────────────────────────────

WINDOW = {"strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
PICTURE, KERNEL = parameter("x", "1,1,8,8"), parameter("w", "1,1,3,3")
layers(
    "a window that stands still",
    PICTURE,
    KERNEL,
    Layer("y", "opset1.Convolution", {**WINDOW, "strides": "0,0"}, ["x", "w"]),
)
layers(
    "a window of a million axes",
    PICTURE,
    KERNEL,
    Layer("y", "opset1.Convolution", {**WINDOW, "strides": "2," * 999_999 + "2"}, ["x", "w"]),
)
layers(
    "a window past the picture",
    PICTURE,
    parameter("w", "1,1,99,99"),
    Layer("y", "opset1.Convolution", WINDOW, ["x", "w"]),
)
layers(
    "operands that do not broadcast", parameter("x", "3"), parameter("z", "4"), Layer("y", "opset1.Add", {}, ["x", "z"])
)
layers("operands that are not there", parameter("x", "3"), Layer("y", "opset1.Add", {}, ["x"]))
layers("a thousand operands too many", parameter("x", "3"), Layer("y", "opset1.ReLU", {}, ["x"] * 1000))
layers("an attribute that is missing", parameter("x", "3"), Layer("y", "opset1.Concat", {}, ["x"]))
layers("an attribute of 5,000 digits", parameter("x", "3"), Layer("y", "opset1.Concat", {"axis": "9" * 5000}, ["x"]))
layers("an axis that is none", parameter("x", "3"), Layer("y", "opset1.Concat", {"axis": "99999999"}, ["x"]))
layers(
    "a product that does not fit",
    parameter("x", "3,4"),
    parameter("w", "5,6"),
    Layer("y", "opset1.MatMul", {}, ["x", "w"]),
)
layers(
    "a shape that does not fit",
    parameter("x", "3"),
    constant("s", [2, 2], "int64"),
    Layer("y", "opset1.Reshape", {"special_zero": "true"}, ["x", "s"]),
)
layers(
    "a step of 0",
    *(constant(n, v, "int32") for n, v in zip("abc", (0, 5, 0), strict=True)),
    Layer("y", "opset4.Range", {"output_type": "i32"}, ["a", "b", "c"]),
)

BODY_TEXT = network([parameter("p", "1,4"), Layer("q", "opset1.ReLU", {}, ["p"])], ["q"])[0]
BODY = f"<body>{BODY_TEXT}</body>"
MAP = '<port_map><input external_port_id="0" internal_layer_id="{}" /><output external_port_id="1" internal_layer_id="{}" /></port_map>'


def iterated(kind: str, inside: str, op_type: str = "opset1.TensorIterator", into: dict[str, Build] = KINDS) -> None:
    """A layer with what is `inside` behind its ports."""

    def build(path: Path) -> None:
        given = [parameter("x", "1,4"), Layer("y", op_type, {}, ["x"], inside="@")]
        _moved(write_ir(path.parent, given, ["y"]), path)
        found = path.read_text().replace("@", "")
        path.write_text(
            re.sub(r"(version=\"opset\d\">\n)(<input>.*\n<output>.*\n)(?=</layer>)", rf"\1\2{inside}", found, count=1)
        )

    into[kind] = build


iterated("a body that is mapped from nowhere", MAP.format(7, 2) + BODY)
iterated("a body that is mapped to nowhere", MAP.format(0, 7) + BODY)
iterated("a body that is mapped from outside", MAP.format(1, 2) + BODY)
iterated("a map to a port that is none", MAP.format(0, 2).replace('id="1"', 'id="99"', 1) + BODY)
iterated(
    "a map of 5,000 digits", MAP.format(0, 2).replace('external_port_id="0"', f'external_port_id="{"1" * 5000}"') + BODY
)
iterated("a body without maps", BODY, into=TOLD)
iterated("maps without a body", MAP.format(0, 2))
iterated(
    "a slice of steps of 0",
    MAP.format(0, 2).replace("<input ", '<input axis="0" start="0" end="-1" stride="0" part_size="0" ') + BODY,
    into=TOLD,
)
iterated("a slice in words", MAP.format(0, 2).replace("<input ", '<input axis="first" ') + BODY)
iterated(
    "a slice of an axis that is none",
    MAP.format(0, 2).replace("<input ", '<input axis="99" start="0" end="-1" stride="1" part_size="1" ') + BODY,
)
iterated(
    "a way back from nowhere", f'{MAP.format(0, 2)}<back_edges><edge from-layer="9" to-layer="0" /></back_edges>{BODY}'
)
iterated(
    "a body that waits for itself",
    MAP.format(0, 2) + BODY.replace(EDGE, EDGE.replace('r="0" from-port="0"', 'r="1" from-port="1"')),
)
iterated(
    "100 bodies within each other",
    MAP.format(0, 2)
    + "<body><layers><layer id='0' name='a' type='If' version='opset8'>" * 100
    + "</layer></layers></body>" * 100,
)
iterated("a branch without the other", f"<then_port_map />{BODY.replace('body', 'then_body')}", "opset8.If")
iterated("a loop without a count", MAP.format(0, 2) + BODY, "opset5.Loop")

# ── what cannot be run ────────────────────────────────────────────────────────────────────────────────────────────────

TERA = 1_000_000
layers(
    "a copy of 4 TB",
    constant("x", 1, "float32"),
    constant("s", [TERA, TERA], "int64"),
    Layer("y", "opset3.Broadcast", {"mode": "numpy"}, ["x", "s"]),
    into=LATE,
)
layers(
    "a range of 8 TB",
    *(constant(n, v, "int64") for n, v in zip("abc", (0, 10**12, 1), strict=True)),
    Layer("y", "opset4.Range", {"output_type": "i64"}, ["a", "b", "c"]),
    into=LATE,
)
layers(
    "a tile of 4 TB",
    constant("x", [1], "float32"),
    constant("s", [10**12], "int64"),
    Layer("y", "opset1.Tile", {}, ["x", "s"]),
    into=LATE,
)
layers(
    "an input of 10^36 elements", parameter("x", f"{10**18},{10**18}"), Layer("y", "opset1.ReLU", {}, ["x"]), into=LATE
)
