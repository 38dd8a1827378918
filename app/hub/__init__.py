"""The model picker: pairs for this machine, search, heads with verdicts, downloads, accounts.

It speaks to a process of its own through :mod:`engine.protocol.hub_messages`; what comes from
the hub is untrusted and only ever shown as plain text or as Markdown without HTML.
"""
