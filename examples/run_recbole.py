"""RecBole's own way to train, for our models: one import is all that a script of RecBole's needs.

python examples/run_recbole.py --model=AdapTauMF --dataset=ml-100k --epochs=10
"""

import argparse

from recbole.quick_start import run_recbole

import recbole_adaptau

if __name__ == "__main__":
    parser = argparse.ArgumentParser(epilog=f"recbole_adaptau {recbole_adaptau.__version__}", allow_abbrev=False)
    parser.add_argument("--model", "-m", default="AdapTauMF", help="ours or RecBole's (default: %(default)s)")
    parser.add_argument("--dataset", "-d", default="ml-100k", help="default: %(default)s")
    parser.add_argument("--config_files", default=None, help="YAML files, separated by spaces")
    args, _ = parser.parse_known_args()  # RecBole reads any other --key=value from the command line itself
    files = args.config_files.split() if args.config_files else None
    print(run_recbole(model=args.model, dataset=args.dataset, config_file_list=files)["test_result"])
