"""The package as a whole: what is visible, what an import costs, which way imports point, what a wheel holds."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import mnemesh

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mnemesh"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted(
    ".".join(("mnemesh", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__") for path in SOURCE.rglob("*.py")
)  # fmt: skip


def run(*command: str, cwd: Path = ROOT, **variables: str) -> str:
    """What a fresh process prints, without the test run's shape checks."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MNEMESH_CHECK_SHAPES", "PYTHONDONTWRITEBYTECODE")} | variables
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def fresh(program: str, **variables: str) -> str:
    return run(sys.executable, "-W", "error", "-c", program, **variables)


def public(names: list[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith("_"))


def defined(tree: ast.Module) -> tuple[list[str], list[str]]:
    """The public names that a module gives a meaning to: what must be listed, and constants, which may."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [leaf.id for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.If):
            for inner in defined(ast.Module([*node.body, *node.orelse], [])):
                names += inner
    names = public(sorted(set(names)))
    return [name for name in names if not name.isupper()], [name for name in names if name.isupper()]


def brought_up(tree: ast.Module, package: str) -> list[str]:
    """The public names that a package's `__init__` takes from its own modules."""
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module is not None]
    return public([alias.asname or alias.name for node in froms if (node.module + ".").startswith(package + ".") for alias in node.names])


@pytest.mark.parametrize("name", MODULES)
def test_all_is_exactly_what_is_visible(name):
    module = importlib.import_module(name)
    path = Path(module.__file__)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    visible, constants = defined(tree)
    visible += brought_up(tree, name) if path.name == "__init__.py" else []
    listed = list(getattr(module, "__all__", []))
    assert sorted(set(listed) - set(constants)) == sorted(set(visible)), f"{name}.__all__"
    assert all(hasattr(module, entry) for entry in listed)
    assert len(set(listed)) == len(listed)


def test_what_users_see_first_is_what_is_listed():
    """In a fresh process, dir(mnemesh) is `__all__`, modules that only serve others apart."""
    names, modules = fresh(
        "import mnemesh, types\n"
        "names = [name for name in dir(mnemesh) if not name.startswith('_')]\n"
        "modules = [name for name in names if isinstance(getattr(mnemesh, name), types.ModuleType)]\n"
        "print(*names, sep=','); print(*modules, sep=',')"
    ).split()
    serving = {"cores", "draws", "registry", "statistics", "types"}
    assert set(names.split(",")) - serving == set(mnemesh.__all__) - serving
    assert set(modules.split(",")) >= serving


def test_no_function_shadows_a_module():
    """In a fresh process, after all modules were imported, every module's address still leads to it."""
    found = fresh(
        "import importlib, sys, types\n"
        f"for name in {MODULES!r}: importlib.import_module(name)\n"
        f"for name in {MODULES!r}:\n"
        "    package, _, own = name.rpartition('.')\n"
        "    if package and getattr(sys.modules[package], own) is not sys.modules[name]: print(name)"
    )
    assert not found, f"shadowed: {found}"


def test_import_needs_numpy_alone():
    """Neither the optional libraries nor networkx nor the test run's checkers are imported, and none of them need be installed."""
    heavy = ["jax", "jaxlib", "numba", "llvmlite", "scipy", "networkx", "rich", "jaxtyping", "beartype", "msgspec", "xxhash", "pyarrow", "matplotlib", "typer", "cryptography", "zenoh", "dask"]
    program = f"import sys\nfor name in {heavy!r}: sys.modules[name] = None\nimport mnemesh\nprint(sorted(name for name in {heavy!r} if sys.modules[name]))"
    assert fresh(program).strip() == "[]"
    assert fresh(f"import sys, mnemesh; print([name for name in {heavy!r} if name in sys.modules])").strip() == "[]"


def test_import_takes_no_longer_than_importing_numpy_did(tmp_path):
    """Both compiled to bytecode before, as any installed package is."""
    program = (
        "import time; start = time.perf_counter(); import numpy; middle = time.perf_counter(); import mnemesh\n"
        "print((time.perf_counter() - middle) / (middle - start))"
    )
    ratios = []
    for _ in range(12):  # the best of several: others use the machine, too
        ratios.append(float(fresh(program, PYTHONPYCACHEPREFIX=str(tmp_path))))
        if min(ratios) <= 1:
            break
    assert min(ratios) <= 1, ratios


def test_reading_order_is_import_order():
    assert "3 kept, 0 broken" in run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")


def test_the_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert mnemesh.__version__ == version
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)[1] == version
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[1] == version


def test_a_wheel_holds_the_package_and_nothing_else(tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "mnemesh/py.typed" in names
    assert {name for name in names if ".dist-info/" not in name} == {
        f"mnemesh/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*") if path.suffix in (".py", ".toml", ".jinja") or path.name == "py.typed"
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_dependency_has_a_reason_and_is_pinned_by_name_and_version_alone():
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*( ; python_version [<>=]+ \"3\.1[123]\")?", line) for line in lines)
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *PROJECT["build-system"]["requires"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    named = {re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", each)[0]).lower() for each in wanted}
    assert named - {"mnemesh"} <= pinned
    reasons = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    assert all(name in reasons for name in named)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["demo", "test", "check", "docs", "bench", "peers", "study"])
def test_make_knows_what_the_readme_promises(target):
    assert ".venv/bin/" in run("make", "--dry-run", target)
