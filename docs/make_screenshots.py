"""Write docs/report-light.png and docs/report-dark.png: the report on scikit-learn's digits, on a screen and a phone.

Needs Playwright and a chromium: ``python docs/make_screenshots.py``.
"""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from multimargin import LinearSVM
from multimargin.report import write_report

DOCS = Path(__file__).parent
SHOTS = {
    "report-light.png": dict(color_scheme="light", viewport={"width": 1180, "height": 1660}),
    "report-dark.png": dict(color_scheme="dark", viewport={"width": 390, "height": 1660}, device_scale_factor=1.5),
}

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
model = LinearSVM(solver="sdm").fit(X_train, y_train)
names = [f"pixel {row},{column}" for row in range(8) for column in range(8)]

with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
    page_file = Path(directory) / "report.html"
    write_report(model, X_test, y_test, page_file, feature_names=names, title="Handwritten digits")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    for name, options in SHOTS.items():
        page = browser.new_page(**options)
        page.goto(page_file.as_uri())
        page.screenshot(path=DOCS / name)
        Image.open(DOCS / name).quantize(128, dither=Image.Dither.NONE).save(DOCS / name, optimize=True)
        print(f"{name}: {(DOCS / name).stat().st_size:,} bytes")
    browser.close()
