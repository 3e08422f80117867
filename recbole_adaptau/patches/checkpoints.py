"""RecBole's checkpoints as plain data (issue 2215: PyTorch >= 2.6 refuses the pickled Config)."""

from collections.abc import Mapping
from logging import getLogger
from typing import Any

import torch
from recbole.config import Config
from recbole.quick_start import quick_start
from recbole.trainer import trainer as trainers
from recbole.utils import set_color

from ..distributed import ranks
from ..errors import CheckpointError
from ..training import checkpoint
from .patching import replace_everywhere

_CONFIG_KEYS = ("config", "state_dict")


def save_plain_checkpoints() -> None:
    """Let RecBole's trainers write plain data under the same keys (issue 2215).

    With that, their own `torch.load` in `evaluate`, `resume_checkpoint` and the pretraining models works as
    it stands.
    """
    torch.serialization.add_safe_globals(checkpoint.DATA_CLASSES)

    def _save_checkpoint(self: Any, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        if not ranks.is_first():  # RecBole asks for the first of its machine
            return
        saved_model_file = kwargs.pop("saved_model_file", self.saved_model_file)
        state = {
            "config": checkpoint.config_settings(self.config),
            "epoch": epoch,
            "cur_step": self.cur_step,
            "best_valid_score": checkpoint.plain(self.best_valid_score),
            "state_dict": self.model.state_dict(),
            "other_parameter": checkpoint.other_parameter(self.model),
            "optimizer": self.optimizer.state_dict(),
        }
        checkpoint.save(state, saved_model_file)
        if verbose:
            self.logger.info(set_color("Saving current", "blue") + f": {saved_model_file}")

    def save_pretrained_model(self: Any, epoch: int, saved_model_file: str) -> None:
        state = {
            "config": checkpoint.config_settings(self.config),
            "epoch": epoch,
            "state_dict": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "other_parameter": checkpoint.other_parameter(self.model),
        }
        if ranks.is_first():
            checkpoint.save(state, saved_model_file)
        self.saved_model_file = saved_model_file

    def _save_tree_checkpoint(self: Any, epoch: int) -> None:
        state = {
            "config": checkpoint.config_settings(self.config),
            "epoch": epoch,
            "cur_step": self.cur_step,
            "best_valid_score": checkpoint.plain(self.best_valid_score),
            "state_dict": self.temp_best_file,
            "other_parameter": None,
        }
        checkpoint.save(state, self.saved_model_file)

    trainers.Trainer._save_checkpoint = _save_checkpoint
    trainers.PretrainTrainer.save_pretrained_model = save_pretrained_model
    trainers.DecisionTreeTrainer._save_checkpoint = _save_tree_checkpoint


def load_plain_checkpoints() -> None:
    """Let `load_data_and_model` read such a file, and nothing that would run code (issues 2215, 1561).

    The file may come from a GPU: weights are read on to the CPU and then go where this machine's Config says. Beyond
    RecBole's argument, `run` gives the settings of the run that the file must be of; the data is read from their
    data_path.
    """

    def load_data_and_model(
        model_file: str, run: Mapping[str, Any] | None = None, allow_pickle: bool = False
    ) -> tuple[Any, ...]:
        state = checkpoint.load(model_file, allow_pickle=allow_pickle)
        if isinstance(state.get("config"), Config):  # of RecBole's own, read with allow_pickle
            state["config"] = checkpoint.config_settings(state["config"])
        missing = [key for key in _CONFIG_KEYS if key not in state]
        if missing or not isinstance(state["config"], dict):
            raise CheckpointError(
                f"{model_file} is not a checkpoint that data and model can be rebuilt from: it has no "
                f"{' and no '.join(missing) or 'settings under config'}."
            )
        # Loading records no run, least of all in the folder of the run that is loaded.
        changes = {"run_folder": None, "run_root": None}
        if run is not None:
            checkpoint.refuse_other_run(state["config"], run, model_file)
            changes |= {key: run[key] for key in ("data_path",) if key in run}
        config = checkpoint.rebuild_config({**state["config"], **changes})
        if config["device"].type != "cpu":
            state = checkpoint.load(model_file, config["device"], allow_pickle)
        # Through the module, whose names other patches have replaced.
        quick_start.init_seed(config["seed"], config["reproducibility"])
        quick_start.init_logger(config)
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

    replace_everywhere(quick_start.load_data_and_model, load_data_and_model)
