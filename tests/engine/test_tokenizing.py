from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from engine.errors import ModelError
from engine.tokenizing import StreamDecoder, Tokenizer

TEXTS = [
    "Hello world",
    " leading and trailing ",
    "two  spaces\n\n\tand tabs\r\n",
    "naïve café",
    "日本語のテキスト",
    "emoji 🙂👩‍👩‍👧‍👦🇩🇪 end",
    "العربية עברית",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u0000\u0007",
    "\u00a0\u2028\u200b\ufeff",
    "",
]


def sentencepiece_like(prefix_space: bool) -> tokenizers.Tokenizer:
    """A BPE with byte fallback, as Gemma's (no prefix space) or Llama 2's (with one)."""
    vocab = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}
    vocab |= {f"<0x{byte:02X}>": 4 + byte for byte in range(256)}
    for character in "▁abcdefghijklmnopqrstuvwxyzABCDEHIJ.,!?é日\n":
        vocab[character] = len(vocab)
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("▁", "w"), ("▁", "▁")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    backend = tokenizers.Tokenizer(
        models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    parts: list[decoders.Decoder] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix_space:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        parts.append(decoders.Strip(" ", 1, 0))
    else:
        backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Sequence(parts)
    backend.add_special_tokens(["<pad>", "<eos>", "<bos>", "<unk>"])
    backend.add_tokens([AddedToken("<table>", normalized=False), AddedToken("▁▁▁", normalized=False)])
    return backend


def byte_level() -> tokenizers.Tokenizer:
    """A byte-level BPE, as Llama 3's and Qwen's."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    backend.add_special_tokens(["<|begin|>", "<|end|>"])
    backend.add_tokens([AddedToken("<tool call é>", normalized=False)])
    return backend


KINDS = {
    "gemma": lambda: sentencepiece_like(False),
    "llama2": lambda: sentencepiece_like(True),
    "llama3": byte_level,
}


@pytest.fixture(params=sorted(KINDS))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer(KINDS[request.param](), bos_id=None)


def random_text(chance: random.Random) -> str:
    ranges = [
        (0x20, 0x7E),
        (0x00, 0x24F),
        (0x4E00, 0x4FFF),
        (0x1F300, 0x1FAFF),
        (0x0, 0xD7FF),
        (0xE000, 0x10FFFF),
    ]
    characters = []
    for _ in range(chance.randint(0, 24)):
        low, high = chance.choice(ranges)
        characters.append(chr(chance.randint(low, high)))
    return "".join(characters)


def streamed(tokenizer: Tokenizer, ids: list[int]) -> tuple[list[str], str]:
    stream = StreamDecoder(tokenizer)
    return [stream.push(token) for token in ids], stream.flush()


def test_text_survives_encoding_and_decoding(tokenizer: Tokenizer) -> None:
    chance = random.Random(1)
    for text in TEXTS + [random_text(chance) for _ in range(400)]:
        if "▁" in text or "<" in text:
            continue
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids) == tokenizer._backend.decode(ids, skip_special_tokens=True)


def test_streaming_shows_whole_characters_only(tokenizer: Tokenizer) -> None:
    chance = random.Random(2)
    split = 0
    for text in TEXTS + [random_text(chance) for _ in range(400)]:
        if "▁" in text or "<" in text or "\ufffd" in text:
            continue
        ids = tokenizer.encode(text)
        pushes, rest = streamed(tokenizer, ids)
        assert "".join(pushes) == text
        assert rest == ""
        assert "\ufffd" not in "".join(pushes)
        split += sum(not push for push in pushes)
    assert split > 100, "the texts must contain characters made of several tokens"


def test_streaming_any_ids_equals_decoding_them(tokenizer: Tokenizer) -> None:
    chance = random.Random(3)
    broken = 0
    for _ in range(1500):
        ids = [chance.randrange(tokenizer.vocabulary + 3) for _ in range(chance.randint(0, 30))]
        pushes, rest = streamed(tokenizer, ids)
        whole = tokenizer.decode(ids)
        assert "".join(pushes) + rest == whole
        joined = b"".join(tokenizer.token_bytes(token) for token in ids).decode("utf-8", "replace")
        assert whole == (joined.removeprefix(" ") if tokenizer.strips_first_space else joined)
        broken += "\ufffd" in whole
    assert broken > 100, "random ids must contain invalid UTF-8"


def test_valid_ids_decode_as_the_tokenizers_library_does(tokenizer: Tokenizer) -> None:
    """Ids that form valid UTF-8, special and added tokens among them."""
    chance = random.Random(4)
    compared = 0
    for _ in range(3000):
        ids = [chance.randrange(tokenizer.vocabulary) for _ in range(chance.randint(1, 4))]
        try:
            b"".join(tokenizer.token_bytes(token) for token in ids).decode("utf-8")
        except UnicodeDecodeError:
            continue
        assert tokenizer.decode(ids) == tokenizer._backend.decode(ids, skip_special_tokens=True)
        compared += 1
    assert compared > 300


def test_an_incomplete_end_appears_at_the_flush_and_the_stream_starts_anew() -> None:
    tokenizer = Tokenizer(sentencepiece_like(False), bos_id=2)
    stream = StreamDecoder(tokenizer)
    first, second = 4 + 0xF0, 4 + 0x9F
    assert [stream.push(first), stream.push(second)] == ["", ""]
    assert stream.flush() == "\ufffd"
    assert stream.push(tokenizer.encode("a")[0]) == "a"


def test_each_push_costs_the_same_however_long_the_reply() -> None:
    """The decoder keeps at most the bytes of one unfinished character."""
    tokenizer = Tokenizer(sentencepiece_like(False), bos_id=2)
    stream = StreamDecoder(tokenizer)
    for token in tokenizer.encode("hello 日本 " * 500):
        stream.push(token)
        assert len(stream._utf8.getstate()[0]) < 4


def test_the_start_token_comes_once() -> None:
    tokenizer = Tokenizer(sentencepiece_like(False), bos_id=2)
    plain = tokenizer.encode("hello")
    assert tokenizer.encode("hello", add_bos=True) == [2, *plain]
    assert tokenizer.encode("<bos>hello", add_bos=True) == [2, *plain]
    assert tokenizer.encode("<bos>hello") == [2, *plain]
    assert Tokenizer(sentencepiece_like(False), bos_id=None).encode("hello", add_bos=True) == plain


def test_one_token_is_readable_by_itself() -> None:
    tokenizer = Tokenizer(sentencepiece_like(False), bos_id=2)
    names = {tokenizer.token_text(token): token for token in range(tokenizer.vocabulary)}
    assert {" w", "hello", "é", "\n", "<eos>", "<table>", "<0xF0>", "A", "   "} <= names.keys()
    assert tokenizer.token_text(tokenizer.vocabulary + 5) == f"<{tokenizer.vocabulary + 5}>"
    assert tokenizer.token_text(-1) == "<-1>"
    assert tokenizer.token_bytes(-1) == b""
    level = Tokenizer(byte_level(), bos_id=None)
    readable = [level.token_text(token) for token in range(level.vocabulary)]
    assert "<0xF0>" in readable and "<|end|>" in readable and "<tool call é>" in readable


def test_unpaired_surrogates_are_not_text() -> None:
    tokenizer = Tokenizer(sentencepiece_like(False), bos_id=2)
    assert set(tokenizer.decode(tokenizer.encode("a\ud800b"))) == {"a", "\ufffd", "b"}


def test_truncation_and_padding_of_the_file_are_ignored(tmp_path: Path) -> None:
    backend = sentencepiece_like(False)
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert len(Tokenizer.load(tmp_path).encode("abcdefghijkl")) == 12


def test_a_folder_is_loaded_with_its_start_token(tmp_path: Path) -> None:
    folder = tmp_path / "Modell ü 模型"
    folder.mkdir()
    sentencepiece_like(False).save(str(folder / "tokenizer.json"))
    assert Tokenizer.load(folder).bos_id is None
    settings = {"bos_token": {"content": "<bos>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.bos_id == 2
    assert tokenizer.vocabulary == tokenizer._backend.get_vocab_size()


def test_missing_damaged_and_unknown_tokenizers_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "mod', encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read") as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.next_step
    backend = sentencepiece_like(False)
    backend.decoder = decoders.WordPiece()
    with pytest.raises(ModelError, match="WordPiece"):
        Tokenizer(backend, None)


def test_text_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, engine.tokenizing, engine.prompting, engine.stopping, engine.paths\n"
        "engine.prompting.ChatFormat.load('demo')\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
