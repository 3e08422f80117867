"""Tune what Adap-tau leaves to tune, on RecBole's HyperTuning; see `python run_hyper.py --help`."""

import sys

from recbole_adaptau.cli.experiment import main

if __name__ == "__main__":
    sys.exit(main(["tune", *sys.argv[1:]]))
