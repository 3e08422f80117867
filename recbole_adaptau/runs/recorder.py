"""What a run leaves behind, whichever trainer makes it: records of its epochs, checkpoints to resume from, a result."""

import operator
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from recbole.trainer import Trainer
from recbole.utils import ModelType

from ..config.keys import notes
from ..data.check import check_topk
from ..distributed import ranks
from ..errors import CheckpointError
from ..model.base import AdapTauRecommender
from ..recipe import method_name
from ..training import checkpoint, memory, randomness
from ..training.interrupt import Stopped, StopRequest
from ..training.log import epoch_line, say
from ..training.toplists import group_statistics
from .folder import RunFolder
from .mlflow_log import log_run, need_mlflow
from .temperature_check import calibrated_temperatures, temperature_advice
from .tested import KeepingEvaluator, tested_users
from .warm_start import warm_start


class _Ended(Exception):
    """Ends RecBole's loop over the epochs before `epoch`, because of a setting."""

    def __init__(self, epoch: int, why: str):
        super().__init__(epoch)
        self.epoch, self.why = epoch, why


class RunRecorder(Trainer):
    """Mixed in before a RecBole trainer; does nothing where the configuration names no run folder.

    Of several processes only rank 0 has a `run`; the others take part in what is saved and resumed.

    When an epoch begins, the one before it is over with all that RecBole's `fit` did about it. That is the moment
    when its record is written and the whole state saved to last.pth; best.pth is written where RecBole saves.
    """

    run: RunFolder | None
    evaluator: Any

    def __init__(self, config: Any, model: Any):
        super().__init__(config, model)
        if model.type in (ModelType.GENERAL, ModelType.TRADITIONAL):
            check_topk(config, model.n_items - 1)
        self._folder = RunFolder(config["run_folder"]) if config["run_folder"] else None
        self.run = self._folder if ranks.is_first() else None
        self._record: dict[str, Any] | None = None
        self._train_data: Any = None
        self._valid_data: Any = None
        self._data = ""  # the training data's fingerprint
        self._finished = self._saving = self._validating = False
        self._stopped_by: str | None = None
        self._seconds: list[float] = []  # of the epochs made here
        self._stop = stop = StopRequest()
        if config["log_mlflow"]:
            need_mlflow()
        if self.run is not None:
            self.saved_model_file = str(self.run.best)
            for optimiser in self._optimisers().values():
                optimiser.register_step_post_hook(lambda *_: stop.check())  # between any two batches
        elif config["single_spec"]:
            # RecBole's name has the second in it, and runs that start in the same one would test each other's model.
            self.saved_model_file = f"{self.saved_model_file.removesuffix('.pth')}-{os.getpid()}.pth"

    def fit(self, train_data: Any, valid_data: Any = None, *args: Any, **kwargs: Any) -> tuple[float, Any]:
        if self._folder is None:
            return super().fit(train_data, valid_data, *args, **kwargs)
        self._train_data, self._valid_data = train_data, valid_data
        self._saving = kwargs.get("saved", args[1] if len(args) > 1 else True)
        try:
            with self.run.alone() if self.run is not None else nullcontext(), self._stoppable(self._folder):
                self._fit_in(self._folder, train_data, valid_data, *args, **kwargs)
        finally:
            self.tensorboard.close()  # a thread of its own holds what was logged last, for minutes
        return self.best_valid_score, self.best_valid_result

    def _fit_in(self, folder: RunFolder, train_data: Any, *args: Any, **kwargs: Any) -> None:
        self._data = checkpoint.fingerprint(train_data._dataset)
        if self.run is not None:
            self.run.begin(self.config)
            say(f"run folder: {self.run.path}")
            for note in notes(self.config):
                self.logger.warning(note)
        if self.config["resume"]:
            with ranks.file_of_first(folder.last, self.device) as last:
                if last.is_file():
                    self.resume_checkpoint(last)
            if self.run is not None:
                self.run.keep_epochs_before(self.start_epoch)
        if self.run is not None and not self.run.data.is_file():  # also if a run was killed before it was there
            self.run.keep_data(train_data._dataset)
        if self.config["warm_start"] and self.start_epoch == 0:
            warm_start(self.model, RunFolder.existing(self.config["warm_start"]), train_data._dataset)
        if self._stopped_by == "budget" and self.start_epoch < self.epochs and not self._budget_is_spent():
            self._finished = False  # the budget is larger now
            if self.run is not None:
                self.run.result.unlink(missing_ok=True)
        if self._finished:
            self.eval_collector.data_collect(train_data)  # RecBole's fit would have done so
        else:
            memory.count_anew(self.device)
            self._stopped_by, next_epoch = self._fit(train_data, *args, **kwargs)
            self._finished = True
            self._save_last(next_epoch)

    def _fit(self, *args: Any, **kwargs: Any) -> tuple[str, int]:
        """RecBole's fit; returns why it ended, and the epoch a larger budget would go on with."""
        try:
            super().fit(*args, **kwargs)
        except _Ended as ended:
            if ended.why == "budget":
                self.logger.warning(f"budget_minutes = {self.config['budget_minutes']} is spent; training stops here.")
            return ended.why, ended.epoch
        made_last = self._record is not None and self._record["epoch"] + 1 == self.epochs
        self._end_epoch()
        return "epochs" if made_last or self.epochs == 0 else "patience", self.epochs

    @contextmanager
    def _stoppable(self, run: RunFolder) -> Iterator[None]:
        """Ctrl-C and SIGTERM are heard at once and acted upon at the next safe moment; says how to go on."""
        if ranks.is_active():  # the process that has started all of them hears the signal, ends them and says so
            yield
            return
        try:
            with self._stop:
                yield
        except KeyboardInterrupt as stop:
            number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
            self.logger.warning(f"Stopped by {signal.Signals(number).name}.")
            saved = f"every finished epoch is saved. Continue with: recbole-adaptau train --resume={run.path}"
            raise Stopped(number, f"interrupted; {saved if self._saving else 'not saved.'}") from stop

    def _train_epoch(self, train_data: Any, epoch_idx: int, *args: Any, **kwargs: Any) -> Any:
        self._end_epoch()
        if epoch_idx > self.start_epoch:
            self._save_last(epoch_idx)
        self._stop.check()
        if self._folder is not None and self.config["stop_epoch"] == epoch_idx:
            raise _Ended(epoch_idx, "stop_epoch")
        if self._budget_is_spent():
            raise _Ended(epoch_idx, "budget")
        started = time.perf_counter()
        loss = super()._train_epoch(train_data, epoch_idx, *args, **kwargs)
        self._record = {
            "epoch": epoch_idx,
            "train_loss": list(loss) if isinstance(loss, tuple) else loss,
            "train_seconds": time.perf_counter() - started,
            **getattr(self, "epoch_state", {}),
        }
        return loss

    def _valid_epoch(self, valid_data: Any, *args: Any, **kwargs: Any) -> tuple[float, Any]:
        started = time.perf_counter()
        self._validating = True
        try:
            score, result = super()._valid_epoch(valid_data, *args, **kwargs)
        finally:
            self._validating = False
        if self._record is not None:
            seconds = time.perf_counter() - started
            self._record |= {"valid_seconds": seconds, "valid_score": score, "valid_result": dict(result)}
            if self.config["record_groups"]:
                self._record["groups"] = group_statistics(self.model, valid_data, max(self.config["topk"]))
        return score, result

    def evaluate(self, eval_data: Any, load_best_model: bool = True, *args: Any, **kwargs: Any) -> Any:
        if self.run is not None and load_best_model and self._finished:
            checkpoint.load(self.run.best)  # a damaged file is told from any other trouble
        if self.run is None or not self._finished or self._validating:
            return super().evaluate(eval_data, load_best_model, *args, **kwargs)
        evaluator = self.evaluator
        self.evaluator = keeping = KeepingEvaluator(evaluator)
        try:
            with self._stoppable(self.run):
                result = super().evaluate(eval_data, load_best_model, *args, **kwargs)
                if keeping.collected is not None:
                    tested = tested_users(keeping.collected, eval_data, self._train_data)
                    if tested is not None:
                        self.run.write_tested(tested)
                elif load_best_model:  # without a test part RecBole has not even loaded it
                    best = checkpoint.load(self.run.best, map_location=self.device)
                    self.model.load_state_dict(best["state_dict"])
                    self.model.load_other_parameter(best.get("other_parameter"))
                    self.model.eval()
                summary = self._summary(self.run, result)
                self.run.finish(summary)
                if self.config["log_mlflow"]:
                    self._log_to_mlflow(self.run)
                if advice := temperature_advice(summary):
                    self.logger.info(advice)  # the command's last lines have it too
        finally:
            self.evaluator = evaluator
        return result

    def _log_to_mlflow(self, run: RunFolder) -> None:
        try:
            say(f"logged to MLflow as run {log_run(run)}")
        except Exception as error:  # a server's fault is no fault of the run, which is complete
            self.logger.warning(f"not logged to MLflow: {str(error).partition(chr(10))[0]}")

    def _full_sort_batch_eval(self, batched_data: Any) -> Any:
        self._stop.check()
        return super()._full_sort_batch_eval(batched_data)

    def _neg_sample_batch_eval(self, batched_data: Any) -> Any:
        self._stop.check()
        return super()._neg_sample_batch_eval(batched_data)

    def _budget_is_spent(self) -> bool:
        """Whether another epoch, as long as the last, would not end within budget_minutes; the first always may."""
        budget = self.config["budget_minutes"]
        if not budget or self._folder is None:
            return False
        taken = self.run.seconds_by_epoch() if self.run is not None else []
        spent = torch.tensor(bool(taken) and sum(taken) + taken[-1] > 60 * budget, device=self.device)
        ranks.share([spent])  # rank 0 has the records, and all must stop together
        return bool(spent)

    def _end_epoch(self) -> None:
        if self.run is not None and self._record is not None:
            self.run.add_epoch({**self._record, "peak_memory_mb": memory.peak_megabytes(self.device)})
            self._seconds.append(self._record["train_seconds"] + self._record.get("valid_seconds", 0.0))
            mean = sum(self._seconds) / len(self._seconds)
            epochs = min(self.epochs, self.config["stop_epoch"] or self.epochs)
            left = mean * (epochs - self._record["epoch"] - 1)
            say(epoch_line(self._record, self.valid_metric, self.cur_step == 0, epochs, left))
        self._record = None

    def _save_last(self, next_epoch: int) -> None:
        """All that is needed to go on as if nothing had happened."""
        if self._folder is None or not self._saving:
            return
        random, *others = ranks.gathered_states(randomness.state(), self.device)
        if self.run is None:
            return
        checkpoint.save(
            {
                "config": checkpoint.config_settings(self.config),
                "data": self._data,
                "next_epoch": next_epoch,
                "finished": self._finished,
                "stopped_by": self._stopped_by,
                "cur_step": self.cur_step,
                "best_valid_score": checkpoint.plain(self.best_valid_score),
                "best_valid_result": checkpoint.plain(self.best_valid_result),
                "state_dict": self.model.state_dict(),
                "other_parameter": checkpoint.other_parameter(self.model),
                "optimizers": {name: optimiser.state_dict() for name, optimiser in self._optimisers().items()},
                "random": random,
                "random_of_other_ranks": others,
                "loaders": [generator.get_state() for generator in randomness.generators(self._train_data)],
            },
            self.run.last,
        )

    def resume_checkpoint(self, resume_file: Any) -> None:
        """Continue from a last.pth of a run folder; anything else goes to RecBole."""
        if self._folder is None:
            super().resume_checkpoint(resume_file)
            return
        state = checkpoint.load(resume_file, map_location=self.device)
        if "next_epoch" not in state or not isinstance(state.get("config"), dict):
            raise CheckpointError(f"{resume_file} is not a last.pth: it does not say where to go on.")
        checkpoint.refuse_other_run(state["config"], self.config, resume_file)
        try:
            self.model.load_state_dict(state["state_dict"])
        except (RuntimeError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"the weights in {resume_file} do not fit {self.config['model']} on {self.config['dataset']} as it is "
                f"now; was the dataset changed since? ({error})"
            ) from error
        if state.get("data", self._data) != self._data:
            raise CheckpointError(
                f"{resume_file} was trained on other data than {self.config['dataset']} holds now: bring that back, or "
                "start a new run."
            )
        try:
            self._restore(state)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(f"{resume_file} does not hold what a last.pth of this run does: {error!r}") from error
        say(f"Resuming from epoch {self.start_epoch} of {resume_file}")

    def _restore(self, state: dict[str, Any]) -> None:
        """Everything but the weights."""
        self.model.load_other_parameter(state["other_parameter"])
        for name, optimiser in self._optimisers().items():
            checkpoint.restore_optimiser(optimiser, state["optimizers"][name])
        self.start_epoch = operator.index(state["next_epoch"])
        self._finished = state["finished"]
        self._stopped_by = state.get("stopped_by")
        self.cur_step = state["cur_step"]
        self.best_valid_score = state["best_valid_score"]
        self.best_valid_result = state["best_valid_result"]
        randomness.restore([state["random"], *state.get("random_of_other_ranks", ())], self.config["seed"])
        for generator, position in zip(randomness.generators(self._train_data), state["loaders"], strict=True):
            generator.set_state(position.cpu())

    def _optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """By attribute: most of RecBole's trainers have one, some two."""
        return {name: value for name, value in vars(self).items() if isinstance(value, torch.optim.Optimizer)}

    def _summary(self, run: RunFolder, test_result: Any) -> dict[str, Any]:
        epochs = run.read_epochs()
        scores = [record.get("valid_score", 0.0) for record in epochs]
        best = max(scores, default=0.0) if self.valid_metric_bigger else min(scores, default=0.0)
        # Of equally good epochs RecBole keeps the last.
        best_epoch = max((record["epoch"] for record in epochs if record.get("valid_score", 0.0) == best), default=-1)
        chosen = {key: self.config[key] for key in ("recipe", "tau_strategy", "loss") if self.config[key] is not None}
        return {
            "method": method_name(self.config["model"], self.config["recipe"]),
            "model": self.config["model"],
            **chosen,
            "dataset": self.config["dataset"],
            "protocol": self.config["protocol"],
            "seed": self.config["seed"],
            "best_epoch": best_epoch,
            "epochs": len(epochs),
            "stopped_by": self._stopped_by,
            "restarts": restarts(run.read_launches()),
            "seconds_to_best": sum(run.seconds_by_epoch()[: best_epoch + 1]),
            "parameters": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            "peak_memory_mb": max((record.get("peak_memory_mb") or 0.0 for record in epochs), default=0.0) or None,
            "train_seconds": sum(record["train_seconds"] for record in epochs),
            "valid_seconds": sum(record.get("valid_seconds", 0.0) for record in epochs),
            "best_valid_score": self.best_valid_score,
            "valid_score_bigger": self.valid_metric_bigger,
            "best_valid_result": self.best_valid_result,
            "test_result": test_result,
            **(self._temperatures(run) if isinstance(self.model, AdapTauRecommender) else {}),
        }

    @torch.no_grad()
    def _temperatures(self, run: RunFolder) -> dict[str, Any]:
        """Write down each user's temperature in the model that was tested; returns tau_0 and the spread of tau_u."""
        dataset, active = self._train_data._dataset, self.model.interactions.active_users
        tau = self.model.user_temperatures()[active].cpu().numpy()
        tau_0 = self.model.strategy.tau_0.item()
        run.write_temperatures(np.asarray(dataset.id2token(dataset.uid_field, active.cpu().numpy())), tau, tau_0)
        spread = zip(("min", "median", "max"), np.quantile(tau, [0.0, 0.5, 1.0]).tolist(), strict=True)
        calibrated = calibrated_temperatures(self.model, self._valid_data, self.config["seed"])
        return {"tau_0": tau_0, "tau_u": dict(spread), **calibrated}


def restarts(launches: list[str]) -> int:
    """How often a launcher has started the run again; its own count has those that died before they met, too."""
    earlier = [launch for launch in launches if launch != launches[-1]]
    counted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    return len(earlier) - len(set(earlier)) + max(len(launches) - len(earlier) - 1, counted, 0)


@cache
def recording(trainer: Any) -> type[Trainer]:
    """A trainer that also fills a run folder, where the configuration names one."""
    return type(trainer.__name__, (RunRecorder, trainer), {"__module__": trainer.__module__})
