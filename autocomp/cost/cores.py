"""What a schedule costs on CPU cores: register tiles that are full or not, panels that every tile packs again, tiles that idle cores.

A contraction runs in register tiles of rows x vectors of columns, over the whole depth. The factor with the columns is packed into
panels, again by every tile that needs it (a constant one before the first run); the other one is read once a panel. Goto and van
de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008, is where this division of a product comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from math import prod

from autocomp.cost.chip import F32, Chip, Memory
from autocomp.cost.demand import Demand, Operand
from autocomp.cost.derived import constant
from autocomp.cost.roofline import time_of
from autocomp.cost.work import Cost, Work
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import Sym

MAX_ROWS = int(constant("register_rows"))  # rows of a register tile; their addresses are held in scalar registers
VECTORS = int(constant("register_vectors"))  # and vectors of columns
LATENCY = int(constant("chain_operations"))  # multiply-adds in flight that keep the units busy
LOADS = constant("operations_a_load")  # multiply-adds that a load must feed to leave the units busy
PART = int(constant("depth_part"))  # elements of depth that run in one go at least where the other factor lies packed
DENSE = int(constant("dense_bytes"))  # bytes from one step of depth to the next up to which a factor is read where it lies
MASKED = int(constant("masked_lanes"))  # lanes from which a vector that is not full is read by one instruction
THIN = constant("thin_panel")  # part of a multiply-add that a last panel with fewer vectors loses
FEW = int(constant("least_lanes"))  # elements of the output's last axis from which lanes run along it


Sizes = Mapping[str, int]  # of a tile along every axis, whole ones too; or how many tiles there are along each axis of the grid


def store_apart(near: int, far: int, depth: int, lanes: int, times: int) -> bool:
    """Should lanes run along `far` columns, whose results lie apart, rather than along `near` ones side by side? Where they fill so much
    more of the vectors that it pays for `times` accesses of every result lane by lane, and for walking the other factor's steps of depth,
    each of which is a line of its own."""
    full = lambda n: n / (-(-n // lanes) * lanes)
    return depth / (2 * lanes) * (1 / full(near) - 1 / full(far) - constant("walked_lines")) > constant("lane_clocks") * times


def read_where_it_lies(step: int, bytes_: float, walks: int, whole: bool) -> bool:
    """Is one step of depth near enough to the next, so many bytes on, for a factor that so many register tiles of rows walk? Columns that
    are no `whole` vectors begin anywhere in a line, which many walks are not worth."""
    few = walks <= constant("walks") and bytes_ <= constant("walked_factor")
    return walks == 1 or step <= (constant("walked_bytes") if few else DENSE if whole else 0)


def ends_with_vectors(columns: int, tile: int, lanes: int) -> bool:
    """Do rows and tiles of a factor that is read where it lies end with a whole vector, or with the row, which a mask ends?"""
    return all(n % lanes == 0 or (lanes >= MASKED and n == columns) for n in (columns, tile))


class CoreModel:
    """Seconds of one kernel under its schedules. What depends on the tile alone is computed once."""

    def __init__(self, d: Demand, chip: Chip) -> None:
        self.d, self.chip = d, chip
        self._near, self._lane = chip.on_chip, chip.lanes()
        self._tiles: dict[tuple[tuple[tuple[str, int], ...], tuple[str, ...]], Cost] = {}
        self._grid, self._main = frozenset(d.grid), max(d.operands, key=lambda a: a.bytes, default=None)
        roles = d.roles
        self._open = any(isinstance(a.extent, Sym) for a in (*roles.batch, *roles.rows, *roles.cols))
        self._call = replace(chip, launch=chip.numbers["plan_call"] / chip.clock) if chip.cores > 1 else chip
        self._apart = False  # do lanes run along results that lie apart
        self.rows, self.cols = self._sides()
        self.factors = [f for a in d.operands if a.factor for f in self._read_as(a)]
        self._bytes = roles.form == "contract" and all(a.element == 1 for a in self.factors)
        self._lone = self._bytes and any(a.constant and a.axes.intersection(self.rows) for a in self.factors)  # `lone_column`

    def _read_as(self, a: Operand) -> list[Operand]:
        """A factor as each of the parts that it is read as: queries, keys and values may be slices of one tensor."""
        parts = list(dict.fromkeys(frozenset(v) for v in a.views))
        if len(parts) < 2:
            return [a]
        out = []
        for axes in parts:
            runs = tuple(r for r in a.runs if r and axes.issuperset(r))
            near = any(self._grid.intersection(r) for r in runs)
            bytes_ = float(a.element * prod(self.d.extent[x] for x in axes))
            out.append(replace(a, bytes=bytes_, axes=axes, views=(tuple(sorted(axes)),), runs=runs, contiguous=near))
        return out

    def _sides(self) -> tuple[list[str], list[str]]:
        """(rows, columns) of the register tiles: lanes run along the output's last axis, or, where that one has few elements, along
        the longest of all."""
        d = self.d
        rows, cols = ([a.name for a in side] for side in (d.roles.rows, d.roles.cols))
        if not d.grid:
            return rows, cols
        last = d.grid[-1]
        if d.extent[last] < FEW:
            last = max(rows + cols, key=d.extent.__getitem__, default=last)
            rows, cols = (sorted(side, key=lambda x: (x == last, d.extent[x])) for side in (rows, cols))
        rows, cols = (cols, rows) if last in rows else (rows, cols)
        factors = [a for a in d.operands if a.factor]
        plain = d.roles.form == "contract" and all(a.constant or not a.guards for a in factors) and not d.roles.batch
        if all(a.element == 1 for a in factors):  # four steps of depth of the broadcast factor are one read, or lie packed
            plain = plain and all(a.constant or not a.contiguous for a in factors if a.axes.intersection(cols))
        if plain and any(a.constant and a.axes.intersection(rows) for a in factors):
            beside = takewhile(cols.__contains__, reversed(d.grid))  # an image's rows and columns, not images
            near, far, depth = (prod(d.extent[x] for x in side) for side in (beside, rows, [a.name for a in d.roles.depth]))
            apart = 1 + sum(last in a.axes for a in d.operands if not a.factor)
            if store_apart(near, far, depth, self.chip.lanes(), apart):
                self._apart = True
                return cols, rows
        return rows, cols

    def time(self, s: Schedule) -> Cost:
        """Seconds under a schedule. A contraction's panels take the whole depth, however it is cut, but for a factor that is computed."""
        form = self.d.roles.form
        by_grid = form == "chain" or (form == "contract" and not self.d.held)
        tile = tuple(t for t in s.tile if t[0] in self._grid) if by_grid else s.tile
        if (tile, s.directives) not in self._tiles:
            extent = self.d.extent
            there = all(extent[x] for x in self.d.grid)  # else there are no elements to compute
            sizes = {**extent, **{x: min(t, extent[x]) for x, t in tile}}
            self._tiles[tile, s.directives] = self._time(sizes, s.directives) if there else time_of(Work(), self.chip)
        return self._tiles[tile, s.directives]

    def _time(self, tile: Sizes, directives: Collection[str]) -> Cost:
        d, w, chip = self.d, self.d.work, self.chip
        cuts = {x: -(-d.extent[x] // tile[x]) for x in d.grid}
        tiles = prod(cuts.values())
        if d.roles.form in ("contract", "chain", "online"):
            share, read, (eff, beside), what = 1.0, 1.0, self._product(tile, cuts, tiles, directives), "packing"
        else:
            eff, (share, beside), what = 1.0, self._lanes(tile, tiles), "strided reads"
            read = 1.0 if beside else self._streams(tile)  # gathers have more lines under way than a stream needs
            if d.roles.form == "reduce":
                turns = (self._turns(tile) - 1) * -(-tiles // chip.cores)
                beside += self._walked(tile) / min(tiles, chip.cores) + chip.limits["tile"] * turns
        vector, special = self._folding(tile, directives)
        units = (vector / share, special * d.steps / share)
        beside += (self._later_passes(tile) + self._serial(directives)) * -(-tiles // chip.cores) / tiles
        chip = self._started(tiles)
        several = len(d.products) > 1 and w.matrix_dtype in ("i8", "u8")  # bytes go four at a time in one product
        dtype = "i32" if several else w.matrix_dtype
        work = Work(w.read / read, w.written / read, w.read_eff, self._operations(cuts), dtype, *units, 0, 0, 0, eff, tiles)
        cost = time_of(work, chip)
        begin = chip.limits["tile"] * -(-tiles // chip.cores)
        rest = cost.seconds - chip.launch
        parts = (*cost.parts, (what, beside), ("tiles", begin))
        return Cost(rest + beside + begin + chip.launch, what if beside > rest else cost.bound, parts)

    def _started(self, tiles: int) -> Chip:
        """The chip with what a start of so many tiles takes: the fork and join of a parallel region, or, for one tile, which is printed
        without a region and runs on the thread that runs the plan, a call. Tiles of open sizes have a region: they may be many."""
        return self._call if tiles == 1 and not self._open else self.chip

    def _operations(self, cuts: Sizes) -> float:
        """Multiplications and additions of all contractions; a link of a chain is done again by every tile along the axes that it lacks."""
        if self.d.roles.form != "chain":
            return self.d.work.matrix
        return sum(flops * prod(n for x, n in cuts.items() if x not in axes) for flops, axes in self.d.products)

    def _product(self, tile: Sizes, cuts: Sizes, tiles: int, directives: Collection[str]) -> tuple[float, float]:
        """(share of the peak that the register tiles reach, seconds beside them: packing and reading factors again)."""
        d, chip = self.d, self.chip
        rows = prod(map(tile.__getitem__, self.rows))
        cols, along = self._side_by_side(tile)
        mr, nv, eff = register_tile(rows, cols, self._lane, chip.registers.count, self._lone and "lone_column" in directives)
        pairs = self._bytes and "short_pairs" in chip.features and {"short_pairs", "pack_constants"} <= {*directives}
        copied = pairs and not self._lone and self._copies_rows(tile)
        if self._bytes and "short_pairs" in chip.features and not (pairs and (copied or self._lone)):
            eff *= chip.limits["widened_bytes"]
        width = nv * self._lane
        eff *= _tail(cols, along, nv, self._lane)
        if chip.cores > 1:  # the core with most tiles has no short one: those lie at the end
            eff *= prod(d.extent[x] / tile[x] for x in d.grid) / tiles
        busy = -(-tiles // chip.cores) / tiles  # share of the work that falls to the busiest core
        parts = prod(-(-d.extent[a.name] // tile[a.name]) for a in d.roles.depth) if d.roles.form == "contract" else 1
        elements = prod(d.extent[x] for x in d.grid)
        near = (parts - 1) * 2 * F32 * elements * self._core(chip.memories[-1]) * busy  # sums put aside
        if self._apart and "turned_store" not in directives and d.work.written == F32 * elements:
            near += elements * chip.numbers["lane_clocks"] / chip.clock * busy
        for a in self.factors:
            again = prod(n for x, n in cuts.items() if x not in a.axes)
            if copied and a.constant:  # twice the bytes
                near += a.bytes * self._rate(2 * a.bytes) * busy
                a = replace(a, bytes=2 * a.bytes)
            elif copied:
                near += prod(d.extent[x] for x in a.axes) / 2 * again * chip.numbers["word_clocks"] / chip.clock * busy
            if not a.axes.intersection(self.rows):
                ready = a.constant and parts == 1 and "pack_constants" in directives  # packed before the first run, the whole depth
                words = self._words(a, again, width, tile) if "stage_windows" in directives and not ready else 0.0
                lies = "read_in_place" in directives and self._in_place(a, tile, -(-prod(d.extent[x] for x in self.rows) // mr))
                near += (self._again(a, again, eff) if ready else words or (0.0 if lies else self._packing(a, again, width, tile))) * busy
            elif d.roles.form == "chain" and not a.constant:
                near += (self._packing(a, again, width, tile) + self._converted(a, again)) * busy  # for the first link
            else:
                near += self._streaming(a, again * -(-cols // width), tile, tiles) * busy
        return eff, near + (self._carried(tile) + self._held(tile, cuts) + self._scattered(tile)) * busy

    def _copies_rows(self, tile: Sizes) -> bool:
        """Are rows of bytes copied as pairs of 16 bits for the panels of a constant?"""
        d = self.d
        if len(d.roles.depth) != 1 or sum(tile[x] > 1 for x in self.rows) != 1 or any(tile[a.name] > 1 for a in d.roles.batch):
            return False
        by_row = [a for a in self.factors if a.axes.intersection(self.rows)]
        if any(a.guards or a.contiguous for a in by_row) or not any(a.constant for a in self.factors):
            return False
        return copies_rows(prod(map(tile.__getitem__, self.rows)), d.extent[d.roles.depth[0].name])

    def _converted(self, a: Operand, again: int) -> float:
        """Seconds in which windows of narrower elements than the first link of a chain computes in are put into an array of windows:
        lanes run along an axis of the image, so each is stored into another line."""
        if a.element >= F32 or all(len(at[-1]) < 2 for at in a.places if at):
            return 0.0
        return self.chip.numbers["lane_apart"] / self.chip.clock * again * prod(self.d.extent[x] for x in a.axes)

    def _scattered(self, tile: Sizes) -> float:
        """Seconds in which results are stored lane by lane, where columns do not lie side by side in the output: into lines that stay in
        the first cache until their other elements come, or that are fetched for each (channels of an image of 14 x 14 in lanes, 240 to
        450 of them: 2.3 to 3 ns an element; 48 channels: nothing to be seen)."""
        d, near = self.d, self.d.pieces[-1].side_by_side if self.d.pieces else None
        if d.roles.form not in ("contract", "chain") or not near or not self.cols or self.cols[-1] in near or self.cols[-1] not in d.grid:
            return 0.0
        first, limits = self.chip.memories[-1], self.chip.limits
        inner = d.grid[d.grid.index(self.cols[-1]) + 1 :]
        apart = min(first.line, F32 * prod(d.extent[x] for x in inner))
        stay = prod(tile[x] for x in self.cols) * apart <= first.capacity / 2
        return prod(d.extent[x] for x in d.grid) * (limits["gather"] if stay else limits["run"])

    def _carried(self, tile: Sizes) -> float:
        """Seconds in which an online reduction takes the statistics of its rows from step to step of the depth."""
        r, extent = self.d.roles, self.d.extent
        if r.form != "online":
            return 0.0
        return prod(extent[a.name] for a in (*r.batch, *r.rows)) * self._turns(tile) * self.chip.limits["row"]

    def _turns(self, tile: Sizes) -> int:
        """Steps of the depth."""
        return prod(-(-self.d.extent[a.name] // tile[a.name]) for a in self.d.roles.depth)

    def _held(self, tile: Sizes, cuts: Sizes) -> float:
        """Seconds that values which a tile makes for its products wait for, where they do not stay in the cache nearest to the core that
        holds tensors: written and read once further out (16 heads of 128 x 128 weights and 28 x 28 x 64 sums at 16 points in one tile,
        not in several: a quarter of that time shows)."""
        d = self.d
        part = {x: tile[x] / e if x in self._grid or d.roles.form != "chain" else 1.0 for x, e in d.extent.items()} if d.held else {}
        if sum(b * prod(part[x] for x in axes) for b, axes in d.held) <= self._near * self.chip.numbers["near_quarter"]:
            return 0.0
        every = sum(b * prod(n for x, n in cuts.items() if x not in axes) for b, axes in d.held)
        return self.chip.numbers["spilled_part"] * 2 * every * self._rate(max(every, self._near))

    def _side_by_side(self, tile: Sizes) -> tuple[int, int]:
        """Columns of one tile, and of all tiles, that lie side by side: the innermost axis, and those around it where it is whole."""
        run = along = 1
        for x in reversed(self.cols):
            e, t = self.d.extent[x], tile[x]
            run, along = run * t, along * e
            if t < e:
                break
        return run, along

    def _folding(self, tile: Sizes, directives: Collection[str]) -> tuple[float, float]:
        """(vector, special) operations: of windows those that are left where elements are staged, and less time for each where rows are
        summed side by side; those on numbers of 64 bits one by one; of a running fold each with the question whether its element is in
        front. A vector of fewer elements than it has lanes takes as long as a full one."""
        d, w, of = self.d, self.d.windows, self.chip.numbers
        vector, special = d.work.vector * (of["running_folds"] if d.roles.scan is not None else 1.0), d.work.special
        if d.roles.form == "online" and "common_values" not in directives:  # the change of a row's base, at each element of its result
            special += prod(d.extent[x] for x in d.grid) * self._turns(tile) * (self._turns(tile) > 1)
        vector += d.wide * (self._lane - 1)
        if w is None:
            return vector, special
        taps = vector - w.vector
        front, rare = w.vector, w.special
        if "stage_windows" in directives and w.staged:
            front, rare = front / w.again, rare / w.again
            taps *= of["staged_taps"] if w.edges else 1.0
            front += w.elements * of["staged_element"]
        if "unroll_and_jam" in directives:
            taps *= of["jammed_taps"]
        return taps + front, special - w.special + rare

    def _lanes(self, tile: Sizes, tiles: int) -> tuple[float, float]:
        """(share of the lanes that a tile fills, seconds of reads that do not run along the lanes).

        Lanes run along the output's last axis, or along the axis on which neighbours of the largest operand lie where that one is
        summed or is another output axis of a reduction; an axis with fewer elements in a tile than there are lanes goes one by one.
        """
        d, chip, main = self.d, self.chip, self._main
        along = next((r[-1] for r in main.runs if r), "") if main is not None and d.roles.form == "reduce" else d.grid[-1] if d.grid else ""
        if main is None or not along:
            return 1.0, 0.0
        lanes, e = chip.lanes(main.element), d.extent[along]
        run = tile[along]
        single = run < lanes and e >= lanes
        share = 1 / lanes if single else run / (-(-run // lanes) * lanes) if run < e or d.windows else 1.0
        busy = -(-tiles // chip.cores) / tiles
        return share, sum(self._strided(a, along, run, single, tile) for a in d.operands) * busy

    def _later_passes(self, tile: Sizes) -> float:
        """Seconds in which statistics over columns wait for passes after the first one, where a tile's columns do not stay near (softmax of
        2048 x 256 over its rows: 10 % between tiles of 64 columns and one of all)."""
        d, main = self.d, self._main
        if d.roles.form != "reduce" or main is None or len(main.views) < 2 or len(main.runs) > 1:
            return 0.0
        if not self._grid.intersection(main.runs[0] or ()):
            return 0.0
        size = main.bytes * prod(tile[x] / d.extent[x] for x in self._grid.intersection(*main.views))
        if size <= self._near * self.chip.numbers["near_quarter"]:
            return 0.0
        return self.chip.numbers["spilled_part"] * 2 * main.bytes * self._rate(max(main.bytes, self._near))

    def _serial(self, directives: Collection[str]) -> float:
        """Seconds of a scan along the axis on which neighbours lie: each element waits for the one in front of it, those of other rows
        that are scanned beside it do not."""
        d, main = self.d, self._main
        near = next((r[-1] for r in main.runs if r), "") if main is not None else ""
        if not d.carries or main is None or near not in {a.name for a in d.roles.depth}:
            return 0.0
        of, beside = self.chip.numbers, "unroll_and_jam" in directives
        return prod(d.extent[x] for x in main.axes) * of["scan_cycles"] * (of["jammed_scans"] if beside else 1.0) / self.chip.clock

    def _streams(self, tile: Sizes) -> float:
        """Share of the bandwidth that a tile's rows reach: short runs of many rows outrun the prefetchers, at worst by half."""
        d, limits = self.d, self.chip.limits
        if d.roles.form != "map" or not d.grid:
            return 1.0
        bytes_ = tile[d.grid[-1]] * max((a.element for a in d.operands), default=F32)
        if tile[d.grid[-1]] == d.extent[d.grid[-1]] or prod(tile[x] for x in d.grid[:-1]) <= limits["streams"]:
            return 1.0
        return max(self.chip.numbers["short_streams"], bytes_ / (bytes_ + limits["stream"]))

    def _walked(self, tile: Sizes) -> float:
        """Seconds that walks down columns wait where tensors are too large for a core's own cache: each row is another line, and soon
        another page, whatever is computed of them. Tiles of a few rows are read on."""
        d, main, of = self.d, self._main, self.chip.numbers
        near = next((r[-1] for r in main.runs if r), "") if main is not None else ""
        if d.roles.form != "reduce" or main is None or near not in self._grid or len(main.views) > 1 or d.windows:
            return 0.0
        if main.bytes <= self._near:
            return 0.0
        rows = prod(tile[a.name] for a in d.roles.depth)
        kept = main.element * rows * prod(tile[x] for x in main.axes & self._grid) <= self._near / 2
        if kept and rows < prod(d.extent[a.name] for a in d.roles.depth):
            return 0.0
        return (1 / of["walked_columns"] - 1) * main.bytes * self._rate(main.bytes)

    def _strided(self, a: Operand, along: str, run: int, single: bool, tile: Sizes) -> float:
        """Seconds of gathering an operand whose neighbours do not lie along the lanes: half as long where the lines of one step are
        still in the first cache for the next one, which uses them again. Lanes one by one miss it at every element."""
        d, limits, first = self.d, self.chip.limits, self.chip.memories[-1]
        beside = next((r[-1] for r in a.runs if r), "")
        points = prod(d.extent[x] for x in a.axes)
        if single and beside == along:
            return points * limits["run"]
        if not beside or along not in a.axes or beside == along:
            return 0.0
        again = min(tile[beside], first.line // a.element) > 1 and run * first.line <= first.capacity / 2
        return points * limits["gather"] * (self.chip.numbers["lines_kept"] if again else 1.0)

    def _packing(self, a: Operand, again: int, width: int, tile: Sizes) -> float:
        """Copying a factor into panels `again` times: a new address for every row of a panel, bytes read and written.

        Rows of a panel are copied where neighbours lie along the columns, turned in registers where they lie along the depth
        without guards, and otherwise gathered: from lines of which a tile wants no more than its part of the axis they lie along.
        """
        points = prod(self.d.extent[x] for x in a.axes) * again
        limits, near, wasted = self.chip.limits, self._core(self.chip.memories[-1]), 1.0
        runs = [r for r in a.runs if r]
        if self.cols and any(self.cols[-1] in r for r in runs):
            start = limits["run"] / width
        elif runs and not a.contiguous and not a.guards:
            start = limits["pack"]
        else:
            start, x = limits["gather"], runs[0][-1] if runs else ""
            line = self.chip.memories[-1].line / a.element
            wasted = max(1.0, line / tile[x]) if x else 1.0
        return points * (start + a.element * (self._rate(a.bytes) * wasted + near))

    def _words(self, a: Operand, again: int, width: int, tile: Sizes) -> float:
        """Seconds in which words of four steps are made of the places that windows of bytes read, once each, and copied for every tap; 0
        where too few windows read a place."""
        of, points = self.chip.numbers, prod(self.d.extent[x] for x in a.axes)
        read = prod(1 + sum(n * (self.d.extent[x] - 1) for x, n in at) for at in a.places[0]) if len(a.places) == 1 else points
        if a.element != 1 or points < of["staged_words"] * read:
            return 0.0
        return self._packing(a, again, width, tile) * read / points + points * again / F32 * of["word_clocks"] / self.chip.clock

    def _in_place(self, a: Operand, tile: Sizes, walks: int) -> bool:
        """Is a factor read where it lies, by so many tiles of rows? Columns side by side, one step of depth near the next."""
        lanes, size = self._lane, self.d.extent
        if a.guards or a.element != F32 or len(a.places) != 1 or len(a.places[0]) < 2 or not self.cols:
            return False
        (*_, deep, last), col, depth = a.places[0], self.cols[-1], {x.name for x in self.d.roles.depth}
        near = read_where_it_lies(size[col] * a.element, a.bytes, walks, size[col] % lanes == 0)
        dense = len(depth) == 1 and last == ((col, 1),) and deep == tuple((x, 1) for x in depth) and near
        return dense and ends_with_vectors(size[col], tile[col], lanes)

    def _again(self, a: Operand, again: int, eff: float) -> float:
        """Reading packed constants once for each tile of rows: panels are asked for ahead, as many lines at a time as the first cache
        may have under way, and one core waits where that takes longer than the products. Free where all of them stay near, and once:
        that is what the memory's time counts."""
        if a.bytes < self._near / 2 or again == 1:
            return 0.0
        chip = self.chip
        line, latency = chip.memories[-1].line, chip.latency or 0.0
        stream = a.bytes * again * max(self._rate(a.bytes), latency / (chip.limits["fills"] * line))
        products = self.d.work.matrix / (chip.matrix_rate(self.d.work.matrix_dtype) / chip.cores * eff)
        return max(0.0, stream - products) + chip.numbers["overlap"] * min(stream, products)

    def _streaming(self, a: Operand, again: int, tile: Sizes, tiles: int) -> float:
        """Reading a factor once for each panel: free where its tile, or the part of its depth that is worked on before sums are put
        aside, stays in the cache nearest to a core that holds tensors, beside panels, what is fetched ahead, and results (products of
        1024 cubed and 512 x 3072 x 768: 2 % slower where a tile takes a third or half of that cache than where it takes a quarter, 7 %
        where it takes three quarters)."""
        d, limit = self.d, self._near
        near, overlap = limit * self.chip.numbers["near_quarter"], self.chip.numbers["overlap"]
        size: float = a.element * prod(tile[x] if x in self._grid else d.extent[x] for x in a.axes)
        if size <= near:
            return 0.0
        aside, depth = 0.0, [x for x in a.axes if x not in d.grid]
        if d.roles.form == "contract" and len(depth) == 1 and any(o.factor and o.constant and o is not a for o in d.operands):
            parts = -(-d.extent[depth[0]] // PART) if d.extent[depth[0]] >= 2 * PART else 1
            sums = a.element * prod(d.extent[x] for x in d.grid)
            size, aside = size / parts, 2 * (parts - 1) * sums * self._rate(sums / tiles)
        share = 0.0 if size <= near else overlap if size <= limit / 2 else 2 * overlap
        return aside + share * prod(d.extent[x] for x in a.axes) * a.element * (again - 1) * self._rate(a.bytes)

    def _rate(self, size: float) -> float:
        """Seconds a byte that one core needs from the nearest level that still holds a tensor of this size."""
        for m in reversed(self.chip.memories[1:]):
            if m.cache and size <= m.capacity / 2:
                return self._core(m)
        return self._core(self.chip.memories[0])

    def _core(self, m: Memory) -> float:
        """Seconds a byte of one core alone."""
        return 1 / (m.core_bandwidth or m.bandwidth / (self.chip.cores if m.per != "chip" else 1))


def lone_column(cols: int, width: int, lanes: int) -> bool:
    """Is the last of `cols` columns alone in its vector, in a panel of `width` lanes that runs apart from fuller ones? Rows are its lanes
    then."""
    last = cols - (cols - 1) // width * width
    return cols % lanes == 1 and cols > 1 and (cols <= width or -(-last // lanes) * lanes < width)


def copies_rows(rows: int, depth: int) -> bool:
    """Are so many rows of bytes copied as pairs of 16 bits, to be multiplied by a constant that lies as such? The constant takes twice the
    memory then, which few rows wait for; the copy has to stay near."""
    return rows >= constant("copied_rows") and 2 * rows * depth <= constant("copied_bytes")


def tile_registers(rows: int, vectors: int, alone: bool, sums: int = 1) -> int:
    """Registers of a tile: its sums, a row of the panel, and an element of the other factor. `alone`: the last column is a sum of rows."""
    return sums * rows * vectors + vectors + 1 - (rows - 1 if alone else 0)


def _tail(run: int, along: int, nv: int, lanes: int) -> float:
    """Vectors that full tiles of `run` columns would take over those that the tiles with a shorter last one take."""
    full = _vectors(run, nv, lanes)
    return along / run * full / (along // run * full + _vectors(along % run, nv, lanes))


def _vectors(cols: int, nv: int, lanes: int) -> int:
    """Vectors of columns that panels of `nv` vectors take: the last one has those that it needs."""
    return cols // (nv * lanes) * nv + -(-(cols % (nv * lanes)) // lanes)


@lru_cache(maxsize=10000)
def register_tile(rows: int, cols: int, lanes: int, registers: int, lone: bool = False) -> tuple[int, int, float]:
    """(rows, vectors, share of the peak) of the best register tile for a tile of rows x cols.

    Rows are shared evenly among the register tiles of a column; lanes past the last column are lost. `lone`: a column that is alone
    in its vector takes one operation for all rows of a tile (`lone_column`).
    """
    best = (1, 1, 0.0)
    for nv in range(1, min(VECTORS, -(-cols // lanes)) + 1):
        vectors = _vectors(cols, nv, lanes)
        thin = THIN * nv / vectors if vectors % nv else 0.0
        alone = lone and lone_column(cols, nv * lanes, lanes)
        for mr in range(1, MAX_ROWS + 1):
            if tile_registers(mr, nv, alone and cols <= nv * lanes) > registers:
                break
            tall = rows / -(-rows // mr)
            full = cols / ((vectors - (1 - 1 / tall if alone and mr <= lanes else 0)) * lanes)
            share = 1 / (max(1.0, LOADS * (tall + nv) / (tall * nv), LATENCY / (tall * nv)) / full + thin)
            if share > best[2] + 1e-9:
                best = (mr, nv, share)
    return best
