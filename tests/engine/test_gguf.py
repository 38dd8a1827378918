from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from gguf import GGMLQuantizationType as Kind

from engine.errors import ResourceError
from engine.models import building, gguf
from engine.models.building import ConversionCancelled
from engine.models.gguf_file import GGUFFile
from engine.models.loading import TensorSource
from engine.prompting import ChatFormat
from engine.protocol import Message, Role
from engine.tokenizing import Tokenizer
from tests.engine import tiny_gguf

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf ü 模型") / "tiny-gemma.gguf")


@pytest.fixture(scope="module")
def converted(source: Path) -> Path:
    folder = source.parent / "cönverted"
    gguf.convert_once(source, folder)
    return folder


@pytest.fixture(scope="module")
def imported(source: Path) -> tuple[Any, Any]:
    """The same file through transformers: model and tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where, name = str(source.parent), source.name
    model = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(where, gguf_file=name)


def assert_nothing_left(folder: Path) -> None:
    assert not folder.exists()
    left = [path.name for path in folder.parent.iterdir() if path.name.startswith(f".{folder.name}.")]
    assert [name for name in left if not name.endswith(".lock")] == []


# --------------------------------------------------------------------------- the same as transformers


def test_weights_are_those_of_transformers(converted: Path, imported: tuple[Any, Any]) -> None:
    expected = {name: t for name, t in imported[0].state_dict().items() if name != "lm_head.weight"}
    with TensorSource(converted) as tensors:
        assert set(tensors.names()) == set(expected)
        for name, tensor in expected.items():
            assert torch.equal(tensors.get(name), tensor), name


def test_the_configuration_is_that_of_transformers(converted: Path, imported: tuple[Any, Any]) -> None:
    ours = json.loads((converted / "config.json").read_text(encoding="utf-8"))
    theirs = imported[0].config.to_dict()
    different = {name for name in ours if name not in theirs or ours[name] != theirs[name]}
    assert different <= {"architectures", "dtype"}
    assert [kind[0] for kind in ours["layer_types"]] == list("sssssfs")


def test_transformers_loads_the_folder_and_computes_the_same(
    converted: Path, imported: tuple[Any, Any]
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(converted, dtype=torch.float32)
    ids = torch.randint(0, model.config.vocab_size, (1, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, imported[0](ids).logits)
    text = "hello the table"
    assert AutoTokenizer.from_pretrained(converted)(text).input_ids == imported[1](text).input_ids


def test_tokens_are_those_of_transformers(converted: Path, imported: tuple[Any, Any]) -> None:
    theirs = json.loads(imported[1].backend_tokenizer.to_str())
    ours = json.loads((converted / "tokenizer.json").read_text(encoding="utf-8"))
    ours["model"]["merges"] = [merge.split(" ") for merge in ours["model"]["merges"]]
    assert ours == theirs
    backend = tokenizers.Tokenizer.from_file(str(converted / "tokenizer.json"))
    chance = random.Random(5)
    pieces = [
        "hello",
        " the",
        "  ",
        "   ",
        "\n",
        "\n\n\n",
        "\t",
        "<table>",
        "日本",
        "🙂",
        "é",
        "▁",
        "<eos>",
        " a.b",
    ]
    for _ in range(300):
        text = "".join(chance.choices(pieces, k=8))
        assert backend.encode(text).ids == imported[1](text).input_ids
        assert backend.decode(backend.encode(text).ids) == imported[1].decode(
            imported[1](text).input_ids, skip_special_tokens=True
        )


def test_the_folder_works_with_the_rest_of_the_engine(converted: Path) -> None:
    tokenizer = Tokenizer.load(converted)
    assert tokenizer.bos_id == 2
    assert tokenizer.vocabulary == len(tiny_gguf.vocabulary()[0])
    assert tokenizer.decode(tokenizer.encode("hello  the\n\n日本 🙂")) == "hello  the\n\n日本 🙂"


def test_the_chat_template_and_the_end_of_turn_are_kept(tmp_path: Path) -> None:
    template = "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.content }}<end_of_turn>{% endfor %}"
    metadata = {"tokenizer.chat_template": template, "tokenizer.ggml.eot_token_id": 6}
    gguf.convert_once(tiny_gguf.write(tmp_path / "chat.gguf", metadata=metadata), tmp_path / "chat")
    chat = ChatFormat.load(tmp_path / "chat")
    assert chat.render([Message(Role.USER, "hi")]) == "<bos><start_of_turn>hi<end_of_turn>"
    assert chat.eos_token_ids == (1, 6)


def test_optional_entries_are_used(tmp_path: Path) -> None:
    metadata = {
        "gemma3.rope.scaling.type": "linear",
        "gemma3.rope.scaling.factor": 8.0,
        "gemma3.rope.freq_base_swa": 5000.0,
        "gemma3.final_logit_softcapping": 30.0,
        "gemma3.attention.sliding_window_pattern": 2,
    }
    gguf.convert_once(tiny_gguf.write(tmp_path / "a.gguf", metadata=metadata), tmp_path / "a")
    config = json.loads((tmp_path / "a" / "config.json").read_text(encoding="utf-8"))
    assert config["rope_parameters"] == {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
    }
    assert config["final_logit_softcapping"] == 30.0
    assert [kind[0] for kind in config["layer_types"]] == list("sfsfsfs")


def test_an_untied_head_is_converted(tmp_path: Path) -> None:
    head = np.arange(len(tiny_gguf.vocabulary()[0]) * tiny_gguf.HIDDEN, dtype=np.float32).reshape(
        -1, tiny_gguf.HIDDEN
    )
    path = tiny_gguf.write(tmp_path / "a.gguf", change={"output.weight": (head, Kind.F32)})
    gguf.convert_once(path, tmp_path / "a")
    with TensorSource(tmp_path / "a") as tensors:
        assert torch.equal(tensors.get("lm_head.weight"), torch.from_numpy(head))
    config = json.loads((tmp_path / "a" / "config.json").read_text(encoding="utf-8"))
    assert config["tie_word_embeddings"] is False


def test_large_tensors_go_through_in_pieces(source: Path) -> None:
    with GGUFFile(source) as file:
        for name in ("token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight"):
            whole = list(file.rows(name))
            pieces = list(file.rows(name, per_chunk=200))
            assert len(whole) == 1
            assert len(pieces) > 1 or name == "output_norm.weight"
            assert np.array_equal(np.concatenate(pieces), whole[0])


# --------------------------------------------------------------------------- once, and all or nothing


def test_the_second_time_nothing_is_converted(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    seen: list[tuple[str, float | None]] = []
    gguf.convert_once(source, folder, lambda message, fraction: seen.append((message, fraction)))
    known = [fraction for _, fraction in seen if fraction is not None]
    assert known == sorted(known) and known[-1] == 1.0
    written = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    seen.clear()
    gguf.convert_once(source, folder, lambda message, fraction: seen.append((message, fraction)))
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == written
    assert [message for message, _ in seen] == ["Checking the file"]


def test_what_changed_is_made_anew(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    checksum = hashlib.sha256(source.read_bytes()).hexdigest()

    def damage_and_convert() -> None:
        assert not gguf.is_complete(folder, checksum)
        gguf.convert_once(source, folder)
        assert gguf.is_complete(folder, checksum)
        assert not (folder / "replaced").exists()

    damage_and_convert()
    with (folder / "model.safetensors").open("ab") as file:
        file.truncate(1000)
    damage_and_convert()
    (folder / "tokenizer.json").unlink()
    damage_and_convert()
    (folder / gguf.MANIFEST).write_text("{", encoding="utf-8")
    damage_and_convert()
    monkeypatch.setattr(gguf, "CONVERTER_VERSION", gguf.CONVERTER_VERSION + 1)
    damage_and_convert()
    assert not gguf.is_complete(folder, "0" * 64)


@pytest.mark.parametrize("looks", [0, 2, 20])
def test_cancelling_leaves_nothing(source: Path, tmp_path: Path, looks: int) -> None:
    left = [looks]

    def cancelled() -> bool:
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(ConversionCancelled):
        gguf.convert_once(source, tmp_path / "model", cancelled=cancelled)
    assert_nothing_left(tmp_path / "model")


def test_a_killed_conversion_never_looks_complete(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    code = (
        "import os, sys; from pathlib import Path; from engine.models import gguf\n"
        "def report(message, fraction):\n"
        "    if fraction and fraction > 0.5: os.kill(os.getpid(), 9)\n"
        "gguf.convert_once(Path(sys.argv[1]), Path(sys.argv[2]), report)"
    )
    child = subprocess.run([sys.executable, "-c", code, str(source), str(folder)], cwd=ROOT, check=False)
    assert child.returncode != 0
    assert not folder.exists()
    assert any(".partial-" in path.name for path in tmp_path.iterdir()), (
        "the test must leave something behind"
    )
    gguf.convert_once(source, folder)
    assert not any(".partial-" in path.name for path in tmp_path.iterdir())
    assert gguf.is_complete(folder, hashlib.sha256(source.read_bytes()).hexdigest())


def test_two_processes_at_once_convert_once(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    code = (
        "import sys, time; from pathlib import Path; from engine.models import gguf\n"
        "real = gguf.convert\n"
        "def slow(*arguments):\n"
        "    print('converting', flush=True); time.sleep(0.5); real(*arguments)\n"
        "gguf.convert = slow\n"
        "gguf.convert_once(Path(sys.argv[1]), Path(sys.argv[2]), lambda message, fraction: print(message))"
    )
    command = [sys.executable, "-c", code, str(source), str(folder)]
    children = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sum("converting" in output for output in outputs) == 1
    assert gguf.is_complete(folder, hashlib.sha256(source.read_bytes()).hexdigest())


def test_waiting_for_another_process_can_be_cancelled(source: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    started = time.monotonic()

    def cancelled() -> bool:
        """As soon as the user has been told what is waited for."""
        return any("another Eyrie" in message for message in messages) or time.monotonic() > started + 60

    with building.folder_lock(tmp_path / "model"), pytest.raises(ConversionCancelled):
        gguf.convert_once(
            source,
            tmp_path / "model",
            lambda m, f: messages.append(m),
            cancelled,
        )
    assert any("another Eyrie" in message for message in messages)
    assert_nothing_left(tmp_path / "model")


# --------------------------------------------------------------------------- disks


def test_a_small_disk_is_told_before_writing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(ResourceError, match="The disk is too full") as caught:
        gguf.convert_once(source, tmp_path / "model")
    assert str(tmp_path) in caught.value.message and "bytes" in caught.value.message
    assert "EYRIE_DATA_DIR" in caught.value.next_step
    assert_nothing_left(tmp_path / "model")


@pytest.mark.parametrize(("number", "what"), [(errno.ENOSPC, "too full"), (errno.EACCES, "failed")])
def test_a_disk_that_fails_while_writing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(gguf.os, "fsync", fails)
    with pytest.raises(ResourceError, match=what) as caught:
        gguf.convert_once(source, tmp_path / "model")
    assert caught.value.next_step
    assert_nothing_left(tmp_path / "model")
