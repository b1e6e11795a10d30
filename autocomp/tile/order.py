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
    out: list[Loop | Stmt] = []
    waiting: list[Stmt] = []
    body = list(first.body)
    for i, n in enumerate(body):
        read = {x for s, _ in walk((n,)) for x in (*s.srcs, s.dst)}
        for s in [s for s in waiting if s.dst in read]:
            waiting.remove(s)
            out.append(s)
        reader = next((k for k, x in enumerate(body[i + 1 :], i + 1) if any(_is(n, s) for s, _ in walk((x,)))), i)
        crossed = any(s.op == "mma" for s, _ in walk(body[i + 1 : reader]))
        if isinstance(n, Stmt) and n.op == "copy" and crossed and p.buf(n.dst) is not None and p.buf(n.dst).scope == "fragment":  # type: ignore[union-attr]
            waiting.append(n)
        else:
            out.append(n)
    return replace(p, body=(replace(first, body=tuple(out)),))


def _is(copy: Loop | Stmt, reader: Stmt) -> bool:
    return isinstance(copy, Stmt) and copy.dst in (reader.dst, *reader.srcs)
