"""What the drafters ask of a loaded EAGLE head, whichever version it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine.models.cache import KVCache


class EagleInference(Protocol):
    """A loaded head. Row i pairs the target's features of token i with token i + 1; its
    position is i. A row's output predicts token i + 2, and stands in for the features of
    token i + 1 at the next level of a draft."""

    @property
    def name(self) -> str:
        """``EAGLE-3`` or ``EAGLE-2``, for people."""
        ...

    @property
    def taps(self) -> tuple[int, ...]:
        """Hidden states of the target that :meth:`fuse` reads, counted as layer inputs. None
        at all means the last layer's output, before the target's final norm."""
        ...

    def new_cache(self, max_length: int) -> KVCache: ...

    def fuse(self, features: Tensor) -> Tensor:
        """The target's features side by side [rows, taps * target hidden] → states [rows, hidden]."""
        ...

    def forward(
        self,
        states: Tensor,
        tokens: Sequence[int],
        positions: Sequence[int],
        cache: KVCache,
        drafted: int = 0,
        seen: Tensor | None = None,
    ) -> Tensor:
        """One pass. [rows, hidden] → outputs [rows, hidden]

        ``states`` are fused features or the outputs of parent nodes, ``tokens`` the
        tokens that follow them. Keys and values go behind the ``cache.length`` stable
        slots and the ``drafted`` ones of this tree. ``seen`` [rows, drafted + rows]
        says which of these a row sees, itself included; None means a causal run.
        """
        ...

    def best(self, hidden: Tensor, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """The ``count`` likeliest next tokens of each row of outputs, as target ids, best first,
        with their log-probabilities (softmax at temperature 1 over the draft vocabulary)."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of each row of outputs over the target's vocabulary [rows, vocab]; -inf for what
        cannot be drafted."""
        ...

    def memory_bytes(self) -> int: ...
