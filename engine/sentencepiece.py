"""Reads sentencepiece's ``tokenizer.model``, which older models (Vicuna, Llama 2) have instead of a tokenizer.json.

The file is one protobuf message (``sentencepiece_model.proto`` in google/sentencepiece):
field 1 repeats a piece (1 its text, 2 its score, 3 its kind), field 2 holds the trainer's
settings (3 the model's kind). Kinds of pieces are those of GGUF files, so transformers' own
conversion from there does the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import tokenizers

from engine.errors import ModelError

_BPE = 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Value = int | bytes


def convert(path: Path) -> tokenizers.Tokenizer:
    """:raises ModelError: the file is damaged, or not of the kind that Llama's family uses."""
    try:
        tokens, scores, kinds, model = _read(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}).", "Download the model again.") from error
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path} is not a sentencepiece model ({error}).", "Delete this file and download it again."
        ) from error
    if model != _BPE:
        raise ModelError(
            f"{path} is a sentencepiece model of another kind than Llama's.",
            "Choose a version of the model that has a tokenizer.json.",
        )
    from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer

    content = {"tokenizer_type": "llama", "tokens": tokens, "scores": scores, "token_type": kinds}
    backend, _ = convert_gguf_tokenizer("llama", content)
    made: tokenizers.Tokenizer = backend
    return made


def _read(data: bytes) -> tuple[list[str], list[float], list[int], int]:
    """(texts, scores, kinds of pieces, kind of the model)"""
    tokens: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    model = 1
    for field, value in _fields(data):
        if field == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            text, score = piece[1], piece.get(2, b"\0\0\0\0")
            if not isinstance(text, bytes) or not isinstance(score, bytes):
                raise ValueError("a piece without text")
            tokens.append(text.decode("utf-8"))
            scores.append(float(struct.unpack("<f", score)[0]))
            kinds.append(int(piece.get(3, 1)))
        elif field == 2 and isinstance(value, bytes):
            model = int(dict(_fields(value)).get(3, 1))
    if not tokens:
        raise ValueError("it holds no pieces")
    return tokens, scores, kinds, model


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """(number, value) of a message's fields: whole numbers, or bytes as they are."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"unknown field at byte {at}")
        if at + length > len(data):
            raise ValueError("it ends too early")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
