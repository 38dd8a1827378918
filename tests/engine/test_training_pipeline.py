"""The whole way from prompts to a head that the engine accepts, on a tiny target."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from engine.errors import EngineError
from engine.heads.checkpoint import read_eagle3
from engine.heads.pairing import check_fits
from engine.training.cli import add_arguments, run
from engine.training.target import BatchTarget
from tests.engine import tiny

ADJECTIVES = ["red", "old", "tall", "kind", "wet", "odd", "new", "far", "dry", "shy", "big", "mad"]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(list(words))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"turns": [f"A {word} fox?"]}) + "\n" for word in ADJECTIVES))
    return path


def test_from_prompts_to_a_head(tmp_path: Path, prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny.save_with_tokenizer(tmp_path / "model")
    work, out = tmp_path / "work", tmp_path / "head"
    size = ["--heads", "2", "--kv-heads", "1", "--head-dim", "8", "--intermediate-size", "32", "--draft-vocabulary", "40"]
    short = ["--reply-tokens", "12", "--steps", "4", "--batch-rows", "200", "--unroll", "1,0.5", "--evaluate-every", "2"]
    common = ["--model", str(model), "--prompts", str(prompts), "--work", str(work), "--out", str(out), *size, *short]

    with pytest.raises(EngineError, match="No training data"):
        run(options(*common, "--stage", "train"))
    assert run(options(*common, "--stage", "replies")) == 0
    with pytest.raises(EngineError, match="Nothing was trained"):
        run(options(*common, "--stage", "export"))
    assert run(options(*common)) == 0  # the replies are there, training and export follow
    assert run(options(*common, "--stage", "train")) == 0  # the schedule is over: nothing more to do

    checkpoint = read_eagle3(out)
    target = BatchTarget.load(model)
    config = checkpoint.config
    check_fits(config, target.config.hidden_size, target.config.vocab_size, target.config.num_layers)
    assert config.taps == (2, 3, 4)
    assert config.training["steps"] == 4
    assert 1 in checkpoint.draft_ids  # the end token can always be drafted
    assert torch.isfinite(checkpoint.tensors["fc.weight"]).all()
    card = (out / "README.md").read_text()
    assert "| greedy (" in card and "- steps: 4" in card and "training.png" in card
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "held-out greedy: chain" in capsys.readouterr().out


def test_bad_options_are_explained(tmp_path: Path) -> None:
    model = tiny.save_with_tokenizer(tmp_path / "model")
    with pytest.raises(EngineError, match="needs prompts"):
        run(options("--model", str(model), "--work", str(tmp_path), "--stage", "replies"))
    for shares in ("1,2", "0.5,0.6", "1,0", "much"):
        with pytest.raises(SystemExit):
            options("--work", "x", "--unroll", shares)
