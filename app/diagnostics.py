"""What to put into a report of a problem: versions, machine, model, settings. No secrets, no chats."""

from __future__ import annotations

import json
import platform
import sys
import tomllib
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from PySide6 import __version__ as pyside_version
from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication

from app.client import EngineClient
from app.language import tr
from app.redaction import without_secrets
from app.settings.store import SettingsStore
from app.storage.database import FILE_NAME as DATABASE


def version() -> str:
    """Eyrie's version: of the installed distribution, or of the clone it runs from."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    if project.exists():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("eyrie")


def about_text() -> str:
    return (
        f"Eyrie {version()}\n\n"
        + tr(
            "About",
            "A local chat that shows speculative decoding at work: what the EAGLE head drafts, "
            "and what the model accepts.",
        )
        + f"\n\nQt {qVersion()}, PySide {pyside_version}, Python {platform.python_version()}"
    )


def diagnostics(client: EngineClient, store: SettingsStore, folder: Path) -> str:
    """Several lines of plain text."""
    model = client.model
    lines = [
        f"Eyrie {version()}",
        f"Python {sys.version.split()[0]}, PySide {pyside_version}, Qt {qVersion()}",
        f"System: {platform.platform()}, Qt platform {QGuiApplication.platformName()}",
        f"Engine: {client.state}, {client.device or 'device not known'}",
    ]
    if model is not None:
        lines.append(
            f"Model: {model.name}, {model.architecture}, {model.weight_format} on {model.device}, "
            f"{model.memory_bytes / 1e6:.0f} MB"
        )
        lines.append(f"Head: {model.head_name or 'none'} {model.head_problem or ''}".rstrip())
    lines.append(f"Data folder: {folder}")
    database = folder / DATABASE
    if database.exists():
        lines.append(f"Chats: {database.stat().st_size / 1e6:.1f} MB")
    # What models are told is the user's own business.
    settings = {**asdict(store.current), "models": sorted(store.current.models)}
    lines.append(f"Settings: {json.dumps(settings)}")
    return without_secrets("\n".join(lines))
