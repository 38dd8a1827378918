"""Chats as Markdown, for people to read elsewhere. No Qt here.

Replies are Markdown already; prompts are quoted as they were typed. Nothing is escaped
in a reply: what a reader's program makes of it is its own affair.
"""

from __future__ import annotations

from datetime import datetime

from app.chat.conversation import Chat, ChatMessage
from engine.protocol import Role


def message_markdown(message: ChatMessage) -> str:
    """One message: a reply as it is, a prompt as a quotation."""
    if message.role is Role.USER:
        return "\n".join(f"> {line}".rstrip() for line in message.text.split("\n"))
    return message.text


def chat_markdown(chat: Chat) -> str:
    """The versions of a chat that are shown, with who wrote them."""
    when = datetime.fromtimestamp(chat.created).strftime("%Y-%m-%d %H:%M")
    parts = [f"# {chat.title}", f"*{when}*"]
    if chat.system_prompt.strip():
        parts.append("## System prompt\n\n" + chat.system_prompt.strip())
    for message in chat.messages:
        name = "You" if message.role is Role.USER else message.model_name or "Reply"
        parts.append(f"## {name}\n\n{message_markdown(message)}".rstrip())
        if message.problem is not None:
            parts.append(f"*{message.problem.message}*")
    return "\n\n".join(parts) + "\n"
