"""What every page must hold in a browser: its width, its contrast, its labels, its order of focus, its stillness."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playwright.sync_api import Locator, Page

__all__ = ["check_every_look", "check_focus_order", "check_nothing_executed", "check_screenshot", "follow"]

SCREENSHOTS = Path(__file__).resolve().parents[3] / "docs" / "_static" / "pages"
WIDTHS = (360, 1280)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

_LOW_CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const rgba = colour => {
    if (!known.has(colour)) known.set(colour, read(colour));
    return known.get(colour);
  };
  const read = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const backdrop = element => {
    const layers = [];
    for (let node = element; node; node = node.parentElement) layers.push(rgba(getComputedStyle(node).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = colour => {
    const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || !element.getClientRects().length || style.visibility === "hidden") continue;
    if (element.closest(".visually-hidden, .skip, noscript, option, title")) continue;
    const back = backdrop(element);
    const front = over(rgba(element.closest("svg") ? style.fill : style.color), back);
    const [a, b] = [luminance(front), luminance(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${element.tagName} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return low;
}
"""

_UNLABELLED = """
() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a, progress, meter, svg")]
  .filter(node => !(node.labels && node.labels.length) && !node.getAttribute("aria-label") && !node.textContent.trim())
  .map(node => node.outerHTML.slice(0, 120))
"""

_STICKING_OUT = """
() => [...document.querySelectorAll("main, main *, .foot, .minor-row")]
  .filter(node => node.getBoundingClientRect().right > innerWidth)
  .map(node => node.outerHTML.slice(0, 120)).slice(0, 5)
"""

_FOREIGN_nodeS = """
() => [...document.querySelectorAll("script:not([src^='/static/']), iframe, object, embed, img, video, audio, style,"
    + " base, svg image, foreignObject, [style], [srcdoc], [action^='javascript'], [href^='javascript']")]
  .concat([...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on"))))
  .map(node => node.outerHTML.slice(0, 120))
"""


# What is drawn too small, too large or cut off, and the fields of a row that are not aligned.
_ODD_SIZES = """
() => {
  const odd = [];
  for (const svg of document.querySelectorAll("svg.curve")) {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    for (const text of svg.querySelectorAll("text")) {
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 11 || size > 16) odd.push(`text of ${size.toFixed(1)} px in a chart: ${text.textContent}`);
    }
  }
  for (const table of document.querySelectorAll(".scroll"))
    if (table.scrollWidth > table.clientWidth) odd.push(`a table of ${table.scrollWidth} px has to be scrolled`);
  const canvas = document.createElement("canvas").getContext("2d");
  for (const select of document.querySelectorAll("select")) {
    const style = getComputedStyle(select);
    canvas.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    for (const {text} of select.options) if (canvas.measureText(text).width > room) odd.push(`cut off: ${text}`);
  }
  for (const form of document.querySelectorAll(".filters")) {
    const controls = [...form.querySelectorAll("input:not([type=hidden]), select, button, .button")]
      .map(node => [node, node.getBoundingClientRect()]);
    for (const [one, first] of controls) for (const [other, second] of controls)
      if (first.top < second.bottom && second.top < first.bottom
          && Math.abs(first.bottom - second.bottom) + Math.abs(first.top - second.top) > 0.5)
        odd.push(`not aligned: ${one.id || one.textContent} and ${other.id || other.textContent}`);
  }
  return odd;
}
"""


def follow(target: Locator) -> None:
    """Click on what leads to another page, and wait for that page."""
    with target.page.expect_navigation():
        target.click()


_WATCH_MOVES = """
window.moved = 0;
new PerformanceObserver(list => list.getEntries().forEach(entry => { window.moved += entry.value; }))
  .observe({type: "layout-shift", buffered: true});
"""

_MOVED = "() => new Promise(done => requestAnimationFrame(() => done(window.moved)))"


def check_every_look(page: Page, url: str, paths: Iterable[str], *, name: str) -> None:
    """Check pages at each width, light and dark, with and without JavaScript, in the same tab.

    Set ACE_PAGES_SEEN to a folder to get a screenshot of each.

    Args:
        page: The tab.
        url: The address of the server.
        paths: The pages.
        name: How the names of the screenshots begin.
    """
    page.add_init_script(_WATCH_MOVES)
    session = page.context.new_cdp_session(page)
    for place, path in enumerate(paths):
        for scripts in (True, False):
            session.send("Emulation.setScriptExecutionDisabled", {"value": not scripts})
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                page.goto(url + path)
                if scripts:
                    assert page.evaluate(_MOVED) == 0, f"{path} moves while it is loaded"
                check_width(page)
                check_labels(page)
                check_sizes(page)
                # JavaScript does not change colours, so without it one width is enough.
                for scheme in SCHEMES if scripts or width == WIDTHS[0] else ():
                    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # without transitions
                    check_contrast(page)
                    if (folder := os.environ.get("ACE_PAGES_SEEN")) and scripts:
                        file = Path(folder) / f"{name}-{place:02}-{width}-{scheme}.png"
                        page.screenshot(path=file, full_page=True)
    session.send("Emulation.setScriptExecutionDisabled", {"value": False})


def check_width(page: Page) -> None:
    """No page is wider than the window."""
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], f"{page.url} is {wide[0]} px wide in {wide[1]} px: {page.evaluate(_STICKING_OUT)}"


def check_sizes(page: Page) -> None:
    """Charts can be read at every width, no chosen option is cut off, and the fields of a form are in a line."""
    assert page.evaluate(_ODD_SIZES) == [], page.url


def check_contrast(page: Page) -> None:
    """Every text has a contrast of at least 4.5 to 1 (WCAG AA)."""
    low = page.evaluate(_LOW_CONTRAST)
    assert not low, f"{page.url}: {low}"


def check_labels(page: Page) -> None:
    """Whatever can be used or read has a name, and the page has one first heading and a title."""
    assert page.evaluate(_UNLABELLED) == [], page.url
    assert page.locator("h1, .empty h2").count() >= 1, page.url
    assert page.title(), page.url


def check_focus_order(page: Page) -> None:
    """The tab key goes through everything that can be used in the order in which it is read, starting with the skip."""
    wanted: list[Any] = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
            .filter(node => node.checkVisibility()).map(node => node.outerHTML.slice(0, 160))"""
    )
    got = []
    for _ in wanted:
        page.keyboard.press("Tab")
        got.append(page.evaluate("() => document.activeElement.outerHTML.slice(0, 160)"))
    assert got == wanted, page.url
    assert "skip" in got[0]


def check_nothing_executed(page: Page) -> None:
    """No markup of a text became an element of the page, and no script of it ran."""
    assert page.evaluate("() => window.executed === undefined"), page.url
    assert page.evaluate(_FOREIGN_nodeS) == [], page.url


def check_screenshot(page: Page, name: str) -> None:
    """The documentation has a screenshot of the page in its size; with ACE_UPDATE_SCREENSHOTS=1, take it again."""
    width = page.evaluate("innerWidth")
    image = page.screenshot(clip={"x": 0, "y": 0, "width": width, "height": 800})
    if os.environ.get("ACE_UPDATE_SCREENSHOTS"):
        SCREENSHOTS.mkdir(exist_ok=True)
        (SCREENSHOTS / name).write_bytes(image)
    committed = (SCREENSHOTS / name).read_bytes()
    assert committed[16:24] == image[16:24], f"{name} has another size; run this test with ACE_UPDATE_SCREENSHOTS=1"
