"""Write the table of unsupported file kinds in docs/files.md from `formats.recognition.kinds`."""

from __future__ import annotations

from pathlib import Path

from graphport.formats.recognition.kinds import KINDS

PAGE = Path(__file__).parents[1] / "docs" / "files.md"
BEGIN, END = "<!-- kinds -->\n", "<!-- end of kinds -->\n"


def table() -> str:
    """Return the rows of the page: the remedy of each kind; kinds with one remedy share a row."""
    names: dict[str, list[str]] = {}
    for kind in KINDS:
        names.setdefault(_escape(kind.remedy), []).append(kind.name)
    rows = [f"| {'; '.join(found)} | {remedy} |" for remedy, found in names.items()]
    return "\n".join(["| file | what to do |", "|---|---|", *rows]) + "\n"


def _escape(remedy: str) -> str:
    return remedy.replace("{file}", "FILE").replace("{stem}", "NAME").replace("|", "\\|").replace("<", "&lt;")


def page() -> str:
    """Return the page with the current table."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
