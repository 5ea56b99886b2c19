"""Links: names in signatures and in `code` lead to the reference, and what does not exist is refused; links of included files are turned."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

import mnemesh
from _site.names import addresses

__all__ = ["setup"]

LOG = logging.getLogger(__name__)
TYPED = re.compile(r"^(?:mm|mnemesh)\.([a-z_]\w*(?:\.\w+)*)(?:\(.*\))?$", re.S)
TURNED = (
    (re.compile(r"\]\(docs/"), "]("),
    (re.compile(r"\]\((?:\.\./)?src/mnemesh/(\w+)(?:/__init__)?\.py\)"), r"](reference/mnemesh.\1.rst)"),
    (re.compile(r"\]\((?:\.\./)?(CONTRIBUTING|CHANGELOG)\.md"), lambda found: f"]({found[1].lower()}.md"),
)


@functools.cache
def words_of_the_source() -> frozenset[str]:
    """Every name that some module of mnemesh imports or gives a meaning to: what an annotation may be made of."""
    found: set[str] = set()
    for path in Path(mnemesh.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None), *(name for alias in node.names for name in (alias.name, alias.asname))]
                found.update(name.partition(".")[0] for name in names if name)
            elif isinstance(node, ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(found)


def refer(app: Any, address: str, docname: str, content: nodes.Node) -> nodes.Node | None:
    """A link from a page to where a name is explained."""
    target = app.env.get_domain("py").objects.get(address)
    return None if target is None else make_refnode(app.builder, docname, target.docname, target.node_id, content, address)


def missing(app: Any, env: Any, node: Any, content: nodes.Node) -> nodes.Node | None:
    """A public name leads to where it is explained; a name in a signature that the reference has no page for stays text."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    if target in addresses():
        return refer(app, addresses()[target], node["refdoc"], content)
    return content if node.get("reftype") == "class" and target.partition(".")[0] in words_of_the_source() else None


def exists(path: str) -> bool:
    """Whether mnemesh has this, module by module and attribute by attribute."""
    thing, so_far = mnemesh, "mnemesh"
    for word in path.split("."):
        so_far += f".{word}"
        if not hasattr(thing, word):
            try:
                importlib.import_module(so_far)
            except ImportError:
                return False
        thing = getattr(thing, word)
    return True


def typed(app: Any, tree: nodes.document, docname: str) -> None:
    """`mm.a.b` in running text leads to its place in the reference; what mnemesh does not have is a mistake."""
    for literal in list(tree.findall(nodes.literal)):
        found = TYPED.match(literal.astext())
        if not found or isinstance(literal.parent, nodes.reference):
            continue
        if literal.astext().startswith("mm.") and not exists(found[1]):
            LOG.warning("`%s` is mentioned, and mnemesh has no such thing", literal.astext(), location=literal)
        address = addresses().get(f"mnemesh.{found[1]}", f"mnemesh.{found[1]}")
        link = refer(app, address, docname, literal.deepcopy())
        if link is not None:
            literal.replace_self(link)


def turned(app: Any, *places: Any) -> None:
    """Links to files of the repository's root, and from those that are included: they lead to the pages that show these files."""
    content: list[str] = places[-1]
    for pattern, other in TURNED:
        content[0] = pattern.sub(other, content[0])


def setup(app: Any) -> None:
    app.connect("missing-reference", missing)
    app.connect("doctree-resolved", typed)
    app.connect("source-read", turned)
    app.connect("include-read", turned)
