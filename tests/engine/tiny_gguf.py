"""Writes tiny random GGUF files of Gemma 3's true architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf.quants import quantize

HIDDEN, INNER, HEADS, HEAD_DIM, LAYERS, CONTEXT, WINDOW = 64, 96, 2, 256, 7, 256, 16
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


def vocabulary() -> tuple[list[str], list[int]]:
    """Tokens and their types, laid out as in Gemma's files: spaces as spaces, line breaks user-defined."""
    typed: dict[str, int] = {"<pad>": CONTROL, "<eos>": CONTROL, "<bos>": CONTROL, "<unk>": CONTROL}
    typed |= {"<mask>": CONTROL, "<start_of_turn>": CONTROL, "<end_of_turn>": CONTROL}
    typed |= {"\n": USER_DEFINED, "\n\n": USER_DEFINED, "  ": USER_DEFINED, "   ": USER_DEFINED}
    typed |= {"<table>": USER_DEFINED, "\t": USER_DEFINED}
    typed |= {f"<0x{byte:02X}>": BYTE for byte in range(256)}
    typed |= dict.fromkeys(["▁t", "he", "▁the", "th", "in", "an", "hell", "hello", "lo", "▁a"], NORMAL)
    typed |= dict.fromkeys("▁abcdefghijklmnopqrstuvwxyzABC.,!?:0123456789é日本", NORMAL)
    return list(typed), list(typed.values())


def tensors(seed: int = 0) -> dict[str, tuple[np.ndarray[Any, Any], Kind]]:
    """Random weights by name in the file, and how to store each."""
    chance = np.random.default_rng(seed)
    vocab = len(vocabulary()[0])

    def weight(*shape: int) -> np.ndarray[Any, Any]:
        return (chance.standard_normal(shape) * 0.2).astype(np.float32)

    def norm(size: int) -> np.ndarray[Any, Any]:
        return (1 + chance.standard_normal(size) * 0.1).astype(np.float32)

    found: dict[str, tuple[np.ndarray[Any, Any], Kind]] = {
        "token_embd.weight": (weight(vocab, HIDDEN), Kind.Q8_0),
        "output_norm.weight": (norm(HIDDEN), Kind.F32),
    }
    for layer in range(LAYERS):
        rows = {
            "attn_norm": (norm(HIDDEN), Kind.F32),
            "attn_q": (weight(HEADS * HEAD_DIM, HIDDEN), Kind.Q5_0),
            "attn_k": (weight(HEAD_DIM, HIDDEN), Kind.Q4_0),
            "attn_v": (weight(HEAD_DIM, HIDDEN), Kind.F16),
            "attn_output": (weight(HIDDEN, HEADS * HEAD_DIM), Kind.BF16),
            "attn_q_norm": (norm(HEAD_DIM), Kind.F32),
            "attn_k_norm": (norm(HEAD_DIM), Kind.F32),
            "post_attention_norm": (norm(HIDDEN), Kind.F32),
            "ffn_norm": (norm(HIDDEN), Kind.F32),
            "ffn_gate": (weight(INNER, HIDDEN), Kind.Q4_1),
            "ffn_up": (weight(INNER, HIDDEN), Kind.Q5_1),
            "ffn_down": (weight(HIDDEN, INNER), Kind.F32),
            "post_ffw_norm": (norm(HIDDEN), Kind.F32),
        }
        found |= {f"blk.{layer}.{stem}.weight": value for stem, value in rows.items()}
    return found


def write(
    path: Path,
    *,
    architecture: str = "gemma3",
    change: dict[str, tuple[np.ndarray[Any, Any], Kind] | None] | None = None,
    metadata: dict[str, Any] | None = None,
    tensors_a_part: int = 0,
) -> Path:
    """One file, or several with ``tensors_a_part`` tensors each. ``change`` replaces, adds or (None) leaves out tensors; ``metadata`` adds entries, strings or numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=tensors_a_part)
    tokens, types = vocabulary()
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(1e6)
    writer.add_sliding_window(WINDOW)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_bos_token_id(tokens.index("<bos>"))
    writer.add_eos_token_id(tokens.index("<eos>"))
    writer.add_unk_token_id(tokens.index("<unk>"))
    writer.add_pad_token_id(tokens.index("<pad>"))
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    for key, value in (metadata or {}).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for name, entry in (tensors() | (change or {})).items():
        if entry is not None:
            numbers, kind = entry
            plain = kind is Kind.F32
            writer.add_tensor(
                name, numbers if plain else quantize(numbers, kind), raw_dtype=None if plain else kind
            )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
