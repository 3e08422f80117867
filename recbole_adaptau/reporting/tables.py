"""What all reports share: names of metrics and protocols, means over seeds, tables, and files written whole."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..files import write_whole
from ..runs.significance import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A row of a table by column; a value may also be a spread over seeds, {"mean": …, "std": …}.
Row = dict[str, Any]
# RecBole's names of metrics, as tables write them; others stay as they are.
TITLES = {"ndcg": "NDCG", "mrr": "MRR", "map": "MAP", "giniindex": "Gini", "averagepopularity": "popularity"} | {
    "itemcoverage": "coverage", "tailpercentage": "tail"
}  # fmt: skip
# Said at every table and picture of accuracy.
PROTOCOLS = {
    "honest": "honest protocol: epoch chosen on validation",
    "paper": "paper protocol: epoch chosen on the test set",
}


def title(metric: str) -> str:
    """ndcg@20 → NDCG@20."""
    name, at, k = metric.partition("@")
    return f"{TITLES.get(name, name)}{at}{k}"


def methods(runs: Sequence[Mapping[str, Any]]) -> str:
    """The methods that ran, each once."""
    return " and ".join(dict.fromkeys(run["method"] for run in runs))


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


def seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def cell(value: Any) -> str:
    """A value as a table shows it: 0.1234 ± 0.0012 for a spread, – for none."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return f"{value['mean']:.4f}" + ("" if value["std"] is None else f" ± {value['std']:.4f}")
    if isinstance(value, float):
        small = 0 < abs(value) < 1e-3
        return f"{value:.2e}" if small else f"{value:.4f}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Lines of Markdown."""
    body = [list(map(cell, row)) for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body)]


def as_markdown(rows: Sequence[Row]) -> list[str]:
    """A table of all columns that some row has."""
    if not rows:
        return ["No run is finished yet."]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return table(columns, [[row.get(column) for column in columns] for row in rows])


def as_csv(rows: Sequence[Row]) -> str:
    """The table with unrounded numbers; a spread becomes two columns."""
    flat = [_flat(row) for row in rows]
    stream = io.StringIO()
    columns = list(dict.fromkeys(column for row in flat for column in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flat(row: Row) -> Row:
    found: Row = {}
    for column, value in row.items():
        found |= {column: value["mean"], f"{column} std": value["std"]} if isinstance(value, dict) else {column: value}
    return found


def opening(heading: str, data: Mapping[str, Any]) -> list[str]:
    """What was run, how the epoch was chosen, and how much of it is done: the head of every report."""
    lines = [f"# {heading}", "", "```", data["command"], "```", f"On {machines(data['runs'])}.", ""]
    if len(data["runs"]) < data["runs_asked"]:
        lines += [f"**{len(data['runs'])} of {data['runs_asked']} runs are done; the same command goes on.**", ""]
    chosen = {"paper": "All choices are made on test figures: only to compare with published ones."}
    how = chosen.get(data["protocol"], "No choice is made on test figures.")
    deviation = " ± is the sample standard deviation over seeds." if len(data["seeds"]) > 1 else ""
    said = PROTOCOLS[data["protocol"]]
    return [*lines, f"**{said[0].upper()}{said[1:]}**, by {data['valid_metric']}. {how}{deviation}", ""]


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
    """The picture; the same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "recbole_adaptau"}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=130, bbox_inches="tight", metadata=metadata)
    return buffer.getvalue()
