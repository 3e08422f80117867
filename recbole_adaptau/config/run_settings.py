"""Settings of a run that belong to no single component."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..core.settings import SettingsModel, setting
from ..errors import OptionError


def _three_names(parts: Any) -> bool:
    return isinstance(parts, list) and len(parts) == 3 and all(isinstance(part, str) and part for part in parts)


def _check_given_split(splits: Any) -> Any:
    if splits and (
        not isinstance(splits, dict) or not all(_three_names(splits.get(name)) for name in ("honest", "paper"))
    ):
        raise OptionError(
            f"given_split = {splits!r}: must name three parts for each protocol, as {{paper: [train, test, test], "
            "honest: [fit, valid, test]}."
        )
    return splits


class RunSettings(SettingsModel):
    """For every model, also RecBole's."""

    protocol: Literal["honest", "paper"] | None = setting(
        "honest",
        "For data with a given split. honest: a part of train validates; paper: validation = test.",
    )
    given_split: Annotated[dict[str, Any] | None, BeforeValidator(_check_given_split)] = setting(
        None, "The three parts of a given split for each protocol; a converted dataset brings it along."
    )
    budget_minutes: Annotated[float, Field(gt=0)] | None = setting(
        None,
        "Stop before an epoch that would end later than this; for every model, also RecBole's.",
        wanted="a number above 0; leave it out for no limit",
    )
    preset: str | None = setting(None, "A file of properties/preset/, e.g. paper or authors.", with_data=False)
    run_root: str | None = setting(
        "runs", "Each run writes one new folder below this.", wanted="a path", compared=False, with_data=False
    )
    run_folder: str | None = setting(
        None,
        "The folder of this run; by default a new one below run_root.",
        wanted="a path",
        compared=False,
        with_data=False,
    )
    stored_data: str | None = setting(
        None,
        "The interactions.npz of a run folder, read instead of the dataset's files; train --refit and update set it.",
        wanted="a path",
        compared=False,
        with_data=False,
    )
    stop_epoch: Annotated[int, Field(ge=1)] | None = setting(
        None,
        "End after so many of the epochs, with the learning rates of all; train --refit sets it.",
        wanted="a whole number of at least 1",
    )
    warm_start: str | None = setting(
        None,
        "A run folder whose best epoch the weights start from, row by row by id; update sets it.",
        wanted="a path",
        with_data=False,
    )
    resume: bool | None = setting(
        False, "Continue the run in run_folder from its last whole epoch.", compared=False, with_data=False
    )
    verbose: bool | None = setting(
        False,
        "Show RecBole's whole log on the screen, not only a line an epoch; run.log always has all of it.",
        compared=False,
        with_data=False,
    )
    log_mlflow: bool | None = setting(
        False,
        "Write the finished run to MLflow: settings, figures by epoch, files (MLFLOW_TRACKING_URI says where).",
        compared=False,
        with_data=False,
    )
    record_run: bool | None = setting(
        None, "Leave a run folder also of RecBole's models; the commands set it.", compared=False, with_data=False
    )
    allow_pickle: bool | None = setting(
        False,
        "Read datasets and loaders that RecBole saved: pickles, which can run any code. Only your own.",
        with_data=False,
    )


class TrainingSettings(SettingsModel):
    """For our models."""

    lr_schedule: Literal["constant", "linear", "cosine"] = setting(
        "linear", "Learning rate over the epochs: constant, linear (falls to 0) or cosine."
    )
    record_groups: bool = setting(
        False, "Record embedding norms and recall by popularity of the items at every validation."
    )
