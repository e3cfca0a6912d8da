"""The page's one script (Vega with our few lines), and the policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from .engine import engine


@cache
def bundle() -> str:
    """Vega, Vega-Lite, Vega-Embed and `page.js` as one module; the same for every page."""
    ours = (resources.files(__package__) / "templates" / "page.js").read_text(encoding="utf-8")
    # a closing tag inside the script would end it early
    return str(engine().javascript_bundle(ours)).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def policy(style: str, script: str | None) -> str:
    """A Content-Security-Policy under which only these two texts work: no network, no eval, no other script."""
    parts = ["default-src 'none'", f"style-src {_hash(style)}"]
    parts += [f"script-src {_hash(script)}"] if script is not None else []
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
