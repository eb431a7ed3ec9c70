"""Screenshots of report pages in Chromium, for docs/report.md.

python tools/report_pictures.py    write docs/pictures/report-*.png and print the commands
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.pages import network

import graphport as gp
from tests.reports.browser import browser

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "src" / "graphport" / "examples" / "digits"
SIZE = (1100, 640)
PAGES = {
    "one": (
        "graphport report digits -o one.html",
        ("page.open(page.views[0], page.index.find(e => e.text.includes('conv2')).key)",),
    ),
    "two": ("graphport report digits --against planted -o two.html", ()),
    "error": ("graphport report digits --against planted -o two.html", ("page.show('error')",)),
    "quantized": (
        "graphport quantize digits small.onnx --calibration images.npz --preset fast --report quantized.html",
        ("page.show('quantization')",),
    ),
    "large": (
        "graphport report n5000.onnx -o large.html",
        ("page.theme('dark')", "page.views[0].openAll(true)", "page.views[0].zoom(0.8)"),
    ),
}
"""For each screenshot: the command that writes its page, and the elements to click."""


def prepare(folder: Path) -> None:
    """Write the models: the digits example, a copy with another activation, and a network of 5,000 nodes."""
    for name in ("digits", "planted"):
        shutil.copytree(DIGITS, folder / name)
    text = (folder / "planted" / "graph.nnef").read_text("utf-8")
    text = text.replace("relu2 = relu(norm2)", "relu2 = leaky_relu(norm2, alpha = 0.05)")
    (folder / "planted" / "graph.nnef").write_text(text, encoding="utf-8")
    with np.load(DIGITS / "test.npz") as images:
        np.savez(folder / "images.npz", image=images["image"][:64])
    gp.save(network(5000), folder / "n5000.onnx")


def main() -> None:
    """Generate every page and its screenshot."""
    with TemporaryDirectory() as name, browser(*SIZE) as page:
        folder = Path(name)
        prepare(folder)
        for picture, (command, clicks) in PAGES.items():
            print(command)
            arguments = [sys.executable, "-m", *shlex.split(command)]
            subprocess.run(arguments, cwd=folder, check=True, env=dict(os.environ), stdout=subprocess.DEVNULL)  # noqa: S603
            page.open(folder / arguments[-1])
            for click in clicks:
                page(click)
                page.frame()
            page.picture(ROOT / "docs" / "pictures" / f"report-{picture}.png")


if __name__ == "__main__":
    main()
