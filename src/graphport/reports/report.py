"""The document of a report, and what is drawn from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.replacing import replacing
from graphport.quantization.record import finite
from graphport.reports import table
from graphport.reports.views import FORMATS, SCHEMA, format_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic


@dataclass(frozen=True, eq=False)
class Report:
    """Plain data (`document`), and its views, which are drawn from that alone."""

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
        """A report on one model or two; of `found` what is there: `pairs`, `errors`, and others of the schema."""
        return cls(
            {
                "schema": SCHEMA,
                "version": version("graphport"),
                "verb": verb,
                "title": title,
                "models": list(models),
                **{name: finite(stated) for name, stated in found.items() if stated},
                "diagnostics": [finding.as_json() for finding in diagnostics],
            }
        )

    def json(self) -> str:
        """The document itself."""
        return json.dumps(self.document, ensure_ascii=False, allow_nan=False)

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each node of the first model, in its order: what pandas and polars take for a table."""
        return table.rows(self.document)

    def csv(self) -> str:
        """`to_rows` as comma-separated values."""
        return table.csv(self.to_rows())

    def markdown(self) -> str:
        """What is in it, as a text that people read."""
        return table.markdown(self.document)

    def html(self) -> str:
        """One page that needs nothing else and opens from disk."""
        from graphport.reports.page import page

        return page(self.document)

    def svg(self, *, most: int = 400) -> str:
        """A drawing of the first model, unfolded as far as `most` boxes go."""
        from graphport.reports.svg import drawing

        return drawing(self.document, most=most)

    def figure(self, kind: str, *, width: float = 3.5) -> Any:
        """A figure for a paper, by matplotlib: see `graphport.reports.figures.figure`."""
        from graphport.reports.figures import figure

        return figure(self.document, kind, width=width)

    def save_figure(self, path: str | Path, kind: str, *, width: float = 3.5) -> None:
        """Write a figure; the name's ending says the format: PDF, PNG, SVG or another of matplotlib's."""
        target, drawn = Path(path), BytesIO()
        self.figure(kind, width=width).savefig(drawn, format=target.suffix.removeprefix(".") or "pdf", dpi=300)
        with replacing(target) as file:
            file.write(drawn.getvalue())

    def text(self, format: str) -> str:
        """The view of that format: one of `FORMATS`.

        Raises:
            ValueError: there is no such format.
        """
        views = {"html": self.html, "svg": self.svg, "json": self.json, "csv": self.csv, "md": self.markdown}
        if format not in views:
            message = f"there is no format {format!r}; formats: {', '.join(FORMATS)}"
            raise ValueError(message)
        return views[format]()

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write the view of a format, by default that of the name's ending.

        Raises:
            DiagnosticError: IO0009, the ending is none of a view's and no format was given.
        """
        target = Path(path)
        chosen = format or format_of(target)
        with replacing(target) as file:
            # A name in a model may hold what no UTF-8 is: half of a surrogate pair.
            file.write(self.text(chosen).encode("utf-8", "backslashreplace"))

    def summary(self) -> str:
        """The first model as a notebook shows it: tables and a drawing, no scripts."""
        from graphport.reports.notebook import summary

        return summary(self.document)

    def _repr_html_(self) -> str:
        return self.summary()

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return f"<Report {self.document['title']}>"
