"""What is chosen in the picker: a model, one file of it where it has several, and a head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.protocol.hub import DownloadState, LocalEntry, Phase


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
    """A repository, or the folder of one that is here."""
    head_path: str = ""
    head_repo: str = ""
    """The repository of a head that is here, if it is of one: where it can be had again."""
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

    @property
    def head_names(self) -> tuple[str, ...]:
        """All that the chosen head may be called in a list that was made before it came here, or after."""
        return tuple(name for name in (self.head_path, self.head, self.head_repo) if name)

    def among(self, entries: Iterable[LocalEntry]) -> Choice:
        """The same choice where these models and heads lie here, and no others."""
        entries = tuple(entries)
        here = {(entry.repo_id, entry.file): entry.path for entry in entries if entry.repo_id}
        choice = self
        if choice.target and choice.target != choice.target_path:
            choice = replace(choice, target_path=here.get((choice.target, choice.file), ""))
        if choice.head_path and choice.head_path not in {entry.path for entry in entries}:
            repo = choice.head_repo or (choice.head if choice.head != choice.head_path else "")
            choice = replace(choice, head=repo, head_path="")
        if choice.head and not choice.head_path:
            choice = replace(choice, head_path=here.get((choice.head, ""), ""))
        return choice


def coming(states: Iterable[DownloadState], repo_id: str, file: str) -> DownloadState | None:
    """The download of a repository, or of the GGUF ``file`` of it where that is not "", until it is done."""
    for state in states:
        if state.repo_id == repo_id and state.phase is not Phase.DONE:
            paths = [each.path for each in state.files]
            if not file or not paths or file in paths:
                return state
    return None
