"""What can go wrong, said so that a person can act on it.

Every error that may reach a user carries two sentences: what happened and what
to do next. The worker turns them into :class:`engine.protocol.Failed`.
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of everything the engine raises on purpose.

    ``message`` names the cause, ``next_step`` tells the user what to do.
    """

    kind = "engine"

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(f"{message} {next_step}".strip())
        self.message = message
        self.next_step = next_step


class ModelError(EngineError):
    """The target cannot be loaded: missing, truncated, corrupt or unknown files."""

    kind = "model"


class HeadError(EngineError):
    """The head cannot be used. Plain decoding still works."""

    kind = "head"


class PromptError(EngineError):
    """The request cannot be run as asked, for instance a prompt longer than the context."""

    kind = "prompt"


class ResourceError(EngineError):
    """The machine lacks something: memory, disk space, a GPU."""

    kind = "resource"


class NetworkError(EngineError):
    """A download did not arrive."""

    kind = "network"
