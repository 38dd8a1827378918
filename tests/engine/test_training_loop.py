"""A head learns a language that can be learned, and a killed run goes on as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from engine.errors import EngineError
from engine.heads.checkpoint import read_eagle3
from engine.heads.config import Eagle3Config
from engine.heads.eagle3 import Eagle3Head
from engine.heads.writing import write_head
from engine.training.batches import groups
from engine.training.draft_vocabulary import choose, count
from engine.training.eagle3 import Eagle3Recipe
from engine.training.evaluate import Acceptance
from engine.training.features import FeatureStore, Shard
from engine.training.loop import CHECKPOINT, Trainer, TrainSettings
from tests.engine import toy

VOCAB, HIDDEN, TAPS = 32, 16, (1, 2, 3)
CONFIG = Eagle3Config(
    hidden_size=HIDDEN,
    target_hidden_size=HIDDEN,
    intermediate_size=32,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    draft_vocab_size=12,
    vocab_size=VOCAB,
    taps=TAPS,
)
SETTINGS = replace(toy.SETTINGS, batch_rows=120, evaluate_every=20)
PERIOD = [3, 9, 4, 17, 9, 30, 5, 4, 21, 8, 11]
"""The whole language: this, over and over. What follows 9 or 4 depends on what came before."""


def write_language(folder: Path, shards: int = 2) -> None:
    """A target whose hidden states are a random code of the last two tokens, behind a prefix of three."""
    torch.manual_seed(5)
    codes = torch.randn(2, VOCAB, len(TAPS) * HIDDEN)

    def states(tokens: list[int]) -> torch.Tensor:
        previous = torch.tensor([0, *tokens[:-1]])
        return codes[0][torch.tensor(tokens)] + codes[1][previous]

    starts = [[(5 * index + number) % len(PERIOD) for index in range(12)] for number in range(shards)]
    texts = [[(PERIOD * 4)[start : start + 24] for start in each] for each in starts]
    toy.write_store(folder, TAPS, states, texts, VOCAB)


EMBEDDING = torch.randn(VOCAB, HIDDEN, generator=torch.Generator().manual_seed(1)).bfloat16()


def make_trainer(
    folder: Path, data: Path, settings: TrainSettings = SETTINGS, config: Eagle3Config = CONFIG
) -> Trainer[Eagle3Head]:
    store = FeatureStore(data, TAPS, held_out_every=5)
    vocabulary = choose(count(store.shards, VOCAB), config.draft_vocab_size)
    scale = torch.full((len(TAPS) * HIDDEN,), 1.5)
    recipe = Eagle3Recipe(config, store, vocabulary, scale, EMBEDDING)
    return Trainer(recipe, settings, store, folder, lambda _text: None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_language(tmp_path / "data")
    return tmp_path / "data"


@dataclass(frozen=True)
class Trained:
    """A finished run and what it drafted like before and after."""

    trainer: Trainer[Eagle3Head]
    before: dict[str, Acceptance]
    after: dict[str, Acceptance]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    write_language(folder / "data")
    trainer = make_trainer(folder / "run", folder / "data")
    before = trainer.measure(0.0)
    trainer.run()
    return Trained(trainer, before, trainer.measure(0.0))


def test_training_teaches_the_language_at_every_depth(trained: Trained) -> None:
    before, after = trained.before, trained.after
    for kind in ("greedy", "sampled"):
        assert before[kind].chain_length < 1.6
        assert after[kind].chain_length > 4.0
        assert min(after[kind].chain[:3]) > 0.8
    lines = (trained.trainer.folder / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 4  # before, at steps 20 and 40, after


def test_the_exported_head_reads_states_as_the_target_gives_them(trained: Trained, tmp_path: Path) -> None:
    """Drafting by the plain module from unscaled states gives what training measured."""
    trainer = trained.trainer
    write_head(tmp_path / "head", trainer.exported({"steps": 40}))
    checkpoint = read_eagle3(tmp_path / "head")
    head = Eagle3Head.from_checkpoint(checkpoint)
    prompt, reply = trainer.store.get(trainer.store.held_out[0])
    states = torch.cat([trainer.store.prefix_states, prompt.states, reply.states]).float()
    tokens = torch.cat([trainer.store.prefix_tokens, prompt.tokens, reply.tokens, reply.next[-1:]]).long()
    rows = len(tokens) - 2
    causal = torch.ones(rows, rows, dtype=torch.bool).tril()
    with torch.no_grad():
        out = head(head.fuse(states[:rows]), EMBEDDING[tokens[1:-1]].float(), torch.arange(rows), causal)
        drafted = checkpoint.draft_ids[head.logits(out).argmax(-1)]
    said = slice(2 + len(prompt.tokens), rows)  # rows whose next token is the reply's
    right = (drafted[said] == tokens[2:][said]).float().mean()
    assert right > 0.8


def test_a_resumed_run_equals_an_uninterrupted_one(data: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=9)
    whole = make_trainer(tmp_path / "whole", data, settings).run()
    first = make_trainer(tmp_path / "parts", data, settings)
    first.run(max_minutes=0.0)
    assert first.step == 1
    while True:  # every run makes one step, the last one ends the schedule
        trainer = make_trainer(tmp_path / "parts", data, settings)
        if trainer.step == settings.steps:
            break
        trainer.run(max_minutes=0.0)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, trainer.averaged().state_dict()[name]), name


KILLED = """
import sys
from pathlib import Path
from dataclasses import replace
from tests.engine.test_training_loop import SETTINGS, make_trainer
trainer = make_trainer(Path(sys.argv[1]), Path(sys.argv[2]), replace(SETTINGS, steps=16, save_minutes=0.0))
save = trainer.save
def saved():
    save()
    print(trainer.step, flush=True)
trainer.save = saved
trainer.run()
"""


def test_kill_9_loses_nothing_but_time(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(run), str(data)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert child.stdout is not None
    for _ in range(4):
        assert child.stdout.readline(), "the run ended early"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    settings = replace(SETTINGS, steps=16)
    resumed = make_trainer(run, data, settings)
    assert 4 <= resumed.step < 16
    found = resumed.run().state_dict()
    whole = make_trainer(tmp_path / "whole", data, settings).run().state_dict()
    for name, value in whole.items():
        assert torch.equal(value, found[name]), name


def test_a_checkpoint_of_another_head_is_refused(data: Path, tmp_path: Path) -> None:
    make_trainer(tmp_path / "run", data, replace(SETTINGS, steps=1)).run()
    assert (tmp_path / "run" / CHECKPOINT).is_file()
    with pytest.raises(EngineError, match="another shape"):
        make_trainer(tmp_path / "run", data, config=replace(CONFIG, draft_vocab_size=10))


def test_batches_hold_every_training_reply_once_and_no_held_out_one(data: Path) -> None:
    store = FeatureStore(data, TAPS, held_out_every=5)
    keys = [key for group in groups(store, store.training, 60, seed=1) for key in group]
    assert sorted(keys) == sorted(store.training)
    held_out = {store.get(key)[0].row for key in store.held_out}
    assert held_out == {0, 5, 10, 15, 20}
    assert not held_out & {store.get(key)[0].row for key in keys}
    again = [key for group in groups(store, store.training, 60, seed=1) for key in group]
    other = [key for group in groups(store, store.training, 60, seed=2) for key in group]
    assert keys == again != other


def test_missing_data_says_what_to_do(tmp_path: Path, data: Path) -> None:
    with pytest.raises(EngineError, match="No training data"):
        FeatureStore(tmp_path / "nowhere", TAPS)
    with pytest.raises(EngineError, match="not \\[9\\]"):
        FeatureStore(data, (1, 2, 9))
    shard = data / "shard-0000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(EngineError, match="shard-0000"):
        Shard(shard)


def test_the_draft_vocabulary_keeps_what_is_frequent(data: Path) -> None:
    counts = torch.tensor([5.0, 0.0, 3.0, 9.0, 0.0, 3.0])
    chosen = choose(counts, 3, always=[4])
    assert chosen.ids.tolist() == [0, 3, 4]
    assert chosen.coverage == pytest.approx(14 / 20)
    assert chosen.to_draft().tolist() == [0, -1, -1, 1, 2, -1]
    assert choose(counts, 3).ids.tolist() == [0, 2, 3]  # a tie goes to the lower id
    with pytest.raises(EngineError, match="does not fit"):
        choose(counts, 7)
    counted = count(FeatureStore(data, TAPS).shards, VOCAB)
    assert counted[22] == pytest.approx(0.1 * float(counted_rows(data, 21)), rel=1e-2)  # likely, never said


def counted_rows(data: Path, token: int) -> int:
    return sum(int((Shard(path).tokens() == token).sum()) for path in data.glob("shard-*"))
