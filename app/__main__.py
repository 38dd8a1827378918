"""``python -m app`` starts Eyrie."""

from __future__ import annotations

import multiprocessing
import sys

from app.application import main

if __name__ == "__main__":
    multiprocessing.freeze_support()
    sys.exit(main())
