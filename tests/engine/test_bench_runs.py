"""The bench on a tiny model: whole runs of the command, memory, and batches against single sequences."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.__main__ import main
from engine.bench.batch import BatchBench
from engine.bench.batch_figures import batch_table, measure_batches
from engine.bench.batched import BatchCache, BatchDecoder
from engine.bench.equipment import with_medusa
from engine.bench.measure import Bench
from engine.bench.memory import memory_added
from engine.bench.prompts import BenchPrompt
from engine.bench.variants import Variant
from engine.drafting.eagle import EagleDrafter
from engine.drafting.lookahead import Lookahead
from engine.errors import HeadError
from engine.heads.checkpoint import write_eagle3
from engine.heads.medusa import MedusaConfig, medusa_shapes
from engine.loaded import LoadedModel, load_model
from engine.models.decoder import Decoder
from engine.protocol import GenerationSettings, Load
from engine.tree import DraftTree
from tests.engine import tiny

PROMPTS = ("One two three one two three one", "Hällo 🙂", "abcabcabcab", "A longer prompt, with more words in it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_with_tokenizer(tmp_path_factory.mktemp("bench") / "tiny")


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("head")
    write_eagle3(path, tiny.checkpoint(vocabulary=tiny.BYTES, draft_vocabulary=200))
    return path


@pytest.fixture(scope="module")
def medusa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("medusa")
    config = MedusaConfig(hidden_size=64, vocab_size=tiny.BYTES, heads=2, layers=1)
    torch.manual_seed(3)
    save_file(
        {name: torch.randn(shape) * 0.1 for name, shape in medusa_shapes(config).items()},
        path / "medusa_lm_head.safetensors",
    )
    (path / "config.json").write_text(json.dumps({"medusa_num_heads": 2, "medusa_num_layers": 1}))
    return path


@pytest.fixture(scope="module")
def model(folder: Path, head: Path) -> LoadedModel:
    return load_model(Load(str(folder), str(head)))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = [{"id": i, "category": "ab"[i % 2], "turns": [text]} for i, text in enumerate(PROMPTS)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def bench(folder: Path, head: Path, prompts: Path, *options: str) -> int:
    known = ["bench", "--model", str(folder), "--head", str(head), "--prompts", str(prompts)]
    return main([*known, "--max-tokens", "20", "--no-adapt", *options])


# --------------------------------------------------------------------------- the command


def test_all_methods_side_by_side(
    folder: Path, head: Path, medusa: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plots = tmp_path / "out.json", tmp_path / "plots"
    options = ["--methods", "all", "--medusa-head", str(medusa), "--draft", str(folder)]
    options += ["--json", str(path), "--plots", str(plots), "--prompts-per-category", "1"]
    assert bench(folder, head, prompts, *options) == 0
    shown = capsys.readouterr()
    ways = ["eagle1", "eagle3", "medusa", "draft-model", "lookahead", "prompt-lookup"]
    assert "Not measured: eagle2. The loaded head is for EAGLE-3." in shown.out and "differ" not in shown.err
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert {(row["variant"], row["temperature"]) for row in kept["rows"]} == {
        (way, t) for way in ["plain", *ways] for t in (0, 1)
    }
    assert {row["prompt"] for row in kept["rows"]} == {"0", "1"}
    for each in kept["results"]:
        exact = each["temperature"] == 0 or each["variant"] not in ("eagle1", "draft-model")
        assert each["same_text"] == exact and (each["identical"] == 2 or not exact), each
        assert (each["memory"] > 0) and each["all"]["replies"] == 2
        assert set(each["categories"]) == {"a", "b"}
    memory = {each["variant"]: each["memory"] for each in kept["results"]}
    assert memory["prompt-lookup"] < memory["eagle3"] < memory["draft-model"]
    assert len(list(plots.glob("*.png"))) == 6
    # The draft model is the target itself, so that its guesses stand.
    own = next(e for e in kept["results"] if e["variant"] == "draft-model" and e["temperature"] == 0)
    assert own["acceptance_by_depth"][0] > 0.9 and own["all"]["tau"] > 2


def test_a_killed_bench_goes_on(
    folder: Path, head: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After Ctrl+C the figures so far are printed, and the rest is measured another time."""
    path = tmp_path / "out.json"
    real, calls = Bench.ask, 0

    def ask(self: Bench, prompt: BenchPrompt, temperature: float, turn: int, repeat: int) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return real(self, prompt, temperature, turn, repeat)

    options = ["--methods", "lookahead", "--identity", "--temperatures", "0", "--json", str(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "ask", ask)
        assert bench(folder, head, prompts, *options) == 0
    shown = capsys.readouterr()
    assert "2 of 2" in shown.out and "Stopped; 2 of 4 were measured." in shown.err
    before = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert bench(folder, head, prompts, *options, "--resume") == 0
    assert "4 of 4" in capsys.readouterr().out
    after = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert after[: len(before)] == before and len(after) == 2 * len(before)
    assert bench(folder, head, prompts, *options, "--seed", "3", "--resume") == 1
    assert "another seed" in capsys.readouterr().err
    # More rounds over the same prompts go on from these.
    assert bench(folder, head, prompts, *options, "--repeats", "2", "--resume") == 0
    assert "8 of 8" in capsys.readouterr().out
    whole = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert whole[: len(after)] == after and {row["repeat"] for row in whole[len(after) :]} == {1}
    assert [row["prompt"] for row in whole[len(after) :]] == [row["prompt"] for row in after]


def test_a_sweep_tells_how_far_the_choice_is_from_the_best(
    folder: Path, head: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.json"
    options = ["--limit", "2", "--sweep", "--grid", "nodes=2,6;depth=2", "--json", str(path), "--markdown"]
    options += ["--repeats", "2"]
    assert bench(folder, head, prompts, *options) == 0
    shown = capsys.readouterr().out
    assert "| eagle3 (nodes=6, depth=2) |" in shown and "| eagle3, chosen by the engine |" in shown
    kept = json.loads(path.read_text(encoding="utf-8"))
    rates: dict[str, float] = {}
    for name in {row["variant"] for row in kept["rows"]}:
        mine = [row for row in kept["rows"] if row["variant"] == name]
        rates[name] = sum(row["tokens"] - 1 for row in mine) / sum(row["seconds"] for row in mine)
    best = max((name for name in rates if "nodes" in name), key=rates.__getitem__)
    assert kept["sweep"][0]["best"] == best
    assert kept["sweep"][0]["ratio"] == pytest.approx(rates["eagle3"] / rates[best])
    assert "one half of every prompt's replies" in shown and kept["sweep"][0]["crossed"]["by_repeat"]


def test_a_method_that_cannot_run_is_no_traceback(
    folder: Path, head: Path, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(folder, head, prompts, "--methods", "medusa") == 1
    assert "None of the methods can be used here." in capsys.readouterr().err
    assert bench(folder, head, prompts, "--medusa-head", str(head)) == 1
    assert "holds an EAGLE head" in capsys.readouterr().err


def test_other_programs_decode_the_same_prompts(
    folder: Path, head: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    options = ["--compare", "--limit", "1", "--temperatures", "0", "--methods", "lookahead", "--json", str(path)]
    assert bench(folder, head, prompts, *options) == 0
    assert re.search(
        r"transformers float32: [\d.]+ tokens/s on 1 prompts; as fast as that: plain [\d.]+×, lookahead",
        capsys.readouterr().out,
    )
    assert "transformers float32" in json.loads(path.read_text(encoding="utf-8"))["peers"]


def test_medusa_heads_stand_beside_an_eagle_head(model: LoadedModel, medusa: Path, head: Path) -> None:
    both = with_medusa(model, medusa)
    problems = {info.id: info.problem for info in both.info.methods}
    assert not problems["medusa"] and not problems["eagle3"]
    with pytest.raises(HeadError, match="EAGLE head"):
        with_medusa(model, head)


# --------------------------------------------------------------------------- memory


def test_memory_is_what_the_drafter_keeps(model: LoadedModel) -> None:
    assert model.head is not None
    eagle = EagleDrafter(model.head, 64)
    counted = memory_added(eagle, model.decoder)
    cache = eagle._cache.memory_bytes()
    norms = 3 * 64 * 4 + 64 * 4  # three norms of the layer and the last one
    assert counted >= model.head.memory_bytes() + cache + norms
    assert counted < model.head.memory_bytes() + cache + 60_000  # tables of angles, ids of the draft vocabulary
    # The embedding is the target's, and would double it.
    assert memory_added(eagle) - counted >= model.decoder.weights.embedding.numel() * 4
    lookahead = Lookahead()
    empty = memory_added(lookahead)
    for token in range(1000):
        lookahead._pool.add([token, token + 1, token + 2])
    assert memory_added(lookahead) - empty > 1000 * 3 * 8


# --------------------------------------------------------------------------- batches


def trees() -> list[DraftTree]:
    def tree(tokens: tuple[int, ...], parents: tuple[int, ...]) -> DraftTree:
        ones = (1.0,) * len(tokens)
        return DraftTree(tokens, parents, ones, ones)

    return [tree((5, 6, 7, 8), (-1, 0, 0, 1)), tree((9,), (-1,)), tree((10, 11, 12), (-1, 0, 1))]


@pytest.mark.parametrize("kind", ["int8", "float"])
@torch.inference_mode()
def test_a_batch_has_the_bits_of_its_sequences(kind: str, tmp_path: Path) -> None:
    """Prompts of several lengths, beyond the sliding window, then trees; two key heads."""
    make = tiny.int8_decoder if kind == "int8" else tiny.float_decoder
    decoder: Decoder = make(tiny.save(tiny.reference(kv_heads=2), tmp_path))
    lengths = (30, 3, 17)
    cache = BatchCache(decoder, 3, 64)
    generator = torch.Generator().manual_seed(1)
    alone = []
    for number, length in enumerate(lengths):
        single = decoder.new_cache()
        prompt = torch.randint(2, tiny.VOCABULARY, (length,), generator=generator)
        decoder.forward(prompt, torch.arange(length), single)
        single.keep(length)
        tables = [torch.stack([layer[:, :length] for layer in table]) for table in (single.keys, single.values)]
        cache.load(number, *tables)
        alone.append(single)
    batch = BatchDecoder(decoder)
    for kept in ([0, 1, 3], [0], [0, 1]), ([0, 2], [0], [0]), ([0], [0], [0, 1, 2]):
        expected, taps = [], []
        for tree, single in zip(trees(), alone, strict=True):
            hidden, tapped = decoder.forward(
                torch.tensor(tree.tokens), tree.positions(single.length), single, tree.mask(), (2, 4)
            )
            expected.append(hidden)
            taps.append(tapped[1])
        ours, tapped = batch.run(trees(), cache, (2, 4))
        if kind == "int8":
            assert torch.equal(ours, torch.cat(expected)) and torch.equal(tapped[1], torch.cat(taps))
        else:
            torch.testing.assert_close(ours, torch.cat(expected), rtol=1e-4, atol=1e-4)
        for number, (rows, single) in enumerate(zip(kept, alone, strict=True)):
            cache.keep(number, rows)
            single.keep(torch.tensor(rows))
        assert cache.lengths == [single.length for single in alone]


@pytest.mark.parametrize("method", ["eagle3", "lookahead"])
def test_batches_write_what_a_chat_writes(model: LoadedModel, method: str) -> None:
    """Replies of different lengths in two and three places at once, refilled as they end."""
    settings = GenerationSettings(max_new_tokens=16, adapt=False)
    variant = Variant(method)
    asking = Bench(model, [variant], settings)
    asked = [BenchPrompt(str(number), "a", text) for number, text in enumerate(PROMPTS)]
    truth = [list(asking.answer(prompt, Variant("plain"), 0.0).token_ids) for prompt in asked]
    chosen, options = model.methods.choose(variant.settings(settings))
    limits = model.session().limits_for(variant.settings(settings))
    batch = BatchBench(model, chosen, options, limits, 16)
    read = list(batch.read([(prompt.name, asking.prompt_ids(prompt)) for prompt in asked]))
    for drafting in (False, True):
        ran = batch.run([*read, *read], 2, drafting)
        assert set(range(6)) <= set(ran.replies)
        for number, reply in ran.replies.items():
            assert reply == truth[number % 4][: len(reply)], (drafting, number)
        whole = [number for number, reply in ran.replies.items() if len(reply) == len(truth[number % 4])]
        assert len(whole) >= 7
        assert ran.rows >= 2 * ran.passes and ran.tokens <= sum(len(reply) for reply in ran.replies.values())
        if not drafting:
            assert ran.tokens == 2 * ran.passes and ran.rows == 2 * ran.passes
    assert batch.run(read, 5, True).passes == 0  # not enough to fill all places
    if method == "lookahead":
        return
    found = list(measure_batches(batch, read[:2], [1, 3]))
    assert [each.sequences for each in found] == [1, 3]
    assert all(each.identical == each.replies > 0 for each in found)
    assert found[1].plain_rows == 3 and found[1].tau >= 1 and found[1].speed_up_free >= found[1].speed_up
    assert len(batch_table(found)) == 3


def test_the_command_measures_batches(
    folder: Path, head: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "batches.json"
    options = ["--batch", "1,2", "--nodes", "4", "--limit", "2", "--max-tokens", "8", "--json", str(path)]
    assert bench(folder, head, prompts, *options, "--markdown") == 0
    shown = capsys.readouterr().out
    assert "| 2 | " in shown and "up to 4 rows" in shown and "Measured: passes of the target" in shown
    kept = json.loads(path.read_text(encoding="utf-8"))["batches"]
    assert [each["sequences"] for each in kept] == [1, 2]
    for each in kept:
        assert each["speed_up"] == pytest.approx(each["drafted_rate"] / each["plain_rate"])
        assert each["plain_rows"] == each["sequences"] and each["drafted_rows"] > each["sequences"]
