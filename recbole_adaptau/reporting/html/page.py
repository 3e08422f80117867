"""The page: its data, script, style and plotly.js in one file."""

import gzip
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from ...errors import need
from ..tables import write
from .collect import collect, find_runs, need_some


def write_report(places: Sequence[str | Path], path: Path, title: str = "Runs") -> dict[str, Any]:
    """Write the page about the runs at or below some places; returns what it shows."""
    need("plotly", "a report needs", "report")
    runs, skipped = find_runs(places)
    data = collect(runs, skipped)
    need_some(data, places)
    write(path, render(data, title))
    return data


def render(data: dict[str, Any], title: str) -> str:
    """The whole page as text."""
    from plotly.offline import get_plotlyjs  # slow to import, and only needed here

    html, style, script = (
        files(__package__).joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    pages = Environment(autoescape=True)
    # The filter tojson leaves no "<" in the data, so that no text in it can end the script element.
    pages.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": False}
    pages.policies["json.dumps_kwargs"]["default"] = str
    # Packed, plotly.js takes 2 MB and not 5, which leaves room for the figures of some hundred runs.
    packed = b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    ours = {"style": Markup(style), "script": Markup(script), "plotly": packed}
    made = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return pages.from_string(html).render(title=title, made=made, data=data, **ours)
