"""Chat as each kind of model wants it: templates, thoughts, end tokens, text without broken characters."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken

from engine.errors import ModelError
from engine.generation import StepRecord, Switches
from engine.prompting import ChatFormat
from engine.protocol import Finished, FinishReason, Generate, Message, Origin, Piece, Role, Step, StepTimes
from engine.reply import run_reply
from engine.thinking import ThinkingMarker, open_in, recognise, without_thoughts
from engine.tokenizing import StreamDecoder, Tokenizer
from tests.engine.test_gguf_models import byte_level

TAGS = ("<think>", "</think>")


def user(text: str) -> Message:
    return Message(Role.USER, text)


def model_folder(folder: Path, template: str | None, **settings: Any) -> Path:
    folder.mkdir()
    content = {"bos_token": "<s>", "eos_token": "</s>", **settings}
    if template is not None:
        content["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(content))
    return folder


# --------------------------------------------------------------------------- models without a template


def test_a_model_without_a_template_gets_a_plain_one_and_says_so(tmp_path: Path) -> None:
    chat = ChatFormat.load(model_folder(tmp_path / "some-base", None))
    assert "some-base has no chat template" in chat.notice and "instruction-tuned" in chat.notice
    messages = [Message(Role.SYSTEM, "Be brief."), user("Hi"), Message(Role.ASSISTANT, "Hello."), user("Bye")]
    assert chat.render(messages) == "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello.\n\nUser: Bye\n\nAssistant:"
    assert chat.add_bos
    assert "\nUser:" in chat.stop_strings


def test_vicuna_gets_its_makers_form(tmp_path: Path) -> None:
    chat = ChatFormat.load(model_folder(tmp_path / "vicuna-7b-v1.3", None))
    prompt = chat.render([user("Hi"), Message(Role.ASSISTANT, "Hello."), user("Bye")])
    assert prompt.startswith("A chat between a curious user")
    assert prompt.endswith(" USER: Hi ASSISTANT: Hello.</s> USER: Bye ASSISTANT:")
    with_system = chat.render([Message(Role.SYSTEM, "Be brief."), user("Hi")])
    assert with_system == "Be brief. USER: Hi ASSISTANT:"
    assert "has no chat template" in chat.notice


# --------------------------------------------------------------------------- thoughts

QWEN_LIKE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
R1_LIKE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)


def test_thinking_is_recognised_and_switched_by_the_template(tmp_path: Path) -> None:
    qwen = ChatFormat.load(model_folder(tmp_path / "qwen", QWEN_LIKE))
    assert qwen.thinking_tags == TAGS and qwen.thinking_optional
    on, off, default = (qwen.render([user("Hi")], thinking) for thinking in (True, False, None))
    assert on == default
    assert off == on + "<think>\n\n</think>\n\n"
    r1 = ChatFormat.load(model_folder(tmp_path / "r1", R1_LIKE))
    assert r1.thinking_tags == TAGS and not r1.thinking_optional
    assert r1.render([user("Hi")], False) == r1.render([user("Hi")])
    plain = ChatFormat.load(model_folder(tmp_path / "plain", "{{ messages[0].content }}"))
    assert plain.thinking_tags is None
    assert recognise("[THINK]{{ x }}[/THINK]") is not None


def test_earlier_thoughts_are_left_out_but_the_one_being_written_stays(tmp_path: Path) -> None:
    # A template that does not cut thoughts itself.
    template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]{# </think> #}"
    chat = ChatFormat.load(model_folder(tmp_path / "model", template))
    thought = Message(Role.ASSISTANT, "<think>\nhm\n</think>\n\nFour.")
    assert chat.render([user("2+2?"), thought, user("Sure?")]) == "[user]2+2?[assistant]Four.[user]Sure?[assistant]"
    begun = Message(Role.ASSISTANT, "<think>\nhm")
    assert chat.render([user("2+2?"), begun]).endswith("<think>\nhm")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>\n\nb", "b"),
        ("<think>a", ""),
        ("no thought", "no thought"),
        ("<think>a</think>b<think>c</think>d", "bd"),
    ],
)
def test_a_reply_without_its_thoughts(text: str, answer: str) -> None:
    assert without_thoughts(text, TAGS) == answer


@pytest.mark.parametrize(
    ("text", "begun", "thought"),
    [
        ("<think>\nLet me see.\n</think>\n\nFour.", False, "<think>\nLet me see.\n</think>"),
        ("Let me see.\n</think>\n\nFour.", True, "Let me see.\n</think>"),
        ("\n<think>a</think>b", False, "\n<think>a</think>"),
        ("Use <think> tags: <think>a</think>", False, ""),
        ("<think>never closed", False, "<think>never closed"),
        ("<thin ice> is not a tag", False, ""),
        ("<think>a</think>b <think>c</think> d", False, "<think>a</think>"),
        ("", False, ""),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_thoughts_are_marked_however_the_text_is_cut(text: str, begun: bool, thought: str, size: int) -> None:
    marker = ThinkingMarker(TAGS, begun)
    marks = []
    for at in range(0, len(text), size):
        marks.append((at, marker.push(text[at : at + size])))
    assert text[: marker.end] == thought
    opened = len(thought) - len(thought.lstrip()) + (0 if begun else len(TAGS[0]))
    for at, marked in marks:
        end = at + size
        if thought and at >= opened and at < len(thought):
            assert marked, (at, text[at:end])
        if at >= len(thought):
            assert not marked, (at, text[at:end])


def test_a_prompt_that_opens_a_thought_is_seen() -> None:
    assert open_in("<|assistant|><think>\n", TAGS)
    assert not open_in("<think>\n\n</think>\n\n", TAGS)
    assert not open_in("<|assistant|>", TAGS)


def test_the_tags_are_text_even_where_the_tokenizer_calls_them_special() -> None:
    for special in (True, False):
        backend = byte_level()
        tags = [AddedToken(tag, special=special, normalized=False) for tag in TAGS]
        (backend.add_special_tokens if special else backend.add_tokens)(tags)
        tokenizer = Tokenizer(backend, None)
        ids = tokenizer.encode("<think>a</think>b<|end|>")
        assert ids[0] == backend.token_to_id("<think>")
        assert tokenizer.decode(ids) == "<think>a</think>b"


# --------------------------------------------------------------------------- text

HARD = ["🙂", "👩‍👩‍👧‍👦", "🇩🇪", "日本語のテキスト", "한국어", "العربية", "é́", "𝔘𝔫𝔦", "\u200b", "naïve"]


def test_a_tiktoken_like_tokenizer_never_shows_half_a_character() -> None:
    tokenizer = Tokenizer(byte_level(), None)
    chance = random.Random(5)
    for _ in range(200):
        text = "".join(chance.choice([*HARD, " ", "the cat ", "\n"]) for _ in range(chance.randint(1, 8)))
        stream = StreamDecoder(tokenizer)
        pieces = [stream.push(token) for token in tokenizer.encode(text)]
        assert "".join(pieces) == text and stream.flush() == ""
        assert not any("\ufffd" in piece for piece in pieces)
        assert any(piece == "" for piece in pieces) or text.isascii()


# --------------------------------------------------------------------------- sentencepiece


def _message(*fields: tuple[int, int | float | bytes]) -> bytes:
    """A protobuf message, written plainly."""

    def varint(value: int) -> bytes:
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            out += varint(number << 3) + varint(value)
    return out


def sentencepiece_model(kind: int = 2) -> bytes:
    pieces: list[tuple[str, float, int]] = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    pieces += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    merged = ["▁t", "he", "▁the", "▁c", "at", "▁cat", "▁▁"]
    pieces += [(text, -float(rank), 1) for rank, text in enumerate(merged)]
    pieces += [(text, -100.0 - rank, 1) for rank, text in enumerate("▁thecano.")]
    return _message(
        *((1, _message((1, text.encode()), (2, score), (3, which))) for text, score, which in pieces),
        (2, _message((3, kind), (4, 300))),
    )


def test_a_sentencepiece_model_is_read_without_its_library(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "vicuna", None)
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())
    tokenizer = Tokenizer.load(folder)
    backend: tokenizers.Tokenizer = tokenizer._backend
    assert [backend.id_to_token(i) for i in tokenizer.encode("the cat")] == ["▁the", "▁cat"]
    assert tokenizer.encode("the cat", add_bos=True)[0] == 1
    for text in ("the cat", "no  cat.", "naïve 日本 🙂"):
        stream = StreamDecoder(tokenizer)
        pieces = [stream.push(token) for token in tokenizer.encode(text)]
        assert "".join(pieces) + stream.flush() == text
        assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("data", [b"", b"\x0a", sentencepiece_model()[:-3], b"PK\x03\x04 not this", sentencepiece_model(1)])
def test_a_damaged_sentencepiece_model_is_named(tmp_path: Path, data: bytes) -> None:
    folder = model_folder(tmp_path / "vicuna", None)
    (folder / "tokenizer.model").write_bytes(data)
    with pytest.raises(ModelError, match=r"tokenizer\.model"):
        Tokenizer.load(folder)


def test_a_reply_marks_its_thoughts_and_says_where_they_end(tmp_path: Path) -> None:
    """A stand-in for a model writes a fixed reply; the prompt opens the thought as DeepSeek-R1's does."""
    backend = byte_level()
    backend.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    tokenizer = Tokenizer(backend, None)
    chat = ChatFormat.load(model_folder(tmp_path / "r1", R1_LIKE))

    class Scripted:
        def __init__(self, text: str) -> None:
            self.ids = tokenizer.encode(text)
            self.tokens = self.ids
            self.pilot = None

        def generate(self, _prompt: Any, _settings: Any, *, emit: Any, **_more: Any) -> Any:
            for place, token in enumerate(self.ids):
                emit(token)
                last = place == len(self.ids) - 1
                finish = FinishReason.LENGTH if last else None
                times = StepTimes(0.0, 0.0, 0.0, 0.0)
                yield StepRecord((token,), None, (), token, times, False, finish)

    def run(messages: list[Message], text: str) -> tuple[Finished, str]:
        steps: list[Any] = []
        session: Any = Scripted(text)
        finished = run_reply(
            session,
            tokenizer,
            Generate("r", tuple(messages)),
            tokenizer.encode(chat.render(messages)),
            stop_strings=(),
            end_tokens=(),
            switches=Switches(),
            send=steps.append,
            thinking_tags=chat.thinking_tags,
        )
        pieces = [piece for step in steps if isinstance(step, Step) for piece in step.pieces]
        return finished, "".join(piece.text for piece in pieces if piece.thinking)

    finished, thought = run([user("What is <think>?")], "hm 🙂\n</think>\n\nIt is a tag.")
    assert thought == finished.text[: finished.thinking] == "hm 🙂\n</think>"
    # Written on inside the thought, and behind it.
    begun = Message(Role.ASSISTANT, "hm")
    finished, thought = run([user("Why?"), begun], " so</think>Because.")
    assert thought == finished.text[: finished.thinking] == " so</think>"
    done = Message(Role.ASSISTANT, "hm</think>Because")
    finished, thought = run([user("Why?"), done], " of <think> that.")
    assert thought == "" and finished.thinking == 0


def test_a_terminal_shows_thoughts_dim_and_obeys_no_model() -> None:
    from engine.commands.chat import _shown

    pieces = (
        Piece(1, "hm\x1b]0;title\x07", Origin.TARGET, True),
        Piece(2, "", Origin.TARGET, True),
        Piece(3, "Four\n\x1b[2J🙂\u202e", Origin.TARGET),
    )
    step = Step("r", 0, pieces, StepTimes(0.0, 0.0, 0.0, 0.0))
    assert _shown(step) == "\x1b[2mhm]0;title\x1b[22mFour\n[2J🙂"
