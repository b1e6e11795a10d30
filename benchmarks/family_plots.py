"""Plots and a table of what `benchmarks.families --out FILE` measured.

    python -m benchmarks.family_plots families.json -o docs/figures

ratio.svg: best peer's time over ours, a lane for each family, a dot for each function (above 1 ours is faster; the bar is the geometric
mean). roofline.svg: a panel for each family with operations a second over operations a byte, ours and the best peer, below the ceilings
measured in that run (a large copy, a large bf16 product); functions that only move are placed by bytes a second. The table, as Markdown, is
printed.
Needs matplotlib: pip install 'autocomp[bench]'.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.families import mean

OURS, PEER, GREY = "#0b6e99", "#d1741f", "#8a8a8a"  # told apart also without colours: filled and hollow
COLUMNS = 5  # panels beside one another


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=Path)
    p.add_argument("-o", "--out", type=Path, help="folder of the plots; without it only the table is printed")
    args = p.parse_args()
    try:
        found = json.loads(args.file.read_text())
        rows = by_family(found["rows"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        sys.exit(f"{args.file}: no figures of benchmarks.families ({type(e).__name__}: {e})")
    if not rows:
        sys.exit(f"{args.file}: no function in it was timed")
    print("\n".join(table(rows)))
    if args.out:
        try:
            import matplotlib
        except ImportError:
            sys.exit("the plots need matplotlib: pip install 'autocomp[bench]'")
        matplotlib.use("svg")
        matplotlib.rcParams |= {"svg.hashsalt": "autocomp", "svg.fonttype": "none"}  # the same figures make the same bytes, text stays text
        args.out.mkdir(parents=True, exist_ok=True)
        for name, figure in (("ratio", ratios(rows)), ("roofline", rooflines(rows, found["copy"], found["flops"]))):
            figure.savefig(args.out / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
            print(f"wrote {args.out / name}.svg", file=sys.stderr)


def by_family(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Functions that were timed, by family, in the order of the run."""
    out: dict[str, list[Mapping[str, Any]]] = {}
    for r in rows:
        if "ratio" in r:
            out.setdefault(r["family"], []).append(r)
    return out


def table(families: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Markdown: ratio in the geometric mean and at worst, share of the roofline, prediction over measurement."""
    yield "| family | functions | best peer over ours | worst | roofline | predicted over measured | worst function |"
    yield "|---|---|---|---|---|---|---|"
    for name, rows in families.items():
        worst = min(rows, key=lambda r: r["ratio"])
        ratio, roof, pred = (mean([r[k] for r in rows]) for k in ("ratio", "roof", "pred"))
        slow = f"{worst['function']}: {worst['ours'] * 1e3:.1f} us"
        yield f"| {name} | {len(rows)} | {ratio:.2f} | {worst['ratio']:.2f} | {roof:.2f} | {pred:.2f} | {slow} |"
    every = [r["ratio"] for rows in families.values() for r in rows]
    yield f"| **all** | {len(every)} | **{mean(every):.3f}** | {min(every):.2f} | | | {sum(x < 0.85 for x in every)} below 0.85 |"


def ratios(families: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    """The figure of ratios by shape."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.3 * len(families) + 1))
    axes = figure.add_subplot()
    for y, rows in enumerate(families.values()):
        found = [r["ratio"] for r in rows]
        axes.plot([mean(found)] * 2, [y - 0.35, y + 0.35], color=GREY, linewidth=3, solid_capstyle="butt")
        axes.plot(found, [y] * len(found), "o", color=OURS, markersize=5, alpha=0.8)
        worst = min(rows, key=lambda r: r["ratio"])
        axes.annotate(worst["function"], (worst["ratio"], y), xytext=(4, 5), textcoords="offset points", fontsize=5, color=GREY)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.axvline(0.85, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(families)), list(families), fontsize=8)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    axes.set_xlabel("best peer's time over ours (above 1: ours is faster; dotted: 0.85; named: the worst of the family)", fontsize=8)
    axes.grid(axis="x", linewidth=0.3)
    return figure


def rooflines(families: Mapping[str, Sequence[Mapping[str, Any]]], copy: float, flops: float) -> Any:
    """The figure of rooflines. copy: bytes a second; flops: operations a second."""
    from matplotlib.figure import Figure

    lines = -(-len(families) // COLUMNS)
    figure = Figure(figsize=(2.4 * COLUMNS, 2.1 * lines), layout="constrained")
    for at, (name, rows) in enumerate(families.items()):
        axes = figure.add_subplot(lines, COLUMNS, at + 1)
        axes.set_title(name, fontsize=8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.tick_params(which="both", labelsize=5)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter("")
            axis.set_major_formatter(lambda v, _: f"{v:g}")
        placed = [(max(r["operations"], 0), r["bytes"], r["ours"] / 1e3, r["times"][r["peer"]][0] / 1e3) for r in rows]
        if all(ops for ops, *_ in placed):
            reach = [ops / size for ops, size, *_ in placed]
            span = [min(reach) / 4, max(*reach, flops / copy) * 4]
            axes.plot([span[0], flops / copy, span[1]], [span[0] * copy / 1e12, flops / 1e12, flops / 1e12], color=GREY, linewidth=0.8)
            axes.plot(reach, [ops / peer / 1e12 for ops, _, _, peer in placed], "o", mfc="none", color=PEER, markersize=5)
            axes.plot(reach, [ops / ours / 1e12 for ops, _, ours, _ in placed], "o", color=OURS, markersize=3)
            axes.set_xlabel("operations / byte", fontsize=5)
            axes.set_ylabel("Tera operations / s", fontsize=5)
        else:
            sizes = [size / 1e6 for _, size, *_ in placed]
            axes.plot([min(sizes) / 4, max(sizes) * 4], [copy / 1e12] * 2, color=GREY, linewidth=0.8)
            axes.set_ylim(0.09, 12)
            axes.plot(sizes, [size / peer / 1e12 for _, size, _, peer in placed], "o", mfc="none", color=PEER, markersize=5)
            axes.plot(sizes, [size / ours / 1e12 for _, size, ours, _ in placed], "o", color=OURS, markersize=3)
            axes.set_xlabel("MB moved", fontsize=5)
            axes.set_ylabel("TB / s", fontsize=5)
    figure.suptitle("filled: ours, hollow: the best peer, line: ceilings of the run", fontsize=8)
    return figure


if __name__ == "__main__":
    main()
