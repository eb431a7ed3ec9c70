"""Run axe-core on HTML pages in headless Chromium, in the light and the dark scheme, and print every violation.

    npm pack axe-core && tar xf axe-core-*.tgz
    python -m tools.accessibility package/axe.min.js site/*.html net.html

The exit code is 1 if there is a violation.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.reports.browser import browser

_SECONDS = 0.5
_RUN = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.flatMap(
  rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(" ")}: ${rule.help}`)))"""


def main(axe: str, *pages: str) -> int:
    """Print the violations of each page and scheme; return the exit code."""
    script, count = Path(axe).read_text(encoding="utf-8"), 0
    with browser() as page:
        page.call("Page.setBypassCSP", {"enabled": True})
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            page.call("Emulation.setEmulatedMedia", {"features": features})
            for path in pages:
                page.call("Page.navigate", {"url": Path(path).resolve().as_uri()})
                page.wait("document.readyState === 'complete'")
                time.sleep(_SECONDS)  # theme scripts change the page after it is loaded
                page(f"{script};0")
                found: list[str] = page(_RUN)
                count += len(found)
                for line in found:
                    print(f"{path}, {scheme}: {line}")
    print(f"{len(pages)} pages, {count} violations")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
