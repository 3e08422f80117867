"""The page: its data, script, style and plotly.js in one file."""

import html
import json
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..tables import write
from .collect import collect, find_runs, need_some


def write_report(places: Sequence[str | Path], path: Path, title: str = "Runs") -> dict[str, Any]:
    """Write the page about the runs at or below some places; returns what it shows."""
    runs, skipped = find_runs(places)
    data = collect(runs, skipped)
    need_some(data)
    write(path, render(data, title))
    return data


def render(data: dict[str, Any], title: str) -> str:
    """The whole page as text."""
    from plotly.offline import get_plotlyjs  # slow to import, and only needed here

    parts = {
        name: files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "page.js")
    }
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    # In a script element "</" would end it, whatever it stands in.
    content = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=str).replace(
        "</", "<\\/"
    )
    values = {
        "title": html.escape(title),
        "made": made,
        "style": parts["page.css"],
        "plotly": get_plotlyjs(),
        "data": content,
        "script": parts["page.js"],
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], parts["page.html"])
