"""Text to token ids and back, without transformers.

Every tokenizer the engine knows turns ids into text by joining bytes: each token
stands for a few of them, be it a word, part of an emoji, or a byte-fallback token
such as ``<0xE2>``. So decoding is ``bytes -> UTF-8``, and an incremental UTF-8
decoder streams it at constant cost per token. Invalid UTF-8, which only a
confused model writes, shows as U+FFFD just as Python's ``errors="replace"`` does.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers

from engine.errors import ModelError
from engine.thinking import TAG_TEXTS

DOWNLOAD_AGAIN = "Delete the model and download it again."


class Tokenizer:
    """The tokenizer of one model folder. Safe to share between threads."""

    def __init__(self, backend: tokenizers.Tokenizer, bos_id: int | None, name: str = "the model") -> None:
        """Use :meth:`load`; this is for tokenizers that are already in memory.

        :raises ModelError: the tokenizer decodes in a way that cannot be streamed.
        """
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._codec = _Codec(backend, name)
        self.bos_id = bos_id
        added = backend.get_added_tokens_decoder()
        self.vocabulary: int = max(backend.get_vocab_size(with_added_tokens=True), max(added, default=-1) + 1)
        """One more than the largest id; a model's output may be wider, padded to a round number."""

    @classmethod
    def load(cls, folder: str | Path) -> Tokenizer:
        """Read ``tokenizer.json`` and, for the start token, ``tokenizer_config.json``.

        Older models have sentencepiece's ``tokenizer.model`` instead, which is converted.

        :raises ModelError: ``tokenizer.json`` is missing, damaged or of an unknown kind.
        """
        folder = Path(folder)
        path = folder / "tokenizer.json"
        if not path.is_file() and (folder / "tokenizer.model").is_file():
            from engine.sentencepiece import convert

            backend = convert(folder / "tokenizer.model")
            return cls(backend, _bos_id(folder, backend), folder.name)
        if not path.is_file():
            raise ModelError(
                f"{folder.name} has no tokenizer.json.",
                "Choose a model that ships one, or download it again.",
            )
        try:
            backend = tokenizers.Tokenizer.from_buffer(path.read_bytes())
        except Exception as error:  # the library raises plain Exception for every problem
            raise ModelError(f"{path} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
        return cls(backend, _bos_id(folder, backend), folder.name)

    def same_as(self, other: Tokenizer) -> bool:
        """Whether both give every id the same token."""
        return bool(self._backend.get_vocab(True) == other._backend.get_vocab(True))

    def encode(self, text: str, add_bos: bool = False) -> list[int]:
        """Token ids of ``text``. Special tokens written in it, such as ``<eos>``, become those tokens.

        ``add_bos`` puts the start token in front unless the text brings it along.
        Unpaired surrogates, which are not text, become U+FFFD.
        """
        clean = (
            text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if _has_surrogate(text) else text
        )
        ids: list[int] = self._backend.encode(clean, add_special_tokens=False).ids
        if add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``; special tokens and unknown ids add nothing."""
        stream = StreamDecoder(self)
        return "".join([stream.push(token) for token in ids]) + stream.flush()

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes this token adds to the text; empty for special tokens and unknown ids."""
        return self._codec.bytes_of(token_id)

    def token_text(self, token_id: int) -> str:
        """One token for people: its text, ``<eos>`` for a special token, ``<0xE2>`` for part of a character."""
        data = self._codec.bytes_of(token_id)
        if not data:
            name: str | None = self._backend.id_to_token(token_id) if token_id >= 0 else None
            return name if name is not None else f"<{token_id}>"
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in data)

    @property
    def strips_first_space(self) -> bool:
        """Whether decoding drops one leading space, which encoding had put there (Llama 2)."""
        return self._codec.strips_first_space


class StreamDecoder:
    """Decodes a reply token by token; what it returns is final and can be shown.

    The pushes and the flush together equal :meth:`Tokenizer.decode` of all ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = tokenizer.strips_first_space

    def push(self, token_id: int) -> str:
        """The text that became complete with this token, often empty inside emoji or CJK."""
        return self._first(self._utf8.decode(self._tokenizer.token_bytes(token_id)))

    def flush(self) -> str:
        """What is left at the end: U+FFFD where the last character stayed incomplete. Ready for a new text after."""
        text = self._first(self._utf8.decode(b"", final=True))
        self._utf8.reset()
        self._strip = self._tokenizer.strips_first_space
        return text

    def _first(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text


# --------------------------------------------------------------------------- one token's bytes


class _Codec:
    """Reads the tokenizer's decoder once and turns a token into bytes as it would."""

    def __init__(self, backend: tokenizers.Tokenizer, name: str) -> None:
        self._backend = backend
        self._replacements: list[tuple[str, str]] = []
        self._byte_level = False
        self._byte_fallback = False
        self.strips_first_space = False
        added = backend.get_added_tokens_decoder()
        # A thought's tags are shown even where a tokenizer calls them special: they are text to mark.
        self._special = frozenset(
            number for number, token in added.items() if token.special and token.content not in TAG_TEXTS
        )
        state = json.loads(backend.decoder.__getstate__()) if backend.decoder is not None else None
        for part in _flat(state):
            if not self._understands(part):
                raise ModelError(
                    f"The tokenizer of {name} decodes with {part.get('type')!r}, which cannot be shown as it is written.",
                    "Choose a Llama, Mistral, Qwen or Gemma model.",
                )

    def _understands(self, part: dict[str, Any]) -> bool:
        match part:
            case {"type": "ByteLevel"}:
                self._byte_level = True
            case {"type": "ByteFallback"}:
                self._byte_fallback = True
            case {"type": "Fuse"}:
                pass
            case {"type": "Replace", "pattern": {"String": old}, "content": new}:
                self._replacements.append((old, new))
            case {"type": "Strip", "content": " ", "start": 1, "stop": 0}:
                self.strips_first_space = True
            case {"type": "Metaspace", "replacement": old, **options}:
                self._replacements.append((old, " "))
                self.strips_first_space = options.get("prepend_scheme", "always") != "never"
            case _:
                return False
        return True

    def bytes_of(self, token_id: int) -> bytes:
        if token_id < 0 or token_id in self._special:
            return b""
        token: str | None = self._backend.id_to_token(token_id)
        if token is None:
            return b""
        if self._byte_level:
            table = _byte_level_table()
            try:
                return bytes(table[character] for character in token)
            except KeyError:  # an added token: written as it is
                return token.encode("utf-8")
        if self._byte_fallback and len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            try:
                return bytes((int(token[3:5], 16),))
            except ValueError:
                pass
        for old, new in self._replacements:
            token = token.replace(old, new)
        return token.encode("utf-8")


def _flat(state: Any) -> list[dict[str, Any]]:
    if state is None:
        return []
    if state["type"] == "Sequence":
        return [part for inner in state["decoders"] for part in _flat(inner)]
    return [state]


@lru_cache(maxsize=1)
def _byte_level_table() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes (``bytes_to_unicode`` in openai/gpt-2, encoder.py)."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    table.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return table


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _bos_id(folder: Path, backend: tokenizers.Tokenizer) -> int | None:
    path = folder / "tokenizer_config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
    token = settings.get("bos_token")
    text = token.get("content") if isinstance(token, dict) else token
    found: int | None = backend.token_to_id(text) if isinstance(text, str) else None
    return found
