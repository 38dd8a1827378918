"""A target that our decoder does not follow, run plainly through transformers.

It has :class:`engine.models.decoder.Decoder`'s face as far as plain decoding uses it: rows
of one sequence in order, no trees, no taps. transformers' caches cannot keep one path of a
tree, and some models (recurrent ones) cannot forget a token either; where a cache cannot be
cut, the text that is kept is read again.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelError, PromptError
from engine.models.output_head import RowLogits


@dataclass(frozen=True, slots=True)
class ForeignConfig:
    """What the rest of the engine wants to know of such a target."""

    model_type: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    max_positions: int


class ForeignCache:
    """One sequence: transformers' cache and the tokens in it."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.length = 0
        self.tokens: list[int] = []
        self.stale = True
        """Whether ``past`` has to be made anew from ``tokens``."""
        self.past: Any = None

    def keep(self, rows: Tensor | int) -> None:
        """Accept the rows just run: all of them, for there are no trees here."""
        count = rows if isinstance(rows, int) else rows.numel()
        if self.length + count != len(self.tokens):
            self.truncate_to(self.length + count)
        self.length += count

    def truncate(self, length: int) -> None:
        """Forget everything from token ``length`` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        self.length = length
        if length != len(self.tokens):
            self.truncate_to(length)

    def truncate_to(self, length: int) -> None:
        surplus = len(self.tokens) - length
        del self.tokens[length:]
        if length == 0 or self.past is None:
            self.stale = True
        elif not self.stale:
            try:
                self.past.crop(-surplus)
            except Exception:  # whatever a recurrent or sliding cache raises; it is then read again
                self.stale = True

    def memory_bytes(self) -> int:
        return 0


class ForeignDecoder:
    """A causal language model of transformers, without its gradients."""

    def __init__(self, model: Any) -> None:
        text = model.config.get_text_config()
        self._model = model
        self.device = torch.device(model.device)
        positions = getattr(text, "max_position_embeddings", None) or 1 << 20
        self.config = ForeignConfig(
            model_type=str(getattr(model.config, "model_type", "unknown")),
            vocab_size=int(text.vocab_size),
            hidden_size=int(getattr(text, "hidden_size", 0) or 0),
            num_layers=int(getattr(text, "num_hidden_layers", 0) or 0),
            max_positions=int(positions),
        )
        # Mamba and its kin call the state that goes from pass to pass by another name.
        names = inspect.signature(type(model).forward).parameters
        self._past_name = next(
            (name for name in ("past_key_values", "cache_params", "cache", "state") if name in names), ""
        )

    @classmethod
    def load(cls, folder: Path, device: torch.device, dtype: torch.dtype, four_bits: bool) -> ForeignDecoder:
        """Load ``folder``; ``four_bits`` quantises to NF4 on the way.

        :raises ModelError: transformers does not know the model either, or cannot read it.
        """
        from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

        options: dict[str, Any] = {"dtype": dtype}
        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            if device.type == "cuda":
                options["device_map"] = {"": device}
                if four_bits and getattr(config, "quantization_config", None) is None:
                    settings: Any = BitsAndBytesConfig
                    options["quantization_config"] = settings(
                        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
                    )
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, config=config, trust_remote_code=False, local_files_only=True, **options
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError, TypeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            lines = str(error).strip().splitlines()
            raise ModelError(
                f"transformers cannot load {folder.name} either: {lines[0] if lines else type(error).__name__}",
                "Choose another model: Llama, Mistral, Qwen, Gemma, Phi or Mixtral work with EAGLE.",
            ) from error
        return cls(model.eval())

    def new_cache(self, max_length: int | None = None) -> ForeignCache:
        limit = min(max_length or self.config.max_positions, self.config.max_positions)
        return ForeignCache(limit)

    def memory_bytes(self) -> int:
        return int(self._model.get_memory_footprint())

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: ForeignCache,
        tree_mask: Tensor | None = None,
        taps: Sequence[int] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Run ``tokens`` [rows] behind what ``cache`` holds.

        Returns their logits [rows, vocab] in the place of hidden states, and no taps.

        :raises ValueError: a tree or taps are asked for.
        :raises PromptError: the context is full.
        """
        if tree_mask is not None or taps:
            raise ValueError("a model that runs through transformers takes no trees and has no taps")
        if cache.length + tokens.numel() > cache.max_length:
            raise PromptError(
                f"The context of {cache.max_length:,} tokens is full.",
                "Start a new chat or shorten the messages.",
            )
        if len(cache.tokens) != cache.length:  # rows of a pass that nobody kept
            cache.truncate_to(cache.length)
        fresh = tokens.tolist()
        again = cache.tokens if cache.stale or not self._past_name else []
        ids = torch.tensor([[*again, *fresh]], device=self.device)
        inputs: dict[str, Any] = {"input_ids": ids, "use_cache": True}
        if self._past_name:
            if cache.stale:
                cache.past = None
            inputs[self._past_name] = cache.past
        out = self._model(**inputs)
        if self._past_name:
            cache.past = getattr(out, self._past_name, None)
        cache.tokens.extend(fresh)
        cache.stale = cache.past is None
        logits: Tensor = out.logits[0, -len(fresh) :].float()
        return logits, []

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def argmax(self, hidden: Tensor) -> Tensor:
        return hidden.argmax(-1)

    def argmax_and_rows(self, hidden: Tensor) -> tuple[Tensor, RowLogits | None]:
        return hidden.argmax(-1), lambda row: hidden[row]
