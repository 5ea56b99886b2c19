"""The keys of a network: an authority and a certificate for each agent, made once; and what an agent checks of its own before it starts.

    pki/_authority/ca.key, ca.crt        signs agents; no agent needs it, so it is kept apart
    pki/lisbon/agent.key, agent.crt      what lisbon shows to its neighbours
    pki/lisbon/ca.crt                    what it checks theirs against: pki/lisbon/ is all that lisbon's machine needs
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mnemesh.errors import KeyFileError
from mnemesh.live.certificates import authority, certificate, covers, new_key, read_certificate, read_key, serves_both_ways

if TYPE_CHECKING:
    from collections.abc import Callable

    from mnemesh.live.config import Network

__all__ = ["Issued", "KeyFiles", "check_keys", "key_files", "make_keys"]

AUTHORITY = "_authority"  # no agent is called so
_SOON = timedelta(days=30)


class KeyFiles(NamedTuple):
    """An agent's files, and until when its certificate holds."""

    authority: Path
    certificate: Path
    key: Path
    expires: datetime | None = None

    def left(self, now: datetime | None = None) -> timedelta:
        """How long the certificate still holds."""
        return timedelta.max if self.expires is None else self.expires - (now or datetime.now(UTC))

    def soon(self, now: datetime | None = None) -> str:
        """What to tell whoever runs the agent if the certificate expires within 30 days, or nothing."""
        left = self.left(now)
        return "" if left > _SOON else f"{self.certificate} expires in {_words(left)}: renew it with `mnemesh keys --renew`, and start the agent again."


class Issued(NamedTuple):
    """What `make_keys` made, what was there and stayed, and what is wrong with what stayed."""

    made: tuple[Path, ...]
    kept: tuple[Path, ...]
    wrong: tuple[str, ...]


def key_files(folder: Path | str, name: str) -> KeyFiles:
    """Where an agent's files are: in its folder below `folder`, or in `folder` itself if that was all that was copied."""
    home = Path(folder) / name
    if not home.is_dir() and (Path(folder) / "agent.key").exists():
        home = Path(folder)
    return KeyFiles(home / "ca.crt", home / "agent.crt", home / "agent.key")


def make_keys(network: Network, folder: Path | str, *, renew: bool = False, now: datetime | None = None) -> Issued:
    """Make whatever is missing of a network's keys. What is there stays; with `renew`, agents get new certificates for the keys they have."""
    now, root = now or datetime.now(UTC), Path(folder)
    for name in network.names:
        network.address(name)  # one that is missing is refused before anything is written
    made: list[Path] = []
    kept: list[Path] = []
    try:
        signer = _Signer(network, root, made, kept, now)
        for name in network.names:
            _make_agent(network, name, signer, renew)
    except KeyFileError:
        raise
    except (OSError, ValueError) as refused:
        where, why = getattr(refused, "filename", None) or root, getattr(refused, "strerror", None) or refused
        raise KeyFileError(f"keys cannot be written to {str(where)!r}: {why}.") from refused
    wrong = []
    for name in network.names:
        try:
            check_keys(network, name, root, now=now)
        except KeyFileError as failed:
            wrong.append(str(failed))
    return Issued(tuple(made), tuple(kept), tuple(wrong))


class _Signer:
    """The authority, made if there is none; its key is read only when something is to be signed."""

    def __init__(self, network: Network, root: Path, made: list[Path], kept: list[Path], now: datetime) -> None:
        self.root, self.made, self.kept, self.now = root, made, kept, now
        self._key, self.path = root / AUTHORITY / "ca.key", root / AUTHORITY / "ca.crt"
        if not self.path.exists():
            orphans = [file for name in network.names for file in key_files(root, name)[:2] if file.exists()]
            if orphans:
                raise KeyFileError(f"{self.path} is missing, and {orphans[0]} is there: another authority would not be trusted. Put it back, or begin in an empty folder.")
            _folder(self._key.parent)
            if not self._key.exists():
                self.put(self._key, new_key(), 0o600)
            key = _read(self._key, read_key)
            self.put(self.path, authority(key, f"mnemesh {network.name}", now), 0o644)
        else:
            kept += [file for file in (self._key, self.path) if file.exists()]
        self.pem = _bytes(self.path)

    def put(self, path: Path, content: bytes, mode: int) -> None:
        """Write a file that is there whole or not at all, and remember it."""
        passing = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with os.fdopen(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            passing.replace(path)
        finally:
            passing.unlink(missing_ok=True)
        self.made.append(path)

    def sign(self, key: Any, network: Network, name: str) -> bytes:
        """A certificate for an agent's key."""
        if not self._key.exists():
            raise KeyFileError(f"{self._key} is missing: without it nobody can sign a certificate for {name}.")
        own, by_key = _read(self.path, read_certificate), _read(self._key, read_key)
        if own.public_key() != by_key.public_key():
            raise KeyFileError(f"{self._key} is not the key of {self.path}: what it signs would not be trusted.")
        if own.not_valid_after_utc <= self.now:
            raise KeyFileError(f"{self.path} expired {_words(self.now - own.not_valid_after_utc)} ago: begin in an empty folder, and give all agents new keys.")
        return certificate(key, name, network.address(name), own, by_key, self.now)


def _make_agent(network: Network, name: str, signer: _Signer, renew: bool) -> None:
    home = signer.root / name
    files = KeyFiles(home / "ca.crt", home / "agent.crt", home / "agent.key")
    if files.certificate.exists() and not files.key.exists():
        raise KeyFileError(f"{files.key} is missing, and {files.certificate} is there: put the key back, or delete the certificate, and both are made anew.")
    _folder(files.key.parent)
    if files.authority.exists():
        signer.kept.append(files.authority)
    else:
        signer.put(files.authority, signer.pem, 0o644)
    if files.key.exists():
        signer.kept.append(files.key)
    else:
        signer.put(files.key, new_key(), 0o600)
    if files.certificate.exists() and not renew:
        signer.kept.append(files.certificate)
    else:
        signer.put(files.certificate, signer.sign(_read(files.key, read_key), network, name), 0o644)


def check_keys(network: Network, name: str, folder: Path | str | None = None, *, now: datetime | None = None) -> KeyFiles:
    """An agent's files, if they are there and hold: its own, signed by the authority, for its address, not expired. `folder` is transport.keys unless given."""
    address, now = network.address(name), now or datetime.now(UTC)
    files = key_files(network.transport.keys if folder is None else folder, name)
    root, own, key = _read(files.authority, read_certificate), _read(files.certificate, read_certificate), _read(files.key, read_key)
    if os.name == "posix" and files.key.stat().st_mode & 0o007:
        raise KeyFileError(f"{files.key} can be read by everybody on this machine, who could pass for {name}: chmod 600 {files.key}")
    if own.public_key() != key.public_key():
        raise KeyFileError(f"{files.key} is not the key of {files.certificate}: neighbours would refuse {name}.")
    common = [attribute.value for attribute in own.subject if attribute.rfc4514_attribute_name == "CN"]
    if common != [name]:
        raise KeyFileError(f"{files.certificate} is of {', '.join(map(repr, common)) or 'nobody'}, not of {name!r}: neighbours go by the name that it holds.")
    _check_signed(files, own, root)
    for path, found in ((files.certificate, own), (files.authority, root)):
        _check_time(path, found, now)
    if not covers(own, address):
        raise KeyFileError(f"{files.certificate} is not for {address.host}, where {name} is found: neighbours would refuse it. `mnemesh keys --renew` makes others.")
    if not serves_both_ways(own):
        raise KeyFileError(f"{files.certificate} is not meant for both ends of a link (extended key usage server and client): neighbours would refuse {name}.")
    return files._replace(expires=min(own.not_valid_after_utc, root.not_valid_after_utc))


def _check_signed(files: KeyFiles, own: Any, root: Any) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        own.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        raise KeyFileError(f"{files.certificate} is not signed by {files.authority}: neighbours that trust that one would refuse it.") from None


def _check_time(path: Path, found: Any, now: datetime) -> None:
    first, last = found.not_valid_before_utc, found.not_valid_after_utc
    if now >= last:
        raise KeyFileError(f"{path} expired {_words(now - last)} ago, on {last:%Y-%m-%d}: `mnemesh keys --renew` makes others.")
    if now < first:
        raise KeyFileError(f"{path} holds from {first:%Y-%m-%d %H:%M} UTC on, in {_words(first - now)}: is this machine's clock right?")


def _folder(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def _read(path: Path, read: Callable[[bytes], Any]) -> Any:
    try:
        return read(_bytes(path))
    except KeyFileError:
        raise
    except ValueError as wrong:
        raise KeyFileError(f"{path} {wrong}: put back what `mnemesh keys` made.") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise KeyFileError(f"{path} is missing: `mnemesh keys` makes it, and it is copied to the agent's machine.") from None
    except (OSError, ValueError) as wrong:
        raise KeyFileError(f"{path} cannot be read: {getattr(wrong, 'strerror', None) or wrong}.") from None


def _words(span: timedelta) -> str:
    """A span of time in its largest unit."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        count = int(span.total_seconds() // size)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a second"
