"""Deprecation warnings about RecBole's own code, which its user can do nothing about."""

import warnings


def silence_recbole_warnings() -> None:
    """Ignore three FutureWarnings, and those only when RecBole's modules cause them (issue 2215)."""
    for message, module in (
        (r"`torch\.cuda\.amp\.GradScaler\(args\.\.\.\)` is deprecated", r"recbole\.trainer\."),
        (r"`torch\.cuda\.amp\.autocast\(args\.\.\.\)` is deprecated", r"recbole\.trainer\."),
        (r"A value is trying to be set on a copy of a DataFrame or Series", r"recbole\.data\."),
    ):
        warnings.filterwarnings("ignore", message=message, category=FutureWarning, module=module)
