"""A small random model and heads for it, as repositories of the test hub."""

from __future__ import annotations

from pathlib import Path

from tests.hub_server import Repository

TARGET = "tests/tiny-gemma"
HEAD = "tests/tiny-gemma-eagle3"
OTHER_HEAD = "tests/other-eagle3"
CARD = """---
license: apache-2.0
---
# Tiny <script>alert(1)</script>

A *random* model. ![picture](http://203.0.113.7/p.png) [a page](https://example.org/x)

<img src="http://203.0.113.7/q.png">
"""


def files_of(folder: Path) -> dict[str, bytes | Path]:
    return {
        str(path.relative_to(folder)): path if path.suffix == ".safetensors" else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make(folder: Path) -> None:
    """Write the target, a head that fits, and one that was made for another vocabulary."""
    from engine.heads.checkpoint import write_eagle3
    from tests.engine import tiny

    target = tiny.save_with_tokenizer(folder / "target")
    (target / "README.md").write_text(CARD, encoding="utf-8")
    write_eagle3(folder / "head", tiny.checkpoint(1, vocabulary=tiny.BYTES))
    write_eagle3(folder / "other", tiny.checkpoint(2, vocabulary=96))


def repositories(folder: Path) -> list[Repository]:
    """What :func:`make` wrote, as repositories."""
    made = [Repository(TARGET, files_of(folder / "target"), downloads=500, likes=7, parameters=300_000)]
    for name, place, downloads in ((HEAD, "head", 20), (OTHER_HEAD, "other", 90)):
        files = files_of(folder / place)
        made.append(Repository(name, files, base_models=(TARGET,), downloads=downloads, licence="mit"))
    return made
