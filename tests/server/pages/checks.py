"""What every page must hold in a browser: its width, its contrast, its labels, its order of focus, its stillness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["check_contrast", "check_focus_order", "check_labels", "check_nothing_executed", "check_width", "follow"]

_LOW_CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const backdrop = element => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
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
  .filter(each => !(each.labels && each.labels.length) && !each.getAttribute("aria-label") && !each.textContent.trim())
  .map(each => each.outerHTML.slice(0, 120))
"""

_STICKING_OUT = """
() => [...document.querySelectorAll("main, main *, .foot, .minor-row")]
  .filter(each => each.getBoundingClientRect().right > innerWidth)
  .map(each => each.outerHTML.slice(0, 120)).slice(0, 5)
"""

_FOREIGN_ELEMENTS = """
() => [...document.querySelectorAll("script:not([src^='/static/']), iframe, object, embed, img, video, audio, style,"
    + " base, svg image, foreignObject, [style], [srcdoc], [action^='javascript'], [href^='javascript']")]
  .concat([...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on"))))
  .map(each => each.outerHTML.slice(0, 120))
"""


def follow(target: Locator) -> None:
    """Click on what leads to another page, and wait for that page."""
    with target.page.expect_navigation():
        target.click()


def check_width(page: Page) -> None:
    """No page is wider than the window."""
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], f"{page.url} is {wide[0]} px wide in {wide[1]} px: {page.evaluate(_STICKING_OUT)}"


def check_contrast(page: Page) -> None:
    """Every text has a contrast of at least 4.5 to 1 (WCAG AA)."""
    assert page.evaluate(_LOW_CONTRAST) == [], page.url


def check_labels(page: Page) -> None:
    """Whatever can be used or read has a name, and the page has one first heading and a title."""
    assert page.evaluate(_UNLABELLED) == [], page.url
    assert page.locator("h1, .empty h2").count() >= 1, page.url
    assert page.title(), page.url


def check_focus_order(page: Page) -> None:
    """The tab key goes through everything that can be used in the order in which it is read, starting with the skip."""
    wanted: list[Any] = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
            .filter(each => each.getClientRects().length).map(each => each.outerHTML.slice(0, 160))"""
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
    assert page.evaluate(_FOREIGN_ELEMENTS) == [], page.url
