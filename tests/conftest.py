"""The strictest mode there is: shapes checked at every call, no seeds from the clock, warnings are errors (pyproject.toml)."""

import os
from importlib.util import find_spec

os.environ["MNEMESH_CHECK_SHAPES"] = "1"
for threads in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # workers share the cores

from pathlib import Path  # noqa: E402

from jaxtyping import install_import_hook  # noqa: E402

COMPILED = {"lanes", "kernel"}  # numba reads these functions itself, and cannot read a wrapper
SOURCES = Path(__file__).parents[1] / "src"
BUSY = {"books", "learning", "protocol", "sums", "view", "wire", "embedded"}  # called a thousand times a round: a check takes longer than the call
modules = [path.relative_to(SOURCES).with_suffix("") for path in SOURCES.rglob("*.py") if path.stem not in {"__init__", *COMPILED}]
modules = [module for module in modules if "live" not in module.parts or not BUSY & set(module.parts)]
install_import_hook([".".join(module.parts) for module in modules], "beartype.beartype" if find_spec("beartype") else None)

from hypothesis import settings  # noqa: E402

settings.register_profile("mnemesh", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("mnemesh")
