"""A process asks for huge pages before it allocates anything, and only once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.huge_pages import with_huge_pages


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.check=1", "glibc.malloc.check=1:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", None),
        ("glibc.malloc.check=1:glibc.malloc.hugetlb=1", None),
    ],
)
def test_other_tunables_stay_and_a_choice_is_kept(before: str | None, after: str | None) -> None:
    environment = {"HOME": "/"} | ({"GLIBC_TUNABLES": before} if before else {})
    found = with_huge_pages(environment)
    assert found == (None if after is None else environment | {"GLIBC_TUNABLES": after})


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux only")
@pytest.mark.parametrize("asked", ["1", "0"])
def test_the_process_starts_again_as_itself(asked: str) -> None:
    script = (
        "import os, sys; from engine.huge_pages import restart_with_huge_pages; "
        "restart_with_huge_pages(); print(os.getpid(), os.environ.get('GLIBC_TUNABLES', ''), sys.argv[1:])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    process = subprocess.Popen(
        [sys.executable, "-c", script, "a b", "ü"],
        env=environment | {"EYRIE_HUGE_PAGES": asked, "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    out, _ = process.communicate(timeout=60)
    tunables = "glibc.malloc.hugetlb=1" if asked == "1" else ""
    assert out.strip() == f"{process.pid} {tunables} ['a b', 'ü']"
