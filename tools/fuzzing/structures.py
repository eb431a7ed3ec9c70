"""Structures that stress readers of each format: extreme dims, nesting, cycles, long chains, decompression bombs."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzzing.damages import EXTENTS, fields, spelled, varint
from fuzzing.networks import OF_AN_EXTENT, chain, field, functions, model, nested_bodies, of_extent
from fuzzing.subjects import TRACT, Seed

NUMBERS = (
    *(b"0", b"-1", b"2147483647", b"2147483648", b"4294967296", b"4611686018427387904", b"9223372036854775807"),
    *(b"-9223372036854775808", b"18446744073709551616", b"9" * 40, b"1e400", b"nan", b""),
)
TEXTS = ("", "../x", "/etc/passwd", "a\nb", "\x1b[31m", "a" * 70000, "\0", "\u202e", "%s{0}")
DEEP = 100_000
SEVERAL = 16
"""Maximum number of positions of a file at which numbers are replaced."""
COUNTS = (24, 200, 1000, 20_000)
SMALL = 20_000
"""Maximum size in bytes of a file whose positions are all tried."""
NUMBER = re.compile(rb"(?<![A-Za-z_0-9.])-?[0-9]+(?:\.[0-9]+)?")

Made = Iterator[tuple[str, Seed]]


def structures(known: dict[str, list[Seed]]) -> dict[str, list[Seed]]:
    """Return generated and modified seeds by format."""
    found: dict[str, list[Seed]] = {name: [] for name in _MADE}
    for name, make in _MADE.items():
        seeds = sorted(known.get(name, []), key=lambda seed: sum(map(len, seed.files.values())))
        for label, seed in make(seeds):
            seed.label = f"{name}.{label}"
            found[name].append(seed)
    for name, seed in _chains():
        found[name].append(seed)
    return found


# ── places of numbers and texts ───────────────────────────────────────────────────────────────────────────────────────


def _changed(seed: Seed, file: str, data: bytes) -> Seed:
    return Seed(seed.name, {**seed.files, file: data})


def _even(places: list[Any], most: int = SEVERAL) -> list[Any]:
    return places[:: max(1, -(-len(places) // most))]


def _in_text(seeds: list[Seed], count: int = 3) -> Made:
    """Replace each number of some texts by each of the extreme numbers."""
    for at, seed in enumerate(_even(seeds, count)):
        data = seed.files.get(seed.name, b"")
        for place in _even(list(NUMBER.finditer(data))):
            for number in NUMBERS:
                yield (
                    f"number.{at}.{place.start()}.{number[:24].decode()}",
                    _changed(seed, seed.name, data[: place.start()] + number + data[place.end() :]),
                )


def _as_bytes(seeds: list[Seed]) -> Made:
    """Return a text in other encodings and with invalid bytes."""
    if not seeds:
        return
    seed = seeds[0]
    data = seed.files.get(seed.name, b"")
    ways = {
        "bom": b"\xef\xbb\xbf" + data,
        "utf16": data.decode("latin-1").encode("utf-16"),
        "crlf": data.replace(b"\n", b"\r\n"),
        "cr": data.replace(b"\n", b"\r"),
        "nul": data.replace(b" ", b"\0", 3),
        "behind": data + bytes(DEEP),
        "surrogate": data.replace(b"e", b"\xed\xa0\x80", 2),
        "latin": data.replace(b"e", b"\xe9", 2),
        "empty": b"",
        "spaces": b" " * (1 << 20) + data,
        "lines": b"\n" * (1 << 20) + data,
        "twice": data + data,
        "cut": data[: len(data) // 2],
        "word": b"a" * (1 << 20),
        "digits": b"9" * DEEP,
        "zeros": bytes(DEEP),
        "ones": b"\xff" * DEEP,
        **{f"open.{mark}": mark.encode() * DEEP for mark in "([{<\"'/#"},
        "elements": b"<a>" * DEEP,
        "entities": b'<!DOCTYPE a [<!ENTITY b "b">' + b"".join(
            b'<!ENTITY b%d "%s">' % (n, b"&b%d;" % (n - 1) * 10) for n in range(1, 12)) + b"]><net>&b11;</net>",
    }  # fmt: skip
    for name, content in ways.items():
        yield f"bytes.{name}", _changed(seed, seed.name, content)


def _in_places(seed: Seed) -> Made:
    """Replace a file by devices, pipes, folders, links; use file names with control characters or shell syntax."""
    for name in (seed.name, *(other for other in seed.files if other != seed.name)):
        left = {other: data for other, data in seed.files.items() if other != name}
        for target in ("fifo", "/dev/zero", "/dev/full", "folder", name, "/etc/passwd", "missing"):
            odd = Seed(seed.name, left)
            odd.links = {name: target}
            yield f"place.{name}.{target.rpartition('/')[2]}", odd
    ending = "." + seed.name.partition(".")[2]
    for stem in ("a b", "-rf", "new\nline", "\x1b[31mred", "\u00e9", "a" * 200, "$(touch x)", "%n", "*", "--help"):
        files = {stem + other.removeprefix(seed.name.partition(".")[0]): data for other, data in seed.files.items()}
        yield f"name.{stem[:9]!r}", Seed(stem + ending, files)


# ── protobuf ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_message(seeds: list[Seed], count: int = 3) -> Made:
    """Replace each number and string of some messages, at any depth, by an extreme value; lengths are recomputed."""
    for at, seed in enumerate(_even([each for each in seeds if len(each.files.get(each.name, b"")) < SMALL], count)):
        data = seed.files[seed.name]
        if not fields(data):
            continue
        for place in _even(list(_leaves(data, ())), 2 * SEVERAL):
            numbers = [n for n in EXTENTS if n not in (2, 127, 128, 255)]
            for number in numbers:
                yield f"field.{at}.{place}.{number}", _changed(seed, seed.name, _replaced(data, place, number))
            for text in TEXTS[:6]:
                yield (
                    f"field.{at}.{place}.{text[:9]!r}",
                    _changed(seed, seed.name, _replaced(data, place, text.encode())),
                )


def _leaves(data: bytes, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for at, (_, content) in enumerate(fields(data) or []):
        inner = fields(content) if isinstance(content, bytes) and len(path) < 6 else None
        if isinstance(content, bytes) and inner and len(content) > 3:
            yield from _leaves(content, (*path, at))
        else:
            yield (*path, at)


def _replaced(data: bytes, path: tuple[int, ...], new: bytes | int) -> bytes:
    found = fields(data) or []
    at, rest = path[0], path[1:]
    tag, content = found[at]
    if rest and isinstance(content, bytes):
        found[at] = tag, _replaced(content, rest, new)
    elif isinstance(new, int) and isinstance(content, int):
        found[at] = tag & ~7, new
    else:
        found[at] = tag & ~7 | 2, varint(new) if isinstance(new, int) else new
    return b"".join(spelled(each, held) for each, held in found)


def _onnx(seeds: list[Seed]) -> Made:
    yield from _in_message(seeds)
    yield from _as_bytes(seeds)
    yield from _in_places(next((seed for seed in seeds if len(seed.files) > 1), seeds[0]))
    for depth in (10, 60, 1000, 5000):
        yield f"bodies.{depth}", _file("m.onnx", nested_bodies(depth))
        inner = field(1, varint(8) + varint(1))
        for _ in range(depth):
            inner = field(4, field(1, inner))
        yield (
            f"types.{depth}",
            _file("m.onnx", model([("Relu", "x", "y")]) + field(7, field(11, field(1, b"q") + field(2, inner)))),
        )
    for count, calls in ((24, 2), (200, 2), (12, 10), (1000, 1), (20_000, 1)):
        yield f"functions.{count}x{calls}", _file("m.onnx", functions(count, calls, cyclic=False))
    for count, calls in ((1, 1), (3, 2)):
        yield f"functions.cyclic.{count}x{calls}", _file("m.onnx", functions(count, calls, cyclic=True))
    orders = {
        "cycle": [("Add", "xb", "a"), ("Relu", "a", "b"), ("Relu", "b", "y")],
        "itself": [("Relu", "y", "y")],
        "twice": [("Relu", "x", "y"), ("Abs", "x", "y")],
    }
    for name, nodes in orders.items():
        yield f"order.{name}", _file("m.onnx", model(nodes))
    for extent in (0, -1, -(1 << 63), 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1):
        for op_type in OF_AN_EXTENT:
            yield f"extent.{op_type}.{extent}", _file("m.onnx", of_extent(op_type, extent))


def _file(name: str, data: bytes) -> Seed:
    return Seed(name, {name: data})


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

FINAL = "version 1.0;\nextension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;\n"
REGISTRY = "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol S;\n"


def _document(head: str, body: str, shape: str = "[2, 3]") -> Seed:
    text = f"{head}graph g(x) -> (y)\n{{\n x = external<scalar>(shape = {shape});\n {body}\n}}\n"
    return _file("m.nnef", text.encode("utf-8", "surrogatepass"))


def _nested_texts(head: str) -> Made:
    for n in (60, 1000, DEEP):
        for name, body in {
            "parentheses": "y = " + "(" * n + "x" + ")" * n + ";",
            "arrays": "z = reshape(x, shape = " + "[" * n + "1" + "]" * n + "); y = copy(x);",
            "calls": "y = " + "copy(" * n + "x" + ")" * n + ";",
            "signs": "y = " + "-" * n + "x;",
            "sum": "y = " + "+".join(["x"] * n) + ";",
            "powers": "y = " + "^".join(["x"] * n) + ";",
            "choices": "y = " + "x if true else " * n + "x;",
            "items": "y = copy(x" + "[0]" * n + ");",
            "digits": "y = reshape(x, shape = [" + "9" * n + "]);",
            "loops": "y = add_n(" + "[for i in " * n + "[x]" + " yield x]" * n + ");",
            "statements": "".join(f"a{i} = copy({'x' if not i else f'a{i - 1}'});" for i in range(min(n, 20_000)))
            + f"y = copy(a{min(n, 20_000) - 1});",
        }.items():
            yield f"nested.{name}.{n}", _document(head, body)
        count = min(n, 20_000)
        for name, inner in (("chain", "f{0}(a)"), ("double", "f{0}(a) + f{0}(a)"), ("itself", "f{1}(a)")):
            parts = [
                f"fragment f{i}( a: tensor<scalar> ) -> ( b: tensor<scalar> ) "
                f"{{ b = {inner.format(i + 1, i) if i < count - 1 else 'copy(a)'}; }}\n"
                for i in range(count)
            ]
            yield f"fragments.{name}.{n}", _document(head + "".join(parts), "y = f0(x);")


def _nnef(seeds: list[Seed]) -> Made:
    yield from _in_text([seed for seed in seeds if seed.name.endswith(".nnef")])
    yield from _as_bytes([seed for seed in seeds if seed.name.endswith(".nnef")])
    yield from _nested_texts(FINAL)
    yield from _in_places(next(seed for seed in seeds if seed.name.endswith(".nnef")))
    for text in TEXTS:
        body = f'w = variable(shape = [2, 3], label = "{text}"); y = add(x, w);'
        yield f"label.{text[:9]!r}", Seed(".", {"graph.nnef": _document("version 1.0;\n", body).files["m.nnef"]})
    yield from _archives()


def _archives() -> Made:
    graph = _document("version 1.0;\n", "y = copy(x);").files["m.nnef"]
    for kind in (*(bytes([each]) for each in b"\x001234567gxLKSDNV"), b"\xff"):
        for link in ("/etc/passwd", "../x", "graph.nnef"):
            made = io.BytesIO()
            for name, held in (("graph.nnef", graph), ("w.dat", b"N\xef")):
                info = tarfile.TarInfo(name)
                info.size = len(held)
                info.type, info.linkname = (kind, link) if name == "w.dat" else (tarfile.REGTYPE, "")
                made.write(info.tobuf(tarfile.GNU_FORMAT) + held + bytes(-len(held) % 512))
            yield f"tar.{kind!r}.{link}", _file("m.nnef.tar", made.getvalue() + bytes(1024))
    for size in (0, 1 << 31, (1 << 33) - 1):
        info = tarfile.TarInfo("graph.nnef")
        info.size = size
        yield f"tar.size.{size}", _file("m.nnef.tar", info.tobuf() + graph)
    for count in (1 << 20, 200 << 20):
        info = tarfile.TarInfo("graph.nnef")
        info.size = count
        yield f"tar.bomb.{count}", _file("m.nnef.tgz", gzip.compress(info.tobuf() + b" " * count, 9))
    yield "tar.parts", _file("m.nnef.tgz", gzip.compress(bytes(512)) * DEEP)


def _tract(seeds: list[Seed]) -> Made:
    yield from _in_text(
        [seed for seed in seeds if seed.name == "." or seed.name.endswith(".nnef")]
        or [_document(REGISTRY, "y = pad(x, padding = [(1, 2), (0, 0)]);")]
    )
    for body in (
        "y = tract_core_gather(x, [0, 1], axis = 0);", "y = tract_core_broadcast(x, shape = [4, 2, 3]);",
        "y = tract_core_stft(x, axis = 1, frame = 2, stride = 1);", "y = tile(x, repeats = [2, 3]);",
        "y = pad(x, padding = [(1, 2), (0, 0)], border = 'reflect');", "y = tract_core_range(0, 10, 1);",
        "y = reshape(x, shape = [3, 2]);", "y = slice(x, axes = [0], begin = [0], end = [1], stride = [1]);",
        "z = constant(shape = [2, 3], value = [1.0]); y = add(x, z);",
        "y = tract_core_topk(x, 2, axis = 1, largest = true);",
    ):  # fmt: skip
        yield from ((f"{body[:20]}.{name}", seed) for name, seed in _in_text([_document(REGISTRY, body)], 1))
    yield from _nested_texts(REGISTRY)
    for n in (24, 40, 1000):
        doubled = "a0 = [1];" + "".join(f"a{i + 1} = [a{i}, a{i}];" for i in range(n))
        yield f"arrays.doubled.{n}", _document(REGISTRY, f"{doubled} y = reshape(x, shape = a{n});")
        yield f"arrays.added.{n}", _document(REGISTRY, f"{doubled} y = add(x, a{n});")
        for sign in "*+/^":
            chain = "a0 = S;" + "".join(f"a{i + 1} = a{i} {sign} a{i};" for i in range(n))
            yield f"symbols.{sign}.{n}", _document(REGISTRY, f"{chain} y = reshape(x, shape = [a{n}]);", "[S, 3]")
    texts = ", ".join([f'"{"a" * 50_000}"', *['""'] * 12_000])
    yield "texts", _document(REGISTRY, f"z = add(x, [{texts}]); y = copy(x);")
    for text in ("(" * DEEP + "S", "S**9**9**9", "*".join(f"(S+{i})" for i in range(200)), "S/0", "9" * 5000):
        yield (
            f"assertion.{text[:12]}",
            _document(REGISTRY + f"extension tract_assert {text} <= 5;\n", "y = copy(x);", "[S, 3]"),
        )


def _openvino(seeds: list[Seed]) -> Made:
    yield from _in_text(seeds, 4)
    yield from _as_bytes(seeds)
    yield from _in_places(next((seed for seed in seeds if len(seed.files) > 1), seeds[0]))


def _plain(seeds: list[Seed]) -> Made:
    texts = [
        seed
        for seed in seeds
        if NUMBER.search(seed.files.get(seed.name, b"")) and not seed.name.endswith((".bin", ".caffemodel"))
    ]
    yield from _in_text(texts, 4)
    yield from _as_bytes(texts)
    yield from _in_places(next((seed for seed in texts if len(seed.files) > 1), texts[0]))


def _caffe(seeds: list[Seed]) -> Made:
    yield from _plain(seeds)
    for depth in (100, 10_000, DEEP):
        yield f"messages.{depth}", _file("m.prototxt", b"layer { " * depth + b"}" * depth)
        yield f"unknown.{depth}", _file("m.prototxt", b"name: 'n' " + b"x { " * depth + b"}" * depth)
    layer = 'layer { name: "%s" type: "Eltwise" bottom: "%s" bottom: "%s" top: "%s" }\n'
    for count in COUNTS:
        text = 'input: "a0" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 3\n'
        text += "".join(layer % (f"l{i}", f"a{i}", f"a{i}", f"a{i + 1}") for i in range(count))
        yield f"doubled.{count}", _file("m.prototxt", text.encode())


# ── archives of JSON ──────────────────────────────────────────────────────────────────────────────────────────────────


def _repacked(seed: Seed, member: str, data: bytes, *, compressed: bool = False) -> Seed:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seed.files[seed.name])) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            new.writestr(info.filename, data if info.filename == member else old.read(info), kind)
    return _file(seed.name, made.getvalue())


def _zipped(seeds: list[Seed]) -> Made:
    """Replace each number and string in the JSON of some archives by an extreme value."""
    yield from _in_places(seeds[0])
    for at, seed in enumerate(seeds[:4]):
        with zipfile.ZipFile(io.BytesIO(seed.files[seed.name])) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
        for name, data in members.items():
            if not name.endswith(".json"):
                for number, content in enumerate((b"", bytes(64), b"\xff" * 64, data + data, data[: len(data) // 2])):
                    yield f"member.{at}.{name}.{number}", _repacked(seed, name, content)
                continue
            for place in _even(list(NUMBER.finditer(data))):
                for number in NUMBERS:
                    content = data[: place.start()] + number + data[place.end() :]
                    yield f"json.{at}.{place.start()}.{number[:20]!r}", _repacked(seed, name, content)
            for place in _even(list(re.finditer(rb'"[^"\\]*"', data)), 24):
                for text in TEXTS:
                    content = data[: place.start()] + json.dumps(text).encode() + data[place.end() :]
                    yield f"text.{at}.{place.start()}.{text[:9]!r}", _repacked(seed, name, content)
            for number, content in enumerate(
                (b"[" * DEEP, b'{"a":' * DEEP, b"[" + b"0," * 5_000_000 + b"0]", b"\xff", b"null")
            ):
                yield f"json.{at}.{name}.{number}", _repacked(seed, name, content, compressed=True)


_SIZES = (
    *("(" * 20 + "9" + "**8)" * 20, "(" * 20 + "(a+b)" + "**8)" * 20, "*".join(f"(a{i}+b{i})" for i in range(200))),
    *("*".join(["9" * 19] * 600), "Max(" * 60 + "a" + "".join(f",b{i}+{i})" for i in range(60)), "a//0", "9" * 5000),
    *("+".join(f"a{i}" for i in range(2000)), "(" * DEEP, "-" * DEEP + "a", "__import__('os')", "Symbol('a', x=1)"),
)


def _pt2(seeds: list[Seed]) -> Made:
    yield from _zipped(seeds)
    for seed in seeds:
        with zipfile.ZipFile(io.BytesIO(seed.files[seed.name])) as archive:
            name = next((each for each in archive.namelist() if each.endswith("models/model.json")), None)
            data = archive.read(name) if name else b""
        if name is None or b"expr_str" not in data:
            continue
        for number, text in enumerate(_SIZES):
            content = re.sub(rb'("expr_str": )"(?:[^"\\]|\\.)*"', lambda m: m[1] + json.dumps(text).encode(), data)  # noqa: B023
            yield f"size.{number}", _repacked(seed, name, content)
        return


# ── FlatBuffers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _tflite(seeds: list[Seed]) -> Made:
    """Replace each 32-bit word of some files by an extreme value."""
    yield from _as_bytes(seeds)
    yield from _in_places(seeds[0])
    for at, seed in enumerate(_even(seeds, 8)):
        data = seed.files[seed.name]
        for place in _even(list(range(0, len(data) - 4, 4)), 2 * SEVERAL):
            for number in (0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC - place):
                new = (number & 0xFFFFFFFF).to_bytes(4, "little")
                yield f"word.{at}.{place}.{number}", _changed(seed, seed.name, data[:place] + new + data[place + 4 :])


# ── long chains, and values with two uses ─────────────────────────────────────────────────────────────────────────────


def _chains() -> Iterator[tuple[str, Seed]]:
    import tempfile

    import graphport as gp
    from graphport import formats

    with tempfile.TemporaryDirectory() as folder:
        for count in COUNTS:
            for label, given in (("chain", "a{0}"), ("doubled", "a{0} a{0}")):
                op_type = "Relu" if label == "chain" else "Add"
                source = Path(folder) / "m.onnx"
                source.write_bytes(chain(op_type, given, count))
                for name, kind in formats.FORMATS.items():
                    if not kind.writes:
                        continue
                    target = Path(folder) / name / (f"m{kind.endings[0]}" if kind.endings else "m")
                    target.parent.mkdir(exist_ok=True)
                    try:
                        gp.save(gp.load(source), target, format=name)
                    except gp.DiagnosticError:
                        continue
                    files = {path.name: path.read_bytes() for path in target.parent.iterdir()}
                    seed = Seed(target.name, files)
                    seed.label = f"{name}.{label}.{count}"
                    yield name, seed


_MADE: dict[str, Callable[[list[Seed]], Made]] = {
    "onnx": _onnx,
    "nnef": _nnef,
    TRACT: _tract,
    "openvino": _openvino,
    "pnnx": _plain,
    "ncnn": _plain,
    "caffe": _caffe,
    "pt2": _pt2,
    "tflite": _tflite,
    "archive": _zipped,
}
