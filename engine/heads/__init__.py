"""Heads: small networks that guess what their target will say next.

From files to drafts: ``files`` and ``formats`` (what lies there and who wrote it),
``config``, ``parsing`` and ``shapes`` (what it means), ``checkpoint`` (read strictly),
``facts`` and ``pairing`` (whether it belongs to a target), ``eagle1_inference``,
``eagle3_inference`` and ``medusa`` (the computation), ``choosing`` (what files leave
open) and ``loading`` (all of it in order). ``eagle3`` is the module that training optimises.
"""
