"""vLLM's OpenAI server on our backend: concurrent streams, a cancelled one, and no leaked page."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from support.greedy import openai_client as client
from support.greedy.openai_client import Server, free_port, running

from tests.vllm_plugin.engines import engine_environment

BLOCK_SIZE = 16
CACHED, COMPLETED = "vllm:prefix_cache_hits_total", "vllm:request_success_total"


@pytest.fixture(scope="module")
def server(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server as `make serve` starts it, on a free port."""
    port = free_port()
    command = [
        sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model_dir),
        "--served-model-name", "smollm2", "--dtype", "float32", "--enforce-eager",
        "--max-model-len", "2048", "--block-size", str(BLOCK_SIZE),
        "--enable-log-requests", "--kv-cache-memory-bytes", str(1 << 29),
        "--host", "127.0.0.1", "--port", str(port), "--attention-backend", "HYGON_ATTN",
    ]  # fmt: skip
    # The engine core runs in its own process here, as it does for a user.
    environment = engine_environment() | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with running(command, environment, f"http://127.0.0.1:{port}", log) as server:
        yield server


async def wait_until_idle(session: aiohttp.ClientSession, url: str) -> None:
    """Waits until no request runs and no KV page is in use."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    state: dict[str, float] = {}
    for _ in range(120):
        state = {name: await client.metric(session, url, name) for name in names}
        if not any(state.values()):
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"the server does not come to rest: {state}")


def test_concurrent_streams_with_one_cancelled(server: Server, model_dir: Path) -> None:
    async def scenario() -> None:
        async with client.session() as session:
            alone = {name: await client.ask(session, server.url, name) for name in client.COUNTRIES}
            # So small a model does not know every capital; what counts is that load changes no answer.
            assert "Paris" in alone["France"]
            before = {name: await client.metric(session, server.url, name) for name in (CACHED, COMPLETED)}
            asked = [client.COUNTRIES[index % len(client.COUNTRIES)] for index in range(client.STREAMS)]
            cancelled = asyncio.create_task(client.ask_and_leave(session, server.url))
            texts = await asyncio.gather(*(client.ask(session, server.url, name) for name in asked))
            await cancelled
            for name, text in zip(asked, texts, strict=True):
                assert text == alone[name], (name, text, alone[name])
            await wait_until_idle(session, server.url)
            rise = {name: await client.metric(session, server.url, name) - before[name] for name in before}
            assert rise[COMPLETED] == client.STREAMS, "the cancelled request must not run to its end"
            prefix = client.shared_prefix(model_dir, BLOCK_SIZE)
            assert prefix >= 2 * BLOCK_SIZE
            assert rise[CACHED] >= (client.STREAMS + 1) * prefix, rise
            assert await client.ask(session, server.url, "France") == alone["France"]

    asyncio.run(scenario())
    log = server.log.read_text()
    # vLLM counts a client's abort in no metric, so its log has to tell.
    assert len(re.findall(r"Request \S+ aborted\.", log)) == 1
    assert "Traceback" not in log
