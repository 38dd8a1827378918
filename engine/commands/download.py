"""``python -m engine download``: a model and its head into the hub cache, resumable."""

from __future__ import annotations

import argparse
import sys
import time

from engine.commands.download_head import judge_head
from engine.errors import EngineError
from engine.hub import cache
from engine.hub.api import HubApi
from engine.hub.connection import Connection
from engine.hub.details import sizes_of
from engine.hub.downloads import Downloads
from engine.hub.finding import repository_in
from engine.hub.local import cached
from engine.hub.manifest import needed
from engine.hub.memory import free_disk
from engine.hub.part import PART
from engine.hub.place import HubPlace
from engine.hub.problems import HubError
from engine.hub.quantisations import best, named, quantisations, size
from engine.hub.tokens import Tokens
from engine.hub.transfer import Retry
from engine.protocol.hub import DownloadState, Phase

INTERVAL = 0.2
LINE_SECONDS = 5.0
"""Where the output is no terminal, a line comes this often."""


def run(arguments: argparse.Namespace) -> int:
    """The folders go to standard output, one a line; progress goes to standard error."""
    place, tokens = HubPlace.from_environment(), Tokens()
    arguments.repository = _name(arguments.repository)
    if place.offline:
        return _offline(place, arguments)
    connection = Connection(place, tokens)
    # No records: a rerun of the command takes up what the journals in the cache say.
    api = HubApi(place, tokens, connection)
    downloads = Downloads(api, connection, retry=Retry(tries=12))
    shown = Shown(arguments.quiet)
    try:
        wanted = [(arguments.repository, arguments.revision, _files(arguments, api))]
        if arguments.head:  # the small one first: what is wrong with it shows before gigabytes have come
            head = _name(arguments.head)
            judge_head(api, arguments.repository, arguments.revision, head, arguments.anyway, arguments.quiet)
            wanted.insert(0, (head, "main", ()))
        downloads.start()
        for each in wanted:
            downloads.add(*each)
            while not downloads.wait(INTERVAL):
                shown.show(downloads.states())
            if any(state.phase is Phase.FAILED for state in downloads.states()):
                break
    except HubError as error:
        raise EngineError(error.message, f"{error.next_step}\n{error.link}".strip()) from error
    except KeyboardInterrupt:
        shown.clear()
        print("Pausing…", file=sys.stderr)
        downloads.close()
        print("Paused. Run the same command again to go on where it stopped.", file=sys.stderr)
        return 130
    finally:
        connection.close()
    shown.clear()
    states = downloads.states()
    downloads.close()
    for state in states:
        if state.problem is not None:
            link = f"\n{state.problem.link}" if state.problem.link else ""
            raise EngineError(state.problem.message, f"{state.problem.next_step}{link}")
        if state.phase is not Phase.DONE:
            raise HubError(f"{state.repo_id} was not downloaded.", "Run the command again.")
    for state in reversed(states):
        print(state.folder)
    return 0


def _offline(place: HubPlace, arguments: argparse.Namespace) -> int:
    """What is here already needs no hub. :raises HubError: something is not."""
    wanted = [arguments.repository, *([_name(arguments.head)] if arguments.head else [])]
    here = {entry.repo_id: entry.path for entry in cached(place.cache) if not entry.file}
    try:
        place.require_network()
    except HubError as error:
        chosen = arguments.file or arguments.quant or arguments.revision != "main"
        for name in wanted:
            if chosen or name not in here:
                unfinished = any(cache.blobs_folder(place.cache, name).glob(f"*{PART}"))
                part = "has only arrived in part" if unfinished else "is not on this computer"
                raise HubError(
                    f"{name} {part if not chosen else 'cannot be looked for'}. {error.message}",
                    "Unset HF_HUB_OFFLINE and run the same command again; what has arrived is kept.",
                ) from error
    for name in wanted:
        print(here[name])
    return 0


def _name(text: str) -> str:
    """The repository of a name or of an address that was copied from a browser."""
    return repository_in(text) or text.strip()


def _files(arguments: argparse.Namespace, api: HubApi) -> tuple[str, ...]:
    """The files that were asked for by name or by quantisation; none for the usual ones.

    :raises HubError: the hub refuses, or the repository has no such quantisation.
    """
    if arguments.file:
        return tuple(arguments.file)
    sizes = sizes_of(api.info(arguments.repository, arguments.revision, files=True))
    there = quantisations(sizes)
    if arguments.quant:
        return named(arguments.repository, there, arguments.quant).paths
    if not any(path.endswith(".gguf") for path in needed(path for path, _ in sizes)):
        return ()
    chosen, reason = best(there, free_disk(api.place.cache) - api.place.reserve)
    if len(there) > 1 and not arguments.quiet:
        others = ", ".join(f"{each.label} ({size(each.size)})" for each in there if each != chosen)
        print(f"{reason} Others, with --quant: {others}.", file=sys.stderr)
    return chosen.paths


class Shown:
    """One line of progress that is written over, or now and then a new one."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._last = 0.0
        self._noted = ""

    def show(self, states: tuple[DownloadState, ...]) -> None:
        active = next((each for each in states if each.phase.is_active), None)
        if self._quiet or active is None:
            return
        line = progress_line(active)
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        elif time.monotonic() - self._last > LINE_SECONDS or active.note != self._noted:
            print(line, file=sys.stderr, flush=True)
            self._last, self._noted = time.monotonic(), active.note

    def clear(self) -> None:
        if self._terminal and not self._quiet:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_line(state: DownloadState) -> str:
    """E.g. "Qwen/Qwen3-1.7B  41%  1.40 GB of 3.40 GB  52.0 MB/s  38 s left"."""
    if state.phase is Phase.PLANNING or not state.total:
        return f"{state.repo_id}  {state.note or 'asking the hub'} …"
    parts = [
        state.repo_id,
        f"{state.done / state.total:.0%}",
        f"{size(state.done)} of {size(state.total)}",
    ]
    if state.phase is Phase.VERIFYING:
        parts.append("checking")
    elif state.note and not state.speed:
        parts.append(state.note)
    else:
        parts.append(f"{size(state.speed)}/s")
        if state.seconds_left is not None:
            parts.append(duration(state.seconds_left))
    return "  ".join(parts)


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s left"
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min left"
