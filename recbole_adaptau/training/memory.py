"""How much memory a run takes at its peak, where the system tells."""

import sys
from contextlib import suppress
from pathlib import Path

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def count_anew(device: torch.device) -> None:
    """Forget the peak so far, so that a run is not charged for what ran before it in this process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # only Linux has it
        _CLEAR.write_text("5")


def peak_megabytes(device: torch.device) -> float | None:
    """The most that was held at once: of the GPU if the run is there, else of the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
