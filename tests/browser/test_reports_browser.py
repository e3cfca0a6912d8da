"""Does the page in a real browser say what the JSON says? Offline, without script, by keyboard, narrow, dark, print."""

from __future__ import annotations

import csv
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import report_samples as samples
from report_traces import right
from tacit.core import Evidence
from tacit.reports import print_pdf, report
from tacit.reports.public import public_version

pytestmark = pytest.mark.needs("chromium")

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PAGES: dict[str, tuple[Callable[[], list[Evidence]], bool]] = {
    "bracketed": (lambda: [samples.bracketed()], False),
    "detailed": (lambda: [samples.detailed()], False),
    "detailed public": (lambda: [samples.detailed()], True),
    "two": (lambda: [samples.plain(), samples.private()], False),
    "refuted": (lambda: [samples.refuted()], False),
    "failed": (lambda: [samples.private(), samples.failed_control()], False),
    "uninformative": (lambda: [samples.uninformative()], False),
    "trained": (lambda: [samples.trained()], False),
    "bare": (lambda: [samples.bare()], False),
    "public": (lambda: [samples.plain(), samples.private()], True),
    "three": (lambda: [samples.bracketed(), samples.failed_control(), samples.bracketed()], False),
}
BROKEN_WORDS = """() => {
  const found = [];
  for (const cell of document.querySelectorAll('thead th')) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/[A-Za-z]+/g)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""
LOOSE_DIGITS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!/\\d/.test(walker.currentNode.data)) continue;
    if (parent.closest("svg, script, style, [data-path], [data-fixed]")) continue;
    found.push(walker.currentNode.data.trim());
  }
  return found;
}"""
NUMBERS = """() => [...document.querySelectorAll("[data-path]")].map((element) => ({
  path: element.dataset.path, value: element.dataset.value ?? null, text: element.textContent,
}))"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, (evidence, public) in PAGES.items():
        made[name] = report(evidence(), folder / f"{name}.html", public=public, records=name == "detailed").path
    return made


class Watched:
    """A page that notes every message and every request that is not the file itself."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", self._note)
        page.route(lambda url: not url.startswith(("file:", "data:", "blob:")), lambda route: route.abort())

    def _note(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.requests.append(request.url)

    def open(self, path: Path) -> Any:
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.documentElement.dataset.drawn !== undefined")
        return self.page


@pytest.fixture
def watch(browser: Any) -> Iterator[Callable[..., Watched]]:
    contexts = []

    def start(width: int = 1100, **options: Any) -> Watched:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        return Watched(context.new_page())

    yield start
    for context in contexts:
        context.close()


def faults(page: Any, evidence: list[Evidence]) -> list[str]:
    """Every shown value that is not the JSON's, or is not shown as what it is."""
    root = [item.to_json() for item in evidence]
    return [f"{item['path']}: {item['text']}" for item in page.evaluate(NUMBERS) if not right(item, root)]


@pytest.mark.parametrize("name", PAGES)
def test_every_number_is_the_jsons_and_nothing_leaves_the_page(
    name: str, files: dict[str, Path], watch: Callable[..., Watched]
) -> None:
    watched = watch()
    page = watched.open(files[name])
    evidence, public = PAGES[name][0](), PAGES[name][1]
    shown = [public_version(item) for item in evidence] if public else evidence
    assert faults(page, shown) == []
    assert page.evaluate(LOOSE_DIGITS) == []
    assert len(page.evaluate(NUMBERS)) > (200 if name in ("two", "refuted", "failed") else 8)
    assert (watched.messages, watched.requests) == ([], [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r'data-value="[\d.]+" (data-path="/0/claim/bound/epsilon")', r'data-value="3.9" \1'),
        (r'(data-path="/0/claim/bound/epsilon">)[\d.]+<', r"\g<1>3.9<"),
        (r'(data-path="/0/sentence">)', r"\1Almost "),
    ],
)
def test_a_changed_number_is_noticed(
    old: str, new: str, files: dict[str, Path], tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    html, changed = re.subn(old, new, files["refuted"].read_text(encoding="utf-8"), count=1)
    assert changed == 1
    copy = tmp_path / "copy.html"
    copy.write_text(html, encoding="utf-8")
    assert len(faults(watch().open(copy), [samples.refuted()])) == 1


def test_a_number_without_a_place_is_noticed(
    files: dict[str, Path], tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    copy = tmp_path / "copy.html"
    copy.write_text(files["bare"].read_text(encoding="utf-8").replace("</h1>", " 0.21</h1>"), encoding="utf-8")
    assert watch().open(copy).evaluate(LOOSE_DIGITS) == ["0.21"]


def test_a_foreign_script_does_not_run(files: dict[str, Path], tmp_path: Path, watch: Callable[..., Watched]) -> None:
    copy = tmp_path / "copy.html"
    added = "<script>document.title='taken'</script><img src='https://x.invalid/' onerror=\"document.title='taken'\">"
    copy.write_text(files["bare"].read_text(encoding="utf-8").replace("</main>", f"{added}</main>"), encoding="utf-8")
    watched = watch()
    page = watched.open(copy)
    assert "taken" not in page.title()
    assert any("Content Security Policy" in message for message in watched.messages)


def test_hostile_names_are_shown_as_text(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    name = "</script><img src=x onerror=\"document.title='taken'\">{{7*7}}"
    evidence = samples.private().with_(subject=name, measurements=(samples.measurement(name, 0.5),))
    watched = watch()
    page = watched.open(report([evidence, samples.plain()], tmp_path / "report.html").path)
    assert page.locator("h1").inner_text().startswith(name)
    assert page.locator("img").count() == 0
    assert (watched.messages, watched.requests) == ([], [])
    assert faults(page, [evidence, samples.plain()]) == []


@pytest.mark.parametrize("name", ["two", "public"])
def test_without_javascript_the_charts_are_there(
    name: str, files: dict[str, Path], watch: Callable[..., Watched]
) -> None:
    page = watch(java_script_enabled=False).page
    page.goto(files[name].as_uri())
    figures = page.locator("figure[data-chart]")
    assert figures.count() >= 2
    assert page.locator(".dots svg").first.is_visible()
    for index in range(figures.count()):
        box = figures.nth(index).locator(".still.wide svg").bounding_box()
        assert box["width"] > 250
        assert box["height"] > 80
    assert page.locator(".live").first.is_hidden()


def test_the_script_replaces_every_chart(files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    page = watch().open(files["two"])
    assert page.locator("figure[data-chart]").count() == page.locator("figure.drawn").count() == 5
    assert page.locator(".live svg").count() == 5
    assert page.locator(".still:visible").count() == 0
    assert page.locator("text=editor").count() == 0


@pytest.mark.parametrize(
    ("name", "script"),
    [*((name, True) for name in PAGES), *((name, False) for name in ("detailed", "trained", "three"))],
)
def test_360_pixels_need_no_sideways_scrolling(
    name: str, script: bool, files: dict[str, Path], watch: Callable[..., Watched]
) -> None:
    watched = watch(360, java_script_enabled=script)
    if script:
        watched.open(files[name])
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360
    else:
        watched.page.goto(files[name].as_uri())
        assert watched.page.locator(".still.narrow svg").first.bounding_box()["width"] <= 340
        assert watched.page.locator("main").bounding_box()["width"] <= 360


def contrast(first: str, second: str) -> float:
    """WCAG 2: (lighter + 0.05) / (darker + 0.05) of the relative luminances."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_legible_in_both_themes(scheme: str, files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    page = watch(color_scheme=scheme).open(files["two"])
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (contrast(paper, "rgb(0,0,0)") < 2) is (scheme == "dark")
    texts = page.evaluate("[...document.querySelectorAll('.live text')].map((e) => getComputedStyle(e).fill)")
    lines = page.evaluate("[1,2,3].map((n) => getComputedStyle(document.querySelector('.swatch.s' + n)).stroke)")
    assert len(texts) > 30
    assert min(contrast(paper, colour) for colour in set(texts)) >= 4.5
    assert min(contrast(paper, colour) for colour in lines) >= 3


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *((name, "light") for name in PAGES),
        *((name, "dark") for name in ("bracketed", "refuted", "failed", "uninformative")),  # every verdict's colours
    ],
)
def test_axe_finds_nothing(name: str, scheme: str, files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = watch(color_scheme=scheme).open(files[name])
    page.evaluate("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_print_shows_still_charts_whole_and_a_place_to_sign(
    files: dict[str, Path], watch: Callable[..., Watched]
) -> None:
    page = watch(color_scheme="dark").open(files["two"])
    page.emulate_media(media="print")
    assert page.locator(".signoff").is_visible()
    assert page.locator(".dots svg").first.is_visible()
    assert page.locator("nav").is_hidden()
    assert page.locator(".live:visible").count() == 0
    assert page.locator(".still.wide:visible").count() == 5
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    printable = (297 - 2 * 16) / 25.4 * 96
    tallest = page.evaluate("Math.max(...[...document.querySelectorAll('figure')].map((e) => e.offsetHeight))")
    assert tallest < printable
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_the_keyboard_reaches_everything(files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    page = watch().open(files["two"])
    page.keyboard.press("Tab")
    assert page.locator(".skip").evaluate("(e) => e === document.activeElement && e.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "finding"
    seen, unmarked = set(), set()
    for _ in range(90):
        page.keyboard.press("Tab")
        kind, outline = page.evaluate(
            "[document.activeElement.tagName + '.' + (document.activeElement.type || document.activeElement.className),"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        seen.add(kind)
        unmarked |= {kind} if outline == "none" else set()
    assert {"DIV.scroll", "A.", "BUTTON.button", "INPUT.checkbox", "SUMMARY."} <= seen
    assert unmarked <= {"BODY."}  # past the last element


def test_attacks_and_scales_can_be_switched(files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    figure = watch().open(files["two"]).locator("figure[data-chart='roc-1']")
    lines = figure.locator(".live path[stroke='var(--s1)']")
    assert lines.count() == 1
    figure.locator("input[type=checkbox]").first.focus()
    figure.page.keyboard.press("Space")
    figure.page.wait_for_function(
        "!document.querySelector(\"figure[data-chart='roc-1'] .live path[stroke='var(--s1)']\")"
    )
    figure.get_by_role("button", name="linear").click()
    figure.locator(".live text", has_text="75%").first.wait_for()
    assert lines.count() == 0
    assert figure.get_by_role("button", name="linear").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(("chart", "words"), [("roc-2", "true-positive rate"), ("strip", "attainable")])
def test_the_nearest_point_explains_itself(
    chart: str, words: str, files: dict[str, Path], watch: Callable[..., Watched]
) -> None:
    page = watch().open(files["two"])
    live = page.locator(f"figure[data-chart='{chart}'] .live")
    live.scroll_into_view_if_needed()
    box = live.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.42)
    page.mouse.move(box["x"] + box["width"] * 0.61, box["y"] + box["height"] * 0.4)
    page.locator("#tip.on").wait_for()
    assert words in page.locator("#tip").inner_text()


def test_a_table_downloads_with_full_precision(files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    page = watch(accept_downloads=True).open(files["two"])
    with page.expect_download() as started:
        page.locator("a[download='bounds.csv']").click()
    rows = list(csv.DictReader(Path(started.value.path()).read_text(encoding="utf-8").splitlines()))
    private = samples.private()
    assert [row["model"] for row in rows] == ["plain model", "private model"]
    assert float(rows[1]["upper"]) == private.claim.bound.epsilon  # type: ignore[union-attr]
    assert float(rows[1]["lower"]) == private.lower.bound.epsilon  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["bracketed", "three", "two"])
def test_no_heading_of_a_table_is_cut_within_a_word_on_a_narrow_screen(
    name: str, files: dict[str, Path], watch: Callable[..., Watched]
) -> None:
    page = watch(400).open(files[name])
    assert page.evaluate(BROKEN_WORDS) == []
    first = page.locator("table[id^=table-rates] thead th").nth(1).first.bounding_box()
    assert first["x"] + first["width"] <= 400  # the first rate is seen without scrolling
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_models_of_one_name_are_numbered(files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    page = watch().open(files["three"])
    assert page.locator("h1").inner_text() == "people (1), model in a broken experiment and people (3)"
    names = page.locator("#table-bounds tbody th").all_inner_texts()
    assert names == ["people (1)", "model in a broken experiment", "people (3)"]
    assert page.locator(".verdict .of").all_inner_texts() == names


def test_a_table_can_be_copied(files: dict[str, Path], watch: Callable[..., Watched]) -> None:
    page = watch(permissions=["clipboard-read", "clipboard-write"]).open(files["two"])
    page.get_by_role("button", name="Copy the table: Epsilon from both sides").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[2].split("\t")[:3] == ["private model", "1.75", "95 %"]


def test_the_page_prints_to_a_pdf(files: dict[str, Path], tmp_path: Path) -> None:
    path = print_pdf(files["bare"], tmp_path / "report.pdf")
    assert path.read_bytes().startswith(b"%PDF")
    assert [item.name for item in tmp_path.iterdir()] == ["report.pdf"]


@pytest.mark.parametrize("name", ["bracketed", "detailed", "three"])
def test_the_pdf_has_page_numbers_and_at_most_four_pages_before_the_appendices(
    name: str, files: dict[str, Path], tmp_path: Path
) -> None:
    from pypdf import PdfReader

    printed = PdfReader(print_pdf(files[name], tmp_path / "report.pdf")).pages
    pages = [unicodedata.normalize("NFKC", page.extract_text()) for page in printed]  # fonts join letters: "ff"
    assert [f"{number} / {len(pages)}" in text for number, text in enumerate(pages, 1)] == [True] * len(pages)
    before = next(number for number, text in enumerate(pages) if "questions of an impact assessment" in text)
    assert before <= 4
    assert "Sign-off" in "".join(pages[:2])
    (asked,) = [text for text in pages if "For a data-protection impact assessment" in text]
    assert asked.count("What remains for you") >= 3  # questions follow their heading on its page
