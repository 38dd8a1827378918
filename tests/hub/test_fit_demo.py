"""The estimate for the demo model and its head, against what the engine holds and what its process takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.hub.content import folder_content
from engine.hub.fit import estimate, head_bytes, target_bytes
from engine.hub.memory import main_memory
from engine.loaded import DEMO_HEAD

pytestmark = [pytest.mark.demo, pytest.mark.slow]

CONTEXT = 4096
ANSWER = f"""
import json
from pathlib import Path
from engine.generation import Switches
from engine.loaded import RESOURCES, load_model
from engine.protocol import GenerationSettings, Load

model = load_model(Load("demo", device="cpu", weight_format="int8", context={CONTEXT}))
text = (RESOURCES / "licences" / "gemma_terms.txt").read_text(encoding="utf-8") * 2
tokens = model.tokenizer.encode(text, add_bos=True)[: {CONTEXT} - 32]
settings = GenerationSettings(max_new_tokens=8)
session = model.session()
assert len(list(session.generate(tokens, settings, emit=lambda *_: False, switches=Switches()))) > 1
status = Path("/proc/self/status")
lines = [line.split() for line in status.read_text().splitlines()] if status.exists() else []
kilobytes = {{line[0]: int(line[1]) for line in lines if line[-1] == "kB"}}
embedding = model.decoder.weights.embedding  # stays in its file
target = model.decoder.memory_bytes() - embedding.numel() * embedding.element_size()
cache = model.decoder.new_cache({CONTEXT})
cache.reserve({CONTEXT})
print(json.dumps({{
    "target": target,
    "head": model.info.memory_bytes - model.decoder.memory_bytes(),
    "cache": cache.memory_bytes(),
    # The most that it ever took, without files that are only mapped, whose pages stay once they were read.
    "process": 1024 * (kilobytes["VmHWM:"] - kilobytes["RssFile:"]) if kilobytes else 0,
}}))
"""


def test_the_estimate_agrees_with_the_demo_model(demo_model: Path) -> None:
    """In a process of its own that loads the pair and answers; files that it maps take no memory."""
    # Beside the shared model its int8 weights are kept, too: making them takes longer than all the rest.
    environment = dict(os.environ, EYRIE_DATA_DIR=str(demo_model.parent.parent.parent))
    done = subprocess.run(
        [sys.executable, "-c", ANSWER],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout.splitlines()[-1])
    target, head = folder_content(demo_model), folder_content(DEMO_HEAD)
    assert target.header is not None and head.header is not None
    fit = estimate(
        main_memory(),
        target.config,
        target.header,
        0,
        head_config=head.config,
        head_header=head.header,
        context=CONTEXT,
    )
    assert target_bytes(target.header, target.config, is_gpu=False) == pytest.approx(held["target"], rel=0.1)
    assert head_bytes(head.header, is_gpu=False) == pytest.approx(held["head"], rel=0.1)
    assert fit.cache == pytest.approx(held["cache"], rel=0.1)
    print(f"estimated {fit.needed / 1e6:.0f} MB, the process takes {held['process'] / 1e6:.0f} MB")
    held_at_all = held["target"] + held["head"] + held["cache"]
    assert fit.weights + fit.head + fit.cache == pytest.approx(held_at_all, rel=0.1)
    if held["process"]:
        # At its most, which is what must fit: how much of that the allocator keeps is different every time.
        assert fit.needed == pytest.approx(held["process"], rel=0.1)
