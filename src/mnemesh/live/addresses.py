"""Where an agent is found: a host and a port, read from text, and whether anybody but this machine can reach it."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

__all__ = ["Address", "parse_address"]

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


class Address(NamedTuple):
    """A host, which is an IP address or a name, and a port."""

    host: str
    port: int

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """The IP address, if the host is one."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or (self.ip is not None and self.ip.is_loopback)

    @property
    def everywhere(self) -> bool:
        """Whether it stands for every address of a machine: one can listen there, and nobody can be found there."""
        return self.ip is not None and self.ip.is_unspecified

    @property
    def place(self) -> tuple[str, int]:
        """The same for two that cannot both be listened at."""
        return ("127.0.0.1" if self.host == "localhost" else self.host), self.port

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port`, `1.2.3.4:port` or `[::1]:port`. What is none is a ValueError that says why."""
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([0-9]{1,9})", text, re.ASCII)
    if found is None:
        raise ValueError("a host and a port are needed, such as 127.0.0.1:7401, porto.example.org:7401 or [::1]:7401")
    port = int(found[3])
    if not 1 <= port <= 65_535:
        raise ValueError(f"port {port} does not exist: ports are 1 to 65535")
    host = _host(found[1] if found[2] is None else found[2], bracketed=found[2] is None)
    return Address(host, port)


def _host(text: str, *, bracketed: bool) -> str:
    """A host in the form in which two that are equal look equal."""
    text = text.lower().removesuffix(".")
    if bracketed or re.fullmatch(r"[0-9.]+", text):
        try:
            ip = ip_address(text)
        except ValueError:
            raise ValueError(f"{text!r} is no IP address: nobody could be found there") from None
        if ip.version == 6 and ip.scope_id:
            raise ValueError(f"{text!r} names an interface of one machine: others could not find it there")
        if ip.is_multicast or str(ip) == "255.255.255.255":
            raise ValueError(f"{text!r} is no address of a single machine: nobody could be found there")
        mapped = ip.ipv4_mapped if ip.version == 6 else None
        return str(mapped or ip)
    labels = text.split(".")
    if len(text) > 253 or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
        raise ValueError(f"{text!r} is no name of a host: letters, digits and '-' are needed, parted by dots")
    return text
