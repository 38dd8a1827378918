"""The draft tree, drawn step by step.

``history`` (what happened), ``layout`` (where it goes) and ``token_text`` (how a token is
written down) know no Qt; the widgets above them only draw. ``panel.TreePanel`` is the door.
"""
