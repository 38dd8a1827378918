"""Large memory pages for the weights: a step reads all of them, and on Linux small pages cost half its speed.

Every step of a small model reads some hundred megabytes. In pages of 4 kB the processor
looks up an address for each of them; pages of 2 MB take those look-ups away. Linux gives them
to whoever asks (``madvise``, the usual setting of /sys/kernel/mm/transparent_hugepage/enabled),
and glibc asks for everything it allocates when told so before the process starts
(https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLE = "GLIBC_TUNABLES"
TUNABLE = "glibc.malloc.hugetlb"


def with_huge_pages(environment: Mapping[str, str]) -> dict[str, str] | None:
    """``environment`` with huge pages asked for; None when it already decides about them."""
    tunables = environment.get(VARIABLE, "")
    if TUNABLE in tunables:
        return None
    return {**environment, VARIABLE: f"{tunables}:{TUNABLE}=1".lstrip(":")}


def restart_with_huge_pages() -> None:
    """Start this process again with huge pages, once; elsewhere than on Linux do nothing.

    ``EYRIE_HUGE_PAGES=0`` leaves them out. The process keeps its number and its files.
    """
    if sys.platform != "linux" or os.environ.get("EYRIE_HUGE_PAGES") == "0":
        return
    environment = with_huge_pages(os.environ)
    if environment is None:
        return
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    except OSError:  # slower, but it runs
        return
