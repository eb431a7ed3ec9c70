"""The page as somebody uses it, in Chromium where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphport as gp
from tests.models import model, node
from tests.reports.browser import CHROMIUM, browser
from tests.reports.test_report import HOSTILE, chain

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

MIDDLE = "(key => {const r = [...document.querySelectorAll('g.item')].find(g => g.dataset.key === key).getBoundingClientRect(); return [r.x + r.width / 2, r.y + 12]})"


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def opened(chromium, report: gp.Report, folder: Path, name: str = "page.html"):
    report.save(folder / name)
    chromium.errors.clear()
    chromium.open(folder / name)
    return chromium


def card(chromium) -> str:
    return chromium("document.querySelector('#card').innerText")


def test_a_click_shows_the_card_of_a_node_and_arrows_follow_edges(chromium, tmp_path):
    page = opened(chromium, gp.report(gp.from_onnx(chain())), tmp_path)
    page.click(*page(f"{MIDDLE}('n0')"))
    assert card(page).startswith("Conv\nconv a")
    assert page("document.querySelectorAll('#card .histogram').length") == 1
    page.press("ArrowDown")
    assert card(page).startswith("Mul\nmul b")
    page.press("ArrowUp")
    page.press("ArrowUp")
    assert "input" in card(page)
    assert page.errors == []


def test_search_finds_by_name_operator_and_shape(chromium, tmp_path):
    page = opened(chromium, gp.report(gp.from_onnx(chain())), tmp_path)
    for text, count in (("relu", 1), ("1x4x6x6", 4), ("mul b", 1), ("nothing", 0)):
        page("page.field.value = ''; page.field.blur()")
        page.press("/")
        page.type(text)
        assert page("document.getElementById('hits').textContent") == f"{count} found"
    page("page.field.value = ''")
    page.type("last")
    page.press("Enter")
    assert card(page).startswith("Add\nlast")


INACCESSIBLE = """[
  ...[...document.querySelectorAll('th, button')].filter(e => e.checkVisibility() && !e.innerText.trim() && !e.ariaLabel),
  ...[...document.querySelectorAll('*')].filter(e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowY)
    && e.scrollHeight > e.clientHeight && e.tabIndex < 0 && !e.querySelector('[tabindex="0"], button, a[href]')),
  ...[...document.querySelectorAll('h1, h2, h3')].filter(e => e.checkVisibility())
    .filter((e, i, all) => i && Number(e.tagName[1]) > Number(all[i - 1].tagName[1]) + 1),
].map(e => e.outerHTML.slice(0, 80))"""


def test_every_tab_has_names_focus_and_an_order_of_headings(chromium, tmp_path):
    report = gp.report(gp.from_onnx(chain()), gp.from_onnx(chain(1.5, ("p", "q", "r"))))
    chromium.size(700, 300)
    page = opened(chromium, report, tmp_path)
    tabs = page("[...document.querySelectorAll('[role=tab]')].map(e => e.id)")
    assert len(tabs) >= 3
    for tab in tabs:
        page(f"document.getElementById('{tab}').click()")
        assert page(INACCESSIBLE) == [], tab
    chromium.size(1280, 860)


def test_two_models_are_linked_and_the_first_difference_is_open(chromium, tmp_path):
    report = gp.report(gp.from_onnx(chain()), gp.from_onnx(chain(1.5, ("p", "q", "r"))))
    page = opened(chromium, report, tmp_path)
    assert card(page).startswith("Mul\nmul b")
    assert "6.02 dB" in card(page)
    assert page("[...document.querySelectorAll('.marked')].map(r => r.parentNode.dataset.key)") == ["n1"]
    page.click(*page(f"{MIDDLE}('n2')"))
    assert "corresponds to Relu relu r" in card(page)
    page("document.getElementById('tab-error').click()")
    assert page("document.querySelectorAll('.plot circle').length") == 4
    assert "The first value that differs is b" in page("document.querySelector('.panel.error').innerText")
    assert page.errors == []


def test_scopes_open_and_fold(chromium, tmp_path):
    nodes = [node("Relu", ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"], name=f"/part{i // 90}/n{i}") for i in range(270)]
    report = gp.report(gp.from_onnx(model(nodes, [("x", (2,))], [("v269", (2,))])))
    page = opened(chromium, report, tmp_path)
    count = "document.querySelectorAll('g.item').length"
    page("document.getElementById('fold-all').click()")
    page.frame()
    assert page(count) == 5
    page.click(*page(f"{MIDDLE}('s1')"))
    assert page("page.views[0].drawing.boxes.length") == 5 + 90
    page.press("Enter")
    assert page("page.views[0].drawing.boxes.length") == 5
    page("document.getElementById('open-all').click()")
    page.frame()
    assert page("page.views[0].drawing.boxes.length") == 5 + 270


def test_clicking_a_column_sorts_the_table(chromium, tmp_path):
    page = opened(chromium, gp.report(gp.from_onnx(chain()), gp.from_onnx(chain(1.5))), tmp_path)
    page("document.getElementById('tab-table').click()")
    column = (
        "[...document.querySelectorAll('.rows')[0].querySelectorAll('tbody tr')].map(r => r.children[1].textContent)"
    )
    assert page(column) == ["Conv", "Mul", "Relu", "Add"]
    click = "document.querySelectorAll('.rows')[0].querySelectorAll('th button')[1].click()"
    page(click)
    assert page(column) == ["Add", "Conv", "Mul", "Relu"]
    page(click)
    assert page(column) == ["Relu", "Mul", "Conv", "Add"]


def test_names_are_escaped_in_the_page(chromium, tmp_path):
    proto = chain()
    for each in proto.graph.node:
        each.name = HOSTILE
    page = opened(chromium, gp.report(gp.from_onnx(proto), gp.from_onnx(proto)), tmp_path)
    page.click(*page(f"{MIDDLE}('n0')"))
    for tab in ("table", "error", "findings"):
        page(f"document.getElementById('tab-{tab}').click()")
    assert page("window.hacked") is None
    assert HOSTILE in page("document.querySelector('#card .name').textContent")
    assert page.errors == []


def test_compressed_pages_open_too(chromium, tmp_path):
    nodes = [node("Relu", ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"]) for i in range(2000)]
    report = gp.report(gp.from_onnx(model(nodes, [("x", (2,))], [("v1999", (2,))])))
    page = opened(chromium, report, tmp_path)
    assert page("document.getElementById('data').dataset.coding") == "gzip"
    assert page("page.models[0].nodes.length") == 2000
    assert page.errors == []


def test_a_printed_page_has_the_whole_drawing(chromium, tmp_path):
    page = opened(chromium, gp.report(gp.from_onnx(chain())), tmp_path)
    page("page.print(page.views[0])")
    assert page("document.querySelectorAll('g.item').length") == 6
    page("page.printed(page.views[0])")


def test_text_can_be_read_on_every_colour_light_and_dark(chromium, tmp_path):
    """The contrast of WCAG 2: at least 4.5 for text on boxes."""
    page = opened(chromium, gp.report(gp.from_onnx(chain()), gp.from_onnx(chain(1.5))), tmp_path)
    contrast = """(() => {
      const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
      return [...document.querySelectorAll('g.item')].map(g => { const a = light(getComputedStyle(g.querySelector('rect')).fill), b = light(getComputedStyle(g.querySelector('text')).fill); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) });
    })()"""
    for theme in ("light", "dark"):
        page(f"page.theme('{theme}')")
        assert min(page(contrast)) >= 4.5, theme
