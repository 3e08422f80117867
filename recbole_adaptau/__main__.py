"""`python -m recbole_adaptau VERB`, the same as the command `recbole-adaptau VERB`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
