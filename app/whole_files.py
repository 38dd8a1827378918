"""Files that appear under their name only when they are complete. No Qt here."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

Progress = Callable[[int, int], None]
"""``(done, total)``, 0 of 0 while that is not known; raises :class:`Cancelled` to end the work."""


class Cancelled(Exception):
    """The user does not want it any more."""


def unwatched(_done: int, _total: int) -> None:
    """A :data:`Progress` that nobody looks at."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when it is complete; whatever goes wrong, an older one stays.

    :raises OSError: it cannot be written.
    """
    part = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
