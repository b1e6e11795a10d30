"""One loop over tiles and their blocks (schedule fields `persistent` and `softmax_overlap`): the first blocks of a tile run beside the
last late works of the tile before.

    for tile: first; for block (+ 2): works(block), late(block - 2); last
    ->  for (tile, block) (+ 2): [block is the first: first] works [the last: kept], of two rounds before: [first] late [last]

Each part of a round that runs some rounds behind has a place of its own in the list of (tile, block), so tiles may have different numbers
of blocks (causal masks). Known as a persistent kernel whose pipeline does not drain between tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from autocomp.targets.ascend.frames import Frame

from autocomp.tile.agents import Again, Node, Once, Skewed


def joined(tile: Frame, where: Sequence[str], tiles: int) -> Again:
    """The loop of a core over `tiles` tiles of a frame with a loop in it; `where`: text of a tile's first indices."""
    j = tile.joint
    assert j is not None
    now = 1 if j.frame.early or tile.early else 0
    early: list[Node] = [*tile.early, *tile.loads]
    parts = {
        0: (early, j.frame.early, []),
        now: ([*([] if now else early), *tile.works[: j.works]], j.frame.body, tile.works[j.works :]),
        now + j.frame.by: (tile.late[: j.late], j.frame.late, tile.late[j.late :]),
    }
    inside = [*where, *j.first, *tile.declarations, *j.frame.declarations]
    limit = [f"const uint32_t {j.name}_end = {j.limit};", f"const bool first = {j.name} == 0, last = {j.name} + 1 == {j.name}_end;"]
    body: list[Node] = []
    begin: list[str] = []
    for lag, (first, works, last) in parts.items():
        nodes = (*_once(True, first), *works, *_once(False, last))
        if not nodes:
            continue
        begin.append(f"tile_{lag} = group, round_{lag} = 0, {j.name}_{lag} = 0")
        at = f"const uint32_t tile = tile_{lag}, round = round_{lag}, {j.name} = {j.name}_{lag}, {j.name}_round = step - {lag};"
        on = f"  if (++{j.name}_{lag} == {j.name}_end) {j.name}_{lag} = 0, ++round_{lag}, tile_{lag} += GetBlockNum();"
        guard = f"if ({f'step >= {lag} && ' if lag else ''}tile_{lag} < {tiles}) {{"
        body.append(Skewed(lag, (guard, *("  " + x for x in (at, *inside[: len(where)], *limit, *inside[len(where) :]))), nodes, (on, "}")))
    behind = max(n.by for n in body if isinstance(n, Skewed))
    head = (f"uint32_t {', '.join(begin)};", f"for (uint32_t step = 0; tile_{behind} < {tiles}; ++step) {{")
    return Again(j.name, head, tuple(body), ("}",), over="tile")


def _once(first: bool, nodes: Sequence[Node]) -> tuple[Node, ...]:
    return (Once(first, tuple(nodes)),) if nodes else ()
