"""Fetches an image from an address that a client names, without being led into the operator's own network.

Names are resolved here, every address is checked, and the connection goes to the address that was checked, on each
redirect anew: a name that changes its mind in between gains nothing. Proxies of the environment are not used, and no
compression is asked for, so that a small answer stays one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore

_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# The part of IPv6 that is routed between networks; outside of it there are local, translated and reserved addresses.
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_HEADERS: Final = (("accept", "image/jpeg, image/png, image/gif, image/webp"), ("accept-encoding", "identity"))


class FetchError(Exception):
    """An image could not be fetched. The message says why, in words that the client may see."""


class ImageFetcher:
    """Fetches over connections of its own; `aclose` ends them.

    `max_bytes`: longest file. `seconds`: longest time for one file, redirects included. `private_hosts`: whether
    addresses that are not public are allowed.
    """

    def __init__(self, *, max_bytes: int, seconds: float, private_hosts: bool) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._pool = httpcore.AsyncConnectionPool(network_backend=_GuardedNetwork(private_hosts=private_hosts))

    async def fetch(self, url: str) -> bytes:
        """Return the file behind an http or https URL. Raises `FetchError`."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(url)
        except TimeoutError:
            raise FetchError(f"took longer than {self._seconds:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError, ValueError) as error:
            raise FetchError(f"could not be fetched ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    async def _follow(self, url: str) -> bytes:
        for _ in range(_MAX_REDIRECTS + 1):
            if urlsplit(url).scheme.lower() not in ("http", "https"):
                raise FetchError("leads to an address that is neither http nor https")
            found = await self._get(url)
            if isinstance(found, bytes):
                return found
            url = urljoin(url, found)
        raise FetchError(f"was redirected more than {_MAX_REDIRECTS} times")

    async def _get(self, url: str) -> bytes | str:
        """The file, or where it is said to be."""
        async with self._pool.stream("GET", url, headers=_HEADERS) as response:
            if response.status in _REDIRECTS:
                location = _header(response.headers, b"location")
                if location is None:
                    raise FetchError(f"answered {response.status} without saying where to go")
                return location
            if response.status != 200:
                raise FetchError(f"answered {response.status}")
            content = bytearray()
            async for part in response.aiter_stream():
                content += part
                if len(content) > self._max_bytes:
                    raise FetchError(f"is longer than {self._max_bytes} bytes")
            return bytes(content)


def _header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == wanted), None)


class _GuardedNetwork(httpcore.AnyIOBackend):
    """Connects to public addresses only."""

    def __init__(self, *, private_hosts: bool) -> None:
        self._private_hosts = private_hosts

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        address = await self._resolve(host, port)
        return await super().connect_tcp(address, port, timeout, local_address, socket_options)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise FetchError("leads to a socket of this machine")

    async def _resolve(self, host: str, port: int) -> str:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise FetchError("has a host name that is not known") from None
        addresses = [str(entry[4][0]) for entry in found]
        # All of them: a name with one public and one private address is a trap.
        if not self._private_hosts and not all(map(is_public, addresses)):
            raise FetchError("leads to an address that is not public")
        return addresses[0]


def is_public(text: str) -> bool:
    """Whether an IP address is one of the open internet, whatever form it is written in."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        # Forms that lead to an IPv4 address: it is the one that counts.
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
        if inner is not None:
            return is_public(str(inner))
        if address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not address.is_multicast
