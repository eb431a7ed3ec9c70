"""Generate the documentation pages below `operators/`, one per family, from operator definitions.

mkdocs calls `on_config` and `on_files` in each build.

python tools/operator_pages.py FOLDER    write the pages to a folder
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.formats import FORMATS
from graphport.ops import operator_manual
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

    from graphport.ops.declare import OpDef

FOLDER = "operators"
_MARKUP = re.compile(r"`[^`]*`|[\\*_<>\[\]|#]")
_WIDTH = 90


def on_config(config: MkDocsConfig) -> None:
    """Append the pages to the navigation of mkdocs.yml."""
    places = [f"{FOLDER}/{name}.md" for name in ("index", *operator_manual.by_family())]
    if config.nav is not None:
        config.nav.append({"Operators": places})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages to the files of mkdocs."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))


def pages() -> dict[str, str]:
    """Return every page as Markdown by its name: `index`, then the families."""
    families = operator_manual.by_family()
    return {"index": _index(families)} | {name: _family(name, of) for name, of in families.items()}


def _index(families: dict[str, list[OpDef]]) -> str:
    rows = [
        [f"[{page.name}]({name}.md#{_anchor(page.name)})", *_directions(page), escaped(_first_line(page))]
        for name, of in families.items()
        for page in of
    ]
    rows.sort(key=lambda row: row[0].lower())
    intro = (
        f"{len(rows)} operators, named and defined as in ONNX opset {OPSET}. Every format is read into them and "
        "written from them; `graphport ops` prints this table, `graphport ops Conv` what is known of one."
    )
    return "\n".join(["# Operators", "", intro, "", *_table(["operator", *FORMATS, "meaning"], rows), ""])


def _anchor(heading: str) -> str:
    """Return the anchor that mkdocs generates for a heading of one word."""
    return re.sub(r"[^\w-]", "", heading).lower()


def _family(name: str, of: Sequence[OpDef]) -> str:
    lines = [f"# {name.capitalize()}", "", escaped(operator_manual.family_title(name)), ""]
    for page in of:
        lines += _operator(page)
    return "\n".join(lines)


def _operator(page: OpDef) -> Iterator[str]:
    yield from (f"## {page.name}", "", "```text", operator_manual.signature(page, _WIDTH), "```", "")
    for paragraph in page.manual.split("\n\n"):
        yield from (*_paragraph(paragraph), "")
    types = [[f"`{name}`", ", ".join(of)] for name, of in operator_manual.element_types(page).items()]
    if types:
        yield from (*_table(["type", "may be"], types), "")
    yield from (operator_manual.versions(page), "")
    words = [
        [name, said.direction or "no", ", ".join(f"`{op_type}`" for op_type in said.patterns or said.reads)]
        for name, said in (
            (name, operator_manual.spellings(found.read_dialect)[page.name]) for name, found in FORMATS.items()
        )
    ]
    yield from (*_table(["format", "direction", "its words"], words), "")


def _paragraph(text: str) -> Iterator[str]:
    """Format a paragraph of a docstring; entries below a heading such as `Raises:` are a list."""
    first, *rest = text.splitlines()
    if not first.endswith(":") or not all(line.startswith("    ") for line in rest):
        yield escaped(text)
        return
    yield from (first, "")
    for line in rest:
        entry = escaped(line.strip())
        yield f"    {entry}" if line.startswith(" " * 5) else f"- {entry}"


def _directions(page: OpDef) -> list[str]:
    return [operator_manual.spellings(found.read_dialect)[page.name].direction for found in FORMATS.values()]


def _first_line(page: OpDef) -> str:
    """Return the first sentence of an operator's documentation."""
    begin = page.manual.partition("\n\n")[0].partition("  Shapes: ")[0]
    return " ".join(begin.split())


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(row)} |"


def escaped(text: str) -> str:
    """Escape the markup characters of Markdown in `text`; in code between backticks only the bars of a table."""

    def safe(found: re.Match[str]) -> str:
        return found[0].replace("|", "\\|") if found[0].startswith("`") else f"\\{found[0]}"

    return _MARKUP.sub(safe, text)


def main(arguments: Sequence[str]) -> int:
    """Write the pages to the folder of the command line."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
