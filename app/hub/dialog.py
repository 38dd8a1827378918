"""The model picker: what there is at the left, the chosen pair at the right, downloads below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QSize, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from app.banner import Banner, Offer
from app.hub import words
from app.hub.choice import Choice
from app.hub.client import DIED, HubClient
from app.hub.details_pane import DetailsPane
from app.hub.pages import Pages
from app.hub.possible import possible
from app.hub.queue_panel import QueuePanel
from app.hub.token_dialog import TokenDialog, account_words
from app.language import tr
from app.tab_order import in_order
from engine.protocol import Load
from engine.protocol.hub import HeadChoice, HubModel, LocalEntry, ModelDetails, PairOffer, PairVerdict
from engine.protocol.hub_messages import (
    Account,
    Browse,
    Details,
    EnterToken,
    Fetch,
    FindHeads,
    Heads,
    HubFailed,
    Local,
    LookAt,
    Queue,
)

FRAME = 60
"""Height left to the title bar, and to what else stands on the screen."""
LEAST = QSize(760, 420)
"""Of the lists and the details beside them."""
TOKENS_PAGE = "https://huggingface.co/settings/tokens"


class HubDialog(QDialog):
    """Not modal: chats and downloads go on beside it."""

    draft_requested = Signal(str)
    """The path of a model that is to draft for the one that is loaded."""
    load_requested = Signal(object)
    """A :class:`Load` of the chosen pair."""

    def __init__(
        self,
        client: HubClient,
        loaded_bytes: Callable[[], int] = lambda: 0,
        parent: QWidget | None = None,
        engine_pid: Callable[[], int] = lambda: 0,
        loaded_path: Callable[[], str] = lambda: "",
    ) -> None:
        """What the engine holds now: its bytes, its process, and the path of the model."""
        super().__init__(parent)
        self.client = client
        self._loaded_bytes = loaded_bytes
        self._engine_pid = engine_pid
        self._was_shown = self._has_died = False
        self._account: Account | None = None
        self._looking = self._finding = 0
        self.choice = Choice()
        self.token_dialog: TokenDialog | None = None
        self.open_url: Callable[[str], object] = lambda url: QDesktopServices.openUrl(QUrl(url))
        self.setWindowTitle(tr("Hub", "Models"))
        self.setModal(False)
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.resize(1080, min(740, self.screen().availableSize().height() - FRAME))
        self.tabs = Pages(client, self, loaded_path)
        self.pairs, self.search, self.local = self.tabs.pairs, self.tabs.search, self.tabs.local
        self.pane = DetailsPane(self)
        self.queue = QueuePanel(client, self)
        self.trouble = Banner(error=True)
        self._build()
        self._connect()

    def _build(self) -> None:
        self.account_button = QPushButton(tr("Hub", "Account"), self)
        self.account_button.setAutoDefault(False)
        self.account_button.setToolTip(tr("Hub", "The hub account that gated models are read with"))
        self.splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self.splitter.addWidget(self.tabs)
        self.splitter.addWidget(self.pane)
        self.splitter.setStretchFactor(0, 5)
        self.splitter.setStretchFactor(1, 6)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([490, 590])
        header = QHBoxLayout()
        header.setContentsMargins(12, 8, 10, 4)
        header.addWidget(self.pairs.about, 1)
        header.addWidget(self.account_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(header)
        column.addWidget(self.trouble)
        # Not the dialog's own minimum, which would let what is in it be cut.
        column.addStrut(LEAST.width())
        middle = QHBoxLayout()
        middle.addStrut(LEAST.height())
        middle.addWidget(self.splitter)
        column.addLayout(middle, 1)
        below = QHBoxLayout()
        below.setContentsMargins(4, 0, 4, 4)
        below.addWidget(self.queue)
        column.addLayout(below)
        in_order(
            [
                self.account_button, *self.trouble.stops(), self.tabs.tabBar(),
                self.pairs.list, *self.search.stops(), *self.local.stops(), *self.pane.stops(),
            ]
        )  # fmt: skip

    def _connect(self) -> None:
        client, pane = self.client, self.pane
        self.pairs.chosen.connect(self.show_offer)
        self.search.chosen.connect(self.show_model)
        self.local.chosen.connect(self.show_entry)
        self.local.draft_requested.connect(self.draft_requested)
        pane.head_chosen.connect(self._on_head_chosen)
        pane.quant_chosen.connect(self._on_quant_chosen)
        pane.page_requested.connect(self._open_page)
        pane.link_chosen.connect(self._open)
        pane.token_requested.connect(self.ask_token)
        pane.retry_requested.connect(self._look_again)
        pane.fetch_requested.connect(self._fetch)
        pane.load_requested.connect(self._load)
        self.queue.link_chosen.connect(self._open)
        self.queue.token_requested.connect(self.ask_token)
        self.account_button.clicked.connect(self.ask_token)
        client.details.connect(self._on_details)
        client.heads.connect(self._on_heads)
        client.local.connect(self._on_local)
        client.queue.connect(self._on_queue)
        client.account.connect(self._on_account)
        client.failed.connect(self._on_failed)
        client.started.connect(self._on_started)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():  # and not only brought back by the desktop
            self._browse()
        if not self._was_shown:
            self._was_shown = True
            self.pairs.list.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.queue.fit_height()

    def show_downloads(self) -> None:
        """Lead to the downloads, once the window is open."""
        self.queue.take_focus()

    def _browse(self) -> None:
        self.client.send(Browse(self._loaded_bytes(), self._engine_pid()))

    # ------------------------------------------------------------------ choosing

    def show_offer(self, offer: PairOffer) -> None:
        pair = offer.pair
        same = self.choice.target == pair.target and pair.head in (self.choice.head, self.choice.head_repo)
        if not same:
            # What lies here the list of local models knows best: an offer may have been made before.
            choice = Choice(pair.target, head=pair.head, head_repo=pair.head, head_was_chosen=True)
            self.choice = choice.among(self.local.entries)
            line = words.joined(
                words.parameters(pair.parameters), pair.family, words.licence(pair.licence, pair.is_gated)
            )
            self.pane.begin(pair.target, line)
            self.pane.show_facts(words.pair_facts(offer))
            self._look(find_heads=True)
        self.pane.show_fit(offer.fit)
        self._show_buttons()

    def show_model(self, model: HubModel) -> None:
        self.choice = Choice(model.repo_id, is_head=model.is_head).among(self.local.entries)
        self.pane.begin(model.repo_id, words.model_line(model))
        self.pane.show_fit(model.fit)
        based = ", ".join(model.base_models[:4])
        self.pane.show_facts(
            ((tr("Hub", "Based on"), based), (tr("Hub", "Updated"), words.date(model.updated)))
        )
        self._look(find_heads=not model.is_head)
        self._show_buttons()

    def show_entry(self, entry: LocalEntry) -> None:
        self.choice = Choice(
            entry.repo_id or entry.path,
            file=entry.file,
            target_path=entry.path,
            is_head=entry.is_head,
            size=entry.size,
        )
        self.pane.begin(
            entry.name, words.joined(words.size(entry.size), entry.path), has_page=bool(entry.repo_id)
        )
        self.pane.show_facts(((tr("Hub", "Lies in"), entry.path), (tr("Hub", "Made for"), entry.target_name)))
        self._look(find_heads=not entry.is_head)
        self._show_buttons()

    def _look(self, find_heads: bool) -> None:
        """Ask for what is not known of the choice yet."""
        choice = self.choice
        self._measure_pair()
        if find_heads:
            self.pane.show_heads((), (), complete=False)
            self._find_heads()
        elif choice.is_head:
            self.pane.heads.hide()
            self.pane.heads_title.hide()

    def _find_heads(self) -> None:
        self._finding = self.client.next_id()
        self.client.send(FindHeads(self._finding, self.choice.target_path or self.choice.target))

    def _look_again(self) -> None:
        self._look(find_heads=not self.choice.is_head)

    def _on_head_chosen(self, key: str) -> None:
        self._take_head(key, self.pane.head(key), by_user=True)
        self._measure_pair()

    def _on_quant_chosen(self, file: str) -> None:
        self.choice = replace(self.choice, file=file, files=(), size=0).among(self.local.entries)
        self._show_buttons()
        self._measure_pair()

    def _measure_pair(self) -> None:
        """Ask for the memory of the target together with the chosen head."""
        choice = self.choice
        self._looking = self.client.next_id()
        self.client.send(LookAt(self._looking, choice.target, choice.head, choice.file))

    def _take_head(self, key: str, head: HeadChoice | None, by_user: bool) -> None:
        """``head`` is what is known of it; None for none."""
        self.choice = replace(
            self.choice,
            head=key,
            head_path=head.folder if head else "",
            head_repo=head.repo_id if head and "/" in head.repo_id else "",
            head_size=head.size if head else 0,
            head_was_chosen=by_user or self.choice.head_was_chosen,
        ).among(self.local.entries)
        self._show_buttons()

    # ------------------------------------------------------------------ what comes in

    def _on_details(self, event: Details) -> None:
        details = event.details
        if event.request_id != self._looking or details.model.repo_id != self.choice.target:
            return
        self._take_file(details)
        if details.commit:  # and not "0 downloads" where the hub was not asked
            self.pane.line.setText(words.model_line(details.model))
            self.pane.line.show()
        self.pane.card.show_card(details.card)
        self.pane.show_files(details.files, details.download_bytes)
        if details.fit is not None:
            self.pane.show_fit(details.fit)
        self.pane.show_problem(details.problem)
        self._show_buttons()

    def _take_file(self, details: ModelDetails) -> None:
        """What the details are about: the whole repository, or one GGUF file of it."""
        choice = replace(self.choice, size=details.download_bytes)
        if details.quantisations:
            paths = next((each.paths for each in details.quantisations if each.paths[0] == details.file), ())
            choice = replace(choice, file=details.file, files=paths, target_path=details.folder)
        self.choice = choice
        if details.quantisations or not details.file:
            self.pane.quants.show_choices(details.quantisations, details.file, details.file_reason)

    def _on_heads(self, event: Heads) -> None:
        if event.request_id != self._finding or self.choice.is_head:
            return
        choice = self.choice
        self.pane.show_heads(event.heads, choice.head_names, event.is_complete)
        if not choice.head_was_chosen:
            good = [
                head for head in event.heads if head.report.verdict in (PairVerdict.FITS, PairVerdict.CAVEAT)
            ]
            if good:
                best = good[0]
                self._take_head(best.folder or best.repo_id, best, by_user=False)
                self.pane.choose_head(best.folder or best.repo_id)
                if self.choice.head != choice.head:
                    self._measure_pair()
        elif (known := self.pane.head(*choice.head_names)) is not None:
            self._take_head(choice.head, known, by_user=True)

    def _on_local(self, event: Local) -> None:
        before, self.choice = self.choice, self.choice.among(event.entries)
        self._show_buttons()
        if before.head_path and not self.choice.head_path:  # it was deleted: perhaps it can be had again
            self._find_heads()

    def _on_queue(self, _event: Queue) -> None:
        self._show_buttons()

    def _on_account(self, event: Account) -> None:
        before, self._account = self._account, event
        # A token may have been entered later than what is shown was asked for.
        if before is not None and before != event and self.pane.waits_for_account:
            self._look_again()
        self.account_button.setText(account_words(event))
        if self.token_dialog is not None and isValid(self.token_dialog):
            self.token_dialog.show_account(event)

    def _on_started(self) -> None:
        """A process that stands in for one that died knows nothing of this window yet."""
        if self._has_died:
            self._has_died = False
            self.trouble.hide()
            self._browse()

    def _on_failed(self, event: HubFailed) -> None:
        problem = event.problem
        if event.request_id and event.request_id in (self._looking, self._finding):
            if event.request_id == self._finding:
                self.pane.heads_title.setText(tr("Hub", "EAGLE head"))
            else:
                self.pane.card.clear()  # nobody knows whether there is one
            self.pane.show_problem(problem)
        elif not event.request_id:
            died = problem == DIED
            self._has_died = self._has_died or died
            again = Offer(tr("Hub", "Start it again"), self._browse, closes=False)
            self.trouble.say(words.problem(problem), (again,) if died else ())

    # ------------------------------------------------------------------ doing

    def _show_buttons(self) -> None:
        head = self.pane.head(*self.choice.head_names)
        now = possible(self.choice, head, self.queue.states)
        self.pane.show_buttons(now.fetch, now.can_load, now.state)

    def _fetch(self) -> None:
        # The small one first: whether the pair works is known as early as can be.
        choice = self.choice
        self.client.send(Fetch(tuple(reversed(choice.absent)), choice.files, choice.target))

    def _load(self) -> None:
        choice = self.choice
        if choice.target_path and not choice.is_head and not choice.absent:
            self.load_requested.emit(Load(model=choice.target_path, head=choice.head_path or choice.head))

    def ask_token(self) -> None:
        dialog = TokenDialog(self._account, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.entered.connect(self._on_token)
        dialog.page_requested.connect(lambda: self._open(TOKENS_PAGE))
        self.token_dialog = dialog
        dialog.open()

    def _on_token(self, token: str) -> None:
        self.client.send(EnterToken(token))
        if self.choice.target and self.choice.target != self.choice.target_path:
            self._look_again()

    def _open_page(self) -> None:
        self._open(f"{self.client.endpoint}/{self.choice.target}")

    def _open(self, url: str) -> None:
        if QUrl(url).scheme() in ("http", "https"):
            self.open_url(url)
