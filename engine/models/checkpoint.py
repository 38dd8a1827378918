"""A checkpoint's tensors under the names of Llama's layout, strictly: each is checked, each is used.

Whatever the file calls them (a multimodal model puts its text part below another
name) and however they are stored (floats or 4 bits), the loader asks by one name and
gets numbers or a :class:`StoredMatrix`. :meth:`Checkpoint.finish` names what nobody
asked for: a model with a tensor too many is another model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.matrices import FloatMatrix, StoredMatrix
from engine.models.packed import (
    QUANT_STATES,
    check_settings,
    read_awq,
    read_bitsandbytes,
    read_gptq,
)

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_PREFIXES = ("model.", "language_model.model.", "model.language_model.", "model.language_model.model.")
_OTHER_PARTS = (
    "vision_tower.",
    "multi_modal_projector.",
    "model.vision_tower.",
    "model.multi_modal_projector.",
    "vision_model.",
)
"""What a multimodal model has besides its text part."""
_BUFFERS = ("rotary_emb.inv_freq", "self_attn.masked_bias", "self_attn.bias_mask")
"""Constants that old versions of transformers saved along."""


class Tensors(Protocol):
    """Named tensors, read one by one (:mod:`engine.models.loading`, :mod:`engine.models.gguf_tensors`)."""

    def get(self, name: str) -> Tensor: ...


class NamedTensors(Tensors, Protocol):
    def names(self) -> Sequence[str]: ...


class Checkpoint:
    """Named tensors of one target."""

    def __init__(self, source: NamedTensors, quantization: Mapping[str, Any] | None = None) -> None:
        """``quantization`` is ``quantization_config`` of config.json.

        :raises ModelError: there is no text model in it, or a quantisation nobody knows.
        """
        self._source = source
        self._known = frozenset(source.names())
        self._used: set[str] = set()
        self._prefix = next((p for p in _PREFIXES if p + "embed_tokens.weight" in self._known), "model.")
        self._settings = dict(quantization or {})
        self.quantization = check_settings(self._settings) if self._settings else ""
        """The stored format for people, empty for floats."""
        self.mapped = bool(getattr(source, "mapped", True))
        """Whether :meth:`get` leaves a tensor in its file."""

    # ----------------------------------------------------------------- names

    def _name(self, name: str) -> str:
        """The file's name for Llama's ``name``."""
        if name.startswith("model."):
            return self._prefix + name.removeprefix("model.")
        if name not in self._known and f"language_model.{name}" in self._known:
            return f"language_model.{name}"
        return name

    def has(self, name: str) -> bool:
        return self._name(name) in self._known

    def get(self, name: str) -> Tensor:
        """The tensor as it is stored, unchecked; memory-mapped where the source does that.

        :raises ModelError: there is no such tensor.
        """
        return self._take(self._name(name), mapped=True)

    def _take(self, stored: str, mapped: bool = False) -> Tensor:
        if stored not in self._known:
            raise ModelError(f"The model lacks the tensor {stored}.", "Delete the model and download it again.")
        self._used.add(stored)
        read = self._source.get if mapped else getattr(self._source, "read", self._source.get)
        tensor: Tensor = read(stored)
        return tensor

    # ----------------------------------------------------------------- checked reading

    def tensor(self, name: str, *shape: int, mapped: bool = False) -> Tensor:
        """A float tensor of ``shape``, every number of it finite.

        :raises ModelError: it is missing, misshapen, not of floats, or holds NaN or infinity.
        """
        stored = self._name(name)
        tensor = self._take(stored, mapped)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"The tensor {stored} has shape {list(tensor.shape)} where config.json asks for {list(shape)}.",
                "The files do not belong together: delete the model and download it again.",
            )
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise ModelError(
                f"The tensor {stored} holds {str(tensor.dtype).removeprefix('torch.')}, "
                "not numbers of 16 or 32 bits.",
                "Choose another version of this model, for example the unquantised one.",
            )
        _require_finite(tensor, stored)
        return tensor

    def matrix(self, module: str, out: int, width: int) -> StoredMatrix:
        """The weight of ``module`` [out, in], as it is stored.

        :raises ModelError: see :meth:`tensor`.
        """
        stored = self._name(module + ".weight").removesuffix(".weight")
        shape = (out, width)
        for state in QUANT_STATES:
            if f"{stored}.{state}" in self._known:
                return read_bitsandbytes(stored, self._packed, state, shape)
        if f"{stored}.qweight" in self._known:
            if self._settings.get("quant_method") == "awq":
                return read_awq(stored, self._packed, shape, self._settings)
            indexed = f"{stored}.g_idx" in self._known
            return read_gptq(stored, self._packed, shape, self._settings, indexed)
        return FloatMatrix(self.tensor(module + ".weight", out, width))

    def _packed(self, stored: str) -> Tensor:
        tensor = self._take(stored)
        if tensor.is_floating_point():
            _require_finite(tensor, stored)
        return tensor

    def vector(self, name: str, size: int) -> Tensor:
        """Norm or bias [size] in float32; see :meth:`tensor`."""
        return self.tensor(name, size).float()

    def finish(self) -> None:
        """Every tensor was used.

        :raises ModelError: names one that was not.
        """
        left = sorted(
            name
            for name in self._known - self._used
            if not name.startswith(_OTHER_PARTS) and not name.endswith(_BUFFERS)
        )
        # GPTQ writes zero biases to every module; whether they are zero is looked at.
        left = [name for name in left if not self._is_zero_bias(name)]
        if left:
            more = f" and {len(left) - 1} more" if left[1:] else ""
            raise ModelError(
                f"The model has the tensor {left[0]}{more}, which its config.json does not explain.",
                "The files do not belong together, or the architecture is another: choose another model.",
            )

    def _is_zero_bias(self, name: str) -> bool:
        if not name.endswith(".bias") or f"{name.removesuffix('.bias')}.qweight" not in self._known:
            return False
        return not bool(self._take(name).any())


def _require_finite(tensor: Tensor, name: str) -> None:
    # In pieces: the comparison makes four tensors of the size of what it looks at.
    if not all(bool(torch.isfinite(part).all()) for part in torch.split(tensor.reshape(-1), 1 << 20)):
        raise ModelError(
            f"The tensor {name} holds values that are not finite numbers (NaN or infinity).",
            "Delete the model and download it again; if it stays, the model itself is damaged.",
        )
