"""A scripted hub for pictures of the picker and for walks through it: nothing is fetched.

As :class:`app.rehearsal.RehearsalEngine` stands in for the engine; its sentences are the engine's own,
so that they are translated. The names are those of real
repositories where they are in the catalogue; sizes and counts are made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.transport import CommandSource
from engine.protocol import Event, Ready, Shutdown
from engine.protocol.hub import (
    CataloguePair,
    DownloadState,
    FileProgress,
    Fit,
    HeadChoice,
    HubModel,
    LocalEntry,
    Machine,
    ModelDetails,
    PairOffer,
    PairReport,
    PairVerdict,
    Phase,
    Problem,
    TokenSource,
    Verdict,
)
from engine.protocol.hub_messages import (
    Account,
    Browse,
    Catalogue,
    Details,
    FindHeads,
    Found,
    Heads,
    HubEvent,
    Local,
    LookAt,
    Queue,
    Search,
)

GB = 1_000_000_000
MACHINE = Machine("NVIDIA GeForce RTX 4070", True, 12 * GB, 11 * GB)
CARD = """# A small model

Text of strangers, shown as *Markdown* without pictures and scripts: <b>this is no bold text</b>.

| Benchmark | Result |
|---|---|
| Sums | 71 |

```python
print("an example")
```

[A link](https://example.invalid) asks before it opens.
"""


def fit(verdict: Verdict, needed: float, words: str) -> Fit:
    return Fit(
        verdict, words, round(needed * 0.74 * GB), round(needed * 0.08 * GB), round(needed * 0.13 * GB),
        round(needed * 0.05 * GB), round(needed * GB), MACHINE.free - round(needed * GB), 4096, "NF4",
    )  # fmt: skip


FITS = fit(Verdict.FITS, 6.4, "Needs 6.4 of 11.0 GB that can be used; 4.6 GB stay free.")
TIGHT = fit(Verdict.TIGHT, 10.6, "Needs 10.6 of 11.0 GB that can be used; 0.4 GB stay free.")
TOO_LARGE = fit(Verdict.NO, 21.3, "Needs 21.3 GB; 11.0 GB of NVIDIA GeForce RTX 4070 can be used.")

OFFERS = (
    PairOffer(
        CataloguePair(
            "meta-llama/Llama-3.1-8B-Instruct", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "SafeAILab EAGLE-3",
            "Llama 3.1", 8.0, (2, 16, 29), 32000, 8, licence="llama3.1", is_gated=True, context=131072,
            languages=("en", "de", "fr", "it", "pt", "hi", "es", "th"), speedup=3.2,
            speedup_source="EAGLE-3 paper, table 1", is_recommended=True,
        ),
        FITS, download_bytes=17 * GB, is_recommended=True,
    ),
    PairOffer(
        CataloguePair(
            "Qwen/Qwen3-8B", "Tengyunw/qwen3_8b_eagle3", "SpecForge", "Qwen3", 8.2, (2, 18, 33), 32000, 8,
            licence="apache-2.0", context=40960, languages=("en", "zh"), is_recommended=True,
            notes="The head was trained in thinking mode.",
        ),
        TIGHT, "/models/qwen3-8b", "", 16 * GB,
    ),
    PairOffer(
        CataloguePair(
            "meta-llama/Llama-3.3-70B-Instruct", "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B", "SafeAILab EAGLE-3",
            "Llama 3.3", 70.0, licence="llama3.3", is_gated=True, context=131072,
        ),
        TOO_LARGE, download_bytes=141 * GB,
    ),
)  # fmt: skip

MODELS = (
    HubModel("Qwen/Qwen3-8B", 4_812_337, 1204, "2025-07-26", "apache-2.0", False, "Qwen3", 8.2,
             has_known_head=True, fit=FITS),
    HubModel("meta-llama/Llama-3.1-8B-Instruct", 9_120_045, 4711, "2024-09-25", "llama3.1", True, "Llama 3.1", 8.0,
             has_known_head=True, fit=FITS),
    HubModel("somebody-with-a-long-name/a-model-with-a-very-long-name-that-hardly-fits-in-any-list-v0.1-final",
             12, 0, "2025-01-01", "", False, "", 3.1, fit=TIGHT),
)  # fmt: skip

HEADS = (
    HeadChoice("Tengyunw/qwen3_8b_eagle3", PairReport(PairVerdict.FITS),
               "catalogue", "SpecForge", 800_000_000, 20_000, "apache-2.0"),
    HeadChoice("somebody/another-head", PairReport(PairVerdict.NOT, ("It was made for hidden size 2,560, this model has 4,096.",)),
               "search", "SafeAILab EAGLE-3", 300_000_000),
)  # fmt: skip

LOCAL = (
    LocalEntry("Qwen/Qwen3-8B", "/models/qwen3-8b", 16 * GB, False, "Qwen3", "Qwen/Qwen3-8B", "0123"),
    LocalEntry("mistral-7b-instruct.Q4_K_M.gguf", "/home/user/Modelle/mistral-7b-instruct.Q4_K_M.gguf", 4 * GB),
    LocalEntry("Tengyunw/qwen3_8b_eagle3", "/models/head", 800_000_000, True, "", "Tengyunw/qwen3_8b_eagle3", "4567",
               "Qwen/Qwen3-8B"),
)  # fmt: skip

DOWNLOADS = (
    DownloadState(
        "1", "Qwen/Qwen3-8B", Phase.RUNNING, 7 * GB, 16 * GB, 61e6, 147.0,
        (FileProgress("model-00001-of-00002.safetensors", 8 * GB, 7 * GB), FileProgress("config.json", 700, 700)),
    ),
    DownloadState("2", "Tengyunw/qwen3_8b_eagle3", Phase.QUEUED, total=800_000_000),
    DownloadState(
        "3", "meta-llama/Llama-3.1-8B-Instruct", Phase.FAILED, 0, 16 * GB,
        problem=Problem("licence", "meta-llama/Llama-3.1-8B-Instruct is gated, and your account has not been let in.",
                        "Accept its licence on its page (some owners confirm by hand), then try again.", "https://huggingface.co/meta-llama"),
    ),
)  # fmt: skip


class RehearsalHub:
    """Answers the picker's commands. ``run`` suits :class:`app.transport.ThreadTransport`."""

    def run(self, commands: CommandSource, emit: Callable[[Event], None]) -> None:
        emit(Ready("https://huggingface.co"))
        while not isinstance(command := commands.get(), Shutdown):
            for event in self.answers(command):
                emit(event)  # type: ignore[arg-type]

    def answers(self, command: object) -> tuple[HubEvent, ...]:
        if isinstance(command, Browse):
            return (
                Account("", TokenSource.NONE), Catalogue(MACHINE, OFFERS), Local(LOCAL), Queue(DOWNLOADS, 210 * GB),
            )  # fmt: skip
        if isinstance(command, Search):
            wanted = command.text.lower()
            return (
                Found(command.request_id, tuple(each for each in MODELS if wanted in each.repo_id.lower())),
            )
        if isinstance(command, LookAt):
            model = next((each for each in MODELS if each.repo_id == command.repo_id), MODELS[0])
            files = (
                ("model-00001-of-00002.safetensors", 8 * GB),
                ("config.json", 700),
                ("tokenizer.json", 9_000_000),
            )
            details = ModelDetails(
                replace(model, repo_id=command.repo_id), "0123", files, 16 * GB, model.fit, CARD
            )
            return (Details(command.request_id, details),)
        if isinstance(command, FindHeads):
            return (Heads(command.request_id, command.target, HEADS),)
        return ()
