"""What test files of any project use: accuracy checks, measurements, servers, assets.

Standard library only (`plugin` needs pytest); tensors are used through their own methods, so torch
is never imported here. Fixtures and hooks are in `hwmatrix.kit.plugin`.
"""

from __future__ import annotations

from hwmatrix.kit.assets import Asset, requires_asset
from hwmatrix.kit.logprobs import Divergence, assert_logprob_kl, logprob_kl
from hwmatrix.kit.measure import accuracy_gate, record_measurement
from hwmatrix.kit.servers import Server, ServerError, start_server

__all__ = [
    "Asset",
    "Divergence",
    "Server",
    "ServerError",
    "accuracy_gate",
    "assert_logprob_kl",
    "logprob_kl",
    "record_measurement",
    "requires_asset",
    "start_server",
]
