"""What `benchmarks/cost_rank.py` measured, as tables, and the goals that it is held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

import numpy as np

NEAR = 1.3  # times a measured time within which a prediction is good
FLAT = 1.15  # slowest over fastest, below which runs of one schedule differ as much: no order to find
KERNELS, FAMILIES, SCHEDULES = 60, 12, 20  # at least so many, of the drawn ones or of the whole space
MEAN, WORST, WITHIN, PRICING = 0.05, 0.15, 0.9, 1.0  # regret, share of schedules predicted within NEAR, seconds

Record = Mapping[str, Any]


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    x = np.asarray(values)
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count + 1) / 2)[group]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rho: the correlation of the ranks; NaN where one side does not vary."""
    x, y = (r - r.mean() for r in map(ranks, (a, b)))
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def counted(r: Record) -> list[Record]:
    """A kernel's drawn schedules and its choice: those whose prediction is judged."""
    return [s for s in r["schedules"] if s["drawn"]]


def regret(r: Record) -> float:
    """How much longer the choice takes than the best schedule that was found; infinite where the choice gave no right result."""
    return float("inf") if r["choice_seconds"] is None else r["choice_seconds"] / r["best_seconds"] - 1


def near(schedules: Sequence[Record]) -> float:
    """Share of schedules predicted within NEAR times the measured time."""
    return sum(abs(log(s["measured"] / s["predicted"])) <= log(NEAR) for s in schedules) / max(1, len(schedules))


def whole(records: Sequence[Record]) -> list[Record]:
    """Kernels that were measured."""
    return [r for r in records if "error" not in r and r["schedules"] and r["best_seconds"]]


def row(r: Record) -> str:
    """A kernel's line."""
    head = f"{r['family']:13} {r['name']:46}"
    if "error" in r or not r["schedules"] or not r["best_seconds"]:
        return f"{head} {r.get('error', 'no schedule gave a right result')}"
    mine = counted(r)
    rho = spearman([s["predicted"] for s in mine], [s["measured"] for s in mine])
    times = [s["measured"] for s in mine]
    flat = " " if max(times, default=1.0) >= FLAT * min(times, default=1.0) else "="
    bias = exp(sum(log(s["measured"] / s["predicted"]) for s in mine) / max(1, len(mine)))
    return (f"{head} space {r['space']:5} drawn {len(mine):3} of {len(r['schedules']):3} failed {len(r['failed']):2}  rho {rho:5.2f}{flat} "
            f"within {near(mine):4.0%} meas/pred {bias:5.2f}  best {r['best_seconds'] * 1e6:8.1f} us regret {regret(r):6.1%}")  # fmt: skip


def table(records: Sequence[Record]) -> Iterator[str]:
    """Families, then all."""
    yield (f"{'family':13} {'kernels':>7} {'schedules':>9} {'mean regret':>11} {'worst':>7} {'within 1.3':>10} {'meas/pred':>9} {'rho':>5} "
           f"{'pricing s':>9}  worst kernel")  # fmt: skip
    done = whole(records)
    for family in (*dict.fromkeys(r["family"] for r in done), "all"):
        of = [r for r in done if family in ("all", r["family"])]
        mine = [s for r in of for s in counted(r)]
        worst = max(of, key=regret, default=None)
        if worst is None:
            continue
        rhos = [spearman([s["predicted"] for s in m], [s["measured"] for s in m]) for m in map(counted, of)
                if m and max(s["measured"] for s in m) >= FLAT * min(s["measured"] for s in m)]  # fmt: skip
        bias = exp(sum(log(s["measured"] / s["predicted"]) for s in mine) / max(1, len(mine)))
        yield (f"{family:13} {len(of):7} {len(mine):9} {mean([regret(r) for r in of]):11.1%} {regret(worst):7.1%} {near(mine):10.0%} "
               f"{bias:9.2f} {mean(rhos):5.2f} {mean([r['pricing'] for r in of]):9.2f}  {worst['name']}")  # fmt: skip
    for r in records:
        if r not in done:
            yield f"not measured: {row(r)}"


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def missed(records: Sequence[Record]) -> list[str]:
    """Goals that are not reached, with their figures."""
    done = whole(records)
    if not done:
        return ["nothing was measured"]
    regrets, priced = [regret(r) for r in done], max(r["pricing"] for r in done)
    short = [r["name"] for r in done if len(counted(r)) < min(SCHEDULES, r["distinct"])]
    inside, families = near([s for r in done for s in counted(r)]), len({r["family"] for r in done})
    checks = (
        (len(done) >= KERNELS, f"{len(done)} kernels of {KERNELS}"),
        (families >= FAMILIES, f"{families} families of {FAMILIES}"),
        (not short, f"fewer than {SCHEDULES} schedules of {len(short)} kernels: {', '.join(short[:3])}"),
        (mean(regrets) <= MEAN, f"mean regret {mean(regrets):.1%}, at most {MEAN:.0%}"),
        (max(regrets) <= WORST, f"worst regret {max(regrets):.1%}, at most {WORST:.0%}"),
        (inside >= WITHIN, f"{inside:.0%} of the schedules predicted within {NEAR}, at least {WITHIN:.0%}"),
        (priced <= PRICING, f"{priced:.2f} s of pricing a kernel at most, {PRICING:.0f} allowed"),
    )
    return [text for good, text in checks if not good]
