"""Train and test a model: the same as `recbole-adaptau train` (see --help).

python run_recbole_adaptau.py --model=AdapTauLightGCN --dataset=ml-1m
"""

import sys

from recbole_adaptau.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
