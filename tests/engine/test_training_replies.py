"""The batched target against transformers, and replies against decoding one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import EngineError
from engine.looping import is_looping
from engine.prompting import ChatFormat
from engine.training.features import FeatureStore
from engine.training.prompts import encode_prompts, read_prompts, reply_end
from engine.training.replies import ReplySettings, ReplyWriter, sample
from engine.training.target import BatchTarget, Cache
from tests.engine import tiny

VOCAB, HIDDEN, TAPS, END = 640, 64, (1, 2, 7), 7
PREFIX = [2, 50, 60, 70, 80, 90, 10, 20, 30, 31, 32, 33]
"""With prompt and reply longer than the sliding window of 16."""
PROMPTS = [[5, 6, 7, 8], [100, 3], [9, 300, 301], [44], [45, 46, 47, 48, 49, 50, 51]]


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny.reference(kv_heads=2, vocabulary=VOCAB)


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(model, tmp_path_factory.mktemp("target"))


@pytest.fixture
def target(folder: Path) -> BatchTarget:
    return BatchTarget.load(folder, torch.float32)


@torch.no_grad()
def expected(model: Any, tokens: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Logits and hidden states of one sequence, layer inputs by index."""
    out = model(torch.tensor([tokens]), output_hidden_states=True)
    return out.logits[0], [state[0] for state in out.hidden_states]


def test_reading_and_stepping_agree_with_transformers_beyond_the_window(
    model: Any, target: BatchTarget
) -> None:
    target.set_prefix(PREFIX, TAPS[:2])
    width = max(map(len, PROMPTS))
    tokens = torch.tensor([prompt + [0] * (width - len(prompt)) for prompt in PROMPTS])
    lengths = torch.tensor([len(prompt) for prompt in PROMPTS])
    final, states, cache = target.read(tokens, lengths, TAPS[:2])
    room = Cache(torch.zeros(7, 5, width + 4, 32), torch.zeros(7, 5, width + 4, 32))
    room.store(torch.arange(5), cache, torch.arange(5))
    spoken = [list(prompt) for prompt in PROMPTS]
    for row, prompt in enumerate(PROMPTS):
        logits, hidden = expected(model, PREFIX + prompt)
        ids, values, total = target.top_logits(final[row, len(prompt) - 1][None], 4)
        top = logits[-1].topk(4)
        assert ids[0].tolist() == top.indices.tolist()
        torch.testing.assert_close(values[0], top.values, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(total[0], logits[-1].logsumexp(0), atol=1e-3, rtol=1e-3)
        for tap in TAPS[:2]:
            own = hidden[tap][len(PREFIX) :]
            torch.testing.assert_close(states[tap][row, : len(prompt)], own, atol=1e-3, rtol=1e-3)
    for count in range(3):
        fresh = torch.tensor([11 + row + count for row in range(5)])
        for row, text in enumerate(spoken):
            text.append(int(fresh[row]))
        final_step, stepped = target.step(fresh, lengths + count, room, TAPS[:2])
        for row, text in enumerate(spoken):
            logits, hidden = expected(model, PREFIX + text)
            assert int(target.top_logits(final_step[row][None], 1)[0]) == int(logits[-1].argmax())
            torch.testing.assert_close(stepped[2][row], hidden[2][-1], atol=1e-3, rtol=1e-3)


def write(target: BatchTarget, folder: Path, **changes: object) -> list[str]:
    settings = ReplySettings(
        **{  # type: ignore[arg-type]
            "temperatures": (0.0, 1.0),
            "max_new_tokens": 9,
            "max_prompt_tokens": 6,
            "slots": 4,
            "prompts_per_shard": 3,
            "kept": 4,
            "searched": 16,
            **changes,
        }
    )
    writer = ReplyWriter(target, PREFIX, TAPS, lambda tokens: tokens[-1] == END, settings)
    reports: list[str] = []
    writer.run(folder, list(enumerate(PROMPTS)), reports.append)
    return reports


def test_greedy_replies_and_their_states_equal_decoding_one_by_one(
    model: Any, target: BatchTarget, tmp_path: Path
) -> None:
    write(target, tmp_path)
    store = FeatureStore(tmp_path, TAPS, held_out_every=1000)
    greedy = 0
    for key in store.training + store.held_out:
        prompt, reply = store.get(key)
        asked = PREFIX + PROMPTS[prompt.row]
        assert prompt.tokens.tolist() == PROMPTS[prompt.row]
        said = [*reply.tokens.tolist(), int(reply.next[-1])]
        logits, hidden = expected(model, asked + said)
        assert reply.next.tolist() == said[1:]
        after = logits[len(asked) : len(asked) + len(reply.tokens)]
        assert torch.equal(reply.top_ids[:, 0].long(), after.argmax(-1))
        probabilities = after.log_softmax(-1).gather(1, reply.top_ids.long())
        torch.testing.assert_close(reply.top_logprobs.float(), probabilities, atol=2e-2, rtol=1e-2)
        wanted = torch.cat([hidden[tap][len(asked) : len(asked) + len(reply.tokens)] for tap in TAPS[:2]], -1)
        torch.testing.assert_close(store.pick(reply.states)[:, : 2 * HIDDEN].float(), wanted, atol=1e-3, rtol=1e-3)
        if reply.temperature == 0:
            greedy += 1
            assert said == logits[len(asked) - 1 : -1].argmax(-1).tolist()
        assert len(reply.tokens) == 9 or said[-1] == END
        assert END not in said[:-1]
    assert greedy == 4  # one prompt is too long
    torch.testing.assert_close(store.prefix_states[:, HIDDEN : 2 * HIDDEN], expected(model, PREFIX)[1][2], atol=1e-3, rtol=1e-3)


def test_replies_resume_by_shard_and_refuse_to_mix_settings(target: BatchTarget, tmp_path: Path) -> None:
    write(target, tmp_path)
    before = (tmp_path / "shard-0001.safetensors").read_bytes()
    (tmp_path / "shard-0001.safetensors").unlink()
    reports = write(target, tmp_path)
    assert len(reports) == 1 and reports[0].startswith("replies 2/2")
    assert (tmp_path / "shard-0001.safetensors").read_bytes() == before
    with pytest.raises(EngineError, match="other settings"):
        write(target, tmp_path, top_p=0.5)


def test_a_reply_vocabulary_is_kept_to(target: BatchTarget, tmp_path: Path) -> None:
    allowed = list(range(0, VOCAB, 3))
    target.write_with(allowed)
    write(target, tmp_path)
    store = FeatureStore(tmp_path, TAPS)
    said = torch.cat([shard.tokens() for shard in store.shards])
    assert set(said.tolist()) <= set(allowed)


def test_sampling_keeps_to_the_nucleus_and_to_greedy() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, -4.0]]).expand(4000, -1)
    generator = torch.Generator().manual_seed(0)
    drawn = sample(logits, torch.full((4000,), 1.0), 0.8, generator)
    assert set(drawn.tolist()) == {0, 1}  # 0.66 and 0.24 of the mass
    assert abs(float((drawn == 0).float().mean()) - 0.731) < 0.03
    assert not sample(logits, torch.zeros(4000), 0.8, generator).any()


def test_loops_are_recognised() -> None:
    assert is_looping([1, 2, 3, 4] * 12)
    assert not is_looping(list(range(48)))
    assert not is_looping([1, 2, 3] * 5)  # too short to tell


class Letters:
    """A tokenizer of single characters."""

    def encode(self, text: str, add_bos: bool = False) -> list[int]:
        return [2] * add_bos + [ord(letter) for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def test_prompts_share_their_beginning(tmp_path: Path) -> None:
    chat = ChatFormat(
        name="test",
        template="Be kind.\nUser: {{ messages[-1].content }}\nAssistant:",
        stop_strings=("\nUser:",),
        eos_token_ids=(1,),
        add_bos=True,
    )
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"turns": [text, "more"]}) + "\n" for text in ("aha", "abc", "a")))
    encoded = encode_prompts(read_prompts(path), chat, Letters())  # type: ignore[arg-type]
    assert Letters().decode(encoded.prefix) == "\x02Be kind.\nUser: a"
    assert [Letters().decode(ids) for _, ids in encoded.prompts] == ["ha\nAssistant:", "bc\nAssistant:", "\nAssistant:"]
    complete = reply_end(chat, Letters())  # type: ignore[arg-type]
    assert complete([65, 1]) and not complete([65, 66])
    assert complete([ord(letter) for letter in "Yes.\nUser:"]) and not complete([ord(letter) for letter in "Yes.\nUser"])


@pytest.mark.parametrize("line", ["{", "{}", '{"turns": []}', '{"turns": [3]}', '{"turns": [" "]}'])
def test_a_bad_prompt_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"turns": ["fine"]}\n' + line + "\n")
    with pytest.raises(EngineError, match="Line 2"):
        read_prompts(path)
