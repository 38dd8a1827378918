"""Whether a target and its head fit into this machine's memory, tensor by tensor.

The same rules as loading has: on a GPU the layers' matrices become NF4 (blocks of 64
with a float32 magnitude each), tables stay in 16 bits and the embedding only goes along
where it is the output table too; on a CPU matrices become row-wise int8 and the
embedding stays in its file, of which rows are read as needed. Pure: no torch, no network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.hub.headers import Entry, Header
from engine.protocol.hub import Fit, Machine, Verdict

CONTEXT = 4096
GPU_WORKSPACE = 700 << 20
"""Bytes: the context of CUDA, kernels, and room for one pass. As :mod:`engine.placement` reckons."""
CPU_WORKSPACE = 500 << 20
"""Bytes: torch, the libraries and a tokenizer, and room for one pass; measured with the demo model."""
TIGHT = 0.9
"""Share of the free memory above which a model is called tight."""
NF4_BYTES = 0.5 + 4 / 64
GB = 1e9
_EMBEDDING = ("embed_tokens.weight", "wte.weight", "tok_embeddings.weight")
_OUTPUT = ("lm_head.weight", "output.weight")
_PACKED = ("qweight", "qzeros", "scales", "g_idx", "absmax", "quant_map", "quant_state", "nested_")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a configuration tells of the sizes of keys and values."""

    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    is_tied: bool
    max_positions: int
    experts: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """:raises ValueError: the configuration lacks what is needed."""
        inner = config.get("text_config")
        raw = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
        layer = raw.get("transformer_layer_config")
        if isinstance(layer, Mapping):
            raw = {**layer, **raw}
        try:
            heads = int(raw["num_attention_heads"])
            hidden = int(raw["hidden_size"])
            return cls(
                layers=int(raw.get("num_hidden_layers") or 1),
                kv_heads=int(raw.get("num_key_value_heads") or heads),
                head_dim=int(raw.get("head_dim") or hidden // heads),
                hidden=hidden,
                vocabulary=int(raw.get("vocab_size") or 0),
                is_tied=bool(
                    raw.get(
                        "tie_word_embeddings", raw.get("model_type") in ("gemma", "gemma2", "gemma3_text")
                    )
                ),
                max_positions=int(raw.get("max_position_embeddings") or 0),
                experts=int(raw.get("num_local_experts") or raw.get("num_experts") or 0),
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(f"the configuration does not tell {error}") from error

    def cache_bytes(self, context: int, is_gpu: bool) -> int:
        """Keys and values: 16 bits on a GPU; float32 on a CPU, with a number a key beside it."""
        each = 2 * self.layers * self.kv_heads * self.head_dim * context
        return each * 2 if is_gpu else each * 4 + 4 * self.layers * self.kv_heads * context


def target_bytes(header: Header, config: Mapping[str, Any], is_gpu: bool) -> int:
    """Bytes of a target's weights on its device, as the engine holds them."""
    shape = Shape.of(config)
    has_output = any(name.endswith(_OUTPUT) for name in header)
    total = 0.0
    for name, entry in header.items():
        if ".visual." in name or "vision_tower" in name or "vision_model" in name:
            continue
        if name.endswith(_EMBEDDING):
            total += _embedding(entry, has_output and not shape.is_tied, is_gpu)
        elif name.endswith(_OUTPUT):
            total += 0 if shape.is_tied else _table(entry, is_gpu)
        else:
            total += _weight(name, entry, is_gpu)
    return round(total)


def _embedding(entry: Entry, is_apart: bool, is_gpu: bool) -> float:
    """A table that is only looked up in stays in its file; one that is the output too is a table."""
    return 0.0 if is_apart else _table(entry, is_gpu)


def _table(entry: Entry, is_gpu: bool) -> float:
    return entry.count * 2.0 if is_gpu else float(entry.count + 4 * entry.rows)


def _weight(name: str, entry: Entry, is_gpu: bool) -> float:
    if any(part in name for part in _PACKED) or entry.dtype in ("U8", "I32", "F4"):
        return float(entry.bytes)  # 4-bit checkpoints stay as they are
    if len(entry.shape) < 2:
        return entry.count * 4.0  # norms and biases are kept in float32
    if is_gpu:
        return entry.count * NF4_BYTES
    return float(entry.count + 4 * (entry.count // entry.shape[-1] if entry.shape[-1] else 0))


def head_bytes(header: Header, is_gpu: bool) -> int:
    """Bytes of a head's weights: 16 bits on a GPU, row-wise int8 on a CPU; maps and embedding are apart."""
    total = 0.0
    for name, entry in header.items():
        if name.endswith(_EMBEDDING) or name in ("d2t", "t2d") or len(entry.shape) < 2:
            continue
        total += _table(entry, is_gpu)
    return round(total)


def estimate(
    machine: Machine,
    config: Mapping[str, Any],
    header: Header | None,
    file_bytes: int,
    *,
    head_config: Mapping[str, Any] | None = None,
    head_header: Header | None = None,
    head_file_bytes: int = 0,
    loaded_bytes: int = 0,
    context: int = CONTEXT,
) -> Fit:
    """What a pair needs and what is left of the memory, once what is loaded now is unloaded.

    Without headers (files of the older PyTorch format, GGUF) the sizes of the files stand in.

    :raises ValueError: the configuration tells too little.
    """
    gpu = machine.is_gpu
    shape = Shape.of(config)
    context = min(context, shape.max_positions or context)
    weights = target_bytes(header, config, gpu) if header else _rough(file_bytes, gpu)
    cache = shape.cache_bytes(context, gpu)
    head = head_bytes(head_header, gpu) if head_header else (head_file_bytes if gpu else head_file_bytes // 2)
    if head_config:
        with contextlib.suppress(ValueError):  # Medusa has no keys and values
            cache += Shape.of(head_config).cache_bytes(context, gpu)
    rough = header is None or bool(head_file_bytes and head_header is None)
    return verdict(machine, weights, head, cache, loaded_bytes, context, rough)


def _rough(file_bytes: int, is_gpu: bool) -> int:
    """Files of 16-bit weights: a quarter and a little in NF4, half in int8."""
    return round(file_bytes * 0.33) if is_gpu else round(file_bytes * 0.55)


def verdict(
    machine: Machine, weights: int, head: int, cache: int, loaded_bytes: int, context: int, is_rough: bool
) -> Fit:
    workspace = GPU_WORKSPACE if machine.is_gpu else CPU_WORKSPACE
    needed = weights + head + cache + workspace
    room = min(machine.total, machine.free + loaded_bytes)
    left = room - needed
    where = machine.device if machine.is_gpu else "memory"
    about = "about " if is_rough else ""
    if left < 0:
        found = Verdict.NO
        words = f"Needs {about}{needed / GB:.1f} GB; {room / GB:.1f} GB of {where} can be used."
    else:
        found = Verdict.TIGHT if needed > TIGHT * room else Verdict.FITS
        words = f"Needs {about}{needed / GB:.1f} of {room / GB:.1f} GB that can be used; {left / GB:.1f} GB stay free."
    if loaded_bytes:
        words += " The model that is loaded now is unloaded first."
    return Fit(
        found, words, weights, head, cache, workspace, needed, left, context,
        "NF4" if machine.is_gpu else "row-wise int8", is_rough,
    )  # fmt: skip


def from_parameters(machine: Machine, billions: float, loaded_bytes: int = 0) -> Fit:
    """A first guess, from the number of parameters alone."""
    if billions <= 0:
        return Fit(Verdict.UNKNOWN, "Its size is not known.")
    count = billions * 1e9
    tables = min(0.8e9, 0.1e9 + 0.06 * count)
    head = min(0.6e9, 0.15e9 + 0.03 * count)
    cache = 0.6e9 * (count / 8e9) ** 0.5
    if machine.is_gpu:
        weights, head = (count - tables) * NF4_BYTES + 2 * tables, 2 * head
    else:
        weights, cache = count + 2 * tables, 2 * cache
    return verdict(machine, round(weights), round(head), round(cache), loaded_bytes, CONTEXT, True)
