"""LaTeX formulas as MathML, which browsers draw by themselves: no script, no font to fetch, no network."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

__all__ = ["setup"]

LOG = logging.getLogger(__name__)
VARIANT = re.compile(r'<m([in]) mathvariant="(script|bold)">([^<]+)</m\1>')


def _drawn(found: re.Match[str]) -> str:
    """Letters of the alphabet that their variant asks for: browsers no longer read the attribute."""
    letters = "".join(_in_alphabet(found[2].upper(), letter) for letter in html.unescape(found[3]))
    return f"<m{found[1]}>{letters}</m{found[1]}>"


def _in_alphabet(alphabet: str, letter: str) -> str:
    name = unicodedata.name(letter, "").replace("LATIN ", "").replace("LETTER ", "")
    for whole in (f"MATHEMATICAL {alphabet} {name}", f"{alphabet} {name}"):  # Unicode had a few of them before it had the alphabet
        try:
            return unicodedata.lookup(whole)
        except KeyError:
            continue
    return letter


def mathml(node: nodes.Element, display: str) -> str:
    """A formula as a <math> element."""
    try:
        return VARIANT.sub(_drawn, convert(node.astext().replace(r"\tag", r"\qquad\tag"), display=display))
    except Exception as wrong:
        LOG.warning("a formula that cannot be drawn (%s: %s): %s", type(wrong).__name__, wrong, node.astext(), location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<div class="formula">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
