"""Charts drawn beforehand: Vega-Lite to SVG, checked, with names of their own, ready to stand in the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markupsafe import Markup

from .engine import engine

SVG = "http://www.w3.org/2000/svg"
ALLOWED = frozenset({"svg", "g", "path", "text", "tspan", "line", "rect", "circle", "defs", "clipPath"})
DROPPED = frozenset({"role", "aria-roledescription", "aria-label", "aria-hidden", "class", "version"})
REFERENCE = re.compile(r"url\(#([^)]+)\)")
DECIMALS = re.compile(r"(\d+\.\d)\d+")
PLACES = frozenset({"d", "transform", "x", "y", "x2", "y2", "width", "height"})


def draw(spec: dict[str, object], name: str) -> Markup:
    """The chart as one SVG element whose ids begin with `name`.

    Guarantee: drawing elements and text only; no script, link, style or event attribute, whatever the data's names.
    """
    drawn = engine().vegalite_to_svg(spec)
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(drawn)
    ids = {old: f"{name}-{index}" for index, old in enumerate(_ids(root))}
    for element in root.iter():
        _clean(element, ids)
    root.set("focusable", "false")
    root.set("aria-hidden", "true")
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _ids(root: ElementTree.Element) -> list[str]:
    return [element.attrib["id"] for element in root.iter() if "id" in element.attrib]


def _clean(element: ElementTree.Element, ids: dict[str, str]) -> None:
    tag = element.tag.removeprefix(f"{{{SVG}}}")
    if tag not in ALLOWED:
        raise ValueError(f"A chart holds the element {tag}, which a page must not.")
    for key, value in list(element.attrib.items()):
        if key in DROPPED or key.startswith("on") or "href" in key or key == "style":
            del element.attrib[key]
        elif key == "id":
            element.attrib[key] = ids[value]
        elif key in PLACES:
            element.attrib[key] = DECIMALS.sub(r"\1", value)  # a tenth of a pixel is enough
        elif "url(" in value:
            element.attrib[key] = REFERENCE.sub(lambda found: f"url(#{ids[found.group(1)]})", value)
