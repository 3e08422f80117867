"""Compare models on one dataset: `python run_benchmark.py --help`."""

import sys

from recbole_adaptau.leaderboard.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
