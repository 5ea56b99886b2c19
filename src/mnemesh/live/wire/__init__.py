"""Bundles as bytes: typed, versioned, length-limited binary frames, every one of which is proved before it is used."""

from mnemesh.live.wire.decoding import decode
from mnemesh.live.wire.encoding import encode, sizes
from mnemesh.live.wire.frames import Frame, join, split
from mnemesh.live.wire.shape import Shape

__all__ = ["Frame", "Shape", "decode", "encode", "join", "sizes", "split"]
