"""What an agent must not lose, in memory or in a file: what it was told, which round each association was played in, and what it learned."""

from mnemesh.live.store.base import Store
from mnemesh.live.store.copies import export_state, import_state
from mnemesh.live.store.kinds import Association, Counts, Facts, Kept
from mnemesh.live.store.memory import MemoryStore
from mnemesh.live.store.sqlite import SQLiteStore

__all__ = ["Association", "Counts", "Facts", "Kept", "MemoryStore", "SQLiteStore", "Store", "export_state", "import_state"]
