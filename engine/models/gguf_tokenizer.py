"""Builds ``tokenizer.json`` from the vocabulary inside a GGUF file.

Only Gemma's kind so far: sentencepiece BPE with byte fallback and no prefix
space. It is written directly, not through transformers' converter, which gives
the same tokens but needs some fifteen seconds and the import of transformers.
"""

from __future__ import annotations

from typing import Any

from engine.errors import ModelError
from engine.models.gguf_file import DOWNLOAD_AGAIN, GGUFFile

_CONTROL, _USER_DEFINED = 3, 4
"""``tokenizer.ggml.token_type``: matched whole in the text; control tokens are special as well."""

NAMED = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}
"""Names in ``tokenizer_config.json`` and after ``tokenizer.ggml.``"""


def special_ids(file: GGUFFile) -> dict[str, int]:
    """Token ids of the start, end, unknown and padding tokens that the file names."""
    ids = {}
    size = len(file.texts("tokenizer.ggml.tokens"))
    for name, key in NAMED.items():
        if f"tokenizer.ggml.{key}" in file.metadata:
            ids[name] = file.whole(f"tokenizer.ggml.{key}")
            if not 0 <= ids[name] < size:
                raise ModelError(
                    f"{file.path} names {ids[name]} as {name}, outside its vocabulary.", DOWNLOAD_AGAIN
                )
    return ids


def gemma_tokens(file: GGUFFile) -> list[str]:
    """The vocabulary, with tokens of spaces spelled ``▁▁`` as the tokenizer looks them up.

    :raises ModelError: two tokens are the same.
    """
    tokens = [
        "▁" * len(token) if token and not token.strip(" ") else token
        for token in file.texts("tokenizer.ggml.tokens")
    ]
    if len(set(tokens)) != len(tokens):
        raise ModelError(f"{file.path} has a token twice in its vocabulary.", DOWNLOAD_AGAIN)
    return tokens


def gemma_tokenizer(file: GGUFFile) -> dict[str, Any]:
    """The content of ``tokenizer.json``; the same tokens as the model's original tokenizer.

    :raises ModelError: the vocabulary is missing, damaged or of another kind.
    """
    kind = file.text("tokenizer.ggml.model")
    if kind != "llama":
        raise ModelError(
            f"{file.path} has a tokenizer of kind {kind!r}, which cannot be converted yet.",
            "Choose the safetensors version of this model.",
        )
    tokens = gemma_tokens(file)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    ids = special_ids(file)
    unknown = tokens[ids["unk_token"]] if "unk_token" in ids else None
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(file, tokens, set(ids.values())),
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": _start_token(tokens, ids)
        if file.metadata.get("tokenizer.ggml.add_bos_token")
        else None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": _merges(tokens, vocabulary),
        },
    }


def _added(file: GGUFFile, tokens: list[str], named: set[int]) -> list[dict[str, Any]]:
    """Runs of spaces are left to the merges: their spelling here never stands in a text."""
    kinds = file.metadata.get("tokenizer.ggml.token_type")
    if kinds is None or isinstance(kinds, (str, int, float, list)) or len(kinds) != len(tokens):
        raise ModelError(f"{file.path} does not say what kind each token is.", DOWNLOAD_AGAIN)
    spelled = file.texts("tokenizer.ggml.tokens")
    added = []
    for index, (token, kind) in enumerate(zip(tokens, kinds.tolist(), strict=True)):
        special = kind == _CONTROL or index in named
        if special or (kind == _USER_DEFINED and token == spelled[index]):
            added.append(
                {
                    "id": index,
                    "content": token,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": special,
                }
            )
    return added


def _merges(tokens: list[str], vocabulary: dict[str, int]) -> list[str] | list[list[str]]:
    """Every way to put a token together, earlier tokens first and, for one token, the longest left part first.

    The file has no merges, and Gemma's scores do not follow their order; the order
    of the vocabulary does (as in transformers, integrations/gguf/gguf_tokenizer_mapping.py).
    """
    pairs = [
        (token[:cut], token[cut:])
        for token in tokens
        for cut in range(len(token) - 1, 0, -1)
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]
    if any(" " in token for token in tokens):
        return [[left, right] for left, right in pairs]
    return [f"{left} {right}" for left, right in pairs]  # the short spelling loads a third faster


def _start_token(tokens: list[str], ids: dict[str, int]) -> dict[str, Any] | None:
    if "bos_token" not in ids:
        return None
    start = tokens[ids["bos_token"]]

    def token(part: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": start, "type_id": part}}

    def text(name: str, part: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": part}}

    return {
        "type": "TemplateProcessing",
        "single": [token(0), text("A", 0)],
        "pair": [token(0), text("A", 0), token(1), text("B", 1)],
        "special_tokens": {start: {"id": start, "ids": [ids["bos_token"]], "tokens": [start]}},
    }
