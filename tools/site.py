"""Hooks of mkdocs: the version beside the name, and tables without empty headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport import __version__

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> None:
    """Put the version beside the name, and the licence at the end of each page."""
    config.site_name = f"graphport {__version__}"
    config.copyright = "graphport, Apache License 2.0"


def on_page_content(html: str, **_: object) -> str:
    """Return the page with cells instead of headers where a header has no text, which screen readers announce."""
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)
