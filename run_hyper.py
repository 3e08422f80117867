"""Tune what Adap-tau leaves to tune, on RecBole's HyperTuning: the same as `recbole-adaptau tune` (see --help)."""

import sys

from recbole_adaptau.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["tune", *sys.argv[1:]]))
