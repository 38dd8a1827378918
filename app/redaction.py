"""Takes access tokens out of what goes into the clipboard for a report."""

from __future__ import annotations

import re

TOKEN = re.compile(r"\b(hf_|sk-|gh[pousr]_|github_pat_|Bearer\s+)[A-Za-z0-9_\-.]{8,}")
"""What access tokens of model hubs, servers and code hosts look like."""
IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""Names and passwords in addresses, as those of proxies."""


def without_secrets(text: str) -> str:
    """The text with access tokens blotted out, wherever they have come from."""
    return IN_ADDRESS.sub("…", TOKEN.sub(r"\1…", text))
