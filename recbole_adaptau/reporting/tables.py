"""What the experiments share in their reports: means over seeds, Markdown tables, and files written whole."""

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What every report shows, by the keys RecBole gives its results.
METRICS = ("recall@20", "ndcg@20")
TITLES = {"recall@20": "recall@20", "ndcg@20": "NDCG@20"}


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and sample standard deviation (n − 1); one value has no deviation."""
    return {"mean": mean(values), "std": stdev(values) if len(values) > 1 else None}


def over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Spreads of the figures of runs that differ only in their seed."""
    return {
        "seeds": [run["seed"] for run in runs],
        "valid": {name: spread([run["best_valid_result"][name] for run in runs]) for name in METRICS},
        "test": {name: spread([run["test_result"][name] for run in runs]) for name in METRICS},
        "valid_score": mean(run["best_valid_score"] for run in runs),
        "seconds": mean(run["seconds"] for run in runs),
        **({"tau_0": mean(run["tau_0"] for run in runs)} if all("tau_0" in run for run in runs) else {}),
    }


def shown(value: dict[str, float | None]) -> str:
    """0.1234 ± 0.0012, or the mean alone."""
    return f"{value['mean']:.4f}" + ("" if value["std"] is None else f" ± {value['std']:.4f}")


def seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def opening(title: str, data: dict[str, Any]) -> list[str]:
    """What was run, how the epoch was chosen, and how much of it is done: the head of every report."""
    lines = [f"# {title}", "", "```", data["command"], "```", f"On {machines(data['runs'])}.", ""]
    if len(data["runs"]) < data["runs_asked"]:
        lines += [f"**{len(data['runs'])} of {data['runs_asked']} runs are done; the same command goes on.**", ""]
    if data["protocol"] == "paper":
        how = (
            "validation is the test set, so all choices are made on test figures: only to compare with published ones."
        )
    else:
        how = "the epoch is chosen on a validation part; no choice is made on test figures."
    deviation = " ± is the sample standard deviation over seeds." if len(data["seeds"]) > 1 else ""
    return [*lines, f"Protocol `{data['protocol']}`: {how} Epoch by validation {data['valid_metric']}.{deviation}", ""]


def machines(runs: Sequence[dict[str, Any]]) -> str:
    """The machines the runs were made on, as their folders say."""
    lines = []
    for run in runs:
        about = run["environment"]
        versions = about.get("versions", {})
        lines.append(
            f"{about.get('processor', 'a machine')}, {about.get('cores')} cores, {about.get('torch_threads')} threads, "
            f"{about.get('device')}, Python {about.get('python')}, PyTorch {versions.get('torch')}"
        )
    return " and ".join(dict.fromkeys(lines)) or "no machine yet"


def refuse_others(path: Path, about: dict[str, Any]) -> None:
    """Raise if the report at `path` is of another model, dataset or protocol, and would be lost."""
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        differ = [f"{key} = {old[key]}" for key in ("model", "dataset", "protocol") if old[key] != about[key]]
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # none, or none of ours
        return
    if differ:
        raise OptionError(f"{path} is a report with {', '.join(differ)}: give another --output, or move it away.")


def write(path: Path, content: "str | dict[str, Any] | Figure") -> None:
    """Write text, JSON or a figure so that a reader finds the old file or the new one, never a part."""
    if isinstance(content, dict):
        content = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, content.encode() if isinstance(content, str) else _drawn(content, path.suffix[1:]))


def _drawn(figure: "Figure", kind: str) -> bytes:
    """The picture; the same figure gives the same bytes as SVG."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "recbole_adaptau"}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=130, bbox_inches="tight", metadata=metadata)
    return buffer.getvalue()
