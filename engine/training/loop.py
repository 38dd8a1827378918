"""The training loop: resumable, and done when its time is up.

Everything a step depends on (parameters, optimisers, averages, the number of the
step) is in one checkpoint file that is replaced atomically, and what a step
draws at random depends on its number alone. A run that is killed at any moment
continues from its last checkpoint as if nothing had happened.
"""

from __future__ import annotations

import copy
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic

import torch

from engine.errors import EngineError
from engine.heads.checkpoint import Checkpoint
from engine.training.batches import Batch, groups
from engine.training.evaluate import Acceptance, evaluate
from engine.training.features import FeatureStore
from engine.training.recipe import Module, Recipe

CHECKPOINT = "checkpoint.pt"
METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class TrainSettings:
    """How a head is trained."""

    steps: int = 2000
    """Optimiser steps of the whole schedule."""
    batch_rows: int = 4096
    """Reply rows per step."""
    fractions: tuple[float, ...] = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3)
    """Share of the rows unrolled to each depth; its length is the depth of the training-time test."""
    decay: float = 0.8
    """Weight of depth k is ``decay ** k``."""
    learning_rate: float = 1e-3
    matrix_learning_rate: float = 3e-3
    """For the layer's matrices, which Muon optimises."""
    warmup: int = 30
    cooldown: float = 0.5
    """The last share of the schedule, in which the rate falls to a hundredth."""
    weight_decay: float = 0.01
    clip: float = 1.0
    average: float = 0.99
    """Decay of the averaged parameters, which are what is evaluated and exported."""
    seed: int = 7
    save_minutes: float = 3.0
    evaluate_every: int = 100
    held_out_rows: int = 12000
    """At most this many held-out rows are measured each time."""


class Trainer(Generic[Module]):
    """Trains one head on one store; ``run`` may be called again after a crash."""

    def __init__(
        self,
        recipe: Recipe[Module],
        settings: TrainSettings,
        store: FeatureStore,
        folder: Path,
        report: Callable[[str], None] = print,
    ) -> None:
        self.recipe, self.settings, self.store, self.folder, self.report = recipe, settings, store, folder, report
        torch.manual_seed(settings.seed)
        self.head: Module = recipe.new()
        named = list(self.head.named_parameters())
        matrices = [parameter for name, parameter in named if recipe.is_matrix(name, parameter)]
        others = [parameter for name, parameter in named if not recipe.is_matrix(name, parameter)]
        self.optimisers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices, lr=settings.matrix_learning_rate, weight_decay=settings.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(others, lr=settings.learning_rate, weight_decay=0.0, betas=(0.9, 0.98), fused=True),
        ]
        self.average = {name: p.detach().clone() for name, p in self.head.named_parameters()}
        self.step = 0
        self.epoch, self.position = 0, 0
        self.seconds = 0.0
        self._data = len(store.training)
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()
        self._held_out = self._held_out_batches()

    # ------------------------------------------------------------------ running

    def run(self, max_minutes: float = math.inf) -> Module:
        """Train to the end of the schedule or for ``max_minutes``; returns the averaged head."""
        began, saved = time.monotonic(), time.monotonic()
        earlier = self.seconds
        recent = 0.0
        while self.step < self.settings.steps:
            for keys in self._remaining_batches():
                loss = self._advance(self.recipe.maker.make(keys))
                self.position += 1
                self.step += 1
                self.seconds = earlier + time.monotonic() - began
                recent = loss if not recent else 0.95 * recent + 0.05 * loss
                out_of_time = time.monotonic() - began > max_minutes * 60
                done = self.step >= self.settings.steps or out_of_time
                if self.step % 10 == 0:
                    self._progress(recent, time.monotonic() - began, max_minutes)
                if self.step % self.settings.evaluate_every == 0 or done:
                    self.measure(recent)
                if done or time.monotonic() - saved > self.settings.save_minutes * 60:
                    self.save()
                    saved = time.monotonic()
                if done:
                    return self.averaged()
            self.epoch, self.position = self.epoch + 1, 0
        return self.averaged()

    def _remaining_batches(self) -> list[list[tuple[int, int]]]:
        seed = self.settings.seed + 1000 * self.epoch
        batches = list(groups(self.store, self.store.training, self.settings.batch_rows, seed))
        return batches[self.position :]

    def _advance(self, batch: Batch) -> float:
        """One optimiser step; returns the loss of the first depth, comparable between settings."""
        settings = self.settings
        rate = self.rate()
        for optimiser, base in zip(
            self.optimisers, (settings.matrix_learning_rate, settings.learning_rate), strict=True
        ):
            for group in optimiser.param_groups:
                group["lr"] = base * rate
            optimiser.zero_grad(set_to_none=True)
        generator = torch.Generator().manual_seed(settings.seed + self.step)
        with torch.autocast("cpu", torch.bfloat16):
            total, first = self.recipe.loss(self.head, batch, settings.fractions, settings.decay, generator)
        if not math.isfinite(float(total.detach())):
            raise EngineError(
                f"The loss became {float(total.detach())} at step {self.step}.", "Train again with a lower learning rate."
            )
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), settings.clip)
        for optimiser in self.optimisers:
            optimiser.step()
        decay = min(settings.average, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            names, parameters = zip(*self.head.named_parameters(), strict=True)
            torch._foreach_lerp_([self.average[name] for name in names], list(parameters), 1 - decay)
        return first

    def rate(self) -> float:
        """Learning rate factor of the current step: warm-up, plateau, linear fall to a hundredth."""
        done = self.step / self.settings.steps
        warm = min(1.0, (self.step + 1) / self.settings.warmup)
        return warm * max(0.01, min(1.0, (1 - done) / self.settings.cooldown))

    def _progress(self, loss: float, seconds: float, max_minutes: float) -> None:
        per_step = self.seconds / self.step
        left = min((self.settings.steps - self.step) * per_step, max_minutes * 60 - seconds)
        self.report(
            f"step {self.step}/{self.settings.steps}  epoch {self.epoch}  loss {loss:.3f}  "
            f"{per_step:.1f} s/step  rate {self.rate():.2f}  {left / 60:.0f} min left"
        )

    # ------------------------------------------------------------------ measuring and keeping

    def averaged(self) -> Module:
        """The head with averaged parameters, reading states as training does (see :meth:`exported`)."""
        head = copy.deepcopy(self.head)
        head.load_state_dict(self.average)
        return head

    def measure(self, loss: float) -> dict[str, Acceptance]:
        """Evaluate the averaged head on the held-out prompts, print and append to metrics.jsonl."""
        found = evaluate(self.recipe, self.averaged(), self._held_out)
        line = {"step": self.step, "epoch": self.epoch, "seconds": self.seconds, "loss": loss}
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {kind: value.json() for kind, value in found.items()}) + "\n")
        for kind, value in found.items():
            self.report(f"  held-out {kind}: {value}")
        return found

    def exported(self, training: Mapping[str, object]) -> Checkpoint:
        """The averaged head in its public form, which reads states as the target gives them."""
        return self.recipe.checkpoint(self.averaged(), training)

    def save(self) -> None:
        """Replace the checkpoint atomically."""
        state = {
            "config": asdict(self.recipe.config),
            "head": self.head.state_dict(),
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
            "epoch": self.epoch,
            "position": self.position,
            "seconds": self.seconds,
            "data": self._data,
        }
        part = self.folder / (CHECKPOINT + ".part")
        with part.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.folder / CHECKPOINT)

    def _resume(self) -> None:
        path = self.folder / CHECKPOINT
        if not path.exists():
            return
        state: dict[str, Any] = torch.load(path, weights_only=True)
        config = asdict(self.recipe.config)
        if config | state["config"] != config:  # a checkpoint may be older than some fields
            raise EngineError(
                f"{path} belongs to a head of another shape.", "Train into another folder, or delete the checkpoint."
            )
        self.head.load_state_dict(state["head"])
        self.average = state["average"]
        for optimiser, kept in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        self.step, self.epoch, self.position = state["step"], state["epoch"], state["position"]
        self.seconds = state["seconds"]
        if state["data"] != self._data:  # more data has arrived: the old order means nothing
            self.epoch, self.position = self.epoch + 1, 0
        self.report(f"resumed at step {self.step}, epoch {self.epoch}")

    def _held_out_batches(self) -> Sequence[Batch]:
        keys, rows = [], 0
        for key in self.store.held_out:
            keys.append(key)
            rows += self.store.rows([key])
            if rows >= self.settings.held_out_rows:
                break
        if not keys:
            raise EngineError("No prompt of the training data is held out.", "Generate replies to more prompts.")
        return [self.recipe.maker.make(group) for group in groups(self.store, keys, self.settings.batch_rows, 0)]
