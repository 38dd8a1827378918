"""How much drafting pays on this machine: measured at load, followed as the chat goes, paused where it loses.

From the ground up: :mod:`passes` and :mod:`proposals` time the target and the drafter, :mod:`timing` is what came of
it, :mod:`outlook` tells what a size of the tree would bring, :mod:`pilot` chooses step by step, with its
:mod:`ledger` of what drafting has cost; :mod:`at_load` measures and keeps, :mod:`experience` remembers earlier chats.
"""
