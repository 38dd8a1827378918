"""Has the engine write the replies of a comparison, one after the other. No widgets."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.compare.comparison import COMPLETE, Run, Which
from app.compare.gathering import Gathering
from app.compare.plan import Job, Plan, jobs_of
from app.compare.record import Record
from app.compare.sides import name_of, problem_of
from app.compare.states import BUSY, Client, Phase, RunState, Trouble
from app.language import tr
from app.language.engine_texts import of_engine
from engine.protocol import (
    Failed,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    MarginMeasured,
    MeasureMargin,
    ModelInfo,
    Started,
    Step,
    Stop,
)


class CompareRunner(QObject):
    """Runs a plan, never two replies at once, with ids of its own; a chat's events are ignored.

    Whatever ends it early, :attr:`record` keeps the replies that were complete.
    """

    phase_changed = Signal()
    began = Signal(object)
    """A :class:`Job`: this reply's turn has come."""
    grew = Signal(object, str)
    """A :class:`Which` and the text that was added."""
    ended = Signal(object)
    """A :class:`Job`: this reply is complete."""
    recorded = Signal()
    """:attr:`record` has a pair more."""

    def __init__(
        self, client: Client, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._clock = clock
        self._plan: Plan | None = None
        self._jobs: list[Job] = []
        self._total = 1
        self._job: Job | None = None
        self._begun = 0.0
        self._holds: tuple[str, ...] = ()
        """What the engine holds as far as we know; see :func:`_identity`."""
        self._loaded = Load()
        self._awaited: Load | None = None
        """What is being loaded on our account."""
        self._measuring = ""
        """Id of the margin that is waited for."""
        self._margin_of = 0
        """The prompt that it belongs to."""
        self._gathering: Gathering | None = None
        self.phase = Phase.IDLE
        self.runs = {which: RunState() for which in Which}
        self.trouble: Trouble | None = None
        client.started.connect(self._on_started)
        client.step.connect(self._on_step)
        client.finished.connect(self._on_finished)
        client.failed.connect(self._on_failed)
        client.loaded.connect(self._on_loaded)
        client.margin_measured.connect(self._on_margin)
        client.state_changed.connect(self._on_state)

    # ------------------------------------------------------------------ what can be asked

    @property
    def record(self) -> Record | None:
        """What there is so far; ``None`` where a comparison could not even begin."""
        return self._gathering.record if self._gathering is not None else None

    @property
    def job(self) -> Job | None:
        """The reply that is written now."""
        return self._job

    @property
    def busy(self) -> bool:
        return self.phase in BUSY

    @property
    def plan(self) -> Plan | None:
        """With the seed that was used."""
        return self._plan

    @property
    def done(self) -> int:
        """Replies that are complete."""
        return self._total - len(self._jobs) - (self._job is not None)

    @property
    def total(self) -> int:
        return self._total

    @property
    def progress(self) -> float:
        """Share of the work that is done, 0 to 1, taking every reply to be as long as it may be."""
        part = 0.0
        if self._job is not None and self._plan is not None:
            part = min(1.0, len(self.runs[self._job.which].pieces) / max(1, self._plan.shared.max_new_tokens))
        return (self.done + part) / self._total

    @property
    def seconds_left(self) -> float | None:
        """A guess from the replies so far; ``None`` before the first is complete."""
        if not self.busy or self.done == 0:
            return None
        spent = self._clock() - self._begun
        return spent / max(self.progress, 1e-6) * (1 - self.progress)

    # ------------------------------------------------------------------ commands

    def start(self, plan: Plan) -> None:
        """Begin; what still runs is given up. Both sides get the same seed."""
        self.abandon()
        seed = plan.shared.seed if plan.shared.seed is not None else random.SystemRandom().randrange(2**31)
        self._plan = plan = replace(plan, shared=replace(plan.shared, seed=seed))
        self._jobs = jobs_of(len(plan.prompts), plan.repeats)
        self._total = max(1, len(self._jobs))
        self._job, self._measuring, self._awaited = None, "", None
        self.runs = {which: RunState() for which in Which}
        self._gathering, self.trouble = None, None
        self._begun = self._clock()
        self._loaded = plan.load
        model = self._client.model
        if model is None:
            self._give_up(
                tr("Compare", "No model is loaded."), tr("Compare", "Load a model, then compare again.")
            )
        elif not plan.prompts:
            self._give_up(
                tr("Compare", "There is no prompt to compare on."), tr("Compare", "Write one, or choose a file.")
            )
        else:
            self._holds = _identity(model)
            self._gathering = Gathering(plan, model)
            self._next()

    def stop(self) -> None:
        """End after what the engine does now; what is complete is kept."""
        if self.phase not in (Phase.RUNNING, Phase.LOADING, Phase.MEASURING):
            return
        running = self._job if self.phase is Phase.RUNNING else None
        self._set_phase(Phase.STOPPING)
        if running is not None and self._client.send(Stop(self.runs[running.which].request_id)) is False:
            self._end(Phase.STOPPED)

    def abandon(self) -> None:
        """Stop whatever runs and hear nothing more of it."""
        if not self.busy:
            return
        if self._job is not None:
            self._client.send(Stop(self.runs[self._job.which].request_id))
        self._end(Phase.STOPPED)

    # ------------------------------------------------------------------ the order of things

    def _next(self) -> None:
        plan, model = self._plan, self._client.model
        assert plan is not None
        if not self._jobs:
            self._end(Phase.DONE)
            return
        if model is None or _identity(model) != self._holds:
            self._changed_meanwhile()
            return
        side = plan.side(self._jobs[0].which)
        wanted = side.load(plan.load)
        if wanted is not None and wanted != self._loaded:
            self._awaited = wanted
            if self._client.send(wanted) is False:
                self._engine_gone()
            else:
                self._set_phase(Phase.LOADING)
            return
        if problem := problem_of(side, model):
            self._give_up(
                tr("Compare", "{side} cannot be run: {problem}").format(side=name_of(side, model), problem=problem),
                tr("Compare", "Choose another method or head for it."),
            )
            return
        self._begin(self._jobs.pop(0), plan)

    def _begin(self, job: Job, plan: Plan) -> None:
        self._job = job
        run = self.runs[job.which] = RunState(f"compare-{job.which}-{uuid.uuid4().hex}")
        if self._gathering is not None:
            self._gathering.describe(job.which, self._client.model)
        if self.phase is not Phase.RUNNING:
            self._set_phase(Phase.RUNNING)
        self.began.emit(job)
        settings = plan.side(job.which).settings(plan.shared)
        if self._client.send(Generate(run.request_id, plan.prompts[job.prompt].messages, settings)) is False:
            self._engine_gone()

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self.phase_changed.emit()

    def _end(self, phase: Phase) -> None:
        self._job, self._measuring = None, ""
        if self._gathering is not None:
            self._gathering.end(phase is Phase.STOPPED, self.trouble.words if self.trouble else "")
        self._restore()
        self._set_phase(phase)

    def _restore(self) -> None:
        """Load again what was loaded before, unless the user has decided otherwise meanwhile."""
        plan, awaited = self._plan, self._awaited
        loaded, self._awaited = awaited or self._loaded, None
        if plan is None or loaded == plan.load:
            return
        self._loaded = plan.load
        model = self._client.model
        if awaited is not None or (model is not None and model.path == self._holds[0]):
            self._client.send(plan.load)

    def _give_up(self, message: str, next_step: str) -> None:
        self.trouble = Trouble(message, next_step)
        self._end(Phase.FAILED)

    def _engine_gone(self) -> None:
        self._awaited = None  # whoever starts the engine again loads what was there before
        self._give_up(
            tr("Compare", "The engine is not running."), tr("Compare", "Restart the engine, then compare again.")
        )

    def _changed_meanwhile(self) -> None:
        if self._job is not None:
            self._client.send(Stop(self.runs[self._job.which].request_id))
        self._awaited, self._loaded = None, self._plan.load if self._plan is not None else self._loaded
        self._give_up(
            tr("Compare", "The model was unloaded or changed meanwhile."),
            tr("Compare", "What is complete is kept. Load the model again to compare once more."),
        )

    # ------------------------------------------------------------------ events of a reply

    def _running(self, request_id: str | None) -> RunState | None:
        """The current reply, if the event is its own."""
        run = self.runs[self._job.which] if self._job is not None else None
        return run if run is not None and run.request_id == request_id else None

    @Slot(object)
    def _on_started(self, event: Started) -> None:
        run = self._running(event.request_id)
        if run is not None and self._job is not None:
            run.reading = True
            self.grew.emit(self._job.which, "")

    @Slot(object)
    def _on_step(self, event: Step) -> None:
        run = self._running(event.request_id)
        if run is None or self._job is None:
            return
        run.reading = False
        run.pieces.extend(event.pieces)
        if event.index > 0:
            run.steps += 1
            run.seconds += event.times.total
        self.grew.emit(self._job.which, event.text)

    @Slot(object)
    def _on_finished(self, event: Finished) -> None:
        run, job = self._running(event.request_id), self._job
        if run is None or job is None:
            return
        run.finished, run.reading = event, False
        self._job = None
        self.ended.emit(job)
        assert self._gathering is not None
        if event.reason not in COMPLETE:
            self._gathering.add_part(job, event.text)
            if event.reason is FinishReason.ERROR:
                self._give_up(
                    of_engine(event.notice) or tr("Compare", "A reply broke off."), tr("Compare", "Compare again.")
                )
            else:
                self._end(Phase.STOPPED)
            return
        if self._gathering.add(job, Run(tuple(run.pieces), event)):
            self.recorded.emit()
        if self.phase is Phase.STOPPING:
            self._end(Phase.STOPPED)
        elif not self._measure(job.prompt):
            self._next()

    # ------------------------------------------------------------------ the margin

    def _measure(self, prompt: int) -> bool:
        """Ask how near the race was where the texts of a prompt part; ``False``: there is nothing to ask."""
        plan, gathering = self._plan, self._gathering
        assert plan is not None and gathering is not None
        wanted = gathering.to_measure(prompt)
        if wanted is None:
            return False
        self._measuring = f"margin-{prompt}-{uuid.uuid4().hex}"
        self._margin_of = prompt
        self._set_phase(Phase.MEASURING)
        asked = MeasureMargin(self._measuring, plan.prompts[prompt].messages, *wanted, plan.shared)
        if self._client.send(asked) is False:
            self._engine_gone()
        return True

    @Slot(object)
    def _on_margin(self, event: MarginMeasured) -> None:
        if self._measuring and event.request_id == self._measuring and self._gathering is not None:
            self._gathering.put_margin(self._margin_of, event)
            self._margin_known()

    def _margin_known(self) -> None:
        self._measuring = ""
        self.recorded.emit()
        if self.phase is Phase.STOPPING:
            self._end(Phase.STOPPED)
        else:
            self._next()

    # ------------------------------------------------------------------ loads and failures

    @Slot(object)
    def _on_loaded(self, event: Loaded) -> None:
        if not self.busy:
            return
        awaited, self._awaited = self._awaited, None
        same = event.model.path == self._holds[0] if awaited is not None else _identity(event.model) == self._holds
        if not same:
            self._changed_meanwhile()
        elif awaited is not None:
            self._loaded, self._holds = awaited, _identity(event.model)
            if self.phase is Phase.STOPPING:
                self._end(Phase.STOPPED)
            elif event.model.head_name is None:
                self._give_up(
                    tr("Compare", "The head in {folder} cannot be used.").format(folder=awaited.head or ""),
                    of_engine(event.model.head_problem or "") or tr("Compare", "Choose another head for this side."),
                )
            else:
                self._next()

    @Slot(object)
    def _on_failed(self, event: Failed) -> None:
        message, step = of_engine(event.message), of_engine(event.next_step) or tr("Compare", "Compare again.")
        if self._measuring and event.request_id == self._measuring:
            if event.kind == "worker":
                self._give_up(message, step)
                return
            assert self._gathering is not None
            self._gathering.put_margin_problem(self._margin_of, event.message)
            self._margin_known()
        elif self._running(event.request_id) is not None:
            job = self._job
            assert job is not None and self._gathering is not None
            self._gathering.add_part(job, self.runs[job.which].text)
            if self.phase is Phase.STOPPING:
                self._end(Phase.STOPPED)
            else:
                self._give_up(message, step)
        elif event.request_id is None and self._awaited is not None:
            self._give_up(message, step)

    @Slot()
    def _on_state(self) -> None:
        # Behind the event that goes with the change, which says more.
        if self._awaited is not None:
            QTimer.singleShot(0, self, self._check_loading)

    def _check_loading(self) -> None:
        """Loading may end without an event: the engine died, or was ended to free its memory."""
        if self._awaited is not None and self.busy and self._client.model is None and not self._client.is_loading:
            self._engine_gone()


def _identity(model: ModelInfo) -> tuple[str, ...]:
    """What must not change under a comparison, the path first."""
    return model.path, model.weight_format, model.device, model.head_name or ""
