"""The grid search over tau, the strong baseline, beside the strategies that need no search."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..reporting.tables import METRICS, methods, opening, over_seeds, seconds, table, title
from ..runs.runner import Spec

TAUS = (0.04, 0.055, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4)
STRATEGIES = ("fixed", "adaptive", "adaptive_user")


def specs(
    model: str,
    dataset: str,
    taus: Sequence[float],
    strategies: Sequence[str],
    seeds: Sequence[int],
    given: Mapping[str, Any],
) -> list[Spec]:
    """For each seed a run at each tau, and one with each other strategy."""
    made = []
    for seed in seeds:
        for strategy in strategies:
            for tau in sorted(taus) if strategy == "fixed" else [None]:
                at = {} if tau is None else {"tau": tau}
                name = f"{strategy}{'' if tau is None else f'-tau{tau}'}-seed{seed}"
                made.append(Spec(name, model, dataset, {"tau_strategy": strategy, **at, "seed": seed}, given))
    return made


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each tau and each other strategy, over its seeds, in the order of the runs."""
    groups: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["settings"]["tau_strategy"], run["settings"].get("tau")), []).append(run)
    return [{"strategy": strategy, "tau": tau, **over_seeds(group)} for (strategy, tau), group in groups.items()]


def best_fixed(rows: Sequence[dict[str, Any]], bigger: bool = True) -> dict[str, Any] | None:
    """The row of the tau that validates best; test figures have no say in it."""
    fixed = [row for row in rows if row["strategy"] == "fixed"]
    return (max if bigger else min)(fixed, key=lambda row: row["valid_score"], default=None)


def files(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The reports by file name."""
    from ..reporting.figures import grid_figure

    data = collected(about, runs)
    return {"grid.json": data, "grid.md": text(data), "grid.png": grid_figure(data)}


def collected(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that grid.json holds; the best tau is named once every run is there to be compared."""
    rows = summary(runs)
    complete = len(runs) == about["runs_asked"]
    best = best_fixed(rows, runs[0]["valid_score_bigger"]) if complete else None
    return {**about, "best_fixed_tau": best["tau"] if best else None, "summary": rows, "runs": list(runs)}


def text(data: dict[str, Any]) -> str:
    best = data["best_fixed_tau"]
    lines = opening(f"{methods(data['runs'])} on {data['dataset']}: grid search over tau", data)
    rows = []
    for row in data["summary"]:
        is_best = best is not None and row["tau"] == best
        label = f"fixed, tau = {row['tau']}" if row["tau"] is not None else row["strategy"]
        if row["strategy"].startswith(("adaptive", "calibrated")) and "tau_0" in row:
            label += f" (tau_0 = {row['tau_0']:.3f})"
        cells = [
            f"**{label}, best by validation**" if is_best else label,
            *(row[part][name] for part in ("valid", "test") for name in METRICS),
            len(row["seeds"]),
            seconds(row["seconds"]),
        ]
        rows.append(cells)
    head = [f"{part} {title(name)}" for part in ("valid", "test") for name in METRICS]
    lines += table(["temperature", *head, "seeds", "seconds a run"], rows)
    lines += ["", *conclusion(data), "Seconds are of training and validation.", "", "![grid](grid.png)", ""]
    return "\n".join(lines)


def conclusion(data: dict[str, Any]) -> list[str]:
    """Accuracy and cost of each adaptive strategy against the best tau of the grid, a paragraph each."""
    fixed = [row for row in data["summary"] if row["strategy"] == "fixed"]
    best = next((row for row in fixed if row["tau"] == data["best_fixed_tau"]), None)
    if best is None:
        return []
    whole, lines = sum(row["seconds"] for row in fixed), []
    for row in data["summary"]:
        if row["strategy"].startswith(("adaptive", "calibrated")):
            shares = " and ".join(
                f"{100 * row['test'][name]['mean'] / best['test'][name]['mean']:.1f} % of its test {title(name)}"
                for name in METRICS
                if best["test"][name]["mean"] > 0
            )
            lines += [
                f"`{row['strategy']}` against the best fixed tau, {best['tau']}: {shares or 'its test figures are 0'}. "
                f"The grid of {len(fixed)} took {seconds(whole)} s a seed, the one {row['strategy']} run "
                f"{seconds(row['seconds'])} s: {whole / row['seconds']:.1f} times as long.",
                "",
            ]
    return lines
