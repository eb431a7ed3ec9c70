"""Measure vague language in the sources of graphport: names, docstrings and comments, messages.

    python tools/measure_language.py                    print the figures of each package
    python tools/measure_language.py --check            fail if a figure exceeds its limit in tools/language_limits.json
    python tools/measure_language.py --update           lower the limits to the present figures; never raise one
    python tools/measure_language.py --worst 20 [PATH]  print the docstrings with most vague phrases

A figure is one of: percent of functions and classes named by vague words alone; vague phrases per 100 words of
docstrings and comments; percent of messages of diagnostics and exceptions with a vague phrase. `docs/glossary.md` lists
the terms to use instead.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent / "src/graphport"
LIMITS = Path(__file__).with_name("language_limits.json")

VAGUE_WORDS = """
    stated told tells given taken found made kept meant wanted asked own place places beside behind ahead around whole
    wholes parts part piece pieces twin twins alone apart between beyond became becomes left rest less more most many
    much thing things way ways sort kind seen known held holds hold reached reaches reach said says say word words
    spoken turned turn turns put puts taken takes take goes gone come comes far near wide wider narrow odd plain same
    such other others each every open opened shut old new elder younger early late later first last one two maker
    makers user reader shares share sums fitted fits fitting chosen choose picked picks pick laid lays lay spread
    spared spare telling heard hear again settled settling received written idle started starts start chance guess
    guarded guards guard forms form ordered drawn draws hidden hides hide shows show tall high low bare real reals truth
    truths number numbers entry entries item items saying spell spells spelled speak speaker unsaid painted bag bags
    tilted soft filled brackets eighths halved damage damaged blame storeys express
"""
"""Words that do not identify an object when a name consists of them alone."""

VAGUE_NAMES = frozenset(VAGUE_WORDS.split())

_VERBS = """
    is are was were it they a an the has have comes goes stands? computes? makes? keeps? tells? says? takes? gives?
    holds? rules? follows remains lies does can could no nobody one another each every others?
"""
_SUBJECTS = "ONNX NNEF OpenVINO tract PyTorch TFLite ncnn"
_WHAT = "|".join((*_VERBS.split(), *_SUBJECTS.split(), r"[a-z]+ (?:is|are|was|has|have|made|makes|says|tells)"))

PHRASES: dict[str, re.Pattern[str]] = {
    "what-clause": re.compile(rf"\b[Ww]hat (?:{_WHAT})\b"),
    "nobody, somebody, who": re.compile(r"\b(?:nobody|somebody|anybody|everybody|whoever|whatever|who)\b"),
    "as it is": re.compile(r"\bas (?:it|they) (?:is|are|was|were|stands?|says?)\b"),
    "as X has it": re.compile(
        r"\bas [A-Z`\w]+(?: itself)? (?:has|have|had|does|do|says|say|takes|reads) (?:it|them|so)\b"
    ),
    "say, tell, ask": re.compile(
        r"\b(?:say|says|said|saying|tell|tells|told|telling|speak|speaks|spoken|spells?|spelled|asked|asks|answers?)\b"
    ),
    "word": re.compile(r"\b(?:own |older |newer |in |the )?words?\b"),
    "beside, behind, apart": re.compile(
        r"\b(?:beside|behind|apart|ahead of|in front of|side by side|one another|of its own|of their own)\b"
    ),
    "becomes, goes, stands, lies": re.compile(
        r"\b(?:becomes?|became|comes? (?:to|out|of|from|after|before|next|last|first)"
        r"|goes|stands?|stood|lies|lay|stays?)\b"
    ),
    "made of, taken for": re.compile(
        r"\b(?:made of|makes? of|made from|taken for|takes? for|made by|put together|taken apart|gives? away)\b"
    ),
    "is given, is taken": re.compile(
        r"\b(?:is|are|was|were) (?:given|taken|meant|wanted|asked|left|there|gone|known|kept|due|open|told|said)\b"
    ),
    "these, such, of it": re.compile(
        r"\b(?:those (?:of|that|who|in|which)|these|the ones?|the others?|the rest|the former|the latter"
        r"|of it|of them|such|the same)\b"
    ),
    "inverted sentence": re.compile(
        r"(?:^|[.;:] )(?:Of|From|By|On|In|To|Without|With|Over) [a-z][^.;:]{2,60}(?:[,:]|\bwhat\b)"
    ),
    "turned, halves, truths": re.compile(
        r"\b(?:turned|halves|truths|reals|numbers|places|gaps|steps|shares|pictures)\b"
    ),
}
"""Phrases that occur where a term should, by label."""

MESSAGE_CALLS = frozenset({"Diagnostic", "ShapeError", "UnsupportedError", "Finding", "ValueError", "TypeError"})
MIN_COMMENT_LENGTH = 8


@dataclass
class Figures:
    """Counts of one package."""

    lines: int = 0
    definitions: int = 0
    vague_definitions: int = 0
    words: int = 0
    phrases: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    vague_messages: int = 0

    def add(self, other: Figures) -> None:
        """Add the counts of `other`."""
        for name in ("lines", "definitions", "vague_definitions", "words", "messages", "vague_messages"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.phrases += other.phrases

    def rates(self) -> dict[str, float]:
        """Return the three figures, rounded to two decimals."""
        return {
            "names": round(100 * self.vague_definitions / max(self.definitions, 1), 2),
            "prose": round(100 * self.phrases.total() / max(self.words, 1), 2),
            "messages": round(100 * self.vague_messages / max(self.messages, 1), 2),
        }


def package_of(path: Path) -> str:
    """Return the package that a module is counted in: two levels inside formats and ops, else one."""
    parts = path.relative_to(ROOT).parts
    depth = 2 if parts[0] in ("formats", "ops") and len(parts) > 2 else 1
    return "/".join(parts[:depth]) if len(parts) > 1 else "(root)"


def is_vague_name(name: str) -> bool:
    """Return whether a name consists of vague words alone (words below three letters do not count)."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]
    return any(word in VAGUE_NAMES for word in words) and all(word in VAGUE_NAMES or len(word) < 3 for word in words)


def find_phrases(text: str) -> Counter[str]:
    """Count the vague phrases of a text by label. Code in backquotes does not count."""
    text = re.sub(r"`[^`]*`", "X", text)
    return Counter({label: len(pattern.findall(text)) for label, pattern in PHRASES.items() if pattern.search(text)})


def prose_of(tree: ast.AST, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and comment."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and len(token.string) > MIN_COMMENT_LENGTH:
            yield token.start[0], token.string[1:].strip()


def messages_of(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of diagnostics and exceptions, and of variables called `message`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "message" for target in node.targets):
            yield ast.unparse(node.value)
        elif isinstance(node, ast.Call) and _name_of(node.func) in MESSAGE_CALLS:
            yield from (ast.unparse(argument) for argument in node.args if _is_sentence(argument))


def _name_of(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def _is_sentence(argument: ast.expr) -> bool:
    if isinstance(argument, ast.Constant):
        return isinstance(argument.value, str) and " " in argument.value
    return isinstance(argument, ast.JoinedStr)


def measure_file(path: Path) -> Figures:
    """Count definitions, phrases and messages of one module."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    figures = Figures(lines=source.count("\n"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            figures.definitions += 1
            figures.vague_definitions += is_vague_name(node.name)
    for _, text in prose_of(tree, source):
        figures.words += len(re.sub(r"`[^`]*`", "X", text).split())
        figures.phrases += find_phrases(text)
    for text in messages_of(tree):
        figures.messages += 1
        figures.vague_messages += bool(find_phrases(text))
    return figures


def measure() -> dict[str, Figures]:
    """Return the figures of each package, and of all as `ALL`."""
    packages: dict[str, Figures] = {}
    for path in sorted(ROOT.rglob("*.py")):
        packages.setdefault(package_of(path), Figures()).add(figures := measure_file(path))
        packages.setdefault("ALL", Figures()).add(figures)
    return packages


def print_worst(count: int, below: Path) -> None:
    """Print the texts with the highest share of vague phrases."""
    texts: list[tuple[float, str]] = []
    for path in sorted(below.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, text in prose_of(ast.parse(source), source):
            if len(text.split()) > 4:
                share = find_phrases(text).total() / len(text.split())
                texts.append((share, f"{path.relative_to(ROOT)}:{line}: {' '.join(text.split())[:200]}"))
    for share, text in sorted(texts, reverse=True)[:count]:
        print(f"{share:.2f} {text}")


def check_limits(packages: dict[str, Figures]) -> list[str]:
    """Return a sentence for each figure above its limit. A new package may have at most 1, 1 and 2 percent."""
    limits = json.loads(LIMITS.read_text(encoding="utf-8"))
    default = {"names": 1.0, "prose": 1.0, "messages": 2.0}
    return [
        f"{name}: {figure} {value} exceeds {limit}"
        for name, figures in packages.items()
        for figure, value in figures.rates().items()
        if value > (limit := limits.get(name, default)[figure])
    ]


def update_limits(packages: dict[str, Figures]) -> None:
    """Lower the stored limits to the present figures; keep lower limits."""
    old = json.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}
    new = {
        name: {key: min(value, old.get(name, {}).get(key, value)) for key, value in figures.rates().items()}
        for name, figures in sorted(packages.items())
    }
    LIMITS.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Run one of the modes of the module docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("path", nargs="?", type=Path, default=ROOT)
    options = parser.parse_args()
    if options.worst:
        print_worst(options.worst, options.path.resolve())
        return 0
    packages = measure()
    if options.update:
        update_limits(packages)
    if options.check:
        failures = check_limits(packages)
        print("\n".join(failures) or "language: no figure exceeds its limit")
        return bool(failures)
    for name, figures in sorted(packages.items(), key=lambda pair: -pair[1].lines):
        rates = figures.rates()
        print(
            f"{name:26}{figures.lines:8} lines{rates['names']:7.1f} % names{rates['prose']:7.1f} phrases per 100 words"
            f"{rates['messages']:7.1f} % messages"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
