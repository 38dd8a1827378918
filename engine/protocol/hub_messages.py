"""Everything the application and the hub's process say to each other.

As :mod:`engine.protocol`: frozen dataclasses, commands in and events out, over the
same transports; ``Ready``, ``Failed`` and ``Shutdown`` are shared with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.protocol.hub import (
    DownloadState,
    HeadChoice,
    HubModel,
    LocalEntry,
    Machine,
    ModelDetails,
    PairOffer,
    Problem,
    Sort,
    TokenSource,
)

# --------------------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class Browse:
    """Send the catalogue, what is on this computer, the downloads and the account."""

    loaded_bytes: int = 0
    """What the model that is loaded now holds: it would be unloaded first. 0 where none is."""
    engine_pid: int = 0
    """The process that holds it, which is looked at for what it really takes; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Search:
    request_id: int
    text: str
    sort: Sort = Sort.DOWNLOADS
    family: str = ""
    licence: str = ""
    only_with_head: bool = False
    only_fitting: bool = False
    largest: float = 0.0
    """Billions of parameters; 0 for any."""
    pages: int = 1
    """How much of what the hub has is looked through, from the first hit on."""


@dataclass(frozen=True, slots=True)
class LookAt:
    """Send details of a repository, and of the memory it takes together with ``head``."""

    request_id: int
    repo_id: str
    """Or the path of an imported model."""
    head: str = ""
    file: str = ""
    """The GGUF file that is meant, where there are several; "" for the one to suggest."""


@dataclass(frozen=True, slots=True)
class FindHeads:
    request_id: int
    target: str
    """A repository, or the path of a local model."""
    asker: str = ""
    """Which window asks: a newer request takes the place of an older one of the same window only."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Queue downloads, one after the other."""

    repo_ids: tuple[str, ...]
    only: tuple[str, ...] = ()
    """Files wanted of ``only_of``, where not the usual."""
    only_of: str = ""
    """The repository that ``only`` is about; "" for the first one."""


@dataclass(frozen=True, slots=True)
class Pause:
    download_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    download_id: str


@dataclass(frozen=True, slots=True)
class Cancel:
    download_id: str
    delete: bool = False
    """Also delete what has arrived."""


@dataclass(frozen=True, slots=True)
class EnterToken:
    """Use a token from now on; an empty one forgets the one that was entered."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Import:
    """Look at a folder or GGUF file of the user's; nothing is copied."""

    request_id: int
    path: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Take an imported folder or GGUF file off the list; it stays where it is."""

    path: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a model from the hub cache."""

    repo_id: str
    commit: str


# --------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Catalogue:
    machine: Machine
    offers: tuple[PairOffer, ...]
    problem: str = ""
    """What is wrong with the user's own catalogue file, or ""."""


@dataclass(frozen=True, slots=True)
class Found:
    request_id: int
    models: tuple[HubModel, ...]
    unchecked: int = 0
    """Of a search for models with a head: how many are still asked about; what has one follows."""
    has_more: bool = False
    """Whether another page may bring more."""
    looked_at: int = 0
    """Hits of the hub that were looked through, before the filters."""


@dataclass(frozen=True, slots=True)
class Details:
    request_id: int
    details: ModelDetails


@dataclass(frozen=True, slots=True)
class Heads:
    request_id: int
    target: str
    heads: tuple[HeadChoice, ...]
    is_complete: bool = True
    """False while the hub is still asked."""


@dataclass(frozen=True, slots=True)
class Queue:
    """All downloads, sent when something changed."""

    downloads: tuple[DownloadState, ...]
    free_disk: int = 0


@dataclass(frozen=True, slots=True)
class Local:
    entries: tuple[LocalEntry, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    request_id: int
    entry: LocalEntry


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    source: TokenSource
    problem: Problem | None = None
    is_offline: bool = False


@dataclass(frozen=True, slots=True)
class HubFailed:
    """A command failed; ``request_id`` is its own, 0 where it has none."""

    request_id: int
    problem: Problem


HubCommand = (
    Browse
    | Search
    | LookAt
    | FindHeads
    | Fetch
    | Pause
    | Resume
    | Cancel
    | EnterToken
    | Import
    | Forget
    | Delete
)
HubEvent = Catalogue | Found | Details | Heads | Queue | Local | Imported | Account | HubFailed
