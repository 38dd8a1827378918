"""What is measured at load: right in spite of hiccups, kept between starts, and short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.calibration import at_load, passes, proposals
from engine.calibration.at_load import explain, measure, timing_for
from engine.calibration.outlook import SUPPORT
from engine.calibration.timing import Timing
from engine.drafting.method import Equipment, Methods
from engine.drafting.registry import methods_for
from engine.generation import Session
from engine.models.decoder import Decoder
from engine.protocol import GenerationSettings
from tests.engine import tiny

TEXT = [2, *torch.randint(3, 90, (80,), generator=torch.Generator().manual_seed(0)).tolist()]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return tiny.float_decoder(tiny.save(tiny.reference(), tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def methods(decoder: Decoder) -> Methods:
    return methods_for(Equipment(decoder, 256, tiny.head(decoder)))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "ROWS_SECONDS", 0.05)
    monkeypatch.setattr(proposals, "DRAFT_SECONDS", 0.05)
    # A busy machine would be measured for longer, and not kept; what that needs is tested with a clock of its own.
    monkeypatch.setattr(passes, "AGREE", 100.0)
    monkeypatch.setattr(at_load, "EVEN", 1000.0)


def test_a_measured_machine(decoder: Decoder, methods: Methods) -> None:
    timing = measure(decoder, methods, tiny.LIMITS, TEXT)
    counts, seconds = zip(*timing.rows, strict=True)
    assert counts[0] == 1 and list(counts) == sorted(counts) and list(seconds) == sorted(seconds)
    assert seconds[0] > 0 and timing.draft["eagle3"] > (0.0, 0.0)
    samples = timing.samples["eagle3"]
    assert len(samples) > 3 and any(sample.guesses for sample in samples)
    for sample in samples:
        probabilities = [probability for probability, _, _ in sample.guesses]
        assert probabilities == sorted(probabilities, reverse=True)
    assert timing.reading["eagle3"] >= 0
    # The other methods are looked at as well, if shortly; those that cannot be used are not.
    usable = {info.id for info in methods.infos if info.drafts and not info.problem}
    assert set(timing.draft) == set(timing.samples) == usable > {"eagle3", "lookahead"}
    assert all(len(found) >= SUPPORT for found in timing.samples.values())
    bare = measure(decoder, methods_for(Equipment(decoder, 256)), tiny.LIMITS, TEXT)
    assert set(bare.draft) == {"lookahead", "prompt-lookup"} and bare.rows[0][0] == 1


def test_it_is_kept_and_read_again(
    decoder: Decoder, methods: Methods, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = timing_for(decoder, methods, tiny.LIMITS, TEXT, "tiny")
    files = list(data_dir.rglob("timings/*.json"))
    assert len(files) == 1
    first_file = files[0].read_text("utf-8")

    def refuse(*_: Any) -> Timing:
        raise AssertionError("measured again")

    real = at_load.measure
    monkeypatch.setattr(at_load, "measure", refuse)
    assert timing_for(decoder, methods, tiny.LIMITS, TEXT, "tiny") == first
    monkeypatch.setattr(at_load, "measure", real)
    timing_for(decoder, methods, tiny.LIMITS, TEXT, "another")
    assert len(list(data_dir.rglob("timings/*.json"))) == 2
    damaged = first_file.replace('"rows": [[1, ', '"rows": [[3, ')
    for damage in (
        "",
        "{}",
        '{"version": 0}',
        "[1",
        first_file[:300],
        damaged,
        first_file.replace("0.", "-0."),
    ):
        files[0].write_text(damage, "utf-8")
        assert timing_for(decoder, methods, tiny.LIMITS, TEXT, "tiny").rows[0][0] == 1


@pytest.mark.alone
def test_adapted_sessions_change_sizes_and_not_the_reply(decoder: Decoder, methods: Methods) -> None:
    """Plain passes, larger trees, a pause: whatever the pilot does, the ids are those of plain decoding."""
    timing = measure(decoder, methods, tiny.LIMITS, TEXT)
    session = Session(decoder, methods, tiny.LIMITS, 256, timing)

    def reply(how: GenerationSettings) -> tuple[list[int], list[Any]]:
        records = list(session.generate(TEXT[:9], how, emit=lambda _: False))
        return [token for record in records for token in record.emitted], records

    truth, _ = reply(GenerationSettings(method="plain", max_new_tokens=150))
    assert session.pilot is None
    ours, records = reply(GenerationSettings(max_new_tokens=150))
    assert ours == truth
    assert session.pilot is not None
    # A random head hardly ever pays, but this machine's clock decides (test_pilot has a clock of its own).
    notices = [record.notice for record in records if record.notice]
    assert all("slower" in notice or "again" in notice for notice in notices)
    paused = any(not record.drafting for record in records[1:])
    assert paused or not notices
    text = explain(session.timing, session.pilot, session.limits)
    assert "eagle3" in text and ("pauses" in text or not session.pilot.paused)
    _, records = reply(GenerationSettings(max_new_tokens=60, adapt=False))
    assert session.pilot is None and all(record.drafting for record in records)
    assert "Nothing is adapted" in explain(session.timing, session.pilot, session.limits)
