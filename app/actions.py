"""What can be done, with its shortcut, in one place; the menus and the tool bar show it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QLabel, QMainWindow, QMenuBar, QToolBar, QToolButton, QWidget

from app import icons
from app.chat.list_panel import ChatListPanel
from app.elided_label import ElidedLabel
from app.language import tr
from app.language.engine_texts import of_engine
from app.language.mnemonics import plain
from app.method_menu import MethodMenu, can_draft, method_in_use
from app.settings.per_model import ModelSettings
from engine.protocol import ModelInfo, Needs


class Actions:
    """Makes the window's actions. Connecting them is the window's part."""

    def __init__(self, window: QMainWindow) -> None:
        def make(text: str, keys: str = "", icon: str = "", check: bool = False, tip: str = "") -> QAction:
            action = QAction(text, window)
            action.setIconText(plain(text))  # Qt would leave the letter in 設定(&S)…
            if keys:
                action.setShortcut(QKeySequence(keys))
            if icon:
                icons.dress(action, icon)
            action.setCheckable(check)
            hint = tip or plain(text)
            shown = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
            action.setToolTip(f"{hint} ({shown})" if keys else hint)
            action.setIconVisibleInMenu(False)
            window.addAction(action)
            return action

        self.new_chat = make(tr("Menu", "&New chat"), "Ctrl+N", "new-chat")
        self.settings = make(tr("Menu", "&Settings…"), "Ctrl+,", "settings")
        self.settings.setMenuRole(QAction.MenuRole.PreferencesRole)
        self.quit = make(tr("Menu", "&Quit"), "Ctrl+Q")
        self.quit.setMenuRole(QAction.MenuRole.QuitRole)
        self.stop = make(tr("Menu", "&Stop the reply"), "Esc", "stop")
        self.again = make(tr("Menu", "&Write the last reply again"), "Ctrl+R", "again")
        self.copy_reply = make(tr("Menu", "&Copy the last reply"), "Ctrl+Shift+C", "copy")
        self.eagle = make(tr("Menu", "&EAGLE"), "Ctrl+E", "eagle", check=True)
        self.resume = make(tr("Menu", "Con&tinue the last reply"), "Ctrl+Shift+R", "continue")
        self.edit_prompt = make(tr("Menu", "&Edit the last prompt"), "Ctrl+Up", "edit")
        self.version_before = make(tr("Menu", "Version &before"), "Alt+Left")
        self.version_after = make(tr("Menu", "Version a&fter"), "Alt+Right")
        self.copy_chat = make(tr("Menu", "Copy the chat as &Markdown"), "Ctrl+Shift+M")
        self.search = make(tr("Menu", "Searc&h chats"), "Ctrl+F", "search")
        self.undo_delete = make(tr("Menu", "&Undo deleting a chat"), "Ctrl+Shift+Z")
        self.import_chats = make(tr("Menu", "&Import chats…"), "Ctrl+Shift+O")
        self.export_all = make(tr("Menu", "Export &all chats…"), "Ctrl+Shift+A")
        self.free = make(
            tr("Menu", "&Free the GPU"),
            "Ctrl+Shift+U",
            tip=tr("Menu", "Unload the model and give its memory back"),
        )
        self.cancel_load = make(tr("Menu", "Cancel loa&ding"), "Ctrl+.")
        self.reload = make(tr("Menu", "&Load the model"), "Ctrl+Shift+L")
        self.restart = make(tr("Menu", "&Restart the engine"), "Ctrl+Shift+K")
        self.palette = make(tr("Menu", "&Find a command…"), "Ctrl+K")
        self.palette.setShortcuts([QKeySequence("Ctrl+K"), QKeySequence("Ctrl+Shift+P")])
        self.shortcuts = make(tr("Menu", "&Keyboard shortcuts"), "F1")
        self.shortcuts.setShortcuts([QKeySequence("F1"), QKeySequence("?")])
        self.tour = make(tr("Menu", "&Tour of the window"), "Shift+F1")
        self.hub = make(
            tr("Menu", "&Models…"),
            "Ctrl+M",
            "models",
            tip=tr("Menu", "Find, download and load models and heads"),
        )
        self.compare = make(
            tr("Menu", "C&ompare two settings…"),
            "Ctrl+Shift+E",
            "compare",
            tip=tr("Menu", "Run two settings side by side: EAGLE on and off, methods, heads"),
        )
        self.compare.setIconText(tr("Tool bar", "Compare"))
        self.comparisons = make(tr("Menu", "Comp&arisons of this chat…"), "Ctrl+Shift+X")
        self.previous_chat = make(tr("Menu", "&Previous chat"), "Ctrl+PgUp")
        self.next_chat = make(tr("Menu", "Ne&xt chat"), "Ctrl+PgDown")
        self.write = make(tr("Menu", "&Go to the prompt"), "Ctrl+L")
        self.chats = make(
            tr("Menu", "&Chats"), "Ctrl+B", "sidebar", check=True, tip=tr("Menu", "Show or hide the chats")
        )
        self.panel = make(
            tr("Menu", "&Draft tree"),
            "Ctrl+T",
            "tree",
            check=True,
            tip=tr("Menu", "Show or hide the draft tree"),
        )
        self.highlight = make(tr("Menu", "&Mark accepted draft tokens"), "Ctrl+H", check=True)
        self.larger = make(tr("Menu", "&Larger text"), "Ctrl++")
        self.larger.setShortcuts([QKeySequence("Ctrl++"), QKeySequence("Ctrl+=")])
        self.smaller = make(tr("Menu", "&Smaller text"), "Ctrl+-")
        self.normal_size = make(tr("Menu", "&Normal text size"), "Ctrl+0")
        self.model_settings = make(tr("Menu", "&Settings for this model…"), "Ctrl+Shift+,")
        self.methods = MethodMenu(self.model_settings, window)
        self.licence = make(tr("Menu", "Model l&icence…"), "Ctrl+Shift+I")
        self.diagnostics = make(tr("Menu", "&Copy diagnostics"), "Ctrl+Shift+D")
        self.about = make(tr("Menu", "&About Eyrie"), "Ctrl+F1")
        self.about.setMenuRole(QAction.MenuRole.AboutRole)

    def fill_menus(self, bar: QMenuBar, chats: ChatListPanel) -> None:
        groups: tuple[tuple[str, tuple[QAction | None, ...]], ...] = (
            (
                tr("Menu", "&File"),
                (self.new_chat, self.search, None, self.import_chats, chats.export_action, self.export_all,
                 None, self.settings, None, self.quit),
            ),
            (
                tr("Menu", "&Chat"),
                (self.stop, self.again, self.resume, self.edit_prompt, self.version_before,
                 self.version_after, None, self.copy_reply, self.copy_chat, self.comparisons, None, self.write,
                 self.previous_chat, self.next_chat, None, chats.rename_action, chats.pin_action,
                 chats.folder_menu.menuAction(), chats.new_folder_action, chats.instructions_action, chats.delete_action,
                 self.undo_delete),
            ),
            (
                tr("Menu", "&Model"),
                (self.hub, None, self.eagle, self.methods.menuAction(), self.compare, None, self.reload, self.cancel_load, self.free, self.restart, None,
                 self.model_settings, self.licence),
            ),
            (
                tr("Menu", "&View"),
                (self.chats, self.panel, self.highlight, None, self.larger, self.smaller, self.normal_size),
            ),
            (
                tr("Menu", "&Help"),
                (self.palette, self.shortcuts, self.tour, None, self.diagnostics, None, self.about),
            ),
        )  # fmt: skip
        for title, actions in groups:
            menu = bar.addMenu(title)
            for action in actions:
                if action is None:
                    menu.addSeparator()
                else:
                    menu.addAction(action)


class TopBar(QToolBar):
    """Model at the left, switches at the right."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(tr("Tool bar", "Tools"), parent)
        self._actions = actions
        self.setObjectName("topBar")
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.addAction(actions.chats)
        self._model = QLabel("Eyrie")
        self._model.setTextFormat(Qt.TextFormat.PlainText)
        self._model.setProperty("textRole", "label")
        self._model.setContentsMargins(8, 0, 4, 0)
        self.addWidget(self._model)
        self._where = ElidedLabel()
        self._where.setProperty("textRole", "small")
        self.addWidget(self._where)
        self.addAction(actions.hub)
        self.addAction(actions.eagle)
        self.addAction(actions.methods.menuAction())
        self.addAction(actions.compare)
        self.addSeparator()
        self.addAction(actions.panel)
        self.addAction(actions.settings)
        eagle = self.button(actions.eagle)
        eagle.setProperty("look", "switch")
        methods = self.button(actions.methods.menuAction())
        methods.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        methods.setProperty("look", "menu")
        for action in (actions.hub, actions.eagle, actions.compare):
            self.button(action).setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        shown = (
            actions.chats, actions.hub, actions.eagle, actions.methods.menuAction(), actions.compare,
            actions.panel, actions.settings,
        )  # fmt: skip
        for action in shown:
            self.button(action).setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self.button(action).setAccessibleName(plain(action.text()))

    def button(self, action: QAction) -> QToolButton:
        widget = self.widgetForAction(action)
        assert isinstance(widget, QToolButton)
        return widget

    def show_model(self, model: ModelInfo | None, words: str) -> None:
        """The model's name and where it runs; ``words`` stand there while there is none."""
        self._model.setText(model.name if model else "Eyrie")
        text = f"{model.device}  ·  {model.weight_format}" if model else words
        self._where.show_text(text)

    def show_eagle(self, model: ModelInfo | None, enabled: bool, own: ModelSettings) -> None:
        """The switch says in words whether drafting is on, off or cannot be had, and why."""
        action = self._actions.eagle
        method = method_in_use(model, own)
        possible = can_draft(model, own)
        name = of_engine(method.name) if method is not None and method.drafts else "EAGLE"
        action.setEnabled(possible)
        action.blockSignals(True)
        action.setChecked(possible and enabled)
        action.blockSignals(False)
        self._actions.methods.show_methods(model, own)
        if possible and model is not None:
            words = (tr("Tool bar", "{method} on") if enabled else tr("Tool bar", "{method} off")).format(
                method=name
            )
            if method is None or method.needs is Needs.HEAD:
                tip = tr(
                    "Tool bar",
                    "Draft with {head} (Ctrl+E): changes the speed, not what the model would choose.",
                ).format(head=model.head_name)
            else:
                tip = tr("Tool bar", "{about} (Ctrl+E)").format(about=of_engine(method.about))
        elif model is None:
            words, tip = "EAGLE", tr("Tool bar", "EAGLE can be switched once a model is loaded.")
        else:
            words = tr("Tool bar", "EAGLE not available")
            tip = of_engine(model.head_problem or "") or tr("Tool bar", "This model has no EAGLE head.")
            if any(each.drafts and not each.problem for each in model.methods):
                tip += " " + tr("Tool bar", "The menu beside it has methods that need none.")
        action.setIconText(words)
        action.setToolTip(tip)
        button = self.button(action)
        # The menu's text stays; the button follows the short one, and must be told after a change.
        button.setText(words)
        button.setToolTip(tip)
        button.setChecked(action.isChecked())
        button.setAccessibleName(words)
        button.setAccessibleDescription(tip)
