"""The document of a report and its views."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from graphport.core.atomic_write import replacing
from graphport.core.short_repr import abridge_text
from graphport.quantization.record import finite
from graphport.reports import table
from graphport.reports.views import FORMATS, SCHEMA, format_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic


@dataclass(frozen=True, eq=False)
class Report:
    """Plain data (`document`) and the views drawn from it."""

    document: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        models: Sequence[Mapping[str, Any]],
        *,
        verb: str,
        title: str,
        diagnostics: Iterable[Diagnostic] = (),
        **found: object,
    ) -> Report:
        """Create a report on one or two models; `found` contains optional sections of the schema."""
        return cls(
            {
                "schema": SCHEMA,
                "version": version("graphport"),
                "verb": verb,
                "title": title,
                "models": list(models),
                **{name: finite(stated) for name, stated in found.items() if stated},
                "diagnostics": [_with_file_name(finding) for finding in diagnostics],
            }
        )

    def json(self) -> str:
        """Return the document as JSON."""
        return json.dumps(self.document, ensure_ascii=False, allow_nan=False)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per node of the first model, in order, as pandas and polars accept it."""
        return table.rows(self.document)

    def csv(self) -> str:
        """Return `to_rows` as comma-separated values."""
        return table.csv(self.to_rows())

    def markdown(self) -> str:
        """Return the report as Markdown."""
        return table.markdown(self.document)

    def html(self) -> str:
        """Return one self-contained HTML page."""
        from graphport.reports.page import page

        return page(self.document)

    def svg(self, *, most: int = 400) -> str:
        """Return an SVG drawing of the first model with at most `most` boxes."""
        from graphport.reports.svg import drawing

        return drawing(self.document, most=most)

    def figure(self, kind: str, *, width: float = 3.5) -> Any:
        """Return a matplotlib figure: see `graphport.reports.figures.figure`."""
        from graphport.reports.figures import figure

        return figure(self.document, kind, width=width)

    def save_figure(self, path: str | Path, kind: str, *, width: float = 3.5) -> None:
        """Write a figure; the extension selects the format: PDF, PNG, SVG or another one of matplotlib."""
        target, drawn = Path(path), BytesIO()
        self.figure(kind, width=width).savefig(drawn, format=target.suffix.removeprefix(".") or "pdf", dpi=300)
        with replacing(target) as file:
            file.write(drawn.getvalue())

    def text(self, format: str) -> str:
        """Return the view of a format, one of `FORMATS`.

        Raises:
            ValueError: the format is unknown.
        """
        views = {"html": self.html, "svg": self.svg, "json": self.json, "csv": self.csv, "md": self.markdown}
        if format not in views:
            message = f"unknown format {format!r}; expected: {', '.join(FORMATS)}"
            raise ValueError(message)
        return views[format]()

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write the view of a format; the default is given by the extension.

        Raises:
            DiagnosticError: IO0009: the extension is not that of a view and no format was passed.
        """
        target = Path(path)
        chosen = format or format_of(target)
        with replacing(target) as file:
            # A name may contain lone surrogates, which UTF-8 cannot encode.
            file.write(self.text(chosen).encode("utf-8", "backslashreplace"))

    def summary(self) -> str:
        """Return the notebook summary of the first model: tables and a drawing, no scripts."""
        from graphport.reports.notebook import summary

        return summary(self.document)

    def _repr_html_(self) -> str:
        return self.summary()

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return f"<Report {abridge_text(self.document['title'])}>"


def _with_file_name(finding: Diagnostic) -> dict[str, Any]:
    """A finding in JSON with the name of its file, without the folders of the machine: reports are shared."""
    found: dict[str, Any] = {**finding.as_json()}
    return found | {"file": None if finding.span is None else PurePath(finding.span.file).name}
