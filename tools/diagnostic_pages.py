"""Generate a documentation page for each diagnostic below `diagnostics/`, and the table of all codes.

The source is the data of `graphport explain`. mkdocs calls `on_files` and `on_page_markdown` in each build.

python -m tools.diagnostic_pages FOLDER    write the pages to a folder
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.cli.explain import diagnostics, headings
from tools.diagnostic_codes import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FOLDER = "diagnostics"
TABLE = "<!-- table of all codes -->"
"""The line of docs/diagnostics.md that the table replaces."""

_AS_BYTES = '`onnx.save(onnx.load("net.onnxtxt"), "net.onnx")`'
_MARKUP = re.compile(r"[\\*_`<>\[\]|#]")


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages to the files of mkdocs."""
    from mkdocs.structure.files import File

    for code, text in pages().items():
        files.append(File.generated(config, f"{FOLDER}/{code}.md", content=text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the table of all codes into its page."""
    del config, files
    return markdown.replace(TABLE, table(diagnostics())) if page.file.src_uri == f"{FOLDER}.md" else markdown


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the codes as Markdown: a section for each group, a row for each code with a link to its page."""
    lines: list[str] = []
    for group, subject in GROUPS.items():
        codes = sorted(code for code in found if code.rstrip("0123456789") == group)
        if codes:
            lines += ["", f"## {group}: {subject}", "", "| code | message |", "|---|---|"]
            lines += [_row(code, found[code]) for code in codes]
    return "\n".join(lines)


def _row(code: str, found: dict[str, Any]) -> str:
    """Format a row: the code, its severity unless it is an error, and the first message."""
    message = next((_escaped(sentence) for sentence in found["sentences"] if sentence.strip("…")), "…")
    prefix = "" if found["severity"] == "error" else f"*{found['severity']}:* "
    return f'| <a id="{code.lower()}"></a>[`{code}`]({FOLDER}/{code}.md) | {prefix}{message} |'


def pages() -> dict[str, str]:
    """Return every page as Markdown by its code."""
    return {code: "\n".join(_page(code, found)) for code, found in diagnostics().items()}


def _page(code: str, found: dict[str, Any]) -> Iterator[str]:
    yield from (f"# {code}", "", f"{found['severity'].capitalize()}, found by {_files(found['found_by'])}.", "")
    yield from (f"- {_escaped(sentence)}" for sentence in found["sentences"])
    if found["remedies"]:
        yield from ("", "**What helps**", "")
        yield from (f"- {_escaped(remedy)}" for remedy in found["remedies"])
    if "why" in found:
        yield from ("", found["why"])
    for name, heading in headings(found).items():
        yield from ("", f"**{heading.capitalize()}**", "", "```text", found[name].rstrip("\n"), "```")
    if "command" in found:
        yield from ("", f"`{found['command']}` has the finding for the first, and not for the second.")
    if found.get("file", "").endswith(".onnxtxt"):
        yield from ("", f"That is the text form of ONNX; {_AS_BYTES} makes the file of it.")
    if "none" in found:
        yield from ("", f"There is no example: {found['none']}.")
    yield from ("", f"`graphport explain {code}` prints this; [all diagnostics](../{FOLDER}.md#{code.lower()}).", "")


def _files(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _escaped(text: str) -> str:
    """Escape the markup characters of Markdown in `text`."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", " ".join(text.split()))


def main(arguments: list[str]) -> int:
    """Write the pages to the folder of the command line."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for code, text in pages().items():
        (folder / f"{code}.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
