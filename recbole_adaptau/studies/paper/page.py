"""An experiment's files: JSON with everything, the table as CSV, a page, and each picture as PNG and SVG."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ...reporting.tables import opening, seconds, shown, table
from .base import Row


def files(
    name: str, about: dict[str, Any], rows: Sequence[Row], remarks: Sequence[str], figures: Mapping[str, Any]
) -> dict[str, Any]:
    """The reports by file name; `name` is what all of them begin with."""
    data = {**about, "table": list(rows), "remarks": list(remarks)}
    pictures = {f"{name}{'-' if ending else ''}{ending}": figure for ending, figure in figures.items()}
    return {
        f"{name}.json": data,
        f"{name}.csv": as_csv(rows),
        **{f"{file}.{kind}": figure for file, figure in pictures.items() for kind in ("png", "svg")},
        f"{name}.md": page(about, rows, remarks, list(pictures)),
    }


def page(about: dict[str, Any], rows: Sequence[Row], remarks: Sequence[str], pictures: Sequence[str]) -> str:
    models = " and ".join(about["models"])
    lines = opening(f"{about['experiment']}: {models} on {about['dataset']}", about)
    lines += [about["brief"], "", data_line(about), "", settings_line(about), ""]
    lines += as_markdown(rows)
    for remark in remarks:
        lines += ["", remark]
    if about.get("agreement"):
        lines += ["", f"**Agreement with the paper:** {about['agreement']}"]
    for picture in pictures:
        lines += ["", f"![{picture}]({picture}.svg)"]
    return "\n".join([*lines, ""])


def data_line(about: dict[str, Any]) -> str:
    data = about["data"]
    parts = ", ".join(f"{part} {data[part]:,}" for part in ("train", "valid", "test"))
    return (
        f"Data: {about['dataset']}, {data['users']:,} users, {data['items']:,} items, interactions: {parts}; "
        f"training density {100 * data['density']:.3g} %."
    )


def settings_line(about: dict[str, Any]) -> str:
    seeds = about["seeds"]
    return (
        f"Runs {of_epochs(about['epochs'])}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}. "
        f"{about['runs_asked']} runs, {seconds(sum(run['seconds'] for run in about['runs']))} s of training and "
        "validation in all."
    )


def of_epochs(epochs: int) -> str:
    return f"of {epochs} epochs" if epochs else "until each model stops"


def as_markdown(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return ["No run is finished yet."]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return table(columns, [[cell(row.get(column)) for column in columns] for row in rows])


def cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return shown(value)
    if isinstance(value, float):
        return (
            f"{value:.4f}"
            if 1e-3 <= abs(value) < 100 or value == 0
            else f"{value:,.0f}"
            if abs(value) >= 100
            else f"{value:.2e}"
        )
    return str(value)


def as_csv(rows: Sequence[Row]) -> str:
    """The table with unrounded numbers; a spread becomes two columns."""
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(column for row in flat for column in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flat(row: Row) -> Row:
    found: Row = {}
    for column, value in row.items():
        if isinstance(value, dict):
            found |= {column: value["mean"], f"{column} std": "" if value["std"] is None else value["std"]}
        else:
            found[column] = "" if value is None else value
    return found
