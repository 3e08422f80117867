"""Benchmarks as JSON, Markdown tables and pictures."""

import os
import platform
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from ...reporting import plots, tables
from ...reporting.tables import PROTOCOLS, table, title


def machine() -> str:
    """What it was run on, in a line."""
    names = [line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")]
    return (
        f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    )


def write(name: str, folder: Path, data: dict[str, Any], text: str, figure: Figure | None = None) -> None:
    """`name`.json and .md, and with a figure .png, in the folder."""
    tables.write(folder / f"{name}.json", data)
    if figure is not None:
        tables.write(folder / f"{name}.png", figure)
        text += f"\n\n![{name}]({name}.png)"
    tables.write(folder / f"{name}.md", f"{text}\n")


def _opening(heading: str, data: dict[str, Any], command: str) -> list[str]:
    return [f"# {heading}", "", f"`{command}` on {data['machine']}.", ""]


def speed_text(data: dict[str, Any], command: str) -> str:
    lines = _opening(f"Speed on {data['dataset']}", data, command)
    lines += [
        "Batches of 2048 positives, d = 64, three graph layers; medians over rounds in which everybody ran in turn,",
        "those with short batches in up to eight short turns.",
        "",
    ]
    evaluation, parts = data["evaluation"], data["parts"]
    ratios = data["ratios"] | {
        "evaluation, RecBole ÷ ours, same batch size": evaluation["RecBole ÷ ours"],
        "evaluation, RecBole at its best batch size ÷ ours": evaluation["RecBole at its best ÷ ours"],
    }
    rows = [[name, f"{ratio['median']:.2f}", _range(ratio)] for name, ratio in ratios.items()]
    for model, mine in parts.items():
        share = f"{mine['tau'] / sum(mine.values()):.2%}"
        rows.append([f"temperature update, share of an epoch of {model}", share, ""])
    lines += [*table(["ratio of epochs", "median", "least – most"], rows), ""]
    rows = []
    for label, values in data["epoch_seconds"].items():
        memory = data["peak_bytes"].get(label)
        rows.append([label, f"{values['median']:.2f}", _range(values), "" if memory is None else f"{memory / 1e6:.0f}"])
    lines += [*table(["epoch of", "seconds", "least – most", "peak memory while training, MB"], rows), ""]
    default = evaluation["RecBole with its default eval_batch_size, once"]
    lines += [
        f"An evaluation takes us {evaluation['ours']['median']:.2f} s. With identical metrics it takes RecBole "
        f"{evaluation['RecBole']['median']:.2f} s at the same batch size, "
        f"{evaluation['RecBole at its best']['median']:.2f} s at the one that suits it best (4,000,000), and "
        f"{default:.1f} s at its default.",
        "",
    ]
    rows = [[model, *(f"{value:.3f}" for value in mine.values())] for model, mine in parts.items()]
    return "\n".join([*lines, *table(["where an epoch goes, seconds", *next(iter(parts.values()))], rows)])


def losses_text(data: dict[str, Any], command: str) -> str:
    lines = _opening(f"Speed of the losses on {data['dataset']}", data, command)
    rows = [
        [loss, f"{found['median']:.2f}", f"{data['ratios'][loss]['median']:.2f}", _range(data["ratios"][loss])]
        for loss, found in data["epoch_seconds"].items()
    ]
    lines += table(["loss", "seconds of an epoch", "÷ softmax", "least – most"], rows)
    return "\n".join([*lines, "", "AdapTauMF, batches of 2048 positives, 1024 shared negatives, d = 64, fixed tau."])


def temperature_text(data: dict[str, Any], command: str) -> str:
    lines = _opening(f"Cost of the temperatures of {data['model']} on {data['dataset']}", data, command)
    rows = []
    for row in data["rows"]:
        shares = (row[key] for key in ("while_measuring", "afterwards", "of_a_run"))
        share = f"{row['held_out']} ({row['share_held_out']:.2%})"
        rows.append([row["recipe"], row["strategy"], *(f"{found['median']:.2%}" for found in shares), share])
    head = ["recipe", "strategy", "of an epoch that measures", "of a later one", "of a run", "positives held out"]
    lines += table(head, rows)
    return "\n".join([*lines, "", "All that is done when an epoch begins; medians. Only `calibrated` forms measure."])


def speed_figure(data: dict[str, Any]) -> Figure:
    """Left: seconds of an epoch for everybody. Right: where ours go."""
    figure, ((left, right),) = plots.panels(2, width=5.5, height=4.2, gridspec_kw={"width_ratios": [3, 2]})
    items = sorted(data["epoch_seconds"].items(), key=lambda item: item[1]["median"])
    values = [found["median"] for _, found in items]
    spread = [[found["median"] - found["least"] for _, found in items], [f["most"] - f["median"] for _, f in items]]
    for row, (label, found) in enumerate(items):
        value = found["median"]
        look = {**plots.bar_style(0 if label.startswith("AdapTau") else -1), "hatch": ""}
        left.barh([label], [value], xerr=[[part[row]] for part in spread], capsize=3, **look)
        left.text(found["most"] * 1.15, row, f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s", va="center")
    left.set_xscale("log")
    left.set_xlim(right=max(values) * 6)
    left.set_xlabel("seconds of an epoch (log scale)")
    left.set_title(f"{data['dataset']}: one epoch, 2048 positives a batch")
    models = list(data["parts"])
    base = [0.0] * len(models)
    for number, part in enumerate(data["parts"][models[0]]):
        heights = [data["parts"][model][part] for model in models]
        right.bar(models, heights, bottom=base, label=part, **plots.bar_style(number))
        base = [a + b for a, b in zip(base, heights, strict=True)]
    right.set_ylabel("seconds of an epoch")
    right.set_title("where ours go")
    right.legend(fontsize=8)
    return figure


def serving_text(data: dict[str, Any], command: str) -> str:
    rank, written = data["rank_seconds"], data["csv_bytes"] / 1e6
    rows = [
        ["ranking for all users, s", f"{rank['median']:.2f} ({_range(rank)})"],
        [f"the same and a CSV file of {written:.0f} MB, s", f"{data['rank_and_write_csv_seconds']:.2f}"],
        ["loading the run and its data before, s", f"{data['load_seconds']:.2f}"],
        ["peak memory of ranking and writing, beyond what is loaded, MB", f"{data['rank_peak_bytes'] / 1e6:.0f}"],
        ["peak memory of the whole process, MB", f"{data['process_peak_bytes'] / 1e6:.0f}"],
    ]
    lines = _opening(f"Recommending on {data['dataset']}", data, command)
    lines += [
        f"{data['model']}, top {data['k']} of all {data['users']:,} users among {data['items']:,} items, none seen:",
        "",
    ]
    return "\n".join([*lines, *table(["what", "figure"], rows)])


def scaling_text(data: dict[str, Any], command: str) -> str:
    base = ", ".join(f"{name} {value:,}" for name, value in data["base"].items() if isinstance(value, int))
    lines = _opening(f"Scaling of {data['model']}", data, command)
    lines += [
        f"Synthetic power-law data, seed 0, batches of {data['batch']}; one size changes at a time from: {base}.",
        "",
    ]
    rows = []
    for axis, exponents in data["exponents"].items():
        last = data["points"][axis][-1]
        grows = [f"{exponents[key]:.2f}" for key in ("epoch_seconds", "peak_bytes")]
        largest = [f"{last[axis]:,}", f"{last['epoch_seconds']:.1f}", f"{last['peak_bytes'] / 1e6:.0f}"]
        rows.append([axis, *grows, *largest])
    head = ["grows", "epoch ∝ size^", "peak memory ∝ size^", "largest size", "its epoch, s", "its peak, MB"]
    lines += [*table(head, rows), ""]
    full, most = data["points"]["full"][0], data["points"]["items"][-1]
    lines += [
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
    figure, grid = plots.panels(len(axes), 2, width=3.1, height=2.5, sharey="row")
    for column, axis in enumerate(axes):
        rows = data["points"][axis]
        sizes = [row[axis] for row in rows]
        for place, key, unit, scale in (
            (0, "epoch_seconds", "epoch, s", 1.0),
            (1, "peak_bytes", "peak memory, MB", 1e-6),
        ):
            panel = grid[place][column]
            panel.loglog(sizes, [row[key] * scale for row in rows], **plots.style(0))
            panel.set_title(f"size^{data['exponents'][axis][key]:.2f}", fontsize=9)
            panel.set_xlabel(axis)
            panel.set_xticks(sizes, [_short(size) for size in sizes], fontsize=8)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # powers of ten alone may leave one label
            panel.yaxis.set_major_formatter("{x:g}")
            panel.minorticks_off()
            if column == 0:
                panel.set_ylabel(unit)
    return plots.titled(figure, f"{data['model']}: cost against size (fitted exponents)")


def negatives_text(data: dict[str, Any], command: str) -> str:
    goal = 0.98 * max(point[2] for points in data["curves"].values() for point in points)
    lines = _opening(f"Negatives on {data['dataset']}: time to quality", data, command)
    lines += [
        f"{data['model']}, seed {data['seed']}, {PROTOCOLS[data['protocol']]}: recall@20 on the validation part, "
        f"seconds of training only. The goal is 98 % of the best recall any of them reached ({goal:.4f}).",
        "",
    ]
    rows = []
    for label, points in data["curves"].items():
        reached = next((point for point in points if point[2] >= goal), None)
        to_goal = [reached[0], f"{reached[1]:.0f}"] if reached else ["not reached", ""]
        rows.append([label, max(point[2] for point in points), f"{points[-1][1] / len(points):.1f}", *to_goal])
    head = ["negatives", "best recall@20", "seconds an epoch", "epochs to goal", "seconds to goal"]
    return "\n".join([*lines, *table(head, rows)])


def negatives_figure(data: dict[str, Any]) -> Figure:
    return _curves(data, "recall@20", f"{data['model']} on {data['dataset']}: kinds of negatives")


def quality_text(data: dict[str, Any], command: str) -> str:
    peer, goal, needed, metric = data["peer"], data["goal"], data["peer_seconds"], title(data["metric"])
    limit = f", at most {data['budget_minutes']:g} minutes a run" if data["budget_minutes"] else ""
    lines = _opening(f"Time to quality on {data['dataset']}", data, command)
    lines += [
        f"Seed {data['seed']}{limit}, {PROTOCOLS[data['protocol']]}. The goal is RecBole {peer}'s best validation "
        f"{metric}, {goal:.4f}, reached after {needed:.0f} s. Seconds of training only.",
        "",
    ]
    rows = []
    for method, points in data["curves"].items():
        seconds = needed if method == peer else (data["reached"][method] or (0, None))[1]
        to_goal = [f"{seconds:.0f}", f"{needed / seconds:.1f}"] if seconds else ["not reached", ""]
        epochs, total, _ = points[-1]
        rows.append([method, max(point[2] for point in points), epochs, f"{total / epochs:.2f}", *to_goal])
    head = ["method", f"best {metric}", "epochs in all", "seconds an epoch", "seconds to goal"]
    lines += [*table([*head, f"{peer}'s ÷ its seconds"], rows), "", "Settings:", ""]
    lines += [f"- {method}: `{about['settings']}`. {about['source']}" for method, about in data["models"].items()]
    return "\n".join(lines)


def quality_figure(data: dict[str, Any]) -> Figure:
    figure = _curves(data, title(data["metric"]), f"{data['dataset']}: time to {data['peer']}'s best")
    for panel in figure.axes:
        panel.axhline(data["goal"], color="grey", linewidth=0.8)
    return figure


def ranks_text(data: dict[str, Any], command: str) -> str:
    lines = _opening(f"Ranks on {data['dataset']}", data, command)
    lines += [
        f"AdapTauMF, {data['users']:,} users, {data['items']:,} items, d = {data['d']}, {data['steps']:,} batches of "
        f"{data['batch']:,}; one thread a rank, gloo over loopback.",
        "",
    ]
    rows = []
    for name, one in data["learners"].items():
        for number, found in one["ranks"].items():
            sent, memory = found["sent_bytes"] / 1e6, max(found["peak_megabytes"])
            rows.append([name, number, f"{found['epoch_seconds']:.2f}", f"{memory:.0f}", f"{sent:.2f}"])
    lines += [*table(["gradients", "ranks", "epoch, s", "peak of a rank, MB", "sent by a rank a batch, MB"], rows), ""]
    rows = []
    for name, one in data["learners"].items():
        model = one["model"]
        rows.append([name, *(f"{1e3 * model[key]:.2f}" for key in ("fixed", "group"))])
        rows[-1] += [f"{1e6 * model['per_row']:.2f}", f"{1e-6 / max(model['seconds_per_byte'], 1e-15):,.0f}"]
    head = ["gradients", "fixed, ms a batch", "group, ms a batch", "µs a row", "gloo over loopback, MB/s"]
    lines += ["Fitted: seconds of a batch = fixed + per row · rows of a rank + group + bytes sent / bandwidth.", ""]
    lines += [*table(head, rows), "", "Epoch by this model, seconds, on machines with one such core each:", ""]
    rows = [
        [name, f"{speed} Gbit/s", *(f"{value:.2f}" for value in values)]
        for name, by_speed in data["predicted"].items()
        for speed, values in by_speed.items()
    ]
    counts = [f"{k} machine{'s' * (k > 1)}" for k in (1, 2, 4, 8, 16)]
    lines += [*table(["gradients", "network", *counts], rows), ""]
    cores = os.cpu_count() or 1
    return "\n".join(
        [
            *lines,
            f"This machine has {cores} cores: up to {cores} ranks show what a rank costs and gains, more show only "
            "that the ranks agree and what they send. Loopback is no network: its latency and bandwidth are those of "
            "memory, and the ranks share caches and memory bandwidth, which machines would not. No network is "
            "taken to be faster than gloo was here.",
        ]
    )


def ranks_figure(data: dict[str, Any]) -> Figure:
    figure, (panels,) = plots.panels(len(data["predicted"]), width=4.5, sharey=True)
    for panel, (name, by_speed) in zip(panels, data["predicted"].items(), strict=True):
        for number, (speed, values) in enumerate(by_speed.items()):
            panel.semilogx((1, 2, 4, 8, 16), values, label=f"{speed} Gbit/s", **plots.style(number))
        panel.set(xlabel="machines", title=f"{name} gradients")
        panel.set_xticks((1, 2, 4, 8, 16), ("1", "2", "4", "8", "16"))
        panel.minorticks_off()
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("epoch by the model, s")
    panels[0].legend()
    return plots.titled(figure, f"AdapTauMF on {data['dataset']}: epoch on k machines")


def _curves(data: dict[str, Any], metric: str, heading: str) -> Figure:
    """A validation metric against epochs and against seconds."""
    figure, (panels,) = plots.panels(2, width=5, sharey=True)
    for number, (label, points) in enumerate(data["curves"].items()):
        for place, panel in enumerate(panels):
            look = {**plots.style(number), "ms": 4}
            panel.plot([point[place] for point in points], [point[2] for point in points], label=label, **look)
    panels[0].set(xlabel="epochs", ylabel=f"validation {metric}")
    panels[1].set(xlabel="seconds of training (log scale)", xscale="log")
    panels[0].legend()
    return plots.titled(figure, f"{heading}, {PROTOCOLS[data['protocol']]}")


def _short(size: int) -> str:
    """50000 → 50k."""
    units = ((10**6, "M"), (10**3, "k"))
    return next((f"{size // unit}{letter}" for unit, letter in units if size % unit == 0), str(size))


def _range(values: dict[str, float]) -> str:
    return f"{values['least']:.2f} – {values['most']:.2f}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []
