"""Which model the engine holds, and when it gives it back.

Loading can be cancelled and the GPU freed at any moment, because both end the
engine's process: what hangs in a driver or a library cannot stop that. After a
time without use the model is unloaded by itself; the next prompt loads it again.
"""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.client import EngineClient, EngineState
from app.language import mark, tr, tr_n
from app.notices import NoticeArea
from app.settings.loading import complete, options_for, remembered, with_options
from app.settings.store import Settings, SettingsStore
from engine.protocol import Load

CANCELLED = mark(
    "Engine", "Loading was cancelled, and nothing is in memory. A prompt loads the model again."
)
FREED = mark("Engine", "The model is unloaded and its memory is free. A prompt loads it again.")


class EngineControl(QObject):
    """Starts, loads, unloads and restarts; says why nothing can be sent."""

    unloaded = Signal(str)
    """The model was given back on purpose; the text says why, and what brings it back."""

    def __init__(
        self, client: EngineClient, store: SettingsStore, notices: NoticeArea, load: Load, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._store = store
        self._notices = notices
        self._load = load
        self._chosen = False
        """Whether it was chosen among the models; one named at the start is for this time only."""
        self._wanted = True
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.timeout.connect(self._on_idle)
        client.ready.connect(self._on_ready)
        client.loaded.connect(self._on_loaded)
        client.state_changed.connect(self.used)
        notices.restart_requested.connect(self.restart)
        notices.reload_requested.connect(self.reload)
        notices.cancel_requested.connect(self.cancel)
        self._unsubscribe = store.changed.subscribe(self._on_settings)

    # ------------------------------------------------------------------ what can be asked

    @property
    def command(self) -> Load:
        """What is loaded, or would be."""
        return complete(self._store.current, self._load)

    @property
    def asked_for(self) -> Load:
        """The same without what is set for its model: the next window begins with it."""
        return self._load

    @property
    def is_off(self) -> bool:
        """Nothing is loaded because it was given back: the next prompt loads it."""
        return self._client.state is EngineState.OFF

    @property
    def is_busy_loading(self) -> bool:
        return self._client.is_loading or self._client.state is EngineState.STARTING

    def obstacle(self, replying: bool) -> str:
        """Why nothing can be sent now, or "". ``replying``: a reply of the chats runs."""
        client = self._client
        if client.state is EngineState.DEAD:
            return tr("Engine", "The engine has stopped. Restart it to send.")
        if client.state is EngineState.OFF:
            return ""
        if client.state is EngineState.STARTING:
            return tr("Engine", "The engine is starting. You can write already.")
        if client.is_loading:
            return tr("Engine", "The model is loading. You can write already.")
        if client.model is None:
            return tr("Engine", "No model is loaded, so nothing can be sent.")
        if client.active and not replying:
            return tr("Engine", "The engine is busy with a comparison.")
        return ""

    # ------------------------------------------------------------------ what can be done

    def start(self) -> None:
        """Start the engine; the model loads once it is there."""
        self._wanted = True
        self._notices.starting()
        self._client.start()

    def restart(self) -> None:
        self._wanted = True
        self._notices.starting()
        self._client.restart()

    def load(self, command: Load) -> None:
        """Load another model, or another head; the one that is there goes first."""
        self._load = command
        self._chosen = True
        self.reload()

    def draft_with(self, path: str) -> None:
        """Load again with a draft model beside the target, or with none."""
        settings, model = self._store.current, self._load.model
        options = replace(options_for(settings, model), draft=path)
        self._store.update(loads=with_options(settings, model, options))
        self.reload()

    def reload(self) -> None:
        """Load what is wanted, starting the engine if there is none."""
        self._wanted = True
        if self._client.state is EngineState.OFF:
            self.start()
        elif self._client.state is EngineState.DEAD:
            self.restart()
        elif self._client.state is EngineState.READY:
            self._client.send(self.command)

    def cancel(self) -> None:
        """Stop loading at once."""
        if self.is_busy_loading:
            self._give_back(tr("Engine", CANCELLED))

    def free(self) -> None:
        """Give all memory back, whatever runs."""
        self._give_back(tr("Engine", FREED))

    def say_off(self) -> None:
        """That nothing is loaded, where another window had given it back."""
        self._wanted = False
        self.unloaded.emit(tr("Engine", FREED))

    def _give_back(self, words: str) -> None:
        self._wanted = False
        self._client.free()
        self._notices.loading.hide()
        self._notices.engine_goes_on()
        self.unloaded.emit(words)

    def retire(self) -> None:
        """Another window takes the engine over."""
        self._idle.stop()
        self._unsubscribe()

    # ------------------------------------------------------------------ by itself

    @Slot()
    def used(self) -> None:
        """Something was done with the model: the time without use begins anew."""
        minutes = self._store.current.idle_unload_minutes
        if minutes is None or self._client.model is None:
            self._idle.stop()
        else:
            self._idle.start(minutes * 60_000)

    @Slot()
    def _on_idle(self) -> None:
        if self._client.active:
            self.used()
        elif self._client.model is not None:
            minutes = self._store.current.idle_unload_minutes or 0
            self._give_back(
                tr_n(
                    "Engine",
                    "The model was unloaded after %n minute without use. A prompt loads it again.",
                    "The model was unloaded after %n minutes without use. A prompt loads it again.",
                    minutes,
                )
            )

    @Slot(object)
    def _on_ready(self, _event: object) -> None:
        if self._wanted:
            self._client.send(self.command)

    @Slot(object)
    def _on_loaded(self, _event: object) -> None:
        if self._chosen:  # and not before: a pair that cannot be loaded is no good at the next start
            self._store.update(last=remembered(self._load))

    def _on_settings(self, _settings: Settings) -> None:
        self.used()
