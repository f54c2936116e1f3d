"""`python -m hwmatrix`."""

from __future__ import annotations

import sys

from hwmatrix.cli import main

if __name__ == "__main__":
    sys.exit(main())
