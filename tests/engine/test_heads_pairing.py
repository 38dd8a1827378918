"""Whether a head belongs to a target, from configs and headers alone, and what ``inspect`` says of it."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.__main__ import main
from engine.errors import HeadError
from engine.heads.facts import HeadFacts, TargetFacts, header
from engine.heads.formats import HeadFormat
from engine.heads.pairing import Fit, pair, require_fit
from engine.heads.thoughts import Thoughts, of_head, of_template, template_in
from tests.engine import tiny
from tests.engine.described_heads import ALL, HIDDEN, LAYERS, VOCABULARY, eagle1_vicuna, specforge

TARGET = TargetFacts("Qwen/Qwen3-8B", "qwen3", HIDDEN, VOCABULARY, LAYERS, 40960)


def facts(described_head: str = "specforge", **changes: Any) -> HeadFacts:
    described = ALL[described_head]()
    stored = {key: tuple(tensor.shape) for key, tensor in described.tensors.items()}
    kinds = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
    content = {
        key: {"shape": list(shape), "dtype": kinds[described.tensors[key].dtype], "data_offsets": [0, 0]}
        for key, shape in stored.items()
    }
    return replace(
        HeadFacts.from_files(described.config, header(content)), **({"max_positions": 8192} | changes)
    )


@pytest.mark.parametrize("name", ALL)
def test_every_described_head_fits_its_target(name: str) -> None:
    verdict = pair(TARGET, facts(name))
    assert verdict.fit is Fit.FITS, verdict.words
    assert verdict.words == "It fits."


@pytest.mark.parametrize(
    ("changes", "target", "words"),
    [
        pytest.param(
            {}, {"hidden_size": 64}, "made for hidden size 32, this model has 64", id="hidden size"
        ),
        pytest.param({}, {"vocab_size": 151936}, "a vocabulary of 24 tokens, this model has 151,936", id="vocabulary"),
        pytest.param({"taps": (2, 4, 9)}, {}, "taps layer 8, the model has 8 layers", id="taps"),
        pytest.param(
            {"taps": ()}, {"num_layers": 4}, "the usual ones do not exist in 4 layers", id="usual taps"
        ),
        pytest.param({"hidden_size": 16}, {}, "embeddings of width 16", id="own width without a table"),
        pytest.param(
            {}, {"problem": "The architecture is unknown."}, "architecture is unknown", id="no decoder"
        ),
        pytest.param({"problem": "It lacks the tensor 'fc.weight'."}, {}, "'fc.weight'", id="damaged"),
    ],
)
def test_what_does_not_fit_says_why(changes: dict[str, Any], target: dict[str, Any], words: str) -> None:
    verdict = pair(replace(TARGET, **target), facts(**changes))
    assert verdict.fit is Fit.NOT and not verdict.usable
    assert words in verdict.words
    with pytest.raises(HeadError, match="another model") as caught:
        require_fit(replace(TARGET, **target), facts(**changes, target_name="Some model 4B"))
    assert "It was made for Some model 4B." in caught.value.message
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("changes", "target", "words"),
    [
        pytest.param({"thoughts": Thoughts.ALWAYS}, {}, "where thinking is off", id="thinking"),
        pytest.param(
            {"thoughts": Thoughts.ALWAYS},
            {"thoughts": Thoughts.NEVER},
            "with thinking, which this model does not do",
            id="no thoughts to foresee",
        ),
        pytest.param(
            {"thoughts": Thoughts.ALWAYS},
            {"thoughts": Thoughts.SWITCHED},
            "leave thinking on",
            id="thinking can be switched",
        ),
        pytest.param(
            {"thoughts": Thoughts.NEVER},
            {"thoughts": Thoughts.SWITCHED},
            "switch thinking off",
            id="trained without thoughts",
        ),
        pytest.param(
            {"thoughts": Thoughts.NEVER},
            {"thoughts": Thoughts.ALWAYS},
            "this model always thinks",
            id="thoughts it never learned",
        ),
        pytest.param({"max_positions": 2048}, {}, "up to 2,048 tokens", id="short"),
        pytest.param(
            {"target_name": "meta-llama/Llama-3.1-8B-Instruct"}, {}, "made for meta-llama", id="other model"
        ),
        pytest.param({}, {"experts": 8}, "mixture of experts", id="experts"),
    ],
)
def test_caveats(changes: dict[str, Any], target: dict[str, Any], words: str) -> None:
    verdict = pair(replace(TARGET, **target), facts(**changes))
    assert verdict.fit is Fit.CAVEAT and verdict.usable
    assert words in verdict.words and len(verdict.reasons) == 1
    assert require_fit(replace(TARGET, **target), facts(**changes)) == verdict


@pytest.mark.parametrize(
    ("target", "head"),
    [
        (
            "Qwen/Qwen3-4B-Thinking-2507",
            {"name": "someone/eagle3-Thinking", "target_name": "Qwen3-4B-Thinking-2507"},
        ),
        ("Qwen/Qwen3-8B", {"name": "x/Qwen3-8B-nothink_eagle3"}),
        ("Qwen/Qwen3-8B", {"name": "x/Qwen3-8B_non-thinking"}),
        ("meta-llama/Llama-3.1-8B-Instruct", {"target_name": "meta-llama/Meta-Llama-3.1-8B-Instruct"}),
        ("openai/gpt-oss-20b", {"target_name": "/proving-grounds/models/openai/gpt-oss-20b/"}),
        ("unsloth/Qwen3-8B-bnb-4bit", {"target_name": "Qwen/Qwen3-8B"}),
        ("/home/me/my model", {"target_name": "Qwen/Qwen3-8B"}),
        ("demo-a5fd3b62230a", {"target_name": "Gemma 3 270M"}),
    ],
)
def test_names_that_are_no_reason_for_a_caveat(target: str, head: dict[str, str]) -> None:
    assert pair(replace(TARGET, name=target), facts(**head)).fit is Fit.FITS


@pytest.mark.parametrize(
    ("raw", "names", "found"),
    [
        ({}, ("RedHatAI/Qwen3-8B-Thinking-speculator.eagle3",), Thoughts.ALWAYS),
        ({}, ("yuhuili/EAGLE3-DeepSeek-R1-Distill-LLaMA-8B",), Thoughts.ALWAYS),
        ({}, ("x/eagle3", "Qwen/QwQ-32B"), Thoughts.ALWAYS),
        ({}, ("x/Qwen3-8B_non-thinking",), Thoughts.NEVER),
        ({}, ("AngelSlim/Qwen3-8B_eagle3",), Thoughts.UNKNOWN),
        ({"chat_template": "qwen3-thinking"}, ("x/head",), Thoughts.ALWAYS),
        ({"training": {"enable_thinking": False}}, ("x/head-thinking",), Thoughts.NEVER),
        ({"training": {"data": {"chat_template": "deepseek-r1-distill"}}}, ("x/head",), Thoughts.ALWAYS),
        ({"training": {"steps": 4, "shuffled": True}}, ("x/head",), Thoughts.UNKNOWN),
    ],
)
def test_whether_a_head_learned_from_thoughts(
    raw: dict[str, Any], names: tuple[str, ...], found: Thoughts
) -> None:
    assert of_head(raw, *names) is found


def test_a_targets_template_tells_whether_it_thinks(tmp_path: Path) -> None:
    switched = "{% if enable_thinking is false %}<think>\n\n</think>{% endif %}"
    assert of_template(switched) is Thoughts.SWITCHED
    assert of_template("{{ content.split('</think>')[-1] }}<think>") is Thoughts.ALWAYS
    assert of_template("{{ messages }}", "Qwen/QwQ-32B") is Thoughts.NEVER
    assert of_template("", "Qwen/QwQ-32B") is Thoughts.ALWAYS
    assert template_in(tmp_path) == ""
    several = [{"name": "tools", "template": "t"}, {"name": "default", "template": switched}]
    settings = tmp_path / "tokenizer_config.json"
    for content, template in (({"chat_template": several}, switched), ({"chat_template": "x"}, "x"), ([], "")):
        settings.write_text(json.dumps(content), encoding="utf-8")
        assert template_in(tmp_path) == template
    (tmp_path / "chat_template.jinja").write_text(switched, encoding="utf-8")
    raw = {"model_type": "made_up", "vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    assert TargetFacts.from_folder(tmp_path).thoughts is Thoughts.SWITCHED


def test_facts_come_from_configs_of_any_model() -> None:
    wrapped = {"model_type": "gemma3", "text_config": {"hidden_size": 640, "num_hidden_layers": 18}}
    assert TargetFacts.from_config(
        {"model_type": "made_up", "vocab_size": 9, **wrapped["text_config"]}
    ).problem
    gemma = {"vocab_size": 262208, "head_dim": 256, "num_attention_heads": 4, "num_key_value_heads": 1}
    wrapped["text_config"] |= gemma | {"intermediate_size": 2048, "max_position_embeddings": 32768}  # type: ignore[operator]
    found = TargetFacts.from_config(wrapped, "google/gemma-3")
    assert (found.hidden_size, found.num_layers, found.vocab_size, found.problem) == (640, 18, 262208, "")


def test_a_config_alone_is_enough_where_no_header_can_be_read() -> None:
    """Files of the older PyTorch format cannot be looked into before they are downloaded."""
    for name, make in ALL.items():
        alone = HeadFacts.from_files(make().config)
        assert (alone.format is HeadFormat.EAGLE1) == name.startswith("eagle1")
        if not make().config.get("target_hidden_size"):
            assert pair(TARGET, replace(alone, max_positions=8192)).fit is Fit.FITS
    with pytest.raises(HeadError, match="several layers"):
        HeadFacts.from_files({"model_type": "llama", "num_hidden_layers": 32})
    with pytest.raises(HeadError, match="more than any head has"):
        HeadFacts.from_files(ALL["speculators"]().config | {"num_hidden_layers": 10**9})
    with pytest.raises(HeadError, match="header"):
        header({"fc.weight": {"shape": "none"}})


# --------------------------------------------------------------------------- inspect


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["inspect", *arguments])
    out = capsys.readouterr()
    return code, out.out + out.err


@pytest.fixture(scope="module")
def target_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tiny.reference(), tmp_path_factory.mktemp("target"))


def test_inspect_tells_what_a_head_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target_folder: Path
) -> None:
    head = str(ALL["modelopt"]().write(tmp_path / "head"))
    code, text = said(capsys, head)
    assert code == 0
    for words in (
        "modelopt EAGLE-3",
        "drafts 14 of 24 tokens",
        "inputs of layers 1, 4, 7",
        "measured when",
        "fusion",
    ):
        assert words in text
    code, text = said(capsys, head, "--target", str(target_folder))
    assert code == 1
    assert "does not fit" in text and "24 tokens, this model has 96" in text
    vicuna = eagle1_vicuna().write(tmp_path / "vicuna")
    assert "SafeAILab EAGLE-1/2" in said(capsys, str(vicuna))[1]
    broken = replace(specforge(), tensors={k: v for k, v in specforge().tensors.items() if k != "fc.weight"})
    code, text = said(capsys, str(broken.write(tmp_path / "broken")))
    assert code == 1 and "lacks the tensor 'fc.weight'" in text


def test_inspect_tells_what_a_target_is(capsys: pytest.CaptureFixture[str], target_folder: Path) -> None:
    code, text = said(capsys, str(target_folder))
    assert code == 0
    for words in ("gemma3_text, 7 layers, hidden 64", "(2, 3, 4)", "output head", "keys, values"):
        assert words in text


def test_inspect_says_what_to_do_about_a_name_that_is_not_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    code, text = said(capsys, "someone/EAGLE3-8B")
    assert code == 1 and "no repository on this machine" in text and "HF_HUB_OFFLINE is set" in text
    assert "python -m engine download someone/EAGLE3-8B" in text
    snapshot = (
        tmp_path / "models--someone--EAGLE3-8B" / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    )
    specforge().write(snapshot)
    code, text = said(capsys, "someone/EAGLE3-8B")
    assert code == 0 and "SpecForge EAGLE-3" in text
    assert "There is no folder" in said(capsys, "/nowhere/at/all")[1]


def test_a_header_is_judged_without_its_file(tmp_path: Path) -> None:
    """What the hub's picker does: the first bytes of a remote file, and no weights."""
    folder = specforge().write(tmp_path / "head")
    content = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    stored = header(json.loads(content[8 : 8 + length]))
    found = HeadFacts.from_files(json.loads((folder / "config.json").read_text()), stored, "someone/head")
    assert found == replace(HeadFacts.from_folder(folder), name="someone/head")
    del stored["d2t"]
    assert "'d2t'" in HeadFacts.from_files(specforge().config, stored).problem
