"""One upstream: whether it works, what it offers, how much runs there. Owns its connections and this state."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from deepinfer.backends.remote.config import RemoteConfig
from deepinfer.backends.remote.connection import ConnectionFaultError
from deepinfer.backends.remote.dialects import GrammarForm
from deepinfer.backends.remote.faults import UpstreamFaultError, refusal
from deepinfer.backends.remote.http_client import HttpClient, Origin
from deepinfer.backends.remote.link import Link, open_link
from deepinfer.backends.remote.probe import Found, probe

logger = logging.getLogger(__name__)

# Longest wait for an answer to a check.
_CHECK_SECONDS = 5.0
# Servers without such a path are up if they say so.
_NO_SUCH_PATH = (404, 405)


class Upstream:
    """A server that requests may go to. `running` counts those that are there now."""

    def __init__(self, origin: Origin, config: RemoteConfig) -> None:
        self.name = origin.url
        self.running = 0
        # Why no requests go there, or None while they do.
        self.fault: str | None = "not asked yet"
        self.client = HttpClient(origin, api_key=config.api_key, tls=config.tls, connect_seconds=config.connect_seconds)
        self._config = config
        self._doubt = asyncio.Event()
        # What it is; None while that is not known.
        self.found: Found | None = None
        # The native way to ask it; None where HTTP is the only one.
        self.link: Link | None = None
        self._has_links = False

    @property
    def way(self) -> str:
        """How it is asked, in words."""
        name = "nothing yet" if self.found is None else self.found.dialect.name
        return name if self.link is None else f"{name} over a link"

    async def check(self) -> None:
        """Ask how it is, and what it offers if that is not known. Sets `fault`."""
        try:
            answer = await self.client.fetch("GET", "/health", seconds=_CHECK_SECONDS)
            if answer.status != 200 and answer.status not in _NO_SUCH_PATH:
                raise refusal(answer.status, answer.body)
            if self.found is None:
                self.found = await probe(self.client, self._config)
                self._has_links = self.found.dialect.features.grammar is GrammarForm.WHOLE
            await self._keep_link(self.found)
        except (ConnectionFaultError, UpstreamFaultError) as error:
            # What comes back may be another server.
            self.found = None
            self._drop_link()
            if self.fault is None:
                # It may be well again in a moment, and others would wait for the next check.
                self._doubt.set()
            self._set_fault(str(error))
            return
        if self.fault is not None:
            logger.info("upstream %s takes requests: %s, model %s", self.name, self.way, self.found.model)
            for warning in self.found.warnings:
                logger.warning("upstream %s: %s", self.name, warning)
        self.fault = None

    async def watch(self) -> None:
        """Check it now and then, and at once when a request found it broken."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.check_seconds):
                    await self._doubt.wait()
            self._doubt.clear()
            try:
                await self.check()
            except Exception:
                logger.exception("the check of upstream %s failed", self.name)

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        if self.link is not None:
            self.link.close()
            self.link = None

    def leave_out(self, reason: str) -> None:
        """Send no more requests there until a check passes, which is soon."""
        self._doubt.set()
        self._set_fault(reason)

    async def _keep_link(self, found: Found) -> None:
        """Open a link, if there is none and the upstream has not refused it. Without one, HTTP goes on."""
        if self._has_links and (self.link is None or not self.link.is_open):
            with suppress(ConnectionFaultError):
                self.link = await open_link(self.client, found.model, self._lose_link)
                self._has_links = self.link is not None

    def _lose_link(self) -> None:
        self._drop_link()
        # Another is opened soon, if the upstream is well.
        self._doubt.set()

    def _drop_link(self) -> None:
        """Send no more over the link; what runs there goes on."""
        link, self.link = self.link, None
        if link is not None:
            link.retire()

    def _set_fault(self, reason: str) -> None:
        if self.fault != reason:
            logger.warning("upstream %s is left out: %s", self.name, reason)
        self.fault = reason
