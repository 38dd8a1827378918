"""A head that our trainer made keeps its acceptance through every format, and open questions are measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from engine.heads.checkpoint import Eagle3Checkpoint, read_eagle3, write_eagle3
from engine.heads.choosing import Answer, Reading, acceptance_length, answer, best_of, measure, note, readings
from engine.heads.config import Eagle3Config
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.formats import HeadFormat
from engine.heads.loading import LoadedHead, load_head
from engine.heads.parsing import Unsure
from engine.heads.projections import dense_linear, int8_linear
from engine.models.decoder import Decoder
from engine.training.draft_vocabulary import choose, count
from engine.training.features import FeatureStore, Prompt, Reply, write_prefix, write_shard
from engine.training.loop import Trainer, TrainSettings
from tests.engine import tiny
from tests.engine.described_heads import ALL

VOCABULARY, HIDDEN, LAYERS, TAPS = 32, 32, 2, (0, 1, 2)
PREFIX = [1, 2, 3]
PERIOD = [4, 9, 7, 12, 4, 9, 5, 12, 7, 4, 5, 9, 12, 5, 7]
"""The whole language: this, over and over. What follows depends on the last two or three tokens."""
KNOWN = len(PREFIX) + 4
"""After this many tokens it is clear where in the period a text stands."""
CONFIG = Eagle3Config(
    hidden_size=HIDDEN,
    target_hidden_size=HIDDEN,
    intermediate_size=48,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    draft_vocab_size=8,
    vocab_size=VOCABULARY,
    taps=TAPS,
    target_name="toy",
)
SETTINGS = TrainSettings(
    steps=70,
    batch_rows=160,
    fractions=(1.0, 0.8, 0.6),
    learning_rate=1e-2,
    matrix_learning_rate=2e-2,
    warmup=5,
    average=0.9,
    evaluate_every=1000,
)


def text(start: int, length: int) -> list[int]:
    return [*PREFIX, *(PERIOD[(start + i) % len(PERIOD)] for i in range(length))]


def trained_target() -> Any:
    """transformers' Llama of two layers, taught the language."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sequences = torch.tensor([text(start, 30) for start in range(len(PERIOD))])
    for _ in range(200):
        logits = model(sequences).logits[:, KNOWN:-1]
        loss = functional.cross_entropy(logits.flatten(0, 1), sequences[:, KNOWN + 1 :].flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        if loss < 0.01:
            return model.eval()
    raise AssertionError(f"the target did not learn the language: {loss}")


@torch.no_grad()
def write_replies(folder: Path, target: Any) -> None:
    """What the trainer reads: the target's own states along its language."""

    def states(tokens: Sequence[int]) -> Tensor:
        out = target.model(torch.tensor([list(tokens)]), output_hidden_states=True)
        # The last of transformers' states is behind the final norm; EAGLE-3 taps it before.
        last: list[Tensor] = []
        hook = target.model.norm.register_forward_pre_hook(lambda _module, inputs: last.append(inputs[0]))
        target.model(torch.tensor([list(tokens)]))
        hook.remove()
        return torch.cat([*(out.hidden_states[tap][0] for tap in TAPS[:-1]), last[0][0]], -1).bfloat16()

    folder.mkdir()
    write_prefix(folder, PREFIX, states(PREFIX), TAPS)
    prompts, replies = [], []
    for index in range(45):
        tokens = text(index, 28)
        all_states = states(tokens)
        split = KNOWN
        prompts.append(
            Prompt(index, torch.tensor(tokens[len(PREFIX) : split]), all_states[len(PREFIX) : split])
        )
        reply = torch.tensor(tokens[split:])
        rows = len(reply) - 1
        top = torch.stack([reply[1:], (reply[1:] + 1) % VOCABULARY], 1)
        logs = torch.tensor([[0.95, 0.05]]).log().expand(rows, 2)
        replies.append(Reply(index, reply[:-1], reply[1:], all_states[split:-1], top, logs, 0.0))
    write_shard(folder / "shard-0000.safetensors", prompts, replies)


@dataclass(frozen=True)
class Toy:
    decoder: Decoder
    checkpoint: Eagle3Checkpoint
    answers: tuple[Answer, ...]
    """The target's own replies, which acceptance is measured on."""
    prompts: tuple[list[int], ...]
    length: float
    """Tokens a step as trained."""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    folder = tmp_path_factory.mktemp("toy")
    target = trained_target()
    write_replies(folder / "data", target)
    store = FeatureStore(folder / "data", TAPS, held_out_every=5)
    embedding = target.get_input_embeddings().weight.detach().bfloat16()
    scale = torch.full((3 * HIDDEN,), 1.0)
    vocabulary = choose(count(store.shards, VOCABULARY), CONFIG.draft_vocab_size)
    trainer = Trainer(
        CONFIG, SETTINGS, store, vocabulary, scale, embedding, folder / "run", lambda _text: None
    )
    trainer.run()
    decoder = tiny.float_decoder(tiny.save(target, folder / "target"))
    checkpoint = trainer.exported({})
    prompts = tuple(text(start, 6) for start in (2, 7))
    answers = tuple(answer(decoder, prompt, TAPS) for prompt in prompts)
    head = Eagle3Inference(checkpoint, decoder.weights.embedding, dense_linear)
    return Toy(decoder, checkpoint, answers, prompts, acceptance_length(head, answers))


def test_the_toy_head_is_worth_its_name(toy: Toy) -> None:
    """The target speaks the language, and its head foresees much of it."""
    for each in toy.answers:
        said = list(each.tokens[len(PREFIX) :])
        assert any(said == text(start, len(said))[len(PREFIX) :] for start in range(len(PERIOD)))
    assert 2.5 < toy.length <= 4.0


Export = Callable[[Path, Eagle3Checkpoint, Tensor], None]


def _config(**more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
        "draft_vocab_size": 8,
        "rms_norm_eps": 1e-6,
    } | more


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], pickled: bool = False) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")


def as_safeailab(folder: Path, head: Eagle3Checkpoint, _table: Tensor) -> None:
    _write(folder, _config(eagle_aux_hidden_state_layer_ids=[0, 1, 2]), dict(head.tensors), pickled=True)


def as_specforge(folder: Path, head: Eagle3Checkpoint, _table: Tensor) -> None:
    write_eagle3(folder, head)


def as_angelslim(folder: Path, head: Eagle3Checkpoint, _table: Tensor) -> None:
    nested = {"eagle_aux_hidden_state_layer_ids": [-1, 0, 1]}
    config = _config(architectures=["Eagle3LlamaForCausalLM"], eagle_config=nested, tie_word_embeddings=True)
    _write(folder, config, dict(head.tensors))


def _numbered(head: Eagle3Checkpoint) -> dict[str, Tensor]:
    return {name.replace("midlayer.", "layers.0."): tensor for name, tensor in head.tensors.items()}


def as_modelopt(folder: Path, head: Eagle3Checkpoint, _table: Tensor) -> None:
    nested = {"eagle_aux_hidden_state_layer_ids": [-1, 0, 1], "use_aux_hidden_state": True}
    tensors = {name: tensor for name, tensor in _numbered(head).items() if name != "t2d"}
    _write(folder, _config(architectures=["LlamaForCausalLMEagle3"], eagle_config=nested), tensors)


def as_speculators(folder: Path, head: Eagle3Checkpoint, table: Tensor, **more: Any) -> None:
    config = {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 8,
        "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "transformer_layer_config": _config(),
    } | more
    config = {key: value for key, value in config.items() if value is not None}
    _write(folder, config, _numbered(head) | {"embed_tokens.weight": table.half()})


FORMATS: dict[HeadFormat, Export] = {
    HeadFormat.EAGLE3: as_safeailab,
    HeadFormat.SPECFORGE: as_specforge,
    HeadFormat.ANGELSLIM: as_angelslim,
    HeadFormat.MODELOPT: as_modelopt,
    HeadFormat.SPECULATORS: as_speculators,
}


@pytest.mark.parametrize("format", FORMATS)
def test_acceptance_survives_every_format(format: HeadFormat, toy: Toy, tmp_path: Path) -> None:
    folder = tmp_path / "head"
    FORMATS[format](folder, toy.checkpoint, toy.decoder.weights.embedding)
    checkpoint = read_eagle3(folder)
    assert checkpoint.format is format
    assert checkpoint.config.taps == TAPS
    loaded = load_head(folder, toy.decoder, dense_linear, prompts=lambda: pytest.fail("nothing is open here"))
    assert loaded.eagle is not None
    assert acceptance_length(loaded.eagle, toy.answers) == pytest.approx(toy.length)
    rough = load_head(folder, toy.decoder, int8_linear).eagle
    assert rough is not None
    assert acceptance_length(rough, toy.answers) > toy.length - 0.2


# --------------------------------------------------------------------------- what is left open


def _loaded(toy: Toy, folder: Path) -> LoadedHead:
    return load_head(folder, toy.decoder, dense_linear, prompts=lambda: toy.prompts)


def test_a_missing_residual_flag_is_measured(toy: Toy, tmp_path: Path) -> None:
    """speculators reads a missing norm_before_residual as false, vLLM as true."""
    as_speculators(
        tmp_path / "head", toy.checkpoint, toy.decoder.weights.embedding, norm_before_residual=None
    )
    loaded = _loaded(toy, tmp_path / "head")
    assert isinstance(loaded.eagle, Eagle3Inference)
    assert not loaded.eagle.config.norm_before_residual
    assert "the residual starts before the norm" in loaded.notes[-1]
    checkpoint = read_eagle3(tmp_path / "head")
    candidates = readings(checkpoint, LAYERS, toy.decoder.weights.embedding)
    head = Eagle3Inference(checkpoint, toy.decoder.weights.embedding, dense_linear)
    measured = measure(lambda each: _as(head, each, toy), candidates, toy.answers)
    assert [each.reading.config.norm_before_residual for each in measured] == [False, True]  # type: ignore[attr-defined]
    assert measured[0].acceptance_length == pytest.approx(toy.length)
    assert measured[1].acceptance_length < toy.length - 0.1
    # Were the usual reading the worse one, the other would be kept, and said.
    turned = (measured[1], measured[0])
    assert best_of(turned) is measured[0]
    assert f"{toy.length:.2f} tokens a step" in note(turned)


def _as(head: Eagle3Inference, reading: Reading, toy: Toy) -> Eagle3Inference:
    assert isinstance(reading.config, Eagle3Config)
    return head.read_as(reading.config, toy.decoder.weights.embedding)


def test_an_embedding_of_its_own_must_be_better_than_the_targets(toy: Toy, tmp_path: Path) -> None:
    """Some exporters wrote random tables."""
    noise = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(1))
    as_speculators(tmp_path / "random", toy.checkpoint, noise)
    loaded = _loaded(toy, tmp_path / "random")
    assert loaded.eagle is not None
    assert acceptance_length(loaded.eagle, toy.answers) == pytest.approx(toy.length)
    assert "the model's embedding table" in loaded.notes[-1]
    # And one that is better is used: here the target's lies under it, shuffled.
    shuffled = replace(toy.decoder.weights, embedding=toy.decoder.weights.embedding.flip(0))
    as_speculators(tmp_path / "own", toy.checkpoint, toy.decoder.weights.embedding)
    checkpoint = read_eagle3(tmp_path / "own")
    candidates = readings(checkpoint, LAYERS, shuffled.embedding)
    own = checkpoint.tensors["embed_tokens.weight"]
    head = Eagle3Inference(checkpoint, shuffled.embedding, dense_linear)
    measured = measure(
        lambda each: head.read_as(checkpoint.config, own if each.own_embedding else shuffled.embedding),
        candidates,
        toy.answers,
    )
    assert best_of(measured).reading.own_embedding
    assert "its own embedding table" in note(measured)


def test_taps_written_in_the_other_convention_are_found(toy: Toy) -> None:
    """A model of six layers whose states 1 to 3 are the toy's: the file says 2 to 4."""
    answers = tuple(
        replace(
            each, states={tap + 1: each.states[tap] for tap in TAPS} | {4: each.states[0], 0: each.states[2]}
        )
        for each in toy.answers
    )
    config = replace(toy.checkpoint.config, taps=(2, 3, 4))
    checkpoint = replace(toy.checkpoint, config=config, unsure=Unsure(taps=True))
    table = toy.decoder.weights.embedding
    candidates = readings(checkpoint, 10, table)
    assert [each.config.taps for each in candidates] == [(2, 3, 4), (1, 2, 3)]  # type: ignore[attr-defined]
    head = Eagle3Inference(checkpoint, table, dense_linear)
    measured = measure(lambda each: _as(head, each, toy), candidates, answers)
    kept = best_of(measured)
    assert kept.reading.config.taps == (1, 2, 3)  # type: ignore[attr-defined]
    assert kept.acceptance_length == pytest.approx(toy.length)
    assert "it taps the inputs of layers 1, 2, 3" in note(measured)


@pytest.mark.parametrize(
    ("taps", "layers", "expected"),
    [
        ((2, 9, 15), 18, [(2, 9, 15)]),  # the usual ones leave no doubt
        ((3, 10, 16), 18, [(3, 10, 16), (2, 9, 15)]),  # one more than usual: inputs written as outputs
        ((1, 8, 14), 18, [(1, 8, 14), (2, 9, 15)]),  # one less: outputs written as inputs
        ((25, 31, 37), 36, [(24, 30, 36)]),  # boundaries in the nested key, as in one published head
        ((), 36, [(2, 18, 33)]),
    ],
)
def test_which_taps_are_in_doubt(taps: tuple[int, ...], layers: int, expected: list[tuple[int, ...]]) -> None:
    table = torch.zeros(VOCABULARY, HIDDEN)
    checkpoint = replace(tiny.checkpoint(), unsure=Unsure(taps=True))
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, taps=taps))
    assert [each.config.taps for each in readings(checkpoint, layers, table)] == expected  # type: ignore[attr-defined]


def test_a_trainer_that_means_something_else_by_norm_output_is_measured(toy: Toy, tmp_path: Path) -> None:
    config = replace(toy.checkpoint.config, norm_output=True)
    write_eagle3(tmp_path / "head", replace(toy.checkpoint, config=config))
    loaded = _loaded(toy, tmp_path / "head")
    assert isinstance(loaded.eagle, Eagle3Inference)
    assert not loaded.eagle.config.norm_output
    assert acceptance_length(loaded.eagle, toy.answers) == pytest.approx(toy.length)
    assert "before the last norm" in loaded.notes[-1]


def test_the_described_heads_leave_open_only_what_their_formats_do(tmp_path: Path) -> None:
    unsure = {}
    for name, make in ALL.items():
        if name.startswith("eagle1"):
            continue
        unsure[name] = read_eagle3(make().write(tmp_path / name)).unsure
    in_doubt = {name for name, doubt in unsure.items() if doubt != Unsure()}
    assert in_doubt == {"specforge", "speculators_31", "modelopt"}
    assert all(unsure[name] == Unsure(taps=True) for name in in_doubt)
