"""The menu beside the EAGLE switch: which method drafts for this model.

Made from what the engine says of its methods, so that a new one needs nothing here. What
cannot be used stands there too, with what it lacks.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu, QWidget

from app import icons
from app.language import tr
from app.language.engine_texts import of_engine
from app.settings.per_model import ModelSettings, chosen_method
from engine.protocol import MethodInfo, ModelInfo


def method_in_use(model: ModelInfo | None, own: ModelSettings) -> MethodInfo | None:
    """The method that the next reply drafts with, if the model's methods are known."""
    if model is None:
        return None
    return chosen_method(model, own) or next((each for each in model.methods if each.id == model.method), None)


def can_draft(model: ModelInfo | None, own: ModelSettings) -> bool:
    """Whether there is anything to switch on and off."""
    if model is None:
        return False
    method = method_in_use(model, own)
    return method.drafts if method is not None else model.head_name is not None


class MethodMenu(QMenu):
    """One entry a method, the one in use ticked; then the way to their settings."""

    method_chosen = Signal(str)
    """Id of a method; empty leaves the choice to the engine."""

    def __init__(self, settings: QAction, parent: QWidget | None = None) -> None:
        super().__init__(tr("Methods", "Draftin&g method"), parent)
        self._settings = settings
        self._shown: object = None
        icons.dress(self.menuAction(), "chevron-down")
        self.menuAction().setIconVisibleInMenu(False)
        self.menuAction().setToolTip(tr("Methods", "Choose the drafting method"))
        self.setToolTipsVisible(True)
        self.menuAction().setEnabled(False)

    def show_methods(self, model: ModelInfo | None, own: ModelSettings) -> None:
        """Fill the menu for a model and what is set for it."""
        methods = tuple(each for each in model.methods if each.drafts) if model is not None else ()
        shown = (methods, model.method if model is not None else "", own.method)
        if shown == self._shown:
            return
        self._shown = shown
        self.clear()
        self.menuAction().setEnabled(bool(methods))
        if not methods or model is None:
            return
        used = method_in_use(model, own)
        group = QActionGroup(self)
        default = next((each.name for each in model.methods if each.id == model.method), "")
        self._add(group, "", tr("Methods", "Automatic ({method})").format(method=default), not own.method)
        self.addSeparator()
        for method in methods:
            chosen = bool(own.method) and used is not None and used.id == method.id
            action = self._add(group, method.id, of_engine(method.name), chosen)
            action.setToolTip(of_engine(method.about))
            if method.problem:
                name = of_engine(method.name)
                action.setText(tr("Methods", "{method} – not available").format(method=name))
                action.setToolTip(of_engine(method.problem))
                action.setEnabled(False)
        self.addSeparator()
        self.addAction(self._settings)

    def _add(self, group: QActionGroup, name: str, text: str, chosen: bool) -> QAction:
        action = self.addAction(text.replace("&", "&&"))
        action.setCheckable(True)
        action.setChecked(chosen)
        action.setData(name)
        group.addAction(action)
        action.triggered.connect(lambda _=False: self.method_chosen.emit(name))
        return action
