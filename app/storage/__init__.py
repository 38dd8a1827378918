"""Chats on disk: one SQLite file in the data folder, written by a thread of its own. No Qt here."""
