"""The route of a query as bytes: the path that it walked, and what remains of its tree, in pre-order with the size of each subtree.

Routes change only when trees do, so each is packed and unpacked once, as long as the memos have room.
"""

from __future__ import annotations

import math
from struct import Struct, pack, unpack_from
from typing import Any, NamedTuple

from mnemesh.errors import WireError
from mnemesh.live.messages import Branch

__all__ = ["Route", "pack_route", "unpack_route"]

COUNTS = Struct("<II")  # agents of the path, agents of the branch
NODE = Struct("<II d")  # agent, size of its subtree with itself, weight
ROOM = 2**20  # bytes of routes that a memo holds


class Route(NamedTuple):
    """A route that was found to be one."""

    path: tuple[int, ...]
    branch: Branch
    highest: int  # agent on it


class _Memo(dict[Any, Any]):
    """What was worked out once; emptied when it is full."""

    held = 0

    def keep(self, key: Any, value: Any, size: int) -> Any:
        if self.held + size > ROOM:
            self.clear()
        self.held += size
        self[key] = value
        return value

    def clear(self) -> None:
        super().clear()
        self.held = 0


_packed, _unpacked = _Memo(), _Memo()


def pack_route(path: tuple[int, ...], branch: Branch) -> bytes:
    """The bytes of a route. A branch is recognised by identity, which costs the same for every size: keep using the same one."""
    found = _packed.get((path, id(branch)))
    if found is None:
        nodes = _in_preorder(branch)
        route = b"".join([COUNTS.pack(len(path), len(nodes)), pack(f"<{len(path)}I", *path), *(NODE.pack(*node) for node in nodes)])
        found = _packed.keep((path, id(branch)), (branch, route), len(route))  # which keeps the branch alive, and its id its own
    return found[1]


def _in_preorder(branch: Branch) -> list[tuple[int, int, float]]:
    """(agent, size of its subtree, weight) of every node; without recursion, since a line of N agents is a tree, too."""
    nodes, waiting = [], [branch]
    while waiting:
        nodes.append(node := waiting.pop())
        waiting.extend(reversed(node.children))
    sizes: list[int] = []  # of the subtrees whose parent is still to come, the next one last
    rows = []
    for node in reversed(nodes):
        size = 1 + sum(sizes.pop() for _ in node.children)
        sizes.append(size)
        rows.append((node.agent, size, node.weight + 0.0))  # -0.0 has other bytes than 0.0
    return rows[::-1]


def unpack_route(data: bytes) -> Route:
    """The route that these bytes are, or a WireError."""
    found = _unpacked.get(data)
    return found if found is not None else _unpacked.keep(data, _read(data), len(data))


def _read(data: bytes) -> Route:
    steps, count = COUNTS.unpack_from(data) if len(data) >= COUNTS.size else (0, 0)
    if not steps or not count or len(data) != COUNTS.size + 4 * steps + NODE.size * count:
        raise WireError(f"a route of {len(data)} bytes cannot hold a path of {steps} agents and a branch of {count}.", "branch")
    path = unpack_from(f"<{steps}I", data, COUNTS.size)
    branch, agents = _grown(list(NODE.iter_unpack(data[COUNTS.size + 4 * steps :])))
    if len(agents.union(path)) != steps + count:
        raise WireError(f"the path {path} and the branch at {branch.agent} meet an agent twice: the query would be answered twice.", "path")
    return Route(path, branch, max(agents.union(path)))


def _grown(nodes: list[tuple[int, int, float]]) -> tuple[Branch, set[int]]:
    """The branch whose pre-order this is, and its agents."""
    grown: list[tuple[int, Branch]] = []  # subtrees whose parent is still to come, the next one last
    for agent, size, weight in reversed(nodes):
        if not 0 <= weight <= 1 or math.copysign(1, weight) < 0:
            raise WireError(f"agent {agent} has the weight {weight!r} in a branch: it must be from 0 to 1.", "weight")
        children, left = [], size - 1
        while left > 0 and grown:
            width, child = grown.pop()
            children.append(child)
            left -= width
        if left:
            raise WireError(f"agent {agent} is to have {size} agents in its branch: the tree cannot be told.", "branch")
        grown.append((size, Branch(agent, weight, tuple(children))))
    if len(grown) != 1:
        raise WireError(f"a branch has {len(grown)} agents above all others: it must have one, who receives it.", "branch")
    return grown[0][1], {agent for agent, _, _ in nodes}
