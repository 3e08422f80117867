"""Repairs to RecBole 1.2.1, put in place when this package is imported.

Each patch is one small function that says what is wrong and which RecBole issue reports it. None of them
changes what a working run computes, but for what RecBole gets wrong: popularity sampling no longer counts
validation and test interactions, the padding id no longer counts as an item or a user, a given test part no
longer holds what is in its training part, and several processes compute what one would.
"""

import warnings
from collections.abc import Callable

import recbole

from .patching import replace_everywhere
from .ray_import import import_quick_start

__all__ = ["RECBOLE_VERSION", "apply", "replace_everywhere"]

RECBOLE_VERSION = "1.2.1"

_applied = False


def _patches() -> tuple[Callable[[], None], ...]:
    """The patches in the order they apply; imported late, as importing quick_start needs a repair itself."""
    from ..peers import fast_graphs
    from . import (
        bad_data,
        checkpoints,
        download,
        loading,
        logs,
        lookup,
        metrics,
        ncl,
        quiet,
        ranks,
        sampling,
        splits,
        topk,
        untrusted,
    )

    return (
        checkpoints.save_plain_checkpoints,
        checkpoints.load_plain_checkpoints,
        download.download_without_process_group,
        download.explain_missing_files,
        metrics.restore_numpy_names,
        metrics.collect_numbers_and_counters,
        metrics.look_up_popularity_at_once,
        lookup.find_models,
        logs.log_every_run,
        logs.tensorboard_in_run_folder,
        bad_data.check_files_as_they_are_read,
        bad_data.count_repeats_and_drop_seen,
        loading.read_with_the_c_parser,
        loading.gather_used_items_at_once,
        loading.turn_sets_into_tensors_directly,
        sampling.name_users_with_everything,
        sampling.count_popularity_in_training_only,
        bad_data.explain_refused_splits,
        splits.refuse_empty_training_part,
        splits.unpickle_only_when_asked,
        topk.score_any_user,
        untrusted.evaluate_literals_alone,
        untrusted.read_plain_yaml_alone,
        untrusted.load_arrays_without_objects,
        quiet.silence_recbole_warnings,
        ncl.cluster_small_data,
        ranks.join_on_any_device,
        ranks.wrap_on_any_device,
        ranks.make_folders_together,
        ranks.share_rows_exactly,
        ranks.weigh_ranks_by_rows,
        ranks.evaluate_over_all_users,
        ranks.load_what_rank_0_saved,
        fast_graphs.lend_fast_propagation,
    )


def apply() -> None:
    """Put every patch in place; further calls do nothing."""
    global _applied
    if _applied:
        return
    _applied = True
    if recbole.__version__ != RECBOLE_VERSION:
        warnings.warn(
            f"recbole_adaptau repairs RecBole {RECBOLE_VERSION}, but {recbole.__version__} is installed; "
            "some of the repairs may not fit.",
            stacklevel=2,
        )
    import_quick_start()
    for patch in _patches():
        patch()
