"""What ``python -m engine download --head`` tells of the head before anything is fetched."""

from __future__ import annotations

import sys

from engine.errors import HeadError
from engine.hub.api import HubApi
from engine.hub.content import Contents
from engine.hub.head_choices import HeadFinder
from engine.hub.headers import RemoteHeaders
from engine.hub.judging import NOT_ASKED, Judge
from engine.protocol.hub import PairReport, PairVerdict


def judge_head(api: HubApi, target: str, revision: str, head: str, anyway: bool, quiet: bool) -> None:
    """Say to standard error whether ``head`` fits ``target``, from configurations and headers alone.

    :raises HeadError: it does not, and is not wanted ``anyway``.
    :raises HubError: the hub does not know one of them, or does not answer.
    """
    judge = Judge()
    try:
        report = HeadFinder(api, Contents(api, RemoteHeaders(api), judge), judge).pair(target, head, revision)
    finally:
        judge.close()
    if report.verdict is PairVerdict.NOT and not anyway:
        raise HeadError(
            f"{head} does not fit {target}. {' '.join(report.reasons)} Nothing was downloaded.",
            f"Choose a head that was made for {target}, leave out --head, or download it all the same with --anyway.",
        )
    if not quiet:
        print(said(report, target, head), file=sys.stderr)


def said(report: PairReport, target: str, head: str) -> str:
    """The verdict as one line."""
    words = {
        PairVerdict.FITS: f"{head} fits {target}.",
        PairVerdict.CAVEAT: f"{head} fits {target}, but:",
        PairVerdict.UNKNOWN: f"Whether {head} fits {target} cannot be told before it is here.",
        PairVerdict.NOT: f"{head} does not fit {target}:",
    }
    reasons = () if report == NOT_ASKED else report.reasons
    return " ".join((words[report.verdict], *reasons))
