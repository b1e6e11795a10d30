"""A published step of a kernel read as work of an NPU's pipes (cost.pipes): its shapes, tiling and cores, nothing of its name or time.

What a page does not state is filled in by rules: the grid of cores as square as can be, as many steps of the depth in L1 as two slots
hold. Steps of threads: `thread_readings`. A step whose mechanism no equation has (caches of threads, sorts) is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd, prod
from typing import Any

from autocomp.cost.chip import Chip, shipped
from autocomp.cost.engines import engine_time
from autocomp.cost.pipes import (
    Product,
    Side,
    Stream,
    launch_time,
    lines,
    memory_seconds,
    product_time,
    stream_time,
)
from autocomp.cost.roles import Roles
from autocomp.cost.work import Work
from autocomp.ir.body import Axis
from autocomp.ir.schedule import Schedule
from benchmarks.thread_readings import threaded

BYTES = {"f16": 2.0, "bf16": 2.0, "f32": 4.0, "i32": 4.0, "i8": 1.0, "u8": 1.0, "i64": 8.0, "fp4x2_e1m2": 0.5}
CHIPS = {"910B1": "ascend910b1", "910B2": "ascend910b2", "910B3": "ascend910b", "910B4": "ascend910b4", "A3": "ascend910c",
         "910C": "ascend910c", "950PR": "ascend950pr"}  # fmt: skip
# Constant tiling or not: seconds until the first copy, seconds of scalar work a tile.
LIBRARY = {True: (2.2e-6, 0.0), False: (3.5e-6, 3.6e-7)}
ELSEWHERE = ("sort", "sparse", "lookup", "int64")
THREADED = ("empty", "gather", "transpose", "floormod", "atomic", "division")
SCALAR = 34.0  # clocks of an element that the scalar unit loads twice, adds and stores
GELU = 18.0  # instructions' clocks a repeat: 8 multiplies and adds of two sources at 1 or 2, exponential 2, division 4
CONFLICTS = 8.0  # clocks a repeat whose blocks land in one bank group
DEQUANT = 2.0  # scales of the row and of the column; conversions are part of the ways in and out
STAGES = range(2, 17)  # blocks of keys under way
WEIGHT = 5.0  # vector operations a weight of attention: scale, maximum, difference, sum, rounding; and an exponential
# Bytes a second where all cores read the same lines, at once or staggered: asc-devkit data_copy.
SAME_LINES = {False: 0.56e12, True: 0.95e12}


def chip_of(step: Mapping[str, Any]) -> Chip:
    """The chip that a page names; by its cores where it names a family."""
    name = next((c for part, c in CHIPS.items() if str(step["chip"]).startswith(part)), "")
    return shipped(name or ("ascend910b" if step["cores"].get("aic") == 20 else "ascend910b1"))


def predicted(step: Mapping[str, Any]) -> float | None:
    """Microseconds of a step; None for a mechanism that is not modelled."""
    op, chip = str(step["operator"]).lower(), chip_of(step)
    if any(w in op for w in ELSEWHERE):
        return None
    if any(w in op for w in THREADED) or "threads_per_block" in (step.get("config") or {}):
        return threaded(step, chip)
    shapes = step["shapes"]
    if "attention" in op:
        return _attention(step, chip)
    if {"m", "n", "k"} <= shapes.keys() or "matmul" in op:
        return _product(step, chip) if "k" in shapes else None
    return _stream(step, chip) if any(isinstance(s, list) and len(s) == 2 for s in shapes.values()) else None


# ---- vector cores
def _stream(step: Mapping[str, Any], chip: Chip) -> float | None:
    op, cfg, shapes = str(step["operator"]).lower(), step.get("config") or {}, step["shapes"]
    dtypes = [d for d in step["dtypes"].values() if d in BYTES]
    if not dtypes:
        return None
    element, rows, cols = BYTES[dtypes[0]], *next(s for s in shapes.values() if isinstance(s, list) and len(s) == 2)
    cube = "aic" in step["cores"]
    if cube:
        return _to_l1(step, chip, element, rows, cols)
    cores = step["cores"].get("aiv") or chip.cores * chip.limits["vector_cores"]
    shape = cfg.get("ub_tile_shape") or (1, cfg.get("ub_tile_elements") or 8192)
    tile = prod(shape)
    copy_only = op.startswith("copy")
    inputs = max(1, len([n for n in shapes if n not in ("y", "z", "out")]) if not op.startswith("add") else 2)
    total, again = rows * cols, cfg.get("rereads", 1)
    read = inputs * total * element
    rounds = total / tile / cores
    if isinstance(again, str):  # every core reads all of it
        return (total * element * cores / SAME_LINES["stagger" in str(step["step"])] + launch_time(chip, cores / 2)) * 1e6
    clocks, many = (0.0, 0) if copy_only else _vector_clocks(op, cfg, chip)
    per = tile * element / chip.vector_bytes
    s = Stream(rounds * again, (tile * element,) * inputs, () if copy_only else (tile * element,), clocks * per, many,
               int(cfg.get("buffers") or 2), shape[-1] * element, cfg.get("aligned") is False)  # fmt: skip
    if cfg.get("repeat_mask") == "scalar loop":
        return (total / cores * SCALAR / chip.clock + launch_time(chip, 1)) * 1e6
    parts = 4 if "parts" in str(step["step"]) or "quarter" in str(step["step"]) else 1
    dram = memory_seconds(read, 0 if copy_only else total * element, chip, bool(cfg.get("l2_bypass")))
    if again > 1:
        size = next(m.capacity for m in chip.memories if m.cache)
        dram *= again if read / parts > size else 1
        left = read * (again - 1) / chip.memory("l2").bandwidth if read / parts <= size else 0.0
        return (dram + left + launch_time(chip, cores / 2)) * 1e6
    return (stream_time(s, chip, dram if cores > 1 else 0.0) + launch_time(chip, cores / 2 if cores > 1 else 0)) * 1e6


def _vector_clocks(op: str, cfg: Mapping[str, Any], chip: Chip) -> tuple[float, int]:
    """(clocks a repeat of all instructions, their number)."""
    lanes = 0.5 if "dual_issue" in chip.features else 1.0
    if "gelu" in op:
        return GELU * lanes * (256 / cfg.get("lanes_bytes", 256)) / cfg.get("loops", 1) ** 0.3, 10
    clocks = 1.0 if cfg.get("bank_conflict_free") else chip.limits["conflict"]
    if "nz" in op:  # blocks of 32 bytes that land in one bank group, one after another
        clocks = 1.0 if cfg.get("bank_conflict_free") else CONFLICTS
    return clocks, 1


def _to_l1(step: Mapping[str, Any], chip: Chip, element: float, rows: int, cols: int) -> float:
    """Copies of tiles from rows to fractals."""
    cfg, cores = step["config"], step["cores"]["aic"]
    shape, again = cfg["ub_tile_shape"], cfg.get("rereads", 1)
    total = rows * cols * element
    rounds = total / (prod(shape) * element) / cores
    if isinstance(again, str):
        return (total * cores / SAME_LINES["stagger" in str(step["step"])] + launch_time(chip, cores)) * 1e6
    side = Side(prod(shape) * element, shape[-1] * element, 1, cfg.get("aligned") is False)
    lim, rate = chip.limits, chip.memory("l1").bandwidth / chip.cores
    core = rounds * (lim["l1_start"] + side.bytes / side.run * lim["l1_row"] + side.bytes / rate)
    wide = 1 + chip.memories[0].line / side.run if side.cut else 1.0
    dram = total * wide / chip.memories[0].bandwidth
    if again > 1:
        parts = 4 if "parts" in str(step["step"]) else 1
        size = next(m.capacity for m in chip.memories if m.cache)
        rest = dram if total / parts > size else core
        return (dram + rest * (again - 1) + launch_time(chip, cores)) * 1e6
    return ((core * core + dram * dram) ** 0.5 + launch_time(chip, cores)) * 1e6


# ---- cube cores
def _product(step: Mapping[str, Any], chip: Chip) -> float | None:
    cfg, shapes, op = step.get("config") or {}, step["shapes"], str(step["operator"]).lower()
    groups = shapes.get("groups", 1)
    rows, cols, depth = shapes.get("m_total", shapes.get("m", 0)), shapes["n"], shapes["k"]
    known = [d for d in step["dtypes"].values() if d in BYTES]
    if not known:
        return None
    dtype = known[0]
    element = BYTES[dtype]
    out = BYTES.get(step["dtypes"].get("C") or step["dtypes"].get("out") or "f16", 4.0 if "f32 output" in str(step["step"]) else 2.0)
    if "f32 output" in str(step["step"]):
        out = 4.0
    cores = int(step["cores"].get("aic") or chip.cores)
    m, n = cfg.get("baseM") or 128, cfg.get("baseN") or 256
    k = cfg.get("baseK") or int(128 / element)
    m, n = min(m, -(-rows // 16) * 16), min(n, -(-cols // 16) * 16)
    single = cfg.get("singleM"), cfg.get("singleN")
    if single[0] and single[1] and groups == 1:
        passes = max(1, -(-rows // (single[0] * (cfg.get("core_grid") or [1])[0]))) if cfg.get("core_grid") else 1
        tiles = -(-single[0] // m) * -(-single[1] // n) * passes
    elif groups > 1:
        tiles = -(-rows // m) * -(-cols // n) / cores
    else:
        tiles = -(-rows // m) * -(-cols // n) if cores == 1 else _square(-(-rows // m), -(-cols // n), cores)
    two = cores > 1 and (cfg.get("db_l1", True) and cfg.get("large_package", True))
    ka, kb = (1, 1) if not two else _packages(cfg, m * k * element, n * k * element, depth / k, chip)
    layout = str(step.get("layout") or "")
    turned = "B row" in layout and "zN" not in layout
    a = Side(m * k * element, k * ka * element, ka)
    width = n if turned else k * kb
    vectors = {"aic", "aiv"} <= step["cores"].keys()  # they make fractals of it first
    nz = "zN" in layout or "NZ" in layout or ("ND unaligned" in layout and vectors)
    odd = 1 - gcd(int(cols * element), 32) / 32 if "ND unaligned" in layout and not nz else 0.0
    line, run = chip.memories[0].line, int(n * k * element if nz else width * element)
    begin = gcd(run, line)  # where tiles' rows begin
    b = Side(n * k * element, run, kb, turned and run > line > begin, odd, begin)
    kind = dtype if dtype in chip.matrix else "f16"
    guide = "guide" in str(step["ladder"])  # pages that get their tiling on the host, and read it when the kernel runs
    first, each = LIBRARY[bool(cfg.get("constant_tiling", not guide))]
    if not two:
        each = 0.0  # hidden behind copies
    p = Product(tiles, depth / k, m, n, k, a, b, kind, 2 if two else 1, bool(cfg.get("unit_flag", two)), int(out), each)
    if dtype == "fp4x2_e1m2":
        p = replace(p, k=k // 4)
    read_a, read_b = rows * depth * element, cols * depth * element * groups
    halves = 2 if cfg.get("l2_tiling") else 1
    kept = read_a / halves + read_b
    waves = max(1, rows // m // max(1, (cfg.get("core_grid") or [4])[0]))
    again = read_b * max(0, waves - 1) if two and groups == 1 else 0.0
    shared = memory_seconds(read_a + read_b * lines(run, line, b.cut, begin), rows * cols * out, chip) if cores > 1 else 0.0
    if again and cores > 1:
        size = next(x.capacity for x in chip.memories if x.cache)
        shared += again * min(1.0, max(0.0, kept / size - 1)) / chip.memories[0].bandwidth
    cube = product_time(p, chip, shared) + first
    seconds, both = cube, "gelu" in op or "dequant" in op
    if both:
        seconds = _fused(p, step, chip, cube, rows * cols, cores)
    # A page that names no cores calls the product from vector cores: both kinds start, and the cube core's own time has that in it.
    service = not step["cores"] and ("guide" in str(step["ladder"]) or "mix" in cfg)
    if vectors and nz and "ND unaligned" in layout:  # then all cores meet
        piece = k * n * element  # an instruction a row puts its blocks where fractals have them, all in one bank group
        rounds = -(-(-(-depth // k) * -(-cols // n)) // (chip.cores * chip.limits["vector_cores"]))
        first_half = Stream(rounds, (piece,), (piece,), piece / chip.vector_bytes * CONFLICTS, k, 1, n * element, True)
        seconds, service = seconds + stream_time(first_half, chip, memory_seconds(read_b, read_b, chip)), True
    whole = service or ("aic_time" not in str(step.get("note") or "") and "guide" not in str(step["ladder"]))
    return (seconds + (launch_time(chip, cores, both or service) if whole else 0.0)) * 1e6


def _attention(step: Mapping[str, Any], chip: Chip) -> float | None:
    """Attention over all keys, as `cost.engines` prices it: blocks of rows by blocks of keys, the second product `num_stages` - 1 blocks
    late; as many as are fastest where the page does not say."""
    shapes, ahead = step["shapes"], (step.get("config") or {}).get("num_stages")
    keys = int(str(shapes["s"]).replace("K", "")) * 1024
    block, head, rows = shapes["block_size"], shapes["d"], shapes["b"] * shapes["q_n"] * shapes.get("rows", keys)
    weights = float(rows * keys)
    moved = 2.0 * head * (rows + 2 * shapes["b"] * shapes["kv_n"] * keys)
    work = Work(moved, 2.0 * head * rows, matrix=4 * weights * head, matrix_dtype="f16", vector=WEIGHT * weights, special=weights,
                tiles=-(-rows // block))  # fmt: skip
    m, n, k, d = Axis("m", rows), Axis("n", head), Axis("k", keys), Axis("d", head)
    roles = Roles("online", (), (m,), (n,), (k,), ((d,), (k,)))
    make = lambda stages: Schedule.make({"m": block, "n": head, "k": shapes.get("keys_at_once", block)}, softmax_overlap=1, stages=stages)
    return min(engine_time(make(n), chip, roles, work, 2).seconds for n in ((ahead,) if ahead else STAGES)) * 1e6


def _packages(cfg: Mapping[str, Any], a: float, b: float, steps: float, chip: Chip) -> tuple[float, float]:
    """Steps of the depth in one copy to L1 of each factor: as stated, else as many as two slots hold."""
    size = chip.memory("l1").capacity
    tiled = cfg.get("l1_tile", [0, 0, 0])[2] / (cfg.get("baseK") or 1)
    ka = cfg.get("stepKa") or (cfg.get("depthA1") or 0) / 2 or tiled or _power(size / 4 / a)
    kb = cfg.get("stepKb") or tiled or _power((size - 2 * a * ka) / 2 / b)
    return max(1.0, min(float(ka), steps)), max(1.0, min(float(kb), steps))


def _power(x: float) -> int:
    return 1 << max(0, int(x).bit_length() - 1)


def _square(rows: int, cols: int, cores: int) -> int:
    """Tiles of the busiest core: shared out one by one where there are few, else of a grid of cores as square as can be."""
    if rows * cols <= 4 * cores:
        return -(-rows * cols // cores)
    few = max(d for d in range(1, int(cores**0.5) + 1) if cores % d == 0)
    many = cores // few
    return min(-(-rows // few) * -(-cols // many), -(-rows // many) * -(-cols // few))


def _fused(p: Product, step: Mapping[str, Any], chip: Chip, cube: float, elements: float, cores: int) -> float:
    """Cube and vector cores on one tile in turn, or the vector cores a tile behind."""
    cfg, op = step.get("config") or {}, str(step["operator"]).lower()
    beside = (cfg.get("mix") or [1, 2])[1]
    clocks = (GELU if "gelu" in op else 0.0) + (DEQUANT if "quant" in op else 0.0)
    clocks *= 0.5 if "dual_issue" in chip.features else 1.0
    vector = elements * clocks / 64 / (cores * beside) / chip.clock
    if cfg.get("pipeline_depth", 2) == 1:  # the next tile's products run beside, its way out waits
        return vector + cube / 2 if vector > cube / 2 else cube + vector / 2
    return max(cube, vector) + min(cube, vector) / (4 if vector > cube / 2 else 16)
