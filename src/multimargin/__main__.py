"""``python -m multimargin`` is the program ``multimargin``."""

import sys

from multimargin.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
