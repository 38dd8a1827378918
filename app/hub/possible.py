"""What can be done with what is chosen: the texts under the details, and of the button that downloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.hub import words
from app.hub.choice import Choice, coming
from app.language import tr
from engine.protocol.hub import DownloadState, HeadChoice, PairVerdict, Phase


@dataclass(frozen=True, slots=True)
class Possible:
    fetch: str = ""
    """Text of the button that downloads; "" where there is nothing to download."""
    can_load: bool = False
    state: str = ""
    """Why something cannot be done, or what is being done."""


def possible(choice: Choice, head: HeadChoice | None, states: Sequence[DownloadState]) -> Possible:
    """``head`` is what is known of the chosen head, ``states`` the queue of downloads."""
    if not choice.target:
        return Possible()
    if head is not None and head.report.verdict is PairVerdict.NOT:
        return Possible(state=tr("Hub", "This head does not fit. Choose another one, or none."))
    files = {choice.target: choice.file}
    downloads = {repo: coming(states, repo, files.get(repo, "")) for repo in choice.absent}
    absent = [repo for repo, download in downloads.items() if download is None]
    size = (0 if choice.target_path else choice.size) + (0 if choice.head_path else choice.head_size)
    fetch = tr("Hub", "Download")
    if size:
        fetch = tr("Hub", "Download {size}").format(size=words.size(size))
    state = ""
    if choice.absent and not absent:
        phases = {download.phase for download in downloads.values() if download is not None}
        state = tr("Hub", "It is being downloaded.")
        if Phase.FAILED in phases:
            state = tr("Hub", "Its download stopped; the reason is below.")
        elif Phase.PAUSED in phases:
            state = tr("Hub", "Its download is paused.")
    if choice.is_head and not choice.absent:
        state = tr("Hub", "A head is loaded together with its model: choose the model.")
    return Possible(fetch if absent else "", not choice.absent and not choice.is_head, state)
