"""RecBole's significance_test.py with our models: the same seeds for both, then a paired test.

RecBole tests over seeds, which needs many runs (its script makes ten); that test is shown beside the one over users,
which a single seed is enough for.

python examples/significance_test.py --model_ours AdapTauMF --model_baseline BPR --run_times 3 --epochs=20
"""

import argparse
import random
import sys

from scipy import stats

from recbole_adaptau import run_recbole_adaptau
from recbole_adaptau.cli.train import parse_settings
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.runs.significance import paired

METRICS = ("recall@20", "ndcg@20")
EVALUATION = {
    "metrics": ["Recall", "NDCG"],
    "topk": [10, 20],
    "valid_metric": "'NDCG@20'",
    "eval_batch_size": 16_000_000,
}


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, description="Is one model better than another?")
    parser.add_argument("--model_ours", default="AdapTauMF", help="default: %(default)s")
    parser.add_argument("--model_baseline", default="BPR", help="default: %(default)s")
    parser.add_argument("--dataset", "-d", default="ml-100k", help="default: %(default)s")
    parser.add_argument("--st_seed", type=int, default=2023, help="draws the seeds (default: %(default)s)")
    parser.add_argument("--run_times", type=int, default=3, help="runs of each model (default: %(default)s)")
    args, rest = parser.parse_known_args()
    sys.argv = sys.argv[:1]  # what RecBole would read from it by itself is read here
    draw = random.Random(args.st_seed)
    seeds = [draw.randrange(2**31) for _ in range(args.run_times)]
    settings = {**EVALUATION, **parse_settings(rest)}
    runs = {
        model: [run_recbole_adaptau(model, args.dataset, None, {**settings, "seed": seed}) for seed in seeds]
        for model in (args.model_ours, args.model_baseline)
    }
    ours, baseline = runs[args.model_ours], runs[args.model_baseline]
    for metric in METRICS:
        if len(seeds) > 1:
            by_seed = stats.ttest_rel(*([run["test_result"][metric] for run in side] for side in (ours, baseline)))
            print(f"{metric} over {len(seeds)} seeds: t = {by_seed.statistic:.2f}, p = {by_seed.pvalue:.2g}")
        by_user = paired(*([RunFolder(run["run_folder"]) for run in side] for side in (ours, baseline)), metric)
        print(
            f"{metric} over {by_user.users} users: {by_user.difference:+.4f} "
            f"[{by_user.low:+.4f}, {by_user.high:+.4f}], p = {by_user.p:.2g}, Wilcoxon {by_user.p_wilcoxon:.2g}"
        )


if __name__ == "__main__":
    main()
