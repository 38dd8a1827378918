"""How fast a large file comes from loopback, beside ``curl``. By hand, from the project's folder::

    python -c "from tests.hub.throughput import main; main(2_000_000_000)"

Both fetch the same file from the same server in turn; the median counts. Ours also takes
the SHA-256 of every byte, which is told apart, and ends when the folder is told: the file is
verified then, and placed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from tests.hub_server import HubServer, Repository

BLOCK = 1 << 24
ROUNDS = 5


def _make(path: Path, size: int) -> None:
    """A safetensors file of one tensor, of random bytes that repeat every 16 MiB."""
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    block = os.urandom(BLOCK)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for at in range(0, size, BLOCK):
            file.write(block[: min(BLOCK, size - at)])


def large_repository(folder: Path, size: int) -> Repository:
    """A repository with a file of ``size`` bytes and little else."""
    _make(folder / "large.safetensors", size)
    return Repository("org/large", {"config.json": b"{}", "model.safetensors": folder / "large.safetensors"})


def _hashing(path: Path, expected: str) -> float:
    """Seconds that the checksum alone takes, the file being in memory."""
    begun, digest = time.monotonic(), hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    assert digest.hexdigest() == expected
    return time.monotonic() - begun


def _curl(url: str, target: Path) -> float:
    begun = time.monotonic()
    subprocess.run(["curl", "-sSL", "-o", str(target), url], check=True)
    return time.monotonic() - begun


def _ours(endpoint: str, folder: Path) -> tuple[float, int]:
    """When it told the folder, and the most memory that it took in bytes."""
    environment = dict(os.environ, HF_ENDPOINT=endpoint, HF_HOME=str(folder), HF_HUB_OFFLINE="0")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "download", "org/large", "--quiet"],
        env=environment,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    most = 0

    def watch() -> None:
        nonlocal most
        with contextlib.suppress(psutil.Error):
            while True:
                most = max(most, psutil.Process(process.pid).memory_info().rss)
                time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    told = process.stdout.readline()
    ended = time.monotonic()
    assert told and process.wait() == 0
    return ended, most


def main(size: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        repository = large_repository(folder, size)
        with HubServer([repository]) as hub:
            file = repository.commits[repository.head]["model.safetensors"]
            hashing = _hashing(folder / "large.safetensors", file.sha256)
            url = f"{hub.endpoint}/org/large/resolve/main/model.safetensors"
            curls, ours, memory = [], [], 0
            for _ in range(ROUNDS):
                curls.append(_curl(url, folder / "curl.bin"))
                (folder / "curl.bin").unlink()
                since = hub.now()
                ended, most = _ours(hub.endpoint, folder / "home")
                first = min(
                    each.at for each in hub.log if each.at >= since and each.path == "model.safetensors"
                )
                ours.append(ended - first)
                memory = max(memory, most)
                (got,) = (folder / "home").rglob("snapshots/*/model.safetensors")
                assert got.stat().st_size == file.size and got.resolve().name == file.sha256
                shutil.rmtree(folder / "home")
    curl, our = statistics.median(curls), statistics.median(ours)
    for name, seconds in (("curl", curls), ("ours", ours)):
        print(f"{name} {' '.join(f'{size / each / 1e6:.0f}' for each in seconds)} MB/s")
    print(f"medians: curl {size / curl / 1e6:.0f} MB/s, ours {size / our / 1e6:.0f} MB/s: {curl / our:.0%}")
    print(
        f"SHA-256 alone {size / hashing / 1e6:.0f} MB/s; curl and then sha256 {curl / (curl + hashing):.0%}"
    )
    print(f"most memory {memory / 1e6:.0f} MB")
