"""Code on the documentation's pages: every line is a span that knows its indent, and the text stays what it was."""

import importlib.util
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CODE = 'def f(x):\n    if x < 1:\n        return """a\n  b"""\n\n    return f(x - 1)\n'


@pytest.mark.needs("sphinx")
def test_every_line_is_a_span_with_its_indent():
    from pygments import highlight
    from pygments.lexers import PythonLexer

    spec = importlib.util.spec_from_file_location("code_lines", DOCS / "code_lines.py")
    code_lines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code_lines)
    page = highlight(CODE, PythonLexer(), code_lines.Lines())
    opened = re.findall(r'<span class="code-line"(?: style="--indent: (\d+)")?>', page)
    assert opened == ["", "4", "8", "2", "", "4"]
    assert unescape(re.sub(r"<[^>]*>", "", page)).strip("\n") == CODE.strip("\n")
    assert page.count("<span") == page.count("</span>")


@pytest.mark.needs("sphinx")
def test_the_site_writes_code_so(monkeypatch):
    """Sphinx's builder makes its highlighter before any event of extensions: whoever waits for one is late."""
    from sphinx.highlighting import PygmentsBridge

    monkeypatch.setattr(PygmentsBridge, "html_formatter", PygmentsBridge.html_formatter)
    monkeypatch.syspath_prepend(str(DOCS))
    spec = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    heard = []
    conf.setup(SimpleNamespace(connect=lambda event, _: heard.append(event), add_css_file=heard.append))
    assert "source-read" in heard
    assert 'class="code-line"' in PygmentsBridge("html").highlight_block(CODE, "python")
