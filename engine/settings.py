"""What can be asked of a reply, and how a method describes itself and its own settings.

Part of :mod:`engine.protocol`, from which everything here is imported. The settings
page and the command line are built from :class:`MethodInfo`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

SettingValue = int | float | bool | str


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Size of the dynamic draft tree; ``None`` fields are chosen by the engine for this machine."""

    nodes: int | None = None
    """Rows verified in one target pass, root included."""
    depth: int | None = None
    """Levels below the root."""
    top_k: int | None = None
    """Children considered per node, and nodes expanded per level."""


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    temperature: float = 0.0
    """0 is greedy decoding."""
    top_p: float = 1.0
    top_k: int = 0
    """0 switches the filter off."""
    max_new_tokens: int = 256
    seed: int | None = None
    eagle: bool = True
    tree: TreeSettings = field(default_factory=TreeSettings)
    stop: tuple[str, ...] = ()
    """Stop strings in addition to the model's own."""
    thinking: bool | None = None
    """Thoughts before the answer, where :attr:`ModelInfo.thinking_optional`; None leaves it to the model."""
    method: str = ""
    """Id of a method of :attr:`ModelInfo.methods`; empty takes :attr:`ModelInfo.method`."""
    options: tuple[tuple[str, SettingValue], ...] = ()
    """The method's own settings, by name; what is left out has its default."""
    adapt: bool = True
    """Let the engine choose the sizes that are left open from what it measured, and pause
    drafting while it loses against plain decoding."""
    min_p: float = 0.0
    """Tokens below this share of the likeliest one's probability are left out; 0 switches it off."""
    repetition_penalty: float = 1.0
    """Divides the positive logits, multiplies the negative ones, of every token that stands in
    the prompt or the reply; 1 switches it off."""
    presence_penalty: float = 0.0
    """Taken off the logits of the tokens that stand in the reply."""
    frequency_penalty: float = 0.0
    """Taken off a token's logit for each time that it stands in the reply."""
    no_repeat_ngram: int = 0
    """No n tokens in a row come twice, the prompt counted in; 0 switches it off."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Added to the logits of these token ids."""
    explain: bool = False
    """Also work out what the target gives the guesses, where it can be done: costs a little time."""


class Shape(StrEnum):
    """The form in which a method's guesses are best drawn."""

    TREE = "tree"
    CHAIN = "chain"
    WINDOW = "window"
    """Chains of n-grams, beside the window of positions that makes the next ones."""


class Needs(StrEnum):
    """What a method needs beside the target."""

    NOTHING = "nothing"
    HEAD = "head"
    MEDUSA_HEADS = "medusa heads"
    DRAFT_MODEL = "draft model"


class SettingKind(StrEnum):
    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"
    CHOICE = "choice"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class MethodSetting:
    """One setting of a method, as the settings page and the command line show it."""

    name: str
    """The key in :attr:`GenerationSettings.options`."""
    title: str
    meaning: str
    """One sentence for people."""
    kind: SettingKind
    default: SettingValue | None
    """``None``: the engine chooses for this machine."""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    """Of a choice: all values. Of a text: names that are understood beside free text."""
    lossy: tuple[SettingValue, ...] = ()
    """Values with which the reply no longer follows the target's own distribution: to be
    labelled "changes the distribution"."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A way to draft, and whether the loaded model can use it."""

    id: str
    name: str
    """For people."""
    about: str
    """What it does, in a sentence or two."""
    needs: Needs
    shape: Shape
    settings: tuple[MethodSetting, ...] = ()
    lossless: bool = True
    """Whether it follows the target's own distribution with the default settings."""
    drafts: bool = True
    """False for plain decoding."""
    problem: str = ""
    """Why it cannot be used with what is loaded, and what would help; empty when it can."""
