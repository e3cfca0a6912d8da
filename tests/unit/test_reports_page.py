"""The page as a file: what is in it, what never is, and what happens when it cannot be made."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import report_samples as samples
from tacit.core import BadInput, Bound, Claim, Control, Evidence, MissingExtra, NotFinished, Verdict
from tacit.core.events import NonPrivate
from tacit.core.evidence import SHOWN_AT
from tacit.reports import Page, print_pdf, report, script
from tacit.reports.public import LEFT_OUT, public_version

HOSTILE = '</script></style><img src=x onerror="alert(1)"><b>\'&amp;{{7*7}}'


class Tags(HTMLParser):
    """Collects elements and attributes, and the text of those whose pointer is asked for."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """The chart libraries start once, outside of any test's time."""
    script.bundle()


def made(evidence: Evidence | list[Evidence], folder: Path, **options: bool) -> tuple[Page, str]:
    page = report(evidence, folder / "report.html", **options)
    return page, page.path.read_text(encoding="utf-8")


def test_page_says_what_the_evidence_says(tmp_path: Path) -> None:
    evidence = samples.private()
    page, html = made(evidence, tmp_path)
    assert (page.sentence, page.verdict) == (evidence.sentence, Verdict.CONSISTENT)
    assert page.bytes == len(html.encode()) == page.path.stat().st_size
    assert not list(tmp_path.glob("*.partial"))


def test_several_take_the_worst_verdict_and_name_each_sentence(tmp_path: Path) -> None:
    both = [samples.plain(), samples.refuted(), samples.private()]
    page, _ = made(both, tmp_path)
    assert page.verdict is Verdict.REFUTED
    assert all(f"{item.subject}: {item.sentence}" in page.sentence for item in both)


def test_equal_evidence_gives_an_equal_page(tmp_path: Path) -> None:
    evidence = [samples.plain(), samples.private()]
    first = report(evidence, tmp_path / "a.html")
    second = report(iter(evidence), tmp_path / "b.html")
    assert first.path.read_bytes() == second.path.read_bytes()


@pytest.mark.slow
def test_equal_evidence_gives_an_equal_page_in_another_process(tmp_path: Path) -> None:
    samples.private().save(tmp_path / "evidence.json")
    code = "import sys; from tacit import Evidence, report; report(Evidence.load(sys.argv[1]), sys.argv[2])"
    made_there = tmp_path / "there.html"
    subprocess.run([sys.executable, "-c", code, tmp_path / "evidence.json", made_there], check=True)
    assert made_there.read_bytes() == report(samples.private(), tmp_path / "here.html").path.read_bytes()


def test_two_models_fit_in_about_1_2_megabytes(tmp_path: Path) -> None:
    page, _ = made([samples.plain(), samples.private()], tmp_path)
    assert page.bytes < 1_250_000


def test_policy_forbids_everything_but_the_pages_own_script_and_style(tmp_path: Path) -> None:
    _, html = made(samples.private(), tmp_path)
    policy = next(a["content"] for t, a in Tags(html).tags if a.get("http-equiv") == "Content-Security-Policy")
    parts = dict(part.split(" ", 1) for part in str(policy).split("; "))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert parts["script-src"].startswith("'sha256-")
    assert parts["style-src"].startswith("'sha256-")
    assert set(parts) == {"default-src", "base-uri", "form-action", "script-src", "style-src"}


def test_no_element_can_load_anything(tmp_path: Path) -> None:
    _, html = made([samples.plain(), samples.failed_control()], tmp_path)
    for tag, attributes in Tags(html).tags:
        assert tag not in {"img", "iframe", "object", "embed", "link", "base", "form", "video", "audio"}
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith(("#", "data:text/csv"))
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    evidence = samples.private()
    item = samples.measurement(HOSTILE, 0.5)
    hostile = evidence.with_(
        subject=HOSTILE,
        measurements=(item,),
        controls=(Control(HOSTILE, HOSTILE, HOSTILE, False),),
        not_covered=(HOSTILE,),
        threat={"released": HOSTILE, HOSTILE: HOSTILE},
        provenance={HOSTILE: HOSTILE},
        utility={HOSTILE: 0.5},
    )
    _, html = made([hostile, hostile.with_(subject=HOSTILE + "2")], tmp_path)
    tags = [tag for tag, _ in Tags(html).tags]
    assert tags.count("script") == 2
    assert not {"img", "b"} & set(tags)
    assert "7*7" in html
    assert "onerror" in html


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_every_kind_of_evidence_has_a_page(name: str, tmp_path: Path) -> None:
    evidence = samples.SAMPLES[name]()
    page, html = made(evidence, tmp_path)
    assert page.verdict is evidence.verdict
    assert "Internal." in html
    ids = [attributes["id"] for _, attributes in Tags(html).tags if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_a_failed_control_is_printed_before_the_verdict(tmp_path: Path) -> None:
    _, html = made([samples.private(), samples.failed_control()], tmp_path)
    assert 0 < html.index('class="alarm"') < html.index('class="verdict"')


def test_public_page_holds_nothing_measured_on_members(tmp_path: Path) -> None:
    evidence = [samples.plain(), samples.private()]
    page, html = made(evidence, tmp_path, public=True)
    secret = ["LiRA", "RMIA", "0.971", "97.1", "hmac-sha256", "1797", "998 of 1,000", "AUC 0.502", "Internal."]
    ours = html.split('<script type="module">')[0]
    assert [text for text in secret if text in ours] == []
    kept = ["Left out of this version", "attacks on real members", "Gaussian noise", "Public version.", "planted leak"]
    assert [text for text in kept if text not in html] == []
    assert "members" not in page.sentence


def test_public_page_holds_no_line_that_follows_from_an_attack(tmp_path: Path) -> None:
    kept = "other releases: no ledger was given"
    measured = f"{SHOWN_AT} 1 in 100 outsiders: that takes at least 510"
    evidence = samples.private().with_(not_covered=(measured, kept))
    pages = [made(evidence, tmp_path, public=public)[1] for public in (False, True)]
    assert [(measured in html, kept in html) for html in pages] == [(True, True), (False, True)]


def test_public_version_keeps_claim_and_canaries_and_is_evidence_itself(tmp_path: Path) -> None:
    evidence = samples.private()
    shown = public_version(evidence)
    assert (shown.claim, shown.demonstrations, shown.verdict) == (
        evidence.claim,
        evidence.demonstrations,
        evidence.verdict,
    )
    assert (shown.measurements, shown.utility, shown.scores) == ((), {}, ())
    assert {control.found for control in shown.controls} == {LEFT_OUT}
    assert set(shown.provenance) == {"tacit", "python", "randomness"}
    assert Evidence.load(shown.save(tmp_path / "public.json")).sentence == shown.sentence


def test_public_page_of_measurements_alone_says_that_they_are_left_out(tmp_path: Path) -> None:
    page, html = made(samples.plain().with_(demonstrations=()), tmp_path, public=True)
    assert "left out" in page.sentence
    assert "Nothing was measured" not in html


def test_records_without_figures_says_so(tmp_path: Path) -> None:
    _, html = made(samples.private(), tmp_path, records=True)
    assert "There is nothing to show" in html


def test_page_names_the_evidence_file_it_was_made_from(tmp_path: Path) -> None:
    evidence = samples.private()
    _, html = made(evidence, tmp_path)
    saved = evidence.save(tmp_path / "evidence.json").read_bytes()
    assert hashlib.sha256(saved).hexdigest() in html


@pytest.mark.parametrize("evidence", [[], "evidence.json", {"subject": "x"}, [samples.bare(), None], None])
def test_what_is_not_evidence_is_refused(evidence: object, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^report takes one Evidence or several\. Read a file with"):
        report(evidence, tmp_path / "report.html")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_public_with_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot show records"):
        report(samples.bare(), tmp_path / "report.html", public=True, records=True)


def test_a_bad_path_is_refused_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^The report's path is a folder\."):
        report(samples.bare(), tmp_path)
    with pytest.raises(BadInput, match=r"^The report's folder does not exist\."):
        report(samples.bare(), tmp_path / "nowhere" / "report.html")


def test_a_failed_write_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(self: Path, target: Path) -> Path:
        raise OSError

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(NotFinished, match="cannot be written"):
        report(samples.bare(), path)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_the_sentence_names_it(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"tacit\[report\]"):
        report(samples.private(), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_without_vega_the_script_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtra, match=r"tacit\[report\]"):
        script.bundle.__wrapped__()


def test_notebook_view_is_shut_in_and_has_no_script(tmp_path: Path) -> None:
    page, _ = made(samples.private(), tmp_path)
    html = page._repr_html_()
    (frame,) = Tags(html).tags
    assert frame[0] == "iframe"
    assert frame[1]["sandbox"] == "allow-downloads"
    inside = [tag for tag, _ in Tags(str(frame[1]["srcdoc"])).tags]
    assert "script" not in inside
    assert inside.count("svg") >= 4
    assert len(html) < 300_000


def test_importing_the_room_loads_no_chart_library() -> None:
    code = "import sys, tacit.reports; assert not {'altair', 'vl_convert', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pdf_without_a_browser_or_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("shutil.which", lambda name: None)
        with pytest.raises(BadInput, match="needs Chromium"):
            print_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    monkeypatch.setattr("shutil.which", lambda name: "/bin/false")
    with pytest.raises(BadInput, match="folder does not exist"):
        print_pdf(tmp_path / "report.html", tmp_path / "nowhere" / "report.pdf")
    with pytest.raises(NotFinished, match="did not print"):
        print_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_no_finite_bound_is_said_in_words(tmp_path: Path) -> None:
    bound = Bound(math.inf, samples.DELTA, "upper", 1.0, "no protection", "add-remove")
    _, html = made(samples.plain().with_(claim=Claim(bound, NonPrivate())), tmp_path)
    assert "epsilon at most <strong>" in html
    assert html.count("no finite value") >= 2


def test_what_protects_is_said_of_each_kind_of_model(tmp_path: Path) -> None:
    """A model without a claim beside a proven one: nobody says that its privacy is claimed."""
    text = report([samples.plain(), samples.private()], tmp_path / "page.html").path.read_text()
    assert "Elsewhere: no formal protection is claimed." in text
    assert "no proof was given" not in text


def test_a_limit_on_addresses_is_one_sentence_where_the_engine_would_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.reports import engine

    monkeypatch.setattr(engine, "_limit", lambda: 12 * 2**30)
    with pytest.raises(NotFinished, match="under a limit of 12 GiB of addresses"):
        report(samples.private(), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(engine, "_limit", lambda: 2**40)
    assert report(samples.private(), tmp_path / "report.html").bytes


def test_the_limit_is_the_processes_own() -> None:
    code = (
        "import resource; from tacit.reports import engine; assert engine._limit() is None or engine._limit() > 0\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**34, resource.getrlimit(resource.RLIMIT_AS)[1]))\n"
        "assert engine._limit() == 2**34 and 0 < engine._taken() < 2**34"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_a_page_that_names_records_is_its_owners_alone(tmp_path: Path) -> None:
    modes = {}
    for records in (False, True):
        page = report(samples.private(), tmp_path / f"{records}.html", records=records)
        modes[records] = page.path.stat().st_mode & 0o777
    assert modes[True] == 0o600
    assert modes[False] & 0o600 == 0o600


def test_no_place_of_a_page_states_less_than_was_proven(tmp_path: Path) -> None:
    """The table of published deployments rounded the page's own epsilon to the nearest digit."""
    bound = Bound(0.97853, 1.23456e-6, "upper", 1.0, "a method", "add-remove")
    _, html = made(Evidence(subject="Ours", claim=Claim(bound, None)), tmp_path)
    table = html.split('id="table-deployments"')[1].split("</table>")[0]
    assert ">0.979<" in table
    assert ">0.978<" not in html
    assert ">0.00000123456<" in table
