"""The native form between two servers of this package: one connection for all requests of a gateway to an upstream.

Opened by an HTTP/1.1 upgrade to `PROTOCOL` at `PATH`; from then on both sides send frames. Knows neither sockets nor
engines.
"""

from __future__ import annotations

from typing import Final

PATH: Final = "/v1/link"
# Another number means other frames; who asks for what the other does not have is told so, and uses HTTP.
PROTOCOL: Final = "deepinfer-link-1"
