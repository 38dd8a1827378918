"""What is chosen in the picker: a model, one file of it where it has several, and a head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.protocol.hub import DownloadState, Phase


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen: repositories, and the folders where they lie already."""

    target: str = ""
    """A repository, or the path of an imported model."""
    file: str = ""
    """Of a repository with GGUF files: the first file of the one that is meant."""
    files: tuple[str, ...] = ()
    """All its parts."""
    target_path: str = ""
    head: str = ""
    head_path: str = ""
    is_head: bool = False
    """A head was looked at by itself: it can be downloaded, but not loaded."""
    head_was_chosen: bool = False
    """By the user: what is found later does not replace it."""
    size: int = 0
    head_size: int = 0

    @property
    def absent(self) -> tuple[str, ...]:
        """Repositories that are to be downloaded."""
        found = [self.target] if self.target and not self.target_path else []
        return tuple(found + ([self.head] if self.head and not self.head_path else []))


def coming(states: Iterable[DownloadState], repo_id: str, file: str) -> DownloadState | None:
    """The download of a repository, or of the GGUF ``file`` of it where that is not "", until it is done."""
    for state in states:
        if state.repo_id == repo_id and state.phase is not Phase.DONE:
            paths = [each.path for each in state.files]
            if not file or not paths or file in paths:
                return state
    return None
