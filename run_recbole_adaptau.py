"""Train and test a model: python run_recbole_adaptau.py --model=AdapTauLightGCN --dataset=ml-1m (see --help)."""

import sys

from recbole_adaptau.cli.train import main

if __name__ == "__main__":
    sys.exit(main())
