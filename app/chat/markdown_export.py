"""Chats as Markdown, for people to read elsewhere. No widgets here.

Replies are Markdown already; prompts are quoted as they were typed. Nothing is escaped
in a reply: what a reader's program makes of it is its own affair.
"""

from __future__ import annotations

from app.chat.conversation import Chat, ChatMessage
from app.language import numbers, tr
from app.language.engine_texts import of_engine
from engine.protocol import Role


def message_markdown(message: ChatMessage) -> str:
    """One message: a reply as it is, a prompt as a quotation."""
    if message.role is Role.USER:
        return "\n".join(f"> {line}".rstrip() for line in message.text.split("\n"))
    return message.text


def chat_markdown(chat: Chat) -> str:
    """The versions of a chat that are shown, with who wrote them."""
    parts = [f"# {chat.shown_title}", f"*{numbers.moment(chat.created)}*"]
    if chat.system_prompt.strip():
        heading = tr("Chats", "System prompt")
        parts.append(f"## {heading}\n\n{chat.system_prompt.strip()}")
    for message in chat.messages:
        name = message.model_name or tr("Chats", "Reply")
        if message.role is Role.USER:
            name = tr("Chats", "You")
        parts.append(f"## {name}\n\n{message_markdown(message)}".rstrip())
        if message.problem is not None:
            parts.append(f"*{of_engine(message.problem.message)}*")
    return "\n\n".join(parts) + "\n"
