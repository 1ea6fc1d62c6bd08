"""SGLang's OpenAI server on our backend: concurrent streams, aborts, a flushed cache, no leaked page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.greedy import openai_client as client
from support.greedy.openai_client import Server, free_port, running

from tests.sglang_plugin.engines import engine_environment

PAGE_SIZE = 16
ABORTS = 3
CACHED, ABORTED = "sglang:cached_tokens_total", "sglang:num_aborted_requests_total"


@pytest.fixture(scope="module")
def server(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server as `make serve-sglang` starts it, on a free port.

    SGLang checks its pool's books whenever it is idle and, asked to by the environment, after every
    batch; a leak ends the server.
    """
    port = free_port()
    command = [
        sys.executable, "-m", "sglang.launch_server", "--model-path", str(model_dir),
        "--served-model-name", "smollm2", "--dtype", "float32", "--attention-backend", "hygon",
        "--context-length", "2048", "--page-size", str(PAGE_SIZE), "--max-total-tokens", "8192",
        "--max-running-requests", "40", "--enable-metrics", "--enable-cache-report",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with running(command, engine_environment(), f"http://127.0.0.1:{port}", log) as server:
        yield server


async def load(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """What the scheduler holds right now."""
    async with session.get(f"{url}/v1/loads") as answer:
        loads: list[dict[str, Any]] = (await answer.json())["loads"]
        return loads[0]


async def wait_until_idle(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """Waits until no request runs or waits."""
    found: dict[str, Any] = {}
    for _ in range(120):
        found = await load(session, url)
        if found["num_running_reqs"] == found["num_waiting_reqs"] == 0:
            return found
        await asyncio.sleep(0.5)
    pytest.fail(f"the server does not come to rest: {found}")


async def flush(session: aiohttp.ClientSession, url: str) -> int:
    """Asks for an empty cache; the HTTP status is 200 where it was emptied."""
    async with session.post(f"{url}/flush_cache") as answer:
        return answer.status


def test_concurrent_streams_with_some_aborted(server: Server, model_dir: Path) -> None:
    async def scenario() -> None:
        url = server.url
        async with client.session() as session:
            alone = {name: await client.ask(session, url, name) for name in client.COUNTRIES}
            # So small a model does not know every capital; what counts is that load changes no answer.
            assert "Paris" in alone["France"]
            hits = await client.metric(session, url, CACHED)
            assert hits > 0, "the cache keeps what was computed"
            assert await flush(session, url) == 200
            assert (await load(session, url))["num_used_tokens"] == 0
            assert await client.ask(session, url, "France") == alone["France"]
            assert await client.metric(session, url, CACHED) == hits, "a flushed cache has nothing to give"

            asked = [client.COUNTRIES[index % len(client.COUNTRIES)] for index in range(client.STREAMS)]
            leavers = [asyncio.create_task(client.ask_and_leave(session, url)) for _ in range(ABORTS)]
            streams = [asyncio.create_task(client.ask(session, url, name)) for name in asked]
            await asyncio.wait(leavers)
            assert not all(stream.done() for stream in streams)
            assert await flush(session, url) != 200, "a busy server must not lose its cache"
            texts = await asyncio.gather(*streams)
            for name, text in zip(asked, texts, strict=True):
                assert text == alone[name], (name, text, alone[name])

            await wait_until_idle(session, url)
            assert (await load(session, url))["num_used_tokens"] == 0, "only the cache holds pages"
            rise = await client.metric(session, url, CACHED) - hits
            prefix = client.shared_prefix(model_dir, PAGE_SIZE)
            assert prefix >= 2 * PAGE_SIZE
            assert rise >= (client.STREAMS + ABORTS) * prefix, rise
            aborted = await client.metric(session, url, ABORTED)
            assert aborted == ABORTS

            assert await flush(session, url) == 200
            assert (await load(session, url))["num_used_tokens"] == 0
            assert await client.ask(session, url, "France") == alone["France"]
            async with session.get(f"{url}/server_info") as answer:
                calls = (await answer.json())["internal_states"][0]["hygon_backend_calls"]
            assert {name.partition("[")[0] for name in calls} == {
                "paged_decode",
                "prefix_prefill",
                "write_kv",
            }

    asyncio.run(scenario())
    text = server.log.read_text()
    assert "Traceback" not in text
    assert "leak detected" not in text
