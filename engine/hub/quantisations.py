"""The GGUF files of a repository: which there are, which is taken when none is named, and why.

One quantisation is one file, or the parts it was split into (``…-00001-of-00003.gguf``),
which are only of use together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.hub.problems import HubError

PREFERRED = "Q4_K_M"
USUAL = (PREFERRED, "Q4_K_S", "Q4_0", "Q5_K_M", "IQ4_XS", "Q8_0")
"""In the order they are taken when nothing is known of the machine."""
SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.\w+)$")
_LABEL = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d+(?:_[0-9A-Z]+)*|TQ\d_\d|MXFP4(?:_MOE)?|BF16|FP?16|FP?32))$", re.IGNORECASE
)
_NO_MODEL = re.compile(r"mmproj|imatrix", re.IGNORECASE)
"""Parts of models that see pictures, and figures for quantising."""


@dataclass(frozen=True, slots=True)
class Quantised:
    label: str
    """E.g. ``Q4_K_M``; the file's name where it tells none."""
    paths: tuple[str, ...]
    """All its parts in order; the first is what is loaded."""
    size: int
    """Bytes of all parts."""

    @property
    def path(self) -> str:
        return self.paths[0]


def parts_of(path: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The files that ``path`` is a part of, in order; itself alone where it was not split."""
    found = SHARD.match(path)
    if found is None:
        return (path,)
    same = (found["stem"], found["count"], found["suffix"])
    others = [
        other
        for other in paths
        if (shard := SHARD.match(other)) and shard.group("stem", "count", "suffix") == same
    ]
    return tuple(sorted(others)) or (path,)


def is_whole(paths: Sequence[str]) -> bool:
    """Whether no part is missing."""
    found = SHARD.match(paths[0])
    return found is None or len(paths) == int(found["count"])


def label_of(path: str) -> str:
    """``Q4_K_M`` of ``x/name.Q4_K_M-00001-of-00002.gguf``; the file's name without its ending where it tells none."""
    shard = SHARD.match(path)
    stem = shard["stem"] if shard else path.removesuffix(".gguf")
    found = _LABEL.search(stem)
    return found[1].upper() if found else stem.rpartition("/")[2]


def bits_of(label: str) -> float:
    """About how many bits such a file takes for each weight."""
    if found := re.search(r"(16|32)$", label):
        return float(found[1])
    digit = re.search(r"Q(\d)", label)
    return float(digit[1]) + (0.5 if label.endswith("_0") else 0.75) if digit else 4.8


def base_name(repo_id: str) -> str:
    """A repository's or file's name without what says that it is a GGUF, and which."""
    plain = re.sub(r"[-_.](i1-)?GGUF$", "", repo_id, flags=re.IGNORECASE)
    found = _LABEL.search(plain)
    return plain[: found.start()] if found and found.start() else plain


def quantisations(files: Iterable[tuple[str, int]]) -> tuple[Quantised, ...]:
    """Of a repository's files (path, bytes): the whole quantisations, the smallest first."""
    sizes = {path: size for path, size in files if path.endswith(".gguf") and not _NO_MODEL.search(path)}
    groups = {parts_of(path, sizes) for path in sizes}
    found = [
        Quantised(label_of(paths[0]), paths, sum(sizes[path] for path in paths))
        for paths in groups
        if is_whole(paths)
    ]
    return tuple(sorted(found, key=lambda each: (each.size, each.path)))


def usual(choices: Sequence[Quantised]) -> Quantised:
    """The one that is taken where nothing is known of the machine."""
    for wish in USUAL:
        if found := [each for each in choices if each.label.removeprefix("UD-") == wish]:
            return found[0]
    return choices[0]


def best(choices: Sequence[Quantised], room: int) -> tuple[Quantised, str]:
    """The one to suggest with ``room`` bytes of disk, and the reason as a sentence."""
    wished = usual(choices)
    if wished.label.removeprefix("UD-") == PREFERRED and wished.size <= room:
        return wished, f"{wished.label} is the usual choice: small, and close to the original."
    fitting = [each for each in choices if each.size <= room]
    if not fitting:
        return choices[0], f"{choices[0].label} is the smallest; not even it has room on the disk."
    # 16 bits a weight take twice the time to fetch, for a model that is held in 4 or 8.
    largest = ([each for each in fitting if "16" not in each.label and "32" not in each.label] or fitting)[-1]
    absent = "does not fit on the disk" if wished.label.removeprefix("UD-") == PREFERRED else "is not there"
    return largest, f"{largest.label} is the largest that has room on the disk; {PREFERRED} {absent}."


def size(count: float) -> str:
    """Bytes for people: "4.37 GB", "12.0 MB", "3 kB"."""
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.0f} kB"


def named(repo_id: str, choices: Sequence[Quantised], wish: str) -> Quantised:
    """The quantisation called ``wish``, however it is spelt. :raises HubError: there is none."""
    plain = wish.upper().removesuffix(".GGUF").replace("-", "_")
    for each in choices:
        if plain in (each.label.replace("-", "_"), each.label.removeprefix("UD-").replace("-", "_")):
            return each
    if not choices:
        raise HubError(f"{repo_id} holds no GGUF files.", "Leave out --quant.")
    there = ", ".join(f"{each.label} ({size(each.size)})" for each in choices)
    raise HubError(f"{repo_id} has no {wish}.", f"It has {there}.")
