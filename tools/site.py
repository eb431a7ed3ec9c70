"""What the documentation says of itself: mkdocs calls this before it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport import __version__

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> None:
    """Put the version beside the name, and the licence at the end of each page."""
    config.site_name = f"graphport {__version__}"
    config.copyright = "graphport, Apache License 2.0"
