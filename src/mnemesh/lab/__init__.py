"""The lab: studies as data, swept over processes or a cluster, recorded in open formats, drawn and reported. Needs the extra `lab`."""

from mnemesh.lab import figures, findings, paper, report, summary, tables
from mnemesh.lab.executors import dask, local
from mnemesh.lab.record import Results, open_results
from mnemesh.lab.shards import Sharded, simulate_shards
from mnemesh.lab.spec import Spec, parse, read, shipped, write
from mnemesh.lab.sweep import run

__all__ = [
    "Results", "Sharded", "Spec", "dask", "figures", "findings", "local", "open_results", "paper", "parse", "read", "report", "run", "shipped",
    "simulate_shards", "summary", "tables", "write",
]  # fmt: skip
