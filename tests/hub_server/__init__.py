"""A model hub on loopback that speaks the real interface, and can misbehave.

``HubServer`` serves :class:`~tests.hub_server.repository.Repository` objects to the
unmodified ``huggingface_hub`` client and to Eyrie: search, model information, trees,
``resolve`` with redirects, ETags and ranges, gated models, revisions. A
:class:`~tests.hub_server.faults.Faults` decides which answers go wrong, and how.
"""

from tests.hub_server.faults import Fault, Faults, Kind
from tests.hub_server.repository import Account, Repository
from tests.hub_server.server import HubServer

__all__ = ["Account", "Fault", "Faults", "HubServer", "Kind", "Repository"]
