"""Records: tables in Parquet that say of themselves what was run, with what, and in which format."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, final

from mnemesh.errors import ResultsError, require
from mnemesh.lab.spec import Spec, parse

__all__ = ["FORMAT", "PASSING", "Results", "load", "open_results", "save", "versions", "write_whole"]

FORMAT = "1"
PASSING = ".passing-"  # how files begin that are being written
_LIBRARIES = ("mnemesh", "numpy", "networkx", "scipy", "numba", "jax", "jaxlib", "pyarrow", "msgspec")


@final
@dataclass(frozen=True, repr=False)
class Results:
    """What a sweep left in its folder: the spec, `results` with one row per run and horizon, and `tuning` with one per rate tried."""

    folder: Path
    spec: Spec
    versions: Mapping[str, str]
    results: Any  # pyarrow.Table
    tuning: Any  # pyarrow.Table

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """The keys that the sweep varies, each a column of both tables."""
        return self.spec.swept

    def column(self, name: str) -> Any:
        """A column of `results` as a NumPy array: NaN, or None, where it is empty."""
        return self.results.column(name).combine_chunks().to_numpy(zero_copy_only=False)

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r}, {self.spec.name!r}, {self.results.num_rows:,} rows)"


def versions(imports: tuple[str, ...] = ()) -> dict[str, str]:
    """The versions that a number may depend on, and digests of the code itself: mnemesh's, and that of the modules that a spec imports."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for library in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            found[library] = metadata.version(library)
    found["code of mnemesh"] = _code_of("mnemesh")
    return found | {f"code of {module}": _code_of(module) for module in imports}


@cache
def _code_of(module: str) -> str:
    """A digest of a module's source, a package's modules included; of what has no source, its name."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return module
    origin, digest = Path(spec.origin), hashlib.sha256()
    for path in sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]:
        digest.update(path.relative_to(origin.parent).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def save(path: Path, table: Any, name: str, spec: Spec, made_with: Mapping[str, str]) -> None:
    """Write a table and all it says of itself: whole, or not at all."""
    parquet = require("pyarrow.parquet", "writing results")
    described = {"format": FORMAT, "table": name, "spec": spec.text, "versions": json.dumps(dict(made_with), sort_keys=True)}
    table = table.replace_schema_metadata({f"mnemesh.{key}": value for key, value in described.items()})
    write_whole(path, lambda file: parquet.write_table(table, file, compression="zstd"))


def write_whole(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Let `write` fill a file that is there whole, or not at all, whatever happens meanwhile."""
    passing = path.with_name(f"{PASSING}{path.name}.{uuid.uuid4().hex}")
    try:
        with passing.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        passing.replace(path)
    except OSError as refused:
        raise ResultsError(f"{path} cannot be written ({refused.strerror}): what was computed would be lost. Choose another folder with --out.") from refused
    finally:
        passing.unlink(missing_ok=True)


def load(path: Path, name: str) -> tuple[Any, dict[str, str]]:
    """A table and what it says of itself; refuses what is not a table `name` of this format."""
    pyarrow, parquet = require("pyarrow", "reading results"), require("pyarrow.parquet", "reading results")
    try:
        table = parquet.read_table(path)
    except FileNotFoundError:
        raise ResultsError(f"there is no {path}: `mnemesh run SPEC.toml --out FOLDER` makes a folder of results.") from None
    except (OSError, pyarrow.ArrowException) as broken:
        raise ResultsError(f"{path} cannot be read as a Parquet table ({str(broken).splitlines()[0]}): nothing is known from it.") from broken
    known = {key.decode().removeprefix("mnemesh."): value.decode() for key, value in (table.schema.metadata or {}).items() if key.startswith(b"mnemesh.")}
    if known.get("format") != FORMAT:
        found = f"of format {known['format']!r}" if "format" in known else "no record of mnemesh"
        raise ResultsError(f"{path} is {found}, and this version reads format {FORMAT!r}: its columns may mean something else.")
    if known.get("table") != name:
        raise ResultsError(f"{path} holds the table {known.get('table')!r}, not {name!r}: a file was renamed or is in the wrong place.")
    return table, known


def open_results(folder: str | os.PathLike[str]) -> Results:
    """The results in a folder that `run` has filled."""
    place = Path(folder)
    place = place.parent if place.name == "results.parquet" else place
    if not place.is_dir():
        raise ResultsError(f"there is no folder {str(place)!r}: results are a folder that `mnemesh run` or `reproduce` has filled.")
    results, known = load(place / "results.parquet", "results")
    tuning, _ = load(place / "tuning.parquet", "tuning")
    return Results(place, parse(known["spec"]), json.loads(known["versions"]), results, tuning)
