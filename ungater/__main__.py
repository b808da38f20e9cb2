"""`python -m ungater`."""

import sys

from ungater.app import main

if __name__ == "__main__":
    sys.exit(main())
