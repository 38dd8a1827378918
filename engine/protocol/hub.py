"""What is known of models, heads, downloads and memory, as plain data.

The messages that carry it between the application and the hub's process are in
:mod:`engine.protocol.hub_messages`. Every text that comes from the hub (names, licences,
cards) is untrusted: shown as plain text or as Markdown without HTML, pictures and
loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# --------------------------------------------------------------------------- downloads


class Phase(StrEnum):
    QUEUED = "queued"
    PLANNING = "planning"
    """The hub is asked which files there are."""
    RUNNING = "running"
    VERIFYING = "verifying"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"

    @property
    def is_active(self) -> bool:
        return self in (Phase.PLANNING, Phase.RUNNING, Phase.VERIFYING)


@dataclass(frozen=True, slots=True)
class FileProgress:
    path: str
    size: int
    done: int
    """Bytes here so far."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong, for people. ``kind`` tells the window which cure to offer."""

    kind: str
    message: str
    next_step: str = ""
    link: str = ""
    """A page that helps, or ""."""


@dataclass(frozen=True, slots=True)
class DownloadState:
    """One download of the queue, as it is now."""

    download_id: str
    repo_id: str
    phase: Phase
    done: int = 0
    total: int = 0
    """Bytes; 0 until the hub has told."""
    speed: float = 0.0
    """Bytes a second over the last seconds; 0 when nothing arrives."""
    seconds_left: float | None = None
    files: tuple[FileProgress, ...] = ()
    note: str = ""
    """What it waits for, while it does."""
    problem: Problem | None = None
    folder: str = ""
    """The whole model, once it is there."""


# --------------------------------------------------------------------------- what fits


class Verdict(StrEnum):
    FITS = "fits"
    TIGHT = "tight"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where models would run, and what is free there. Sizes in bytes."""

    device: str
    """For people: the card's name, or "main memory"."""
    is_gpu: bool
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Fit:
    """What a pair takes of the machine's memory, in bytes."""

    verdict: Verdict
    words: str
    """One sentence with the numbers."""
    weights: int = 0
    head: int = 0
    cache: int = 0
    """Keys and values of ``context`` tokens, the head's included."""
    workspace: int = 0
    needed: int = 0
    left: int = 0
    """Free behind it, the model that is loaded now unloaded; negative where it does not fit."""
    context: int = 0
    weight_format: str = ""
    is_rough: bool = False
    """From the size of the files; the tensors have not been looked at."""


class PairVerdict(StrEnum):
    FITS = "fits"
    CAVEAT = "caveat"
    NOT = "not"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PairReport:
    """Whether a head belongs to a target, and the reasons as whole sentences."""

    verdict: PairVerdict
    reasons: tuple[str, ...] = ()


# --------------------------------------------------------------------------- what there is


@dataclass(frozen=True, slots=True)
class CataloguePair:
    """A target and a head that are known to belong together."""

    target: str
    head: str
    format: str
    """Who wrote the head's files, e.g. "SafeAILab EAGLE-3"."""
    family: str
    parameters: float
    """Billions of the target."""
    taps: tuple[int, ...] = ()
    """Layers whose input is tapped; empty for the usual ones of the format."""
    draft_vocabulary: int = 0
    """Tokens the head can draft; 0 where no source tells."""
    vram_gb: int = 0
    """Smallest usual card in NF4; 0 where none of up to 24 GB is enough."""
    is_tight: bool = False
    licence: str = ""
    is_gated: bool = False
    context: int = 0
    languages: tuple[str, ...] = ()
    speedup: float = 0.0
    """As published; 0 where nothing was."""
    speedup_source: str = ""
    notes: str = ""
    is_recommended: bool = False


@dataclass(frozen=True, slots=True)
class PairOffer:
    """A pair of the catalogue, seen from this machine."""

    pair: CataloguePair
    fit: Fit
    target_folder: str = ""
    """Where the target lies, if it is here whole; the same for the head."""
    head_folder: str = ""
    download_bytes: int = 0
    """What both take on disk; 0 until it is known."""
    is_recommended: bool = False
    """The catalogue recommends it, it fits, and this machine runs it fast enough."""


@dataclass(frozen=True, slots=True)
class HubModel:
    """One hit of a search."""

    repo_id: str
    downloads: int = 0
    likes: int = 0
    updated: str = ""
    """Date, ISO."""
    licence: str = ""
    is_gated: bool = False
    family: str = ""
    parameters: float = 0.0
    """Billions; 0 where the hub does not tell."""
    base_models: tuple[str, ...] = ()
    is_head: bool = False
    has_known_head: bool = False
    """The catalogue names a head for it, or one was found on the hub."""
    fit: Fit | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """One GGUF model of a repository that holds several."""

    label: str
    """E.g. "Q4_K_M"."""
    paths: tuple[str, ...]
    """Its file, or all parts it was split into; the first is loaded."""
    size: int
    """Bytes."""
    fit: Fit | None = None
    has_room: bool = True
    """On the disk with the cache."""


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What can be known of a repository before it is downloaded."""

    model: HubModel
    commit: str
    files: tuple[tuple[str, int], ...]
    """(path, bytes) of the files that are needed."""
    download_bytes: int
    fit: Fit | None
    card: str = ""
    """The model card: Markdown of strangers."""
    folder: str = ""
    problem: Problem | None = None
    """Why the engine cannot run it, or why its files cannot be read now."""
    quantisations: tuple[Quantisation, ...] = ()
    """GGUF files to choose one of, the smallest first; empty where the weights are of another kind."""
    file: str = ""
    """The first file of the quantisation that ``files`` and ``fit`` are about."""
    file_reason: str = ""
    """Why that one was suggested; "" where it was asked for."""


@dataclass(frozen=True, slots=True)
class HeadChoice:
    """A head that may belong to a target."""

    repo_id: str
    report: PairReport
    source: str
    """Where it was found: "catalogue", "metadata", "search" or "this computer"."""
    format: str = ""
    size: int = 0
    downloads: int = 0
    licence: str = ""
    is_gated: bool = False
    folder: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class LocalEntry:
    """A whole model, head or GGUF file on this computer."""

    name: str
    path: str
    """The folder or the GGUF file: what ``Load`` takes."""
    size: int
    is_head: bool = False
    family: str = ""
    repo_id: str = ""
    """Set where it lies in the hub cache."""
    commit: str = ""
    target_name: str = ""
    """Of a head: what its files say it was made for."""
    file: str = ""
    """Of a GGUF file in the hub cache: its name in the repository."""


class TokenSource(StrEnum):
    NONE = "none"
    SESSION = "session"
    KEYRING = "keyring"
    ENVIRONMENT = "environment"
    STORED = "stored"


class Sort(StrEnum):
    DOWNLOADS = "downloads"
    LIKES = "likes"
    UPDATED = "updated"
