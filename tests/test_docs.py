"""Documents are executed: README, CONTRIBUTING and everything under docs/, every docstring's example, every file of examples/."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mnemesh"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
MODULES = sorted(".".join(("mnemesh", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__") for path in SOURCE.rglob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


def run(program: str, cwd: Path) -> str:
    """What a reader sees who runs this as a program of its own; a warning is an error."""
    environment = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, cwd=cwd, capture_output=True, text=True, check=False)
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
