"""What a run says on the screen; everything else goes to its run.log alone, unless `verbose` is set."""

import logging

from ..distributed import ranks


def say(text: str) -> None:
    """Log a line that is shown also by a run that is not verbose; of several processes, the first says it."""
    if ranks.is_first():
        logging.getLogger().info(text, extra={"shown": True})


def is_shown(record: logging.LogRecord) -> bool:
    """A filter for the console of a run that is not verbose: what `say` says, and warnings."""
    return record.levelno >= logging.WARNING or hasattr(record, "shown")


def duration(seconds: float) -> str:
    """For the eye: 3.2 s, 48 s, 5 min, 2 h 10 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def epoch_line(record: dict[str, object], metric: str, is_best: bool, epochs: int, left: float) -> str:
    """One line about an epoch.

    Args:
        record: What the run folder keeps of it.
        metric: The name of the metric that validates.
        is_best: Whether it is the best epoch so far.
        epochs: How many there are at most.
        left: Seconds that the epochs still to come would take.
    """
    loss = record["train_loss"]
    losses = loss if isinstance(loss, list) else [loss]
    number, width = int(str(record["epoch"])), len(str(epochs))
    parts = [f"epoch {number:>{width}} ({number + 1:>{width}}/{epochs})"]  # RecBole and result.json count from 0
    parts.append("loss " + " + ".join(f"{float(str(value)):#.4g}" for value in losses))
    if "valid_score" in record:
        parts.append(f"{metric} {float(str(record['valid_score'])):.4f}{' best' if is_best else '     '}")
    if "tau_0" in record:
        parts.append(f"tau_0 {float(str(record['tau_0'])):.3f}")
    taken = float(str(record["train_seconds"])) + float(str(record.get("valid_seconds", 0.0)))
    parts.append(duration(taken))
    if left:
        parts.append(f"at most {duration(left)} left")
    return "  ".join(parts)
