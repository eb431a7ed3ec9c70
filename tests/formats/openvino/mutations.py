"""Files of the runtime, damaged at random: what happens to files, and what somebody might do to them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).parent / "data"
SOURCES = sorted(DATA.glob("*.xml"))
NUMBERS = ["", "-1", "0", "1", "7", "2147483648", str(2**63), str(2**64 + 8), "9" * 50, "1e9", "nan", "-", "1,,2", "x"]
ATTRIBUTE = re.compile(r' [\w-]+="[^"]*"')
NUMBER = re.compile(r'(?<=")-?\d+(?=")')
TAG = re.compile(r"<[^>]*>")
LAYER = re.compile(r"<layer .*?</layer>", re.DOTALL)
EDGE = re.compile(r"<edge [^>]*>")
DIM = re.compile(r"(?<=<dim>)-?\d+(?=</dim>)")
LAUGHS = '<!DOCTYPE net [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'

Change = Callable[[random.Random, str], str]


def _replaced(chance: random.Random, text: str, pattern: re.Pattern[str], *to: str) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    place = chance.choice(found)
    return text[: place.start()] + chance.choice(to) + text[place.end() :]


def _swapped(chance: random.Random, text: str, pattern: re.Pattern[str]) -> str:
    found = list(pattern.finditer(text))
    if len(found) < 2:
        return text
    a, b = sorted(chance.sample(found, 2), key=lambda place: place.start())
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def _twice(chance: random.Random, text: str, pattern: re.Pattern[str]) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    place = chance.choice(found)
    return text[: place.end()] + place[0] + text[place.end() :]


def _moved(chance: random.Random, text: str, ends: tuple[str, ...]) -> str:
    edges = EDGE.findall(text)
    if not edges:
        return text
    old = chance.choice(edges)
    end = chance.choice(ends)
    number = str(chance.choice([0, 1, 2, 3, 5, len(edges), 10**6]))
    return text.replace(old, re.sub(rf'{end}="[^"]*"', f'{end}="{number}"', old), 1)


def _inserted(chance: random.Random, text: str, what: str) -> str:
    place = chance.randrange(len(text) + 1)
    return text[:place] + what + text[place:]


TEXTS: dict[str, Change] = {
    "an attribute less": lambda c, t: _replaced(c, t, ATTRIBUTE, ""),
    "another number": lambda c, t: _replaced(c, t, NUMBER, *NUMBERS),
    "another dim": lambda c, t: _replaced(c, t, DIM, *NUMBERS),
    "a tag less": lambda c, t: _replaced(c, t, TAG, ""),
    "a tag twice": lambda c, t: _twice(c, t, TAG),
    "a layer less": lambda c, t: _replaced(c, t, LAYER, ""),
    "a layer twice": lambda c, t: _twice(c, t, LAYER),
    "an edge less": lambda c, t: _replaced(c, t, EDGE, ""),
    "an edge twice": lambda c, t: _twice(c, t, EDGE),
    "attributes exchanged": lambda c, t: _swapped(c, t, ATTRIBUTE),
    "layers exchanged": lambda c, t: _swapped(c, t, LAYER),
    "an edge elsewhere": lambda c, t: _moved(c, t, ("from-layer", "to-layer")),
    "an edge to another port": lambda c, t: _moved(c, t, ("from-port", "to-port")),
    "a NUL": lambda c, t: _inserted(c, t, "\0"),
    "an entity": lambda c, t: _inserted(c, t, c.choice(["&amp;", "&a;", "&#0;", "&#x110000;", "<![CDATA[", "<!--"])),
    "a document type": lambda c, t: _inserted(c, t.replace("?>\n", f"?>\n{LAUGHS}", 1), "&b;"),
    "deep elements": lambda c, t: _replaced(c, t, TAG, "<a>" * c.choice([10, 150, 1000])),
    "many attributes": lambda c, t: _replaced(c, t, ATTRIBUTE, "".join(f' a{n}="{n}"' for n in range(5000))),
    "a long text": lambda c, t: _replaced(c, t, NUMBER, "9" * 100_000),
    "cut": lambda c, t: t[: c.randrange(len(t))],
}  # fmt: skip
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "utf-7"]


def mutated(seed: int, folder: Path) -> tuple[str, Path]:
    """The kind of damage number `seed`, and a file that has it."""
    chance = random.Random(seed)
    source = chance.choice(SOURCES)
    text, weights = source.read_text("utf-8"), source.with_suffix(".bin").read_bytes()
    kind = chance.choice([*TEXTS, "bytes", "bytes", "weights", "encoding"])
    for _ in range(chance.choice([1, 1, 1, 3])):
        text = TEXTS[kind](chance, text) if kind in TEXTS else text
    data = text.encode("utf-8")
    if kind == "bytes":
        flipped = bytearray(data)
        for _ in range(chance.choice([1, 1, 4, 30])):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        data = bytes(flipped)
    elif kind == "encoding":
        data = text.encode(chance.choice(ENCODINGS), "replace")
    elif kind == "weights":
        weights = chance.choice([b"", weights[: len(weights) // 2], weights[:-1], weights + b"\0", bytes(len(weights))])
    path = folder / "model.xml"
    path.write_bytes(data)
    path.with_suffix(".bin").write_bytes(weights)
    return kind, path
