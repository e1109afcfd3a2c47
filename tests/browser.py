"""A real browser for pages that the project writes: what it complains about, draws and asks the network for."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@dataclass
class Opened:
    """A page, every message of its console, and every address that it asked for besides itself."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def call(self, script: str) -> Any:
        return self.page.evaluate(script)


@cache
def chromium() -> Any:
    """One browser per process, closed when the process ends: starting it takes longer than a page.

    Without a Chromium on this machine the test is skipped.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs a browser: one of {', '.join(NAMES)}")
    driver = pytest.importorskip("playwright.sync_api").sync_playwright().start()
    atexit.register(driver.stop)
    browser = driver.chromium.launch(executable_path=found, args=list(ARGUMENTS), timeout=0)
    atexit.register(browser.close)
    return browser


@contextmanager
def opened(path: Path, *, width: int = 1000, scheme: Literal["light", "dark"] = "light") -> Iterator[Opened]:
    """`path` opened from the disk in Chromium, offline, in a fresh profile."""
    context = chromium().new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    try:
        context.set_default_timeout(0)  # a busy machine takes its time
        view = Opened(context.new_page())
        view.page.on("console", lambda message: view.messages.append(f"{message.type}: {message.text}"))
        view.page.on("pageerror", lambda error: view.messages.append(f"error: {error}"))
        view.page.on("request", lambda request: view.requests.append(request.url))
        view.page.goto(path.as_uri())
        view.requests.remove(path.as_uri())
        yield view
    finally:
        context.close()


def unnamed(view: Opened) -> list[str]:
    """Controls, pictures and regions for which a screen reader finds no name."""
    found: list[str] = view.call(
        """[...document.querySelectorAll('input, select, textarea, button, svg, section, [role=region]')]
             .filter((one) => {
             const label = one.labels && one.labels.length && one.labels[0].textContent.trim();
             const by = one.getAttribute('aria-labelledby');
             const text = one.matches('button') && one.textContent.trim();
             return !(label || text || one.getAttribute('aria-label') || (by && document.getElementById(by)));
           }).map((one) => one.outerHTML.slice(0, 80))"""
    )
    return found


def drawn(view: Opened) -> int:
    """How many figures of a report, folded ones too, hold a curve, a bar or a map, after the page says it is done."""
    # A selector, not a function: the page's policy forbids evaluation, also the one that waiting would use.
    figures = view.call(
        """(() => {
             document.querySelectorAll('details').forEach((part) => { part.open = true; });
             return document.querySelectorAll('div.plot').length;
           })()"""
    )
    view.page.wait_for_selector(f"html[data-drawn='{figures}']", state="attached")
    count: int = view.call(
        """[...document.querySelectorAll('div.plot')].filter((plot) => {
             const box = plot.getBoundingClientRect();
             const marks = '.scatterlayer .trace path, .barlayer .point path, .heatmaplayer image';
             const curves = plot.querySelectorAll(marks);
             return box.width > 200 && box.height > 200 && curves.length > 0;
           }).length"""
    )
    return count


def flaws(view: Opened) -> list[str]:
    """What a reader would stumble over in the figures: words that are cut or lie over one another, empty entries."""
    found: list[str] = view.call(
        """(() => {
             const out = [], box = (one) => one.getBoundingClientRect();
             const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
                                 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
             const within = (a, b) => a.left > b.left - 1 && a.right < b.right + 1
                                   && a.top > b.top - 1 && a.bottom < b.bottom + 1;
             for (const plot of document.querySelectorAll('div.plot, .mini')) {
               const say = (what) => out.push(`${plot.getAttribute('aria-label')}: ${what}`);
               const legend = plot.querySelector('.legend .bg');
               for (const word of plot.querySelectorAll('.legendtext, .xtitle, .ytitle, .annotation-text')) {
                 const inside = word.matches('.legendtext') ? [legend, plot] : [plot];
                 if (!inside.every((one) => within(box(word), box(one)))) say(`cut: ${word.textContent}`);
               }
               for (const letter of 'xy') {
                 const title = plot.querySelector(`.${letter}title`);
                 const ticks = [...plot.querySelectorAll(`.${letter}tick text`)];
                 const level = ticks.filter((one) => !/rotate\\(-?[1-9]/.test(one.getAttribute('transform')));
                 const near = level.find((tick, k) => k && meet(box(level[k - 1]), box(tick)));
                 if (near) say(`ticks meet at ${near.textContent}`);
                 const over = title && ticks.concat(legend || []).find((one) => meet(box(title), box(one)));
                 if (over) say(`${title.textContent} over ${over.textContent}`);
               }
             }
             return out;
           })()"""
    )
    return found
