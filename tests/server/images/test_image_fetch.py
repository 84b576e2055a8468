"""Fetching images: over real sockets, and never from where a client must not lead the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from deepinfer.server.images.fetch import FetchError, ImageFetcher, is_public


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def serving(choose: Callable[[str], bytes | None]) -> AsyncIterator[str]:
    """A server that answers each path with what `choose` says, and not at all to None."""

    handlers: list[asyncio.Task[None] | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        reply = choose(head.split()[1].decode())
        if reply is None:
            await reader.read()
        else:
            writer.write(reply)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*(task for task in handlers if task is not None), return_exceptions=True)


@asynccontextmanager
async def fetching(*, private_hosts: bool = True, seconds: float = 20.0) -> AsyncIterator[ImageFetcher]:
    fetcher = ImageFetcher(max_bytes=1000, seconds=seconds, private_hosts=private_hosts)
    try:
        yield fetcher
    finally:
        await fetcher.aclose()


PAGES = {
    "/image": answer("200 OK", b"image"),
    "/long": answer("200 OK", b"x" * 1001),
    "/missing": answer("404 Not Found"),
    "/away": answer("302 Found", b"", "location: /image"),
    "/loop": answer("302 Found", b"", "location: /loop"),
    "/nowhere": answer("302 Found"),
    "/file": answer("302 Found", b"", "location: file:///etc/passwd"),
    "/odd": answer("302 Found", b"", "location: http://[::1"),
    "/noise": b"\x00\x01 noise\r\n\r\n",
    "/silent": None,
}


async def test_fetches_and_follows() -> None:
    async with serving(PAGES.get) as url, fetching() as fetcher:
        assert await fetcher.fetch(f"{url}/image") == b"image"
        assert await fetcher.fetch(f"{url}/away") == b"image"
        assert await fetcher.fetch(url.replace("http", "HTTP") + "/image") == b"image"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/long", "is longer than 1000 bytes"),
        ("/missing", "answered 404"),
        ("/loop", "was redirected more than 5 times"),
        ("/nowhere", "answered 302 without saying where to go"),
        ("/file", "neither http nor https"),
        ("/odd", "could not be fetched"),
        ("/noise", "could not be fetched"),
    ],
)
async def test_says_what_is_wrong(path: str, words: str) -> None:
    async with serving(PAGES.get) as url, fetching() as fetcher:
        with pytest.raises(FetchError, match=words):
            await fetcher.fetch(url + path)


async def test_waits_only_so_long() -> None:
    async with serving(PAGES.get) as url, fetching(seconds=0.2) as fetcher:
        with pytest.raises(FetchError, match=r"took longer than 0\.2 s"):
            await fetcher.fetch(f"{url}/silent")


async def test_private_addresses_are_not_even_connected_to() -> None:
    asked: list[str] = []

    def choose(path: str) -> bytes:
        asked.append(path)
        return answer("200 OK", b"secret")

    async with serving(choose) as url, fetching(private_hosts=False) as fetcher:
        port = url.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"):
            with pytest.raises(FetchError, match=r"not public|not known"):
                await fetcher.fetch(f"http://{host}:{port}/image")
    assert asked == []


@pytest.mark.parametrize(
    "url", ["http://", "http://:80/", "http://a b/", "http://\x00/", "http://" + "a" * 300, "http://xn--/"]
)
async def test_odd_addresses_are_refused(url: str) -> None:
    async with fetching() as fetcher:
        with pytest.raises(FetchError):
            await fetcher.fetch(url)


async def test_a_redirect_is_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    # A public name that leads on to this machine: only the first hop is let through.
    first = answer("302 Found", b"", "location: http://127.0.0.1:1/image")
    async with serving(lambda _: first) as url, fetching(private_hosts=False) as fetcher:
        checked: list[str] = []

        def public_once(address: str) -> bool:
            checked.append(address)
            return len(checked) == 1

        monkeypatch.setattr("deepinfer.server.images.fetch.is_public", public_once)
        with pytest.raises(FetchError, match="not public"):
            await fetcher.fetch(f"{url}/image")
        assert checked == ["127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "240.0.0.1", "198.18.0.1", "::", "::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1",
        "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1:1::80ff:fffe",
        "::ffff:0:7f00:1",
    ],
)  # fmt: skip
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_what_is_public(address: str) -> None:
    assert is_public(address)
