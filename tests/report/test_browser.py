"""The report in a real browser: Debian's chromium or Chrome, driven by Playwright, without a network.

Without a browser these tests are skipped, unless MULTIMARGIN_BROWSER=required says that there has to be one.
"""

import os
import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.report import write_report
from tests.report.pages import texts_and_labels

PHONE, DESKTOP = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
SCHEMES = ("light", "dark")


def no_browser(why):
    if os.environ.get("MULTIMARGIN_BROWSER") == "required":
        pytest.fail(f"MULTIMARGIN_BROWSER=required, but {why}")
    pytest.skip(why)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        no_browser("Playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        no_browser("there is no chromium and no google-chrome on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class WithProbabilities(LinearSVMCV):
    """All sections are there."""

    def predict_proba(self, X):
        e = np.exp(self.decision_function(X))
        return e / e.sum(axis=1, keepdims=True)


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900] / 16, y[:900]


def texts(directory):
    labels = [f"talk.politics.of.a.long.name.{i}" for i in range(19)] + ["<script>alert(1)</script>"]
    rows, given = texts_and_labels(labels, 600)
    rows[0] += " " + "averyverylongword" * 40  # does not break by itself
    model = make_pipeline(TfidfVectorizer(), LinearSVM("one_vs_rest", C=0.1)).fit(rows, given)
    write_report(model, rows, given, directory / "texts.html", title="A title that is " + "long" * 30)


def everything(directory):
    X, y = digits()
    model = WithProbabilities(Cs=[0.01, 0.1], cv=2).fit(X[:600], y[:600])
    write_report(model, X[600:], y[600:], directory / "everything.html")


def kernel(directory):
    X, y = digits()
    write_report(KernelSVM("one_vs_one").fit(X, y), X, y, directory / "kernel.html")


def many_classes(directory):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(200), 5)
    X = rng.normal(size=(200, 20))[y] + 0.8 * rng.normal(size=(len(y), 20))
    model = LinearSVM(C=0.1).fit(X, y)
    model.coef_ = 1e7 * model.coef_  # wide numbers, other predictions where the intercept mattered
    write_report(model, X, y, directory / "many_classes.html")


PAGES = {make.__name__: make for make in (everything, texts, kernel, many_classes)}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(params=PAGES)
def path(request, directory):
    file = directory / f"{request.param}.html"
    if not file.exists():
        PAGES[request.param](directory)
    return file


@pytest.fixture
def show(browser):
    """Opens a page; whatever it asks for or complains of is an error."""
    contexts, complaints = [], []

    def opened(path, viewport=DESKTOP, scheme="light", **options):
        context = browser.new_context(viewport=viewport, color_scheme=scheme, **options)
        contexts.append(context)
        context.set_default_timeout(300_000)  # milliseconds: for a busy machine, not for the page
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        address = path.as_uri()
        page.on("request", lambda asked: None if asked.url == address else complaints.append(asked.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_it_renders_within_the_screen(show, path, viewport, scheme):
    page = show(path, viewport, scheme)
    assert page.title() == page.locator("h1").inner_text()
    page.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    wide = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter(element =>
            element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll"))
            .map(element => element.outerHTML.slice(0, 200))"""
    )
    assert wide == []


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_plots_are_there(show, path, viewport):
    page = show(path, viewport)
    figures = page.locator("figure").all()
    assert len(figures) == (3 if path.stem == "everything" else 1)
    for figure in figures:
        (plot,) = figure.get_by_role("img").all()  # one of the two renderings, with a name
        box = plot.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 150
        assert plot.locator("text").first.is_visible()
        drawn = plot.evaluate(
            "plot => [...plot.querySelectorAll('path')].some(path => path.getBoundingClientRect().width > 200)"
        )
        assert drawn


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_have_contrast(show, path, scheme):
    page = show(path, DESKTOP, scheme)
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == {
            "light": "rgb(252, 252, 251)",
            "dark": "rgb(21, 23, 27)",
        }[scheme]
    )
    assert page.evaluate(WORST_CONTRAST) == []


# Texts (in plots, too) whose contrast to what is behind them is below 4.5, the bar of WCAG AA.
WORST_CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const channels = (colour, behind) => {
    canvas.fillStyle = behind ?? "white";
    canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = rgb => {
    const [r, g, b] = rgb.map(c => c / 255).map(c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "white";
  };
  const poor = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.matches("script, style, .skip") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const background = behind(element);
    const text = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [luminance(channels(text, background)), luminance(channels(background))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) poor.add(`${element.tagName} ${element.className} ${text} on ${background}: ${contrast}`);
  }
  return [...poor];
}"""


def column(page, number):
    return page.eval_on_selector_all(
        "#table-of-classes tbody tr", f"rows => rows.map(row => row.cells[{number}].textContent.trim())"
    )


def values(page, number):
    """Numbers of a column; of a class that was never said there is no precision."""
    cells = page.eval_on_selector_all(
        "#table-of-classes tbody tr", f"rows => rows.map(row => row.cells[{number}].dataset.value)"
    )
    return [float(cell) for cell in cells if cell]


def orders(page):
    return page.eval_on_selector_all("#table-of-classes th[scope=col]", "heads => heads.map(head => head.ariaSort)")


def test_tables_sort_by_click(show, path):
    page = show(path)
    assert orders(page) == ["none"] * 4 + ["ascending"]
    assert values(page, 4) == sorted(values(page, 4))
    everyone = sorted(column(page, 0))
    for number, name in enumerate(["Rows", "Precision", "Recall", "F1"], start=1):
        button = page.get_by_role("button", name=name, exact=True)
        button.click()
        assert values(page, number) == sorted(values(page, number))
        assert orders(page)[number] == "ascending"
        button.click()
        assert values(page, number) == sorted(values(page, number), reverse=True)
        assert orders(page)[number] == "descending"
        assert orders(page).count("none") == 4
    page.get_by_role("button", name="Class", exact=True).click()
    classes = column(page, 0)
    assert sorted(classes) == everyone
    if path.stem != "texts":
        assert classes == sorted(classes, key=int)  # 2 before 10
    assert "sorted by Class, ascending" in page.locator("[aria-live]").inner_text()


def test_everything_is_reached_by_keyboard(show, path):
    page = show(path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Recall":
            break
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert values(page, 3) == sorted(values(page, 3))
    page.keyboard.press("Space")
    assert values(page, 3) == sorted(values(page, 3), reverse=True)
    assert page.evaluate("document.activeElement.textContent") == "Recall"
    closed = page.query_selector("#evidence > details:not([open]) > summary")
    closed.focus()
    page.keyboard.press("Enter")
    assert closed.evaluate("summary => summary.parentElement.open")


def test_it_can_be_read_without_scripts(show, path):
    page = show(path, java_script_enabled=False)
    assert page.get_by_role("button").count() == 0
    assert page.get_by_role("columnheader", name="Recall").is_visible()
    assert page.locator("#table-of-classes tbody tr").count() >= 10


def test_sections_are_where_the_links_say(show, path):
    page = show(path)
    for link in page.locator("nav a").all():
        target = page.locator(link.get_attribute("href"))
        assert target.get_by_role("heading", level=2).count() == 1


def test_a_script_in_the_data_would_not_run(browser, directory):
    if not (directory / "kernel.html").exists():
        kernel(directory)
    injected = directory / "injected.html"
    text = (directory / "kernel.html").read_text(encoding="utf-8")
    injected.write_text(text.replace("<main", "<script>document.title = 'run'</script><main", 1), encoding="utf-8")
    complaints = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(injected.as_uri())
    assert page.title() != "run"
    assert "Content Security Policy" in complaints[0]
    page.close()
