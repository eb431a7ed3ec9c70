"""The diagrams of docs/how-it-works.md: boxes and arrows, as SVG.

python tools/architecture_picture.py    write docs/pictures/path.svg and docs/pictures/layers.svg
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
INK, PAPER, LINE = "#1b1b1b", "#ffffff", "#555555"
FILE, GRAPH, WITNESS = "#fee391", "#cfe6f5", "#d5eee3"

LAYERS = (
    ("cli · lsp", "talking to people and editors"),
    ("api", "what import graphport offers"),
    ("reports", "one document, and its views"),
    ("quantization", "targets, observing, calibrating, plans"),
    ("proof", "witnesses of two files"),
    ("comparison", "metrics, the first node that differs"),
    ("backends", "what computes a graph"),
    ("passes · conversion", "canonical to canonical · dialects to canonical and back"),
    ("formats", "bytes to dialect graphs and back"),
    ("ops", "pages: what operators mean; how dialects say them"),
    ("ir · expression", "graphs, search, text · expressions"),
    ("core", "diagnostics, types, extents, facts, storages"),
)


class Drawing:
    """An SVG drawing: its shapes and its size in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self._size = width, height
        self._shapes: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, lines: tuple[str, ...], color: str) -> None:
        """Add a box with lines of text, the first of them bold."""
        self._shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{color}" stroke="{LINE}"/>'
        )
        top = y + height / 2 - 8 * (len(lines) - 1) + 5
        for index, line in enumerate(lines):
            weight = "bold" if index == 0 else "normal"
            self.text(x + width / 2, top + 16 * index, line, weight)

    def text(self, x: float, y: float, line: str, weight: str = "normal", anchor: str = "middle") -> None:
        """Add a line of text."""
        self._shapes.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="{INK}">{escape(line)}</text>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float, label: str = "") -> None:
        """Add an arrow with a label above it."""
        self._shapes.append(
            f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{LINE}" stroke-width="1.5" fill="none" marker-end="url(#tip)"/>'
        )
        if label:
            self.text((x + to_x) / 2, min(y, to_y) - 6, label)

    def svg(self) -> str:
        """Return the drawing as SVG."""
        width, height = self._size
        tip = f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="13">\n'
            '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
            f'{tip}</marker></defs>\n<rect width="{width}" height="{height}" fill="{PAPER}"/>\n'
            + "\n".join(self._shapes)
            + "\n</svg>\n"
        )


def path() -> str:
    """Return the diagram of a conversion: from the source file to the written file, and their proof."""
    drawing = Drawing(900, 330)
    upper, lower = 40, 150
    drawing.box(15, upper, 120, 56, ("source file", "net.xml"), FILE)
    drawing.box(225, upper, 150, 56, ("dialect graph", "openvino.ReLU, …"), GRAPH)
    drawing.box(480, upper, 150, 56, ("canonical graph", "Relu, … of ONNX"), GRAPH)
    drawing.box(735, upper, 150, 56, ("passes", "canonical to canonical"), GRAPH)
    drawing.box(735, lower, 150, 56, ("canonical graph", "smaller, or rounded"), GRAPH)
    drawing.box(480, lower, 150, 56, ("dialect graph", "tflite.RELU, …"), GRAPH)
    drawing.box(225, lower, 150, 56, ("written file", "net.tflite"), FILE)
    drawing.arrow(135, upper + 28, 224, upper + 28, "read")
    drawing.arrow(375, upper + 28, 479, upper + 28, "legalize")
    drawing.arrow(630, upper + 28, 734, upper + 28, "rewrite")
    drawing.arrow(810, upper + 56, 810, lower - 1)
    drawing.arrow(735, lower + 28, 631, lower + 28, "export")
    drawing.arrow(480, lower + 28, 376, lower + 28, "write")
    drawing.box(15, 255, 220, 56, ("its own runtime", "OpenVINO on net.xml"), WITNESS)
    drawing.box(265, 255, 220, 56, ("its own runtime", "LiteRT on net.tflite"), WITNESS)
    drawing.box(515, 255, 220, 56, ("the reference", "NumPy on what was read"), WITNESS)
    drawing.arrow(75, upper + 56, 75, 254)
    drawing.arrow(300, lower + 56, 345, 254)
    drawing.arrow(555, lower + 56, 600, 254)
    drawing.text(755, 288, "equal? else no file", anchor="start")
    return drawing.svg()


def layers() -> str:
    """Return the diagram of the packages; each imports only from packages below it."""
    height = 30
    drawing = Drawing(640, 20 + height * len(LAYERS))
    for index, (name, owns) in enumerate(LAYERS):
        y = 10 + index * height
        drawing.box(10, y, 190, height - 5, (name,), GRAPH)
        drawing.text(215, y + 17, owns, anchor="start")
    return drawing.svg()


def main() -> None:
    """Write both diagrams."""
    for name, text in (("path", path()), ("layers", layers())):
        (PICTURES / f"{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
