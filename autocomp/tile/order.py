"""The order of a tile program's statements."""

from __future__ import annotations

from dataclasses import replace

from autocomp.tile.program import Loop, Stmt, TileProgram, walk


def behind_products(p: TileProgram) -> TileProgram:
    """Copies that only what follows a tile's products reads stand behind these: nothing then holds them meanwhile.

        r = copy in2; acc = fill 0; loop {acc += mma a, b}; y = map acc + r   ->   acc = fill 0; loop {..}; r = copy in2; y = map acc + r
    """
    if not (len(p.body) == 1 and isinstance(first := p.body[0], Loop) and first.kind == "grid"):
        return p
    inner = [[s for s, _ in walk((n,))] for n in first.body]  # of each node, the statements in it
    touched = [{x for s in ss for x in (*s.srcs, s.dst)} for ss in inner]
    multiplies = [any(s.op == "mma" for s in ss) for ss in inner]
    out: list[Loop | Stmt] = []
    waiting: list[Stmt] = []
    for i, n in enumerate(first.body):
        for s in [s for s in waiting if s.dst in touched[i]]:
            waiting.remove(s)
            out.append(s)
        if isinstance(n, Stmt) and n.op == "copy" and (b := p.buf(n.dst)) is not None and b.scope == "fragment":
            reader = next((k for k in range(i + 1, len(inner)) if n.dst in touched[k]), i)
            if any(multiplies[i + 1 : reader]):
                waiting.append(n)
                continue
        out.append(n)
    return replace(p, body=(replace(first, body=tuple(out)),))
