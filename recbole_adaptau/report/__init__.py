"""One page about any runs, that opens in a browser without a network: `python -m recbole_adaptau.report --help`."""
