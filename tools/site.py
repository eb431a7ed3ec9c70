"""Hooks of mkdocs: the version in the site name, and tables without empty headers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport import __version__

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> None:
    """Add the version to the site name and the licence to the footer."""
    config.site_name = f"graphport {__version__}"
    config.copyright = "graphport, Apache License 2.0"


def on_page_content(html: str, **_: object) -> str:
    """Replace empty table headers by cells, because screen readers announce headers."""
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)
