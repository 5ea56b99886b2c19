"""The live network: agents as state machines that exchange real messages, learn, and recall."""

from mnemesh.live.mesh import Mesh

__all__ = ["Mesh"]
