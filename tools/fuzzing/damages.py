"""Mutations of files that keep enough of the structure for readers to continue past the first check."""

from __future__ import annotations

import gzip
import io
import random
import re
import tarfile
import zipfile
from collections.abc import Callable

NUMBERS = (
    b"0",
    b"1",
    b"-1",
    b"2147483647",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"1" + b"0" * 40,
    b"nan",
    b"1e400",
)
SIGNS = (b"(", b"[" * 3000, b"-", b"\0", b"\xff", b'"', b"/" * 5000, "é".encode(), b"\x1b[31m")
WORDS = re.compile(rb"[A-Za-z_][A-Za-z0-9_.:]*|-?[0-9]+(?:\.[0-9]+)?|[^\sA-Za-z0-9_]")
EXTENTS = (0, 1, 2, 127, 128, 255, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)

MILD = 0.4
"""Probability of a mutation so small that most rules are still reached."""
GZIP = b"\x1f\x8b"

Damage = Callable[[random.Random, bytes, list[bytes]], bytes]


def damaged_bytes(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate bytes: flip bits; delete, repeat or move slices; insert slices of another file."""
    twin = bytearray(data)
    if len(twin) > 8 and chance.random() < MILD:
        # Change one integer at an aligned offset: most of the file is still read.
        at = chance.randrange(len(twin) // 4) * 4
        width = chance.choice((1, 1, 2, 4))
        number = int.from_bytes(twin[at : at + width], "little") + chance.choice((-1, 1, 2, 4, 16, 256))
        twin[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        return bytes(twin)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(twin) + 1) if twin else 0
        length = chance.choice((1, 2, 4, 8, 64, 512))
        match chance.randrange(6):
            case 0 if at < len(twin):
                twin[at] ^= 1 << chance.randrange(8)
            case 1:
                del twin[at : at + length]
            case 2:
                twin[at:at] = twin[at : at + length]
            case 3:
                twin[at : at + length] = bytes([chance.choice((0, 1, 127, 128, 255))]) * length
            case 4 if others:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                twin[at : at + length] = other[start : start + length]
            case _:
                del twin[at:]
    return bytes(twin)


def damaged_text(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate text: delete, repeat or swap tokens, or insert tokens of another text."""
    if chance.random() < 0.1:
        return damaged_bytes(chance, data, others)
    if chance.random() < MILD:
        return _exchanged(chance, data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(WORDS.finditer(data))
        if not places:
            return data
        place = chance.choice(places)
        match chance.randrange(6):
            case 0:
                new = b""
            case 1:
                new = place[0] + b" " + place[0]
            case 2:
                new = chance.choice(NUMBERS)
            case 3:
                new = chance.choice(places)[0]
            case 4:
                taken = WORDS.findall(chance.choice(others or [data]))
                new = chance.choice(taken) if taken else b"x"
            case _:
                new = chance.choice(SIGNS)
        data = data[: place.start()] + new + data[place.end() :]
    return data


def _exchanged(chance: random.Random, data: bytes) -> bytes:
    """Replace a number by a close or another number of the text, a name by another name: the syntax stays valid."""
    places = [place for place in WORDS.finditer(data) if place[0][-1:].isalnum()]
    if not places:
        return data
    place = chance.choice(places)
    is_number = place[0].lstrip(b"-")[:1].isdigit()
    alike = sorted({each[0] for each in places if each[0].lstrip(b"-")[:1].isdigit() == is_number})
    new = chance.choice(alike)
    if place[0].lstrip(b"-").isdigit() and len(place[0]) < 19 and chance.random() < 0.5:
        new = str(int(place[0]) + chance.choice((-1, 1, 2, 7))).encode()
    return data[: place.start()] + new + data[place.end() :]


def varint(number: int) -> bytes:
    """Encode `number` as a protobuf varint."""
    out = bytearray()
    while True:
        out.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
        if not number:
            return bytes(out)


def fields(data: bytes) -> list[tuple[int, bytes | int]] | None:
    """Parse a protobuf message into tags and contents; `None` if the bytes are not a message."""
    found: list[tuple[int, bytes | int]] = []
    at = 0

    def number() -> int:
        nonlocal at
        result = shift = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    try:
        while at < len(data):
            tag = number()
            match tag & 7:
                case 0:
                    found.append((tag, number()))
                case 2:
                    length = number()
                    if at + length > len(data):
                        return None
                    found.append((tag, data[at : at + length]))
                    at += length
                case 1 | 5 as wire:
                    length = 8 if wire == 1 else 4
                    found.append((tag, data[at : at + length]))
                    at += length
                case _:
                    return None
    except IndexError:
        return None
    return found if all(tag >> 3 for tag, _ in found) else None


def damaged_message(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Change, repeat, delete or move fields of a protobuf message at any depth; lengths are recomputed."""
    found = fields(data)
    if not found or chance.random() < 0.1:
        return damaged_bytes(chance, data, others)
    at = chance.randrange(len(found))
    tag, content = found[at]
    match chance.randrange(5):
        case 0:
            del found[at]
        case 1:
            found.insert(at, found[chance.randrange(len(found))])
        case 2:
            found[at] = (chance.choice((tag, tag ^ 8, (chance.randrange(1, 30) << 3) | (tag & 7))), content)
        case _ if isinstance(content, int):
            found[at] = (tag, chance.choice(EXTENTS))
        case _:
            inner = damaged_message if fields(content) else damaged_text
            found[at] = (tag, inner(chance, content, others))
    return b"".join(spelled(tag, content) for tag, content in found)


def spelled(tag: int, content: bytes | int) -> bytes:
    """Encode a field of a protobuf message."""
    if isinstance(content, int):
        return varint(tag & ~7) + varint(content) if tag & 7 == 0 else varint(tag)
    return varint(tag) + (varint(len(content)) if tag & 7 == 2 else b"") + content


def damaged_zip(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate members of a zip archive; checksums are recomputed."""
    if chance.random() < 0.2:
        return damaged_bytes(chance, data, others)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError):
        return damaged_bytes(chance, data, others)
    at = chance.randrange(len(members))
    name, content = members[at]
    match chance.randrange(8):
        case 0:
            del members[at]
        case 1:
            members.append(members[chance.randrange(len(members))])
        case 2:
            members[at] = (chance.choice(("../" + name, "/" + name, name + "\0", "", name * 50)), content)
        case _:
            members[at] = (name, damage_of(content)(chance, content, []))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for each, content in members:
            archive.writestr(zipfile.ZipInfo(each), content)
    return packed.getvalue()


def damaged_tar(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate members or header fields of a tar archive, compressed or not; checksums are recomputed."""
    is_compressed = data[:2] == GZIP
    try:
        plain = gzip.decompress(data) if is_compressed else data
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            files = [member for member in archive.getmembers() if member.isfile()]
            members = [(each.name, archive.extractfile(each).read()) for each in files]  # type: ignore[union-attr]
    except (OSError, EOFError, ValueError, tarfile.TarError):
        return damaged_bytes(chance, data, others)
    if not members or chance.random() < 0.2:
        return damaged_bytes(chance, data, others)
    at = chance.randrange(len(members))
    name, content = members[at]
    headers: dict[str, object] = {}
    match chance.randrange(8):
        case 0:
            del members[at]
        case 1:
            members.append(members[chance.randrange(len(members))])
        case 2:
            members[at] = (chance.choice(("../" + name, "/" + name, "x" * 300, "graph.nnef", "a/" * 90)), content)
        case 3:
            headers = {"type": chance.choice(list(b"\x000123456789gxLKS")), "linkname": chance.choice((name, "/etc/x"))}
        case 4:
            headers = {"size": chance.choice(EXTENTS) & ((1 << 33) - 1)}
        case _:
            members[at] = (name, damage_of(content)(chance, content, []))
    packed = io.BytesIO()
    for number, (each, held) in enumerate(members):
        info = tarfile.TarInfo(each)
        info.size = len(held)
        for key, value in headers.items() if number == at else ():
            setattr(info, key, bytes([value]) if key == "type" and isinstance(value, int) else value)
        packed.write(info.tobuf(tarfile.PAX_FORMAT) + held + bytes(-len(held) % 512))
    whole = packed.getvalue() + bytes(1024)
    return gzip.compress(whole, 1) if is_compressed else whole


def damaged_array(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate the header of a `.npy` file (its length is recomputed) or its elements."""
    start = 10 + int.from_bytes(data[8:10], "little")
    if chance.random() < 0.2 or data[6:8] != b"\1\0":
        return damaged_bytes(chance, data, others)
    header, body = data[10:start], data[start:]
    if body and is_text(body) and chance.random() < 0.7:
        body = damaged_text(chance, body, others)
        header = re.sub(rb"'shape': \([0-9]*,\)", b"'shape': (%d,)" % len(body), header)
    elif chance.random() < 0.5:
        header = damaged_text(chance, header, others)
    else:
        body = damaged_bytes(chance, body, others)
    return data[:8] + min(len(header), 0xFFFF).to_bytes(2, "little") + header + body


def is_text(data: bytes) -> bool:
    """Return whether the first 2000 bytes are printable ASCII."""
    return not data[:2000].strip(bytes(range(32, 127)) + b"\n\r\t")


_GGUF_HEADER = 4096
"""Number of leading bytes of a GGUF file that are mutated: its keys and tensor descriptions."""


def damaged_gguf(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate the keys and tensor descriptions of a GGUF file."""
    if chance.random() < 0.1:
        return damaged_bytes(chance, data, others)
    return damaged_bytes(chance, data[:_GGUF_HEADER], [each[:_GGUF_HEADER] for each in others]) + data[_GGUF_HEADER:]


def damaged_safetensors(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Mutate the JSON header of a safetensors file; its length is recomputed in 80 % of the cases."""
    end = 8 + int.from_bytes(data[:8], "little")
    if chance.random() < 0.2:
        return damaged_bytes(chance, data, others)
    header = damaged_text(chance, data[8:end], [])
    length = len(header) if chance.random() < 0.8 else chance.choice(EXTENTS)
    return length.to_bytes(8, "little") + header + data[end:]


def damage_of(data: bytes) -> Damage:
    """Return the mutation function for the format of a file."""
    if data[:4] == b"GGUF":
        return damaged_gguf
    if data[8:9] == b"{" and 8 + int.from_bytes(data[:8], "little") <= len(data):
        return damaged_safetensors
    if data[:4] == b"PK\3\4":
        return damaged_zip
    if data[:2] == GZIP or data[257:262] == b"ustar":
        return damaged_tar
    if data[:6] == b"\x93NUMPY":
        return damaged_array
    if is_text(data):
        return damaged_text
    return damaged_message if fields(data) else damaged_bytes
