"""The Core ATen set beside our rules, as a page of the documentation: `docs/core-aten.md`.

python tools/core_aten.py            write the page
python tools/core_aten.py --check    fail if it is not what the rules are

`tests/formats/pytorch/pt2/core_aten` has the list that PyTorch gives, and programs that call every
operator of it. This tool reads them and writes down what each rule emits; the tests compare results with PyTorch's.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import graphport as gp
from graphport.ops import registry
from tools import emitted

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "formats" / "pytorch" / "pt2" / "core_aten"
PAGE = ROOT / "docs" / "core-aten.md"
DIALECT, SPACE, COMPLEX = "pytorch", "aten.", "complex:"

HEAD = """# The Core ATen set

`run_decompositions()` leaves operators of PyTorch's Core ATen set. Of the {all} that PyTorch 2.13 tags as such and that
make new tensors, {read} are read, each called by a program of the tests, which hold its results against PyTorch's, by
the reference and in ONNX Runtime. {folded} more have a rule, and `torch.export` computes them itself where they are
called. The table is made from the rules (`tools/core_aten.py`): what stands on the right is what they emit in these
programs.

| operator | becomes |
|---|---|
"""
NOTHING, FOLDED = "what it is given, or a constant", "a number that `torch.export` computes itself"


def table() -> str:
    """The page as Markdown."""
    emitted.pytest_configure()
    recorder: emitted.Recorder = vars(emitted)["RECORDER"]
    called: set[str] = set()
    refused: dict[str, str] = {}
    for path in sorted(PROGRAMS.glob("*.pt2")):
        called |= {node.word for node in gp.load(path, raw=True).graph}
        refused |= {node.word: "there is no rule" for node in gp.load(path).graph if node.dialect == DIALECT}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for (kind, dialect, word), seen in recorder.seen.items():
        if kind == emitted.LOWER and dialect == DIALECT:
            found[word.removeprefix(COMPLEX)] |= seen.some
    names = (PROGRAMS / "core_aten.txt").read_text(encoding="utf-8").split()
    rows: list[str] = []
    read, folded = 0, 0
    for name in names:
        word = f"{SPACE}{name}"
        if word in found and word not in refused:
            read += 1
            text = ", ".join(sorted(found[word])) or NOTHING
        elif word not in called and registry.lowering(DIALECT, word) is not None:
            folded += 1
            text = FOLDED
        else:
            text = f"not read: {refused.get(word, 'no program calls it' if word not in called else 'its rule refuses')}"
        rows.append(f"| `{name}` | {text} |")
    return HEAD.format(all=len(names), read=read, folded=folded) + "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    made = table()
    if "--check" not in arguments:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print(f"{PAGE.name} is not what the rules are: run python tools/core_aten.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
