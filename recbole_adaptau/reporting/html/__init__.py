"""One page about any runs, that opens in a browser without a network: `recbole-adaptau report --help`."""
