"""`recbole-adaptau tune`: what Adap-tau leaves to tune, on RecBole's HyperTuning."""

import sys
from collections.abc import Sequence

from . import experiment


def main(arguments: Sequence[str] | None = None) -> int:
    return experiment.main(["tune", *(sys.argv[1:] if arguments is None else arguments)])
