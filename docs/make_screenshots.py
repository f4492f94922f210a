"""Write docs/report-light.png and docs/report-dark.png: the report of `multimargin demo`, on a screen and a phone.

Needs Playwright and a chromium: ``python docs/make_screenshots.py``.
"""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from multimargin.commands.main import main

DOCS = Path(__file__).parent
SHOTS = {
    "report-light.png": dict(color_scheme="light", viewport={"width": 1180, "height": 1660}),
    "report-dark.png": dict(color_scheme="dark", viewport={"width": 390, "height": 1660}, device_scale_factor=1.5),
}

with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
    page_file = Path(directory) / "report.html"
    assert main(["demo", "--quiet", "--report", str(page_file)]) == 0
    program = shutil.which("chromium") or shutil.which("google-chrome")
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    for name, options in SHOTS.items():
        page = browser.new_page(**options)
        page.goto(page_file.as_uri())
        page.screenshot(path=DOCS / name)
        Image.open(DOCS / name).quantize(128, dither=Image.Dither.NONE).save(DOCS / name, optimize=True)
        print(f"{name}: {(DOCS / name).stat().st_size:,} bytes")
    browser.close()
