"""What Zenoh is told when an agent opens its session: where to listen, whom to call, which keys to show, and who may say what. A pure function."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemesh.live.keys import key_files

if TYPE_CHECKING:
    from mnemesh.live.config import Network

__all__ = ["access_rules", "key", "session"]

_SAYS = ["put", "liveliness_token"]
_HEARS = ["declare_subscriber", "declare_liveliness_subscriber", "liveliness_query"]
_HEADROOM = 4_096  # bytes of Zenoh's own around a frame


def key(network: Network, sender: str, receiver: str, *parts: str) -> str:
    """The key expression of what one agent sends to another: `data`, or `alive/<incarnation>`; `**` stands for all of it."""
    return "/".join(("mnemesh", "v1", network.name, "link", sender, receiver, *parts))


def session(network: Network, name: str, frame_limit: int, keys: Path | str | None = None) -> dict[str, Any]:
    """Zenoh's configuration for one agent, as `zenoh.Config.from_json5(json.dumps(...))` takes it. `keys` is transport.keys unless given.

    Only the neighbours' links are opened; nothing is scouted, gossiped or passed on; frames above `frame_limit` bytes are dropped. With TLS,
    both ends show certificates, and only the neighbours' names may say or hear anything, each on its own link.
    """
    secure = network.encrypted
    protocol = "tls" if secure else "tcp"
    limit = frame_limit + _HEADROOM
    link: dict[str, Any] = {
        "protocols": [protocol],
        "tx": {
            "lease": max(1, round(1_000 * network.transport.lease)), "keep_alive": 4,
            "queue": {"congestion_control": {"block": {"wait_before_close": 500_000}}},
        },
        "rx": {"max_message_size": limit},
    }  # fmt: skip
    told: dict[str, Any] = {
        "mode": "peer",
        "listen": {"endpoints": [f"{protocol}/{network.listens(name)}"]},
        "connect": {  # no timeout_ms: at 0, a neighbour that is late would never be called again
            "endpoints": [f"{protocol}/{network.address(far)}" for far in network.neighbours(name)],
            "retry": {"period_init_ms": 100, "period_max_ms": 1_000, "period_increase_factor": 2},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "gateway": {"south": []},
        "transport": {"shared_memory": {"enabled": False}, "link": link},
        "low_pass_filter": [{"id": "frames", "flows": ["ingress"], "messages": ["put"], "key_exprs": ["**"], "size_limit": limit}],
    }  # fmt: skip
    if secure:
        link["tls"] = _tls(network.transport.keys if keys is None else keys, name)
        told["access_control"] = access_rules(network, name)
    return told


def access_rules(network: Network, name: str) -> dict[str, Any]:
    """Zenoh's access control: everything is refused but what an agent and each neighbour, known by its certificate's name, say to each other."""
    rules, subjects, policies = [], [], []
    for far in network.neighbours(name):
        to, fro = key(network, name, far, "**"), key(network, far, name, "**")
        allowed = [
            (f"in-{far}", "ingress", _SAYS, fro),
            (f"sub-in-{far}", "ingress", _HEARS, to),
            (f"out-{far}", "egress", _SAYS, to),
            (f"sub-out-{far}", "egress", _HEARS, fro),
        ]
        rules += [{"id": id, "permission": "allow", "flows": [flow], "messages": messages, "key_exprs": [where]} for id, flow, messages, where in allowed]
        subjects.append({"id": far, "cert_common_names": [far]})
        policies.append({"rules": [id for id, *_ in allowed], "subjects": [far]})
    return {"enabled": True, "default_permission": "deny", "rules": rules, "subjects": subjects, "policies": policies}


def _tls(folder: Path | str, name: str) -> dict[str, Any]:
    files = key_files(folder, name)
    return {
        "root_ca_certificate": str(files.authority),
        "listen_private_key": str(files.key),
        "listen_certificate": str(files.certificate),
        "enable_mtls": True,
        "connect_private_key": str(files.key),
        "connect_certificate": str(files.certificate),
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }
