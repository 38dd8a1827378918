"""Everything the application and the engine say to each other.

Commands go in, events come out; both are frozen dataclasses of plain data, so
that they cross a thread or a process boundary unchanged. ``app`` imports
nothing else from ``engine``, and nothing here imports torch.

The words are the field's: the *root* is a token already sampled from the
target, *nodes* are guesses of the head, a *step* is one pass of the target, and
the *acceptance length* (tau) is the number of tokens emitted per step, the bonus
token included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.protocol.calibration import Calibrate as Calibrate
from engine.protocol.calibration import Calibrated as Calibrated
from engine.protocol.calibration import Calibration as Calibration
from engine.protocol.calibration import CurvePoint as CurvePoint
from engine.protocol.margin import MarginMeasured as MarginMeasured
from engine.protocol.margin import MeasureMargin as MeasureMargin
from engine.settings import GenerationSettings as GenerationSettings
from engine.settings import MethodInfo as MethodInfo
from engine.settings import MethodSetting as MethodSetting
from engine.settings import Needs as Needs
from engine.settings import SettingKind as SettingKind
from engine.settings import SettingValue as SettingValue
from engine.settings import Shape as Shape
from engine.settings import TreeSettings as TreeSettings

# --------------------------------------------------------------------------- plain data


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str


class FinishReason(StrEnum):
    EOS = "eos"
    """The model ended its reply (end token or one of its stop strings)."""
    LENGTH = "length"
    CONTEXT = "context"
    STOPPED = "stopped"
    """The user stopped it."""
    ERROR = "error"


class Mode(StrEnum):
    PLAIN = "plain"
    EAGLE = "eagle"
    MIXED = "mixed"
    """EAGLE was switched during the reply."""


class Verdict(StrEnum):
    ROOT = "root"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    WINDOW = "window"
    """Not a guess: a row of the window, which the target computes for the method's sake."""


class Origin(StrEnum):
    """Where an emitted token came from."""

    TARGET = "target"
    """Sampled by the target: the first token, a bonus token, or plain decoding."""
    DRAFT = "draft"
    """Drafted by the head and accepted by the target."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One node of a draft tree. Nodes come in order: parents before children, index 0 is the root."""

    token_id: int
    text: str
    parent: int
    """Index of the parent node; -1 for the root."""
    depth: int
    """0 for the root."""
    draft_probability: float
    """The head's probability of this token given its parent; 1 for the root."""
    path_probability: float
    """Product of the draft probabilities from the root: the node's rank in the tree."""
    verdict: Verdict
    target_probability: float | None = None
    """The target's probability of this token given its parent, where it was computed."""
    target_rank: int | None = None
    """1 for the token that the target finds likeliest after the parent, where it was computed."""


@dataclass(frozen=True, slots=True)
class Bonus:
    """The token that the target itself chose after the last accepted node; the next root."""

    token_id: int
    text: str
    parent: int
    """Index of the last accepted node (0 when everything was rejected)."""
    target_probability: float | None = None
    target_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Where the guesses were copied from: the text's last tokens stood earlier in it, too."""

    text: str
    """Those tokens."""
    tokens: int
    """How many they are."""
    back: int
    """How many tokens earlier they stood."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The text one emitted token added. Empty while a character or a stop string is incomplete."""

    token_id: int
    text: str
    origin: Origin
    thinking: bool = False
    """Whether it belongs to the model's thought before the answer, the thought's tags included."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds spent in the parts of one step."""

    draft: float
    verify: float
    accept: float
    other: float

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.accept + self.other


@dataclass(frozen=True, slots=True)
class ReplyStats:
    """What a reply cost. ``decode_seconds`` leaves the prompt out."""

    mode: Mode
    prompt_tokens: int
    reused_tokens: int
    """Prompt tokens whose cache was kept from the turn before."""
    new_tokens: int
    steps: int
    """Target passes after the prompt."""
    drafted_tokens: int
    accepted_tokens: int
    accepted_by_depth: tuple[int, ...]
    """``accepted_by_depth[d]`` steps accepted at least d+1 draft tokens."""
    proposed_by_depth: tuple[int, ...]
    """``proposed_by_depth[d]`` steps had a node at depth d+1."""
    time_to_first_token: float
    decode_seconds: float
    times: StepTimes
    """Sums over the reply's steps."""
    method: str = ""
    """Id of the method."""

    @property
    def tokens_per_second(self) -> float:
        """Decode speed: the first token belongs to the prompt pass and is left out."""
        if self.decode_seconds <= 0 or self.new_tokens < 2:
            return 0.0
        return (self.new_tokens - 1) / self.decode_seconds

    @property
    def acceptance_length(self) -> float:
        """Tau: tokens emitted per target pass, the bonus token included."""
        return (self.new_tokens - 1) / self.steps if self.steps else 0.0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str
    """For people, e.g. "Gemma 3 270M (demo)"."""
    path: str
    architecture: str
    weight_format: str
    """E.g. "row-wise int8", "NF4", "float32"."""
    device: str
    context_length: int
    vocabulary: int
    memory_bytes: int
    head_name: str | None = None
    """Name of the loaded head; ``None`` when EAGLE cannot be offered."""
    head_problem: str | None = None
    """Why there is no head, for people, with what to do next."""
    is_demo: bool = False
    """The tiny demo model: the application says so and points to the hub."""
    licence_name: str = ""
    licence_text: str = ""
    """Shown once by the application, as plain text."""
    notice: str = ""
    """Something the user should know about the model, e.g. that it brings no chat template."""
    thinking_tags: tuple[str, str] | None = None
    """What the model's thoughts stand between in a reply, where it thinks before it answers."""
    thinking_optional: bool = False
    """Whether :attr:`GenerationSettings.thinking` switches its thinking on and off."""
    methods: tuple[MethodInfo, ...] = ()
    """Every method the engine knows, also those that this model cannot use, with the reason."""
    method: str = ""
    """Id of the method used when none is named."""


# --------------------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class Load:
    """Load a target and its head. ``model="demo"`` is the demo model with its shipped head."""

    model: str = "demo"
    head: str | None = None
    """Folder of the head; ``None`` takes the model's own, ``""`` loads none."""
    draft: str = ""
    """Folder of a smaller model with the same vocabulary, to draft with; none when empty."""
    device: str = ""
    """``cpu``, ``cuda`` or ``cuda:1``; empty takes a GPU where there is one."""
    weight_format: str = ""
    """``nf4``, ``int8`` (CPU), ``bfloat16``, ``float16`` or ``float32``; empty takes the best for the device."""
    double_quant: bool = False
    """NF4 with quantised block magnitudes: 8 % smaller, a little slower."""
    context: int = 0
    """Tokens of one chat; 0 takes a length that suits most models."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer the last user message, or write on the assistant's when that is the last.

    ``request_id`` marks every event that belongs to the reply.
    """

    request_id: str
    messages: tuple[Message, ...]
    settings: GenerationSettings = field(default_factory=GenerationSettings)


@dataclass(frozen=True, slots=True)
class SetEagle:
    """Switch EAGLE on or off from the next step of a running reply on."""

    request_id: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """End a reply after the step that is running. Unknown ids are ignored."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Unload:
    """Free the model."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Stop whatever runs and end the worker."""


Command = Load | Generate | SetEagle | Stop | Unload | Shutdown | Calibrate | MeasureMargin

# --------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker listens. ``device`` is for people, e.g. "CPU (2 threads)"."""

    device: str


@dataclass(frozen=True, slots=True)
class Loading:
    message: str
    fraction: float | None = None
    """0 to 1; ``None`` when it cannot be told."""


@dataclass(frozen=True, slots=True)
class Loaded:
    model: ModelInfo


@dataclass(frozen=True, slots=True)
class Unloaded:
    pass


@dataclass(frozen=True, slots=True)
class Started:
    """A reply begins: the prompt is being read."""

    request_id: str
    prompt_tokens: int
    reused_tokens: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Sent between chunks of a long prompt."""

    request_id: str
    done_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Step:
    """One target pass. Step 0 is the prompt pass: one piece, no tree."""

    request_id: str
    index: int
    pieces: tuple[Piece, ...]
    """What was emitted, cut at a stop: the accepted nodes, then the bonus token."""
    times: StepTimes
    nodes: tuple[TreeNode, ...] = ()
    """Empty in plain decoding."""
    accepted: tuple[int, ...] = ()
    """Indices into ``nodes`` of the accepted path, root left out, shallowest first."""
    bonus: Bonus | None = None
    mode: Mode = Mode.PLAIN
    method: str = ""
    """Id of the method that drafted ``nodes``."""
    shape: Shape = Shape.TREE
    window: tuple[TreeNode, ...] = ()
    """Rows that the target computed beside the guesses. Their parents are indices into
    ``nodes + window``."""
    notice: str = ""
    """Something the user should see now, e.g. that drafting pauses because it loses."""
    match: Match | None = None
    """Set where ``nodes`` were copied from earlier text."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Finished:
    request_id: str
    reason: FinishReason
    stats: ReplyStats
    token_ids: tuple[int, ...]
    """The reply's tokens, end token included."""
    text: str
    """The whole reply; equals the joined pieces."""
    notice: str = ""
    """Something the user should know, e.g. that EAGLE was switched off and why."""
    thinking: int = 0
    """Characters at the beginning of ``text`` that are the model's thought, its tags included."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A command failed. The worker goes on; what was generated before stays valid."""

    message: str
    next_step: str = ""
    kind: str = "engine"
    request_id: str | None = None
    """Set when a reply failed."""
    detail: str = ""
    """Traceback for the log, never shown by itself."""


Event = (
    Ready
    | Loading
    | Loaded
    | Unloaded
    | Started
    | PromptProgress
    | Step
    | Finished
    | Failed
    | Calibrated
    | MarginMeasured
)
