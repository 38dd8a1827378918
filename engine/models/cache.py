"""The target's keys and values for one sequence, kept so that a tree path can be picked out."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import PromptError


class KVCache:
    """Preallocated keys and values, ``[layers, kv_heads, capacity, head_dim]`` each.

    With ``sized``, also one number a key, ``[layers, kv_heads, 1, capacity]``: its length,
    where the keys themselves are kept on an integer grid (:mod:`engine.models.attention`).

    Slots below ``length`` are verified: slot i holds position i. A forward pass writes
    its rows into the slots from ``length`` on; :meth:`keep` then moves the accepted ones
    down and forgets the rest. Capacity grows by doubling, so a long limit costs nothing
    until it is used.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        max_length: int,
        *,
        initial: int = 1024,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        sized: bool = False,
    ) -> None:
        self.max_length = max_length
        self.length = 0
        capacity = min(initial, max_length)
        shape = (layers, kv_heads, capacity, head_dim)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        sizes = (layers, kv_heads, 1, capacity if sized else 0)
        self._sizes = torch.zeros(sizes, dtype=torch.float32, device=device)
        self._sized = sized
        self._split()

    def _split(self) -> None:
        # One view a layer, made once: indexing costs as much as a small operation.
        self.keys = list(self._keys.unbind(0))
        self.values = list(self._values.unbind(0))
        self.sizes = list(self._sizes.unbind(0))

    @property
    def capacity(self) -> int:
        return self._keys.shape[2]

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` more slots; :class:`PromptError` beyond ``max_length``."""
        needed = self.length + rows
        if needed <= self.capacity:
            return
        if needed > self.max_length:
            raise PromptError(
                f"The context of {self.max_length:,} tokens is full.",
                "Start a new chat or shorten the messages.",
            )
        capacity = min(max(needed, 2 * self.capacity), self.max_length)
        for name in ("_keys", "_values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros((*old.shape[:2], capacity, old.shape[3]))
            new[:, :, : self.length] = old[:, :, : self.length]
            setattr(self, name, new)
        if self._sized:
            sizes = self._sizes.new_zeros((*self._sizes.shape[:3], capacity))
            sizes[..., : self.length] = self._sizes[..., : self.length]
            self._sizes = sizes
        self._split()

    def keep(self, rows: Tensor | int) -> None:
        """Accept rows of the pass just run.

        An int n accepts the first n; a tensor ``[n]`` of ascending row numbers gathers a
        tree path. Gathered through a copy, since source and destination overlap.
        """
        if isinstance(rows, int):
            self.length += rows
            return
        count = rows.numel()
        start, end = self.length, self.length + count
        if int(rows[-1]) != count - 1:
            slots = (rows + start).to(self._keys.device)
            self._keys[:, :, start:end] = self._keys.index_select(2, slots)
            self._values[:, :, start:end] = self._values.index_select(2, slots)
            if self._sized:
                self._sizes[..., start:end] = self._sizes.index_select(3, slots)
        self.length = end

    def truncate(self, length: int) -> None:
        """Forget everything from slot ``length`` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} slots to {length}")
        self.length = length

    def memory_bytes(self) -> int:
        return 2 * self._keys.numel() * self._keys.element_size() + 4 * self._sizes.numel()
