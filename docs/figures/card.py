"""Draws `card.png`, the picture of a page that is shared: the sentence and the picture of the README, in Chromium."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
CARD = """<body style="margin: 0; width: 1200px; height: 630px; display: flex; background: #fff;
font-family: 'Noto Sans', sans-serif">
<div style="width: 560px; padding: 70px 0 0 70px; box-sizing: border-box; color: #1d2126">
<div style="font-size: 62px; font-weight: 700; color: #00796b">monolayer</div>
<p style="font-size: 33px; line-height: 1.4">builds, without training, a one-layer Transformer that returns every
label of your dataset, and proves that it does</p></div>
<div style="margin: 30px auto 0">SVG</div></body>"""


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    drawn = (HERE / "monolayer.svg").read_text(encoding="utf-8")
    picture = drawn.replace('width="620" height="680"', 'width="520" height="570"')
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 630}, color_scheme="light")
        page.set_content(CARD.replace("SVG", picture))
        page.screenshot(path=HERE / "card.png")
        browser.close()


if __name__ == "__main__":
    main()
