"""Documents are executed: README, CONTRIBUTING and everything under docs/, every docstring's example, every file of examples/. The site builds."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mnemesh

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mnemesh"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
MODULES = sorted(".".join(("mnemesh", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__") for path in SOURCE.rglob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


def run(program: str, cwd: Path) -> str:
    """What a reader sees who runs this as a program of its own; a warning is an error."""
    return fresh(cwd, "-W", "error", "-c", program)


def fresh(cwd: Path, *arguments: str) -> str:
    """What Python prints in a process of its own, without the test run's shape checks."""
    environment = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}
    done = subprocess.run([sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agree(found: str, promised: str) -> None:
    """The same words, and the same numbers to three digits: the last ones depend on the machine."""
    assert NUMBER.sub("#", found).split() == NUMBER.sub("#", promised).split(), f"printed:\n{found}\npromised:\n{promised}"
    numbers = [np.array([float(number) for number in NUMBER.findall(text)]) for text in (found, promised)]
    np.testing.assert_allclose(*numbers, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks_run_and_print_what_they_promise(document, tmp_path):
    """The blocks of one document are one program; a ```text block right after one is what it prints."""
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    if not blocks:
        return
    mark = "=== next block ==="
    printed = run(f"\nprint({mark!r})\n".join(code for code, _ in blocks), tmp_path).split(mark + "\n")
    assert len(printed) == len(blocks)
    for found, (_, promised) in zip(printed, blocks, strict=True):
        if promised:
            agree(found, promised)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}, which is not there."


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for example in _examples(finder, module):
        report: list[str] = []
        runner.run(example, out=report.append)
        assert not report, "".join(report)


def _examples(finder: doctest.DocTestFinder, module: object) -> list[doctest.DocTest]:
    """Examples of the module, its classes, their methods and its functions, seen through the test run's wrappers."""
    found = {}
    for name, thing in [("", module), *vars(module).items()]:
        if thing is not module and (inspect.ismodule(thing) or getattr(thing, "__module__", None) != module.__name__):
            continue
        for example in finder.find(thing, name or module.__name__, module=False if thing is not module else None, globs=dict(vars(module))):
            if example.examples:
                found[example.name] = example
    return list(found.values())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(path, tmp_path):
    assert run(path.read_text(encoding="utf-8"), tmp_path).strip()


def test_the_first_example_prints_the_readme_s_number(tmp_path):
    """README shortens examples/first.py: what both print is the same."""
    code, promised = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    agree(run((ROOT / "examples" / "first.py").read_text(encoding="utf-8"), tmp_path).splitlines()[0], promised)


def public_modules() -> list[ModuleType]:
    """What users import: the modules of mnemesh.__all__, and the lab with its own modules."""
    modules = [thing for name in mnemesh.__all__ if inspect.ismodule(thing := getattr(mnemesh, name))]
    if find_spec("mnemesh.lab"):
        lab = importlib.import_module("mnemesh.lab")
        modules += [lab, *(importlib.import_module(f"mnemesh.lab.{each.name}") for each in pkgutil.iter_modules(lab.__path__) if each.name[0] != "_")]
    return modules


@pytest.mark.skipif(find_spec("sphinx") is None, reason="the extra docs is not installed")
def test_the_site_builds_without_a_warning_and_explains_every_public_name(tmp_path):
    """Links lead somewhere, names in signatures and text exist, formulas can be drawn; nothing is fetched when a page is read."""
    site = tmp_path / "site"
    fresh(ROOT, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(tmp_path / "trees"), "docs", str(site))
    for module in public_modules():
        page = (site / "reference" / f"{module.__name__}.html").read_text(encoding="utf-8")
        for name in getattr(module, "__all__", ()):
            assert inspect.ismodule(getattr(module, name)) or re.search(rf'href="[^"]+"[^>]*><code[^>]*><span class="pre">{name}</span>', page), name
    shaped = (site / "reference" / "mnemesh.domains.html").read_text(encoding="utf-8")
    assert "*batch d_phi" in re.sub("<[^>]+>", "", shaped)  # shapes are part of signatures
    front = (site / "reference.html").read_text(encoding="utf-8")
    assert all(f">mm.{name}<" in front for name in mnemesh.__all__)
    for page in site.rglob("*.html"):
        assert not re.findall(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"', page.read_text(encoding="utf-8")), page


PIECES = st.sampled_from(["`x_`", "`a * b`", "w_{n,m}", "|𝒲_n|", "*", "**", "_", "a_", "\\", "- x", "(3)", "1.", ":", "::", "tcp://a:1", "X ∘ Y,", "`", "[1]_", "-"])


@pytest.mark.skipif(find_spec("sphinx") is None, reason="the extra docs is not installed")
@given(st.lists(PIECES, min_size=1, max_size=6).map(" ".join))
def test_docstrings_are_shown_as_they_are_written(text):
    from docutils.core import publish_doctree

    if str(ROOT / "docs") not in sys.path:
        sys.path.append(str(ROOT / "docs"))
    escaped = importlib.import_module("_site.docstrings").escaped
    tree = publish_doctree(f"Words: {escaped(text)}\n\n{escaped(text)}", settings_overrides={"report_level": 2, "halt_level": 2})
    shown = re.sub("`([^`]+)`", r"\1", text)
    assert tree.astext().split() == ["Words:", *shown.split(), *shown.split()]
