"""RecBole's checkpoints as plain data (issue 2215: PyTorch >= 2.6 refuses the pickled Config)."""

from collections.abc import Mapping
from logging import getLogger
from typing import Any

from recbole.config import Config
from recbole.quick_start import quick_start
from recbole.utils import set_color

from ..distributed import ranks
from ..errors import CheckpointError
from ..training import checkpoint


def save_checkpoint(original: Any, self: Any, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
    if not ranks.is_first():  # RecBole asks for the first of its machine
        return
    saved_model_file = kwargs.pop("saved_model_file", self.saved_model_file)
    state = {
        **_model_state(self, epoch),
        "cur_step": self.cur_step,
        "best_valid_score": checkpoint.plain(self.best_valid_score),
    }
    checkpoint.save(state, saved_model_file)
    if verbose:
        self.logger.info(set_color("Saving current", "blue") + f": {saved_model_file}")


def save_pretrained_model(original: Any, self: Any, epoch: int, saved_model_file: str) -> None:
    if ranks.is_first():
        checkpoint.save(_model_state(self, epoch), saved_model_file)
    self.saved_model_file = saved_model_file


def _model_state(trainer: Any, epoch: int) -> dict[str, Any]:
    return {
        "config": checkpoint.config_settings(trainer.config),
        "epoch": epoch,
        "state_dict": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "other_parameter": checkpoint.other_parameter(trainer.model),
    }


def save_tree_checkpoint(original: Any, self: Any, epoch: int) -> None:
    state = {
        "config": checkpoint.config_settings(self.config),
        "epoch": epoch,
        "cur_step": self.cur_step,
        "best_valid_score": checkpoint.plain(self.best_valid_score),
        "state_dict": self.temp_best_file,
        "other_parameter": None,
    }
    checkpoint.save(state, self.saved_model_file)


def load_data_and_model(
    original: Any, model_file: str, run: Mapping[str, Any] | None = None, allow_pickle: bool = False
) -> tuple[Any, ...]:
    """Weights are read on to the CPU and then go where this machine's Config says: the file may come from a GPU.

    Args:
        model_file: A checkpoint.
        run: The settings of the run that it must be of, if given; they say where the data is read from.
        allow_pickle: Whether a file of RecBole's own, which can run any code, may be read.
    """
    state = checkpoint.load(model_file, allow_pickle=allow_pickle)
    if isinstance(state.get("config"), Config):  # of RecBole's own, read with allow_pickle
        state["config"] = checkpoint.config_settings(state["config"])
    missing = [key for key in ("config", "state_dict") if key not in state]
    if missing or not isinstance(state["config"], dict):
        raise CheckpointError(
            f"{model_file} is not a checkpoint that data and model can be rebuilt from: it has no "
            f"{' and no '.join(missing) or 'settings under config'}."
        )
    # Loading records no run, least of all in the folder of the run that is loaded.
    changes = {"run_folder": None, "run_root": None}
    if run is not None:
        checkpoint.refuse_other_run(state["config"], run, model_file)
        changes |= {key: run[key] for key in ("data_path", "stored_data") if key in run}
    config = checkpoint.rebuild_config({**state["config"], **changes})
    if config["device"].type != "cpu":
        state = checkpoint.load(model_file, config["device"], allow_pickle)
    quick_start.init_seed(config["seed"], config["reproducibility"])
    if run is None:
        quick_start.init_logger(config)  # a run's own log is closed, and loading it writes nothing
    logger = getLogger()
    logger.info(config)

    dataset = quick_start.create_dataset(config)
    logger.info(dataset)
    train_data, valid_data, test_data = quick_start.data_preparation(config, dataset)

    quick_start.init_seed(config["seed"], config["reproducibility"])
    model = quick_start.get_model(config["model"])(config, train_data._dataset).to(config["device"])
    try:
        model.load_state_dict(state["state_dict"])
    except RuntimeError as error:
        raise CheckpointError(
            f"the weights in {model_file} do not fit {config['model']} on the dataset "
            f"{config['dataset']} as it is now; was the dataset changed since? ({error})"
        ) from error
    model.load_other_parameter(state.get("other_parameter"))
    return config, model, dataset, train_data, valid_data, test_data
