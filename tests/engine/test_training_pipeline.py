"""The whole way from prompts to a head that the engine accepts, on a tiny target."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest
import torch

from engine.errors import EngineError
from engine.heads.checkpoint import read_eagle3
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.formats import HeadFormat
from engine.heads.pairing import check_fits, pair
from engine.training.cli import add_arguments, run
from engine.training.target import BatchTarget
from tests.engine import tiny
from tests.engine.toy import Toy

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
    base = ["--model", str(model), "--prompts", str(prompts), "--work", str(work), *size, *short]
    common = [*base, "--out", str(out)]

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

    with pytest.raises(EngineError, match=r"\[2, 3, 4\], not \[7\]"):  # these replies lack the final state
        run(options(*base, "--kind", "medusa", "--stage", "train"))


def test_other_kinds_are_trained_from_the_same_replies(tmp_path: Path, toy: Toy) -> None:
    """Each resumes, and its config and card say what it is. Any target whose replies are there will do."""
    work = tmp_path / "work"
    shutil.copytree(toy.folder / "data", work / "replies")
    base = ["--model", str(toy.folder / "target"), "--work", str(work), "--batch-rows", "160", "--evaluate-every", "2"]
    size = ["--heads", "4", "--kv-heads", "2", "--head-dim", "8", "--intermediate-size", "48", "--medusa-heads", "3"]
    words = {
        "eagle1": ("EAGLE-1 head for target", "predicts its next final state", HeadFormat.EAGLE1),
        "medusa": ("Set of Medusa heads for target", "3 heads, each of 1 residual block", HeadFormat.MEDUSA),
    }
    for kind, (title, about, format) in words.items():
        for steps in ("2", "4"):
            assert run(options(*base, *size, "--kind", kind, "--steps", steps, "--stage", "train")) == 0
        assert run(options(*base, *size, "--kind", kind, "--stage", "export", "--steps", "4")) == 0
        folder = work / f"head-{kind}"
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert title in card and about in card and "- steps: 4" in card
        assert "| greedy (" in card
        assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["training"]["steps"] == 4
        assert HeadFacts.from_folder(folder).format is format
        assert pair(TargetFacts.from_folder(toy.folder / "target"), HeadFacts.from_folder(folder)).usable
        with pytest.raises(EngineError, match="reads the last layer's output"):
            run(options(*base, "--kind", kind, "--taps", "0,1,2", "--stage", "train"))


def test_bad_options_are_explained(tmp_path: Path) -> None:
    model = tiny.save_with_tokenizer(tmp_path / "model")
    with pytest.raises(EngineError, match="needs prompts"):
        run(options("--model", str(model), "--work", str(tmp_path), "--stage", "replies"))
    for shares in ("1,2", "0.5,0.6", "1,0", "much"):
        with pytest.raises(SystemExit):
            options("--work", "x", "--unroll", shares)
