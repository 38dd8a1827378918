"""Models and heads on the hub: finding them, knowing that they fit, getting them safely.

Nothing here imports torch: it runs in a process of its own (:mod:`engine.hub.worker`).
"""
