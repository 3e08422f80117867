"""One palette for all pictures, Matplotlib's and the report's: colours, dashes and markers told apart in grey, too.

Colours are Okabe and Ito's, which the colour-blind tell apart, and two more; all show on white and on black.
"""

from typing import Any

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c7a00", "#7f7f7f")
# Lengths of dash and gap; none is a solid line.
DASHES = ((), (6, 2), (1, 1.2), (6, 2, 1, 2), (3, 1), (8, 2, 1, 2, 1, 2), (2, 3), (4, 1, 1, 1))
# Matplotlib's names and Plotly's; not as many as colours, so that no pair of them comes again soon.
MARKERS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x",
    "*": "star", "h": "hexagon",
}  # fmt: skip


def for_plotly() -> dict[str, Any]:
    """The palette as the report's script reads it."""
    dashes = [",".join(f"{length}px" for length in lengths) or "solid" for lengths in DASHES]
    return {"colours": list(COLOURS), "dashes": dashes, "symbols": list(MARKERS.values())}
