"""The hub's process over its messages: search, details, heads with verdicts, downloads, what is here."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from engine.hub import finding
from engine.hub.content import folder_content
from engine.hub.place import HubPlace
from engine.hub.problems import UnreachableError
from engine.hub.tokens import Tokens
from engine.hub.worker import HubWorker
from engine.protocol import Shutdown
from engine.protocol.hub import LocalEntry, PairVerdict, Phase, Sort, TokenSource, Verdict
from engine.protocol.hub_messages import (
    Account,
    Browse,
    Catalogue,
    Delete,
    Details,
    EnterToken,
    Fetch,
    FindHeads,
    Forget,
    Found,
    Heads,
    HubFailed,
    Import,
    Imported,
    Local,
    LookAt,
    Queue,
    Search,
)
from tests.hub.hub_setting import PATIENCE
from tests.hub.tiny_repositories import HEAD, OTHER_HEAD, TARGET, repositories
from tests.hub_server import Account as HubAccount
from tests.hub_server import HubServer, Repository


class Line:
    """Both ends of a channel, and the worker at the other one."""

    def __init__(self, hub: HubServer, folder: Path) -> None:
        constants.HF_HUB_OFFLINE = False
        self._commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.recv, self.send = self._commands.get, self.events.put
        self.tell = self._commands.put
        place = HubPlace(hub.endpoint, folder / "hub", timeout=PATIENCE, reserve=0)
        self.worker = HubWorker(self, place, Tokens(use_keyring=False))
        self._thread = threading.Thread(target=self.worker.run, daemon=True)
        self._thread.start()

    def wait(self, kind: type, when: Callable[[Any], bool] = lambda _: True) -> Any:
        while True:
            event = self.events.get(timeout=30)
            if isinstance(event, kind) and when(event):
                return event
            if isinstance(event, HubFailed) and kind is not HubFailed:
                raise AssertionError(event)

    def close(self) -> None:
        self.tell(Shutdown())
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module")
def hub(tiny_folder: Path) -> Iterator[HubServer]:
    gated = Repository(
        "tests/gated-9b", {"config.json": b"{}", "model.safetensors": b"x"}, gated=True, likes=99
    )
    with HubServer([*repositories(tiny_folder), gated], {"hf_token12": HubAccount("ann")}) as server:
        yield server


@pytest.fixture
def line(hub: HubServer, tmp_path: Path) -> Iterator[Line]:
    made = Line(hub, tmp_path)
    yield made
    made.close()


def test_search_sorts_and_filters(line: Line) -> None:
    line.tell(Search(1, "tests/", sort=Sort.LIKES))
    found = line.wait(Found).models
    assert [model.repo_id for model in found][:2] == ["tests/gated-9b", TARGET]
    assert {model.repo_id for model in found if model.is_head} == {HEAD, OTHER_HEAD}
    assert [model.is_gated for model in found][:2] == [True, False]
    line.tell(Search(2, "tests/", licence="mit"))
    assert {model.repo_id for model in line.wait(Found).models} == {HEAD, OTHER_HEAD}
    line.tell(Search(3, f"https://huggingface.co/{TARGET}/tree/main"))
    (first, *_) = line.wait(Found).models
    assert first.repo_id == TARGET and first.parameters == pytest.approx(0.0003)
    line.tell(Search(4, "tests/", largest=1.0))
    assert "tests/gated-9b" not in [model.repo_id for model in line.wait(Found).models]


def test_a_search_says_whether_there_is_more(
    line: Line, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "PAGE", 2)
    every = sorted(hub.repositories.values(), key=lambda each: each.downloads, reverse=True)
    names = [each.repo_id for each in every]
    assert len(names) == 4
    line.tell(Search(1, "tests/"))
    first = line.wait(Found)
    assert [each.repo_id for each in first.models] == names[:2]
    assert (first.has_more, first.looked_at) == (True, 2)
    line.tell(Search(2, "tests/", pages=2))
    both = line.wait(Found)
    assert [each.repo_id for each in both.models] == names
    assert (both.has_more, both.looked_at) == (False, 4), "and not one page too many"
    line.tell(Search(3, "tests/", licence="none"))
    assert not line.wait(Found).has_more


def test_models_with_a_head_appear_as_they_are_found(line: Line, hub: HubServer) -> None:
    """By the hub's metadata and search, not only by the catalogue; a head that does not fit is none."""
    lonely = "tests/lonely-gemma"
    hub.add(replace(hub.repositories[TARGET], repo_id=lonely, downloads=900, base_models=()))
    hub.add(replace(hub.repositories[OTHER_HEAD], repo_id="tests/lonely-gemma-eagle3", base_models=(lonely,)))
    line.tell(Search(1, "gemma", only_with_head=True))
    first = line.wait(Found)
    assert (first.models, first.unchecked) == ((), 2), "the heads themselves are not asked about"
    last = line.wait(Found, lambda event: not event.unchecked)
    assert [(model.repo_id, model.has_known_head) for model in last.models] == [(TARGET, True)]
    asked = len(hub.requests)
    line.tell(Search(2, "gemma", only_with_head=True))
    again = line.wait(Found)
    assert ([model.repo_id for model in again.models], again.unchecked) == ([TARGET], 0)
    assert len(hub.requests) == asked + 1, "what was found out is kept"
    line.tell(Search(3, "gemma"))
    marked = {model.repo_id: model.has_known_head for model in line.wait(Found).models}
    assert marked[TARGET] and not marked[lonely]
    for name in (lonely, "tests/lonely-gemma-eagle3"):
        del hub.repositories[name]


def test_details_tell_files_memory_and_card(line: Line, hub: HubServer) -> None:
    line.tell(LookAt(1, TARGET, HEAD))
    details = line.wait(Details).details
    paths = dict(details.files)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(paths)
    assert details.download_bytes == sum(paths.values())
    assert details.card.lstrip().startswith("# Tiny") and "license:" not in details.card
    assert details.problem is None
    assert details.fit.verdict is Verdict.FITS and not details.fit.is_rough
    assert details.fit.head > 0
    # Memory is known from the header: the weights themselves were not fetched.
    size = paths["model.safetensors"]
    assert all(end - start < size for start, end in hub.fetched("model.safetensors")) or size < 1 << 17
    line.tell(LookAt(2, "tests/gated-9b"))
    assert line.wait(Details).details.problem.kind == "hub-login"
    line.tell(LookAt(3, "tests/none"))
    assert line.wait(HubFailed).problem.kind == "hub-missing"


def test_heads_come_with_verdicts_before_any_download(line: Line) -> None:
    line.tell(FindHeads(1, TARGET))
    heads = line.wait(Heads, lambda event: event.is_complete).heads
    assert [(head.repo_id, head.report.verdict) for head in heads] == [
        (HEAD, PairVerdict.FITS),
        (OTHER_HEAD, PairVerdict.NOT),
    ]
    assert "vocabulary" in " ".join(heads[1].report.reasons)
    assert heads[0].format == "SpecForge EAGLE-3" and heads[0].source == "metadata"


def test_two_windows_that_look_for_heads_do_not_silence_each_other(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, both = line.worker._finder.heads, threading.Barrier(2, timeout=30)

    def slow(*asked: Any) -> Iterator[Any]:
        both.wait()  # none is answered before both have been asked
        yield from heads(*asked)

    monkeypatch.setattr(line.worker._finder, "heads", slow)
    line.tell(FindHeads(1, TARGET))
    line.tell(FindHeads(2, TARGET, "compare"))
    answered = {line.wait(Heads, lambda event: event.is_complete).request_id for _ in range(2)}
    assert answered == {1, 2}


def test_a_heads_verdict_heeds_what_the_chat_template_tells_of_thoughts(
    line: Line, hub: HubServer, tmp_path: Path
) -> None:
    """No name tells it here: the template lies in the tokenizer's settings on the hub, or in a folder."""
    pondering, taught = "tests/pondering-gemma", "tests/gemma-eagle3-no_think"
    template = "{% if enable_thinking %}<think></think>{% endif %}{{ messages[0].content }}"
    files = dict(hub.repositories[TARGET].files)
    files["tokenizer_config.json"] = json.dumps({"chat_template": template}).encode()
    hub.add(Repository(pondering, files))
    hub.add(Repository(taught, hub.repositories[HEAD].files, base_models=(pondering,)))
    line.tell(FindHeads(1, pondering))
    heads = line.wait(Heads, lambda event: event.is_complete).heads
    (report,) = [head.report for head in heads if head.repo_id == taught]
    assert report.verdict is PairVerdict.CAVEAT
    assert any("switch thinking off" in reason for reason in report.reasons)
    (tmp_path / "tokenizer_config.json").write_bytes(files["tokenizer_config.json"])
    assert folder_content(tmp_path).template == template
    for name in (pondering, taught):
        del hub.repositories[name]


def test_a_pair_is_fetched_listed_and_deleted(line: Line) -> None:
    line.tell(Fetch((TARGET, HEAD)))
    queued = line.wait(
        Queue, lambda event: len(event.downloads) == 2 and event.downloads[1].phase is Phase.DONE
    )
    assert queued.free_disk > 0
    folder = {each.repo_id: each.folder for each in queued.downloads}
    local = line.wait(Local, lambda event: len(event.entries) == 2).entries
    assert {(entry.repo_id, entry.path, entry.is_head) for entry in local} == {
        (TARGET, folder[TARGET], False),
        (HEAD, folder[HEAD], True),
    }
    line.tell(FindHeads(1, folder[TARGET]))
    (first, *_) = line.wait(Heads, lambda event: event.is_complete).heads
    assert (first.folder, first.report.verdict) == (folder[HEAD], PairVerdict.FITS)
    (head,) = [entry for entry in local if entry.is_head]
    line.tell(Delete(head.repo_id, head.commit))
    line.wait(Local, lambda event: [entry.repo_id for entry in event.entries] == [TARGET])
    line.tell(Browse())
    queued = line.wait(Queue).downloads
    assert [state.repo_id for state in queued] == [TARGET], "what was deleted is not called ready any more"


def test_a_first_start_without_a_network_shows_all_that_is_known(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def unreachable(repo_id: str) -> None:
        asked.append(repo_id)
        raise UnreachableError("Nobody answers.", "Check the connection.")

    monkeypatch.setattr(line.worker._contents, "of_repository", unreachable)
    line.worker._browse(Browse())
    assert line.wait(Catalogue).offers and line.wait(Account).name == ""
    assert len(asked) == 1, "one that hangs is not waited for six times"


def test_browsing_shows_the_catalogue_for_this_machine(line: Line) -> None:
    line.tell(Browse(loaded_bytes=10**9))
    catalogue = line.wait(Catalogue)
    assert catalogue.machine.total > 0
    first = catalogue.offers[0]
    assert first.pair.is_recommended and first.fit.verdict in (Verdict.FITS, Verdict.TIGHT)
    assert "unloaded first" in first.fit.words
    verdicts = [offer.fit.verdict is Verdict.NO for offer in catalogue.offers]
    assert verdicts == sorted(verdicts), "what does not fit comes last"
    account = line.wait(Account)
    assert (account.source, account.name) == (TokenSource.NONE, "")
    line.tell(EnterToken("hf_token12"))
    account = line.wait(Account)
    assert (account.source, account.name) == (TokenSource.SESSION, "ann")
    line.tell(EnterToken("hf_wrong123"))
    account = line.wait(Account)
    assert account.problem.kind == "hub-token" and "hf_wrong" not in str(account)
    assert "hf_secret" not in repr(EnterToken("hf_secret"))


def test_a_folder_and_a_gguf_file_are_imported_without_a_copy(
    line: Line, tiny_folder: Path, tmp_path: Path
) -> None:
    line.tell(Import(1, str(tiny_folder / "target")))
    entry = line.wait(Imported).entry
    assert entry.path == str(tiny_folder / "target") and not entry.is_head
    quantised = tmp_path / "model.gguf"
    quantised.write_bytes(b"GGUF" + bytes(100))
    line.tell(Import(2, str(quantised)))
    assert line.wait(Imported).entry.path == str(quantised)
    both = {entry.path, str(quantised)}  # a list of the first one alone may still be on its way
    line.wait(Local, lambda event: {each.path for each in event.entries} == both)
    line.tell(Forget(str(quantised)))
    line.wait(Local, lambda event: [each.path for each in event.entries] == [entry.path])
    assert quantised.exists(), "it is only taken off the list"
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_text("{}")
    line.tell(Import(3, str(half)))
    failed = line.wait(HubFailed)
    assert failed.request_id == 3 and "there are no weights" in failed.problem.message


def test_an_older_list_of_models_never_follows_a_newer_one(
    line: Line, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    overtaken = threading.Event()

    def look(*_: object) -> tuple[LocalEntry, ...]:
        """The first look lasts until another one begins, if another one may."""
        looks.append(len(looks))
        mine = looks[-1]
        if mine:
            overtaken.set()
        else:
            overtaken.wait(0.5)
        return (LocalEntry(name=str(mine), path="/", size=0),)

    monkeypatch.setattr("engine.hub.worker.cached", look)
    for request_id in (1, 2):
        line.tell(Import(request_id, str(tiny_folder / "target")))
    order = [line.wait(Local).entries[0].name for _ in range(2)]
    assert order == ["0", "1"]


def test_what_is_said_of_an_account_is_of_the_token_entered_last(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub may take its time over the first one."""
    real, asked, entered = line.worker._api.who, threading.Event(), threading.Event()

    def who() -> str:
        token = line.worker._tokens.current()[0]
        if token == "hf_wrong123" and not asked.is_set():
            asked.set()
            entered.wait(20)
        return real()

    monkeypatch.setattr(line.worker._api, "who", who)
    line.tell(EnterToken("hf_wrong123"))
    assert asked.wait(20)
    line.worker._tokens.enter("hf_token12")  # as a second command does
    entered.set()
    line.tell(EnterToken(""))
    line.tell(EnterToken("hf_token12"))
    said = [line.wait(Account) for _ in range(2)]
    assert [(each.name, each.source) for each in said] == [
        ("", TokenSource.NONE),
        ("ann", TokenSource.SESSION),
    ]
