"""Benchmarks as JSON, Markdown tables and pictures (PNG and SVG)."""

import json
import os
import platform
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

GREYS = ("0.15", "0.35", "0.5", "0.65", "0.8", "0.9", "black")
HATCHES = ("", "//", "..", "xx", "--", "oo", "**")


def machine() -> str:
    """What it was run on, in a line."""
    names = [line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")]
    return (
        f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    )


def write(name: str, folder: Path, data: dict[str, Any], text: str, figure: Figure | None = None) -> None:
    """`name`.json and .md, and with a figure .png and .svg, in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if figure is not None:
        figure.savefig(folder / f"{name}.png", dpi=130, bbox_inches="tight")
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight")
        text += f"\n\n![{name}]({name}.png)"
    (folder / f"{name}.md").write_text(f"{text}\n", encoding="utf-8")


def speed_text(data: dict[str, Any], command: str) -> str:
    lines = [f"# Speed on {data['dataset']}", "", f"`{command}` on {data['machine']}.", ""]
    lines += [
        "Batches of 2048 positives, d = 64, three graph layers; medians over rounds in which everybody ran in turn,",
        "those with short batches in up to eight short turns.",
        "",
    ]
    lines += ["| ratio of epochs | median | least – most |", "|---|---|---|"]
    lines += [_ratio_row(name, ratio) for name, ratio in data["ratios"].items()]
    evaluation = data["evaluation"]
    lines.append(_ratio_row("evaluation, RecBole ÷ ours, same batch size", evaluation["RecBole ÷ ours"]))
    lines.append(
        _ratio_row("evaluation, RecBole at its best batch size ÷ ours", evaluation["RecBole at its best ÷ ours"])
    )
    for model, parts in data["parts"].items():
        lines.append(
            f"| temperature update, share of an epoch of {model} | {parts['tau'] / sum(parts.values()):.2%} | |"
        )
    lines += ["", "| epoch of | seconds | least – most | peak memory while training, MB |", "|---|---|---|---|"]
    for label, values in data["epoch_seconds"].items():
        memory = data["peak_bytes"].get(label)
        shown = "" if memory is None else f"{memory / 1e6:.0f}"
        lines.append(f"| {label} | {values['median']:.2f} | {values['least']:.2f} – {values['most']:.2f} | {shown} |")
    default = evaluation["RecBole with its default eval_batch_size, once"]
    lines += [
        "",
        f"An evaluation takes us {evaluation['ours']['median']:.2f} s. With identical metrics it takes RecBole "
        f"{evaluation['RecBole']['median']:.2f} s at the same batch size, "
        f"{evaluation['RecBole at its best']['median']:.2f} s at the one that suits it best (4,000,000), and "
        f"{default:.1f} s at its default.",
        "",
        "| where an epoch goes, seconds | " + " | ".join(next(iter(data["parts"].values()))) + " |",
        "|---|" + "---|" * len(next(iter(data["parts"].values()))),
    ]
    for model, parts in data["parts"].items():
        lines.append(f"| {model} | " + " | ".join(f"{value:.3f}" for value in parts.values()) + " |")
    return "\n".join(lines)


def speed_figure(data: dict[str, Any]) -> Figure:
    """Left: seconds of an epoch for everybody. Right: where ours go."""
    figure = Figure(figsize=(11, 4.2))
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2]})
    items = sorted(data["epoch_seconds"].items(), key=lambda item: item[1]["median"])
    values = [value["median"] for _, value in items]
    spread = [
        [v["median"] - v["least"] for _, v in items],
        [v["most"] - v["median"] for _, v in items],
    ]
    colours = ["tab:orange" if label.startswith("AdapTau") else "0.6" for label, _ in items]
    left.barh([label for label, _ in items], values, xerr=spread, color=colours, edgecolor="black", capsize=3)
    left.set_xscale("log")
    left.set_xlim(right=max(values) * 6)
    left.set_xlabel("seconds of an epoch (log scale)")
    left.set_title(f"{data['dataset']}: one epoch, 2048 positives a batch")
    for row, (_, found) in enumerate(items):
        value = found["median"]
        left.text(found["most"] * 1.15, row, f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s", va="center")
    models = list(data["parts"])
    base = [0.0] * len(models)
    for colour, hatch, part in zip(GREYS, HATCHES, data["parts"][models[0]], strict=True):
        heights = [data["parts"][model][part] for model in models]
        right.bar(models, heights, bottom=base, color=colour, hatch=hatch, edgecolor="white", label=part)
        base = [a + b for a, b in zip(base, heights, strict=True)]
    right.set_ylabel("seconds of an epoch")
    right.set_title("where ours go")
    right.legend(fontsize=8)
    figure.tight_layout()
    return figure


def serving_text(data: dict[str, Any], command: str) -> str:
    rank, written = data["rank_seconds"], data["csv_bytes"] / 1e6
    return "\n".join([
        f"# Recommending on {data['dataset']}",
        "",
        f"`{command}` on {data['machine']}.",
        "",
        f"{data['model']}, top {data['k']} of all {data['users']:,} users among {data['items']:,} items, none seen:",
        "",
        "| what | figure |",
        "|---|---|",
        f"| ranking for all users, s | {rank['median']:.2f} ({rank['least']:.2f} – {rank['most']:.2f}) |",
        f"| the same and a CSV file of {written:.0f} MB, s | {data['rank_and_write_csv_seconds']:.2f} |",
        f"| loading the run and its data before, s | {data['load_seconds']:.2f} |",
        f"| peak memory of ranking and writing, beyond what is loaded, MB | {data['rank_peak_bytes'] / 1e6:.0f} |",
        f"| peak memory of the whole process, MB | {data['process_peak_bytes'] / 1e6:.0f} |",
    ])  # fmt: skip


def scaling_text(data: dict[str, Any], command: str) -> str:
    base = ", ".join(f"{name} {value:,}" for name, value in data["base"].items() if isinstance(value, int))
    lines = [f"# Scaling of {data['model']}", "", f"`{command}` on {data['machine']}.", ""]
    lines += [
        f"Synthetic power-law data, seed 0, batches of {data['batch']}; one size changes at a time from: {base}.",
        "",
    ]
    lines += [
        "| grows | epoch ∝ size^ | peak memory ∝ size^ | largest size | its epoch, s | its peak, MB |",
        "|---|---|---|---|---|---|",
    ]
    for axis, exponents in data["exponents"].items():
        last = data["points"][axis][-1]
        lines.append(
            f"| {axis} | {exponents['epoch_seconds']:.2f} | {exponents['peak_bytes']:.2f} | {last[axis]:,} | "
            f"{last['epoch_seconds']:.1f} | {last['peak_bytes'] / 1e6:.0f} |"
        )
    full, most = data["points"]["full"][0], data["points"]["items"][-1]
    lines += [
        "",
        f"`negatives: full` over {full['items']:,} items: {full['batch_seconds']:.2f} s a batch, "
        f"{full['peak_bytes'] / 1e9:.2f} GB beyond parameters and optimiser state.",
        "",
    ]
    for dense in data["points"].get("dense", []):
        lines += [
            f"{dense['items']:,} items with `learner: adam`: an epoch takes {dense['epoch_seconds']:.1f} s and "
            f"{dense['peak_bytes'] / 1e6:.0f} MB, against {most['epoch_seconds']:.1f} s and "
            f"{most['peak_bytes'] / 1e6:.0f} MB with {data['model']}'s default, `{most['learner']}`.",
            "",
        ]
    lines += [
        "Peak memory is what training needs beyond parameters and optimiser state (gradients included); each point ran "
        "in a process of its own. The exponent is fitted to the larger half of the sizes.",
    ]
    return "\n".join(lines)


def scaling_figure(data: dict[str, Any]) -> Figure:
    axes = list(data["exponents"])
    figure = Figure(figsize=(3.1 * len(axes), 5))
    grid = figure.subplots(2, len(axes), sharey="row")
    for column, axis in enumerate(axes):
        rows = data["points"][axis]
        sizes = [row[axis] for row in rows]
        for place, key, unit, scale in (
            (0, "epoch_seconds", "epoch, s", 1.0),
            (1, "peak_bytes", "peak memory, MB", 1e-6),
        ):
            panel = grid[place][column]
            panel.loglog(sizes, [row[key] * scale for row in rows], "o-", color="black")
            panel.set_title(f"size^{data['exponents'][axis][key]:.2f}", fontsize=9)
            panel.set_xlabel(axis)
            panel.set_xticks(sizes, [_short(size) for size in sizes], fontsize=8)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # powers of ten alone may leave one label
            panel.yaxis.set_major_formatter("{x:g}")
            panel.minorticks_off()
            panel.grid(alpha=0.3)
            if column == 0:
                panel.set_ylabel(unit)
    figure.suptitle(f"{data['model']}: cost against size (fitted exponents)")
    figure.tight_layout()
    return figure


def negatives_text(data: dict[str, Any], command: str) -> str:
    best = max(point[2] for points in data["curves"].values() for point in points)
    goal = 0.98 * best
    lines = [f"# Negatives on {data['dataset']}: time to quality", "", f"`{command}` on {data['machine']}.", ""]
    lines += [
        f"{data['model']}, seed {data['seed']}, `honest` protocol: recall@20 on the validation part, seconds of "
        f"training only. The goal is 98 % of the best recall any of them reached ({goal:.4f}).",
        "",
        "| negatives | best recall@20 | seconds an epoch | epochs to goal | seconds to goal |",
        "|---|---|---|---|---|",
    ]
    for label, points in data["curves"].items():
        reached = next((point for point in points if point[2] >= goal), None)
        to_goal = f"{reached[0]} | {reached[1]:.0f}" if reached else "not reached | "
        lines.append(f"| {label} | {max(p[2] for p in points):.4f} | {points[-1][1] / len(points):.1f} | {to_goal} |")
    return "\n".join(lines)


def negatives_figure(data: dict[str, Any]) -> Figure:
    return _curves(data["curves"], "recall@20", f"{data['model']} on {data['dataset']}: kinds of negatives")


def quality_text(data: dict[str, Any], command: str) -> str:
    peer, goal, needed, metric = data["peer"], data["goal"], data["peer_seconds"], data["metric"].upper()
    limit = f", at most {data['budget_minutes']:g} minutes a run" if data["budget_minutes"] else ""
    lines = [f"# Time to quality on {data['dataset']}", "", f"`{command}` on {data['machine']}.", ""]
    lines += [
        f"Seed {data['seed']}{limit}. The goal is RecBole {peer}'s best validation {metric}, {goal:.4f}, reached after "
        f"{needed:.0f} s. Seconds of training only.",
        "",
        f"| model | best {metric} | epochs in all | seconds an epoch | seconds to goal | {peer}'s ÷ its seconds |",
        "|---|---|---|---|---|---|",
    ]
    for model, points in data["curves"].items():
        seconds = needed if model == peer else (data["reached"][model] or (0, None))[1]
        to_goal = f"{seconds:.0f} | {needed / seconds:.1f}" if seconds else "not reached | "
        best, (epochs, total, _) = max(value for _, _, value in points), points[-1]
        lines.append(f"| {model} | {best:.4f} | {epochs} | {total / epochs:.2f} | {to_goal} |")
    lines += ["", "Settings:", ""]
    lines += [f"- {model}: `{about['settings']}`. {about['source']}" for model, about in data["models"].items()]
    return "\n".join(lines)


def quality_figure(data: dict[str, Any]) -> Figure:
    title = f"{data['dataset']}: time to {data['peer']}'s best"
    figure = _curves(data["curves"], data["metric"].upper(), title)
    for panel in figure.axes:
        panel.axhline(data["goal"], color="grey", linewidth=0.8)
    return figure


def _curves(curves: dict[str, list[tuple[int, float, float]]], metric: str, title: str) -> Figure:
    """A validation metric against epochs and against seconds."""
    figure = Figure(figsize=(10, 4))
    panels = figure.subplots(1, 2, sharey=True)
    styles = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
    for (label, points), style, marker in zip(curves.items(), cycle(styles), cycle("os^Dv"), strict=False):
        for panel, place in zip(panels, (0, 1), strict=True):
            panel.plot(
                [p[place] for p in points], [p[2] for p in points], linestyle=style, marker=marker, ms=4, label=label
            )
    panels[0].set_xlabel("epochs")
    panels[1].set_xlabel("seconds of training (log scale)")
    panels[1].set_xscale("log")
    panels[0].set_ylabel(f"validation {metric}")
    for panel in panels:
        panel.grid(alpha=0.3)
    panels[0].legend()
    figure.suptitle(title)
    figure.tight_layout()
    return figure


def _short(size: int) -> str:
    """50000 → 50k."""
    units = ((10**6, "M"), (10**3, "k"))
    return next((f"{size // unit}{letter}" for unit, letter in units if size % unit == 0), str(size))


def _ratio_row(name: str, ratio: dict[str, float]) -> str:
    return f"| {name} | {ratio['median']:.2f} | {ratio['least']:.2f} – {ratio['most']:.2f} |"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []
