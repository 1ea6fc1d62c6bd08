"""vLLM's OpenAI server on our backend: concurrent streams, a cancelled one, and no leaked page."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.vllm_plugin.engines import engine_environment

STREAMS = 32
MAX_TOKENS = 24
LONG_STORY_TOKENS = 1000
"""Length of the answer that is cancelled: far from done when the others are."""

START_TIMEOUT_S = 240
REQUEST_TIMEOUT_S = 300

BLOCK_SIZE = 16
CACHED, COMPLETED = "vllm:prefix_cache_hits_total", "vllm:request_success_total"


SYSTEM = (
    "You are a helpful assistant who knows the countries of the world, their capitals, their rivers and "
    "their history. Answer every question in one short and polite sentence, and name the country that you "
    "were asked about in your answer."
)
COUNTRIES = ["France", "Italy", "Spain", "Japan", "Germany", "Russia", "England", "Egypt"]


@dataclass(frozen=True)
class Server:
    """A running server: where it listens, its process and the file it logs to."""

    url: str
    process: subprocess.Popen[str]
    log: Path


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server as `make serve` starts it, on a free port."""
    port = free_port()
    log_path = tmp_path_factory.mktemp("server") / "log.txt"
    command = [
        sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model_dir),
        "--served-model-name", "smollm2", "--dtype", "float32", "--enforce-eager",
        "--max-model-len", "2048", "--block-size", str(BLOCK_SIZE),
        "--enable-log-requests", "--kv-cache-memory-bytes", str(1 << 29),
        "--host", "127.0.0.1", "--port", str(port), "--attention-backend", "HYGON_ATTN",
    ]  # fmt: skip
    # The engine core runs in its own process here, as it does for a user.
    environment = engine_environment() | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with log_path.open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True)
        server = Server(f"http://127.0.0.1:{port}", process, log_path)
        try:
            asyncio.run(_wait_until_healthy(server))
            yield server
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()


async def _wait_until_healthy(server: Server) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline:
            assert server.process.poll() is None, f"server ended:\n{server.log.read_text()[-4000:]}"
            try:
                async with session.get(f"{server.url}/health") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)
    pytest.fail(f"server not healthy after {START_TIMEOUT_S} s:\n{server.log.read_text()[-4000:]}")


def conversation(question: str) -> list[dict[str, str]]:
    """The messages of a request."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def shared_prefix(model_dir: Path) -> int:
    """Tokens in the whole blocks that all conversations begin with."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    first, second = (
        tokenizer.apply_chat_template(conversation(text), add_generation_prompt=True, return_dict=False)
        for text in ("What is it?", "Tell me a story.")
    )
    alike = [a == b for a, b in zip(first, second, strict=False)]
    return alike.index(False) // BLOCK_SIZE * BLOCK_SIZE


async def stream_chat(
    session: aiohttp.ClientSession, url: str, question: str, max_tokens: int
) -> AsyncGenerator[str, None]:
    """Yields the text pieces of one streamed answer."""
    body = {
        "model": "smollm2",
        "messages": conversation(question),
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                continue
            yield json.loads(line[6:])["choices"][0]["delta"].get("content") or ""


async def ask(session: aiohttp.ClientSession, url: str, country: str) -> str:
    """The whole streamed answer to "What is the capital of ...?"."""
    pieces = stream_chat(session, url, f"What is the capital of {country}?", MAX_TOKENS)
    return "".join([piece async for piece in pieces])


async def ask_and_leave(session: aiohttp.ClientSession, url: str) -> None:
    """Starts a long answer and closes the connection after its first piece of text."""
    question = "Tell me a very long story about a ship."
    async with aclosing(stream_chat(session, url, question, LONG_STORY_TOKENS)) as pieces:
        async for piece in pieces:
            if piece:
                break


async def metric(session: aiohttp.ClientSession, url: str, name: str) -> float:
    """Sum of a Prometheus metric over its label sets."""
    async with session.get(f"{url}/metrics") as answer:
        text = await answer.text()
    values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    assert values, f"metric {name} not found"
    return sum(float(value) for value in values)


async def wait_until_idle(session: aiohttp.ClientSession, url: str) -> None:
    """Waits until no request runs and no KV page is in use."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    state: dict[str, float] = {}
    for _ in range(120):
        state = {name: await metric(session, url, name) for name in names}
        if not any(state.values()):
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"the server does not come to rest: {state}")


def test_concurrent_streams_with_one_cancelled(server: Server, model_dir: Path) -> None:
    async def scenario() -> None:
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            alone = {name: await ask(session, server.url, name) for name in COUNTRIES}
            # So small a model does not know every capital; what counts is that load changes no answer.
            assert "Paris" in alone["France"]
            before = {name: await metric(session, server.url, name) for name in (CACHED, COMPLETED)}
            asked = [COUNTRIES[index % len(COUNTRIES)] for index in range(STREAMS)]
            cancelled = asyncio.create_task(ask_and_leave(session, server.url))
            texts = await asyncio.gather(*(ask(session, server.url, name) for name in asked))
            await cancelled
            for name, text in zip(asked, texts, strict=True):
                assert text == alone[name], (name, text, alone[name])
            await wait_until_idle(session, server.url)
            rise = {name: await metric(session, server.url, name) - before[name] for name in before}
            assert rise[COMPLETED] == STREAMS, "the cancelled request must not run to its end"
            prefix = shared_prefix(model_dir)
            assert prefix >= 2 * BLOCK_SIZE
            assert rise[CACHED] >= (STREAMS + 1) * prefix, rise
            assert await ask(session, server.url, "France") == alone["France"]

    asyncio.run(scenario())
    log = server.log.read_text()
    # vLLM counts a client's abort in no metric, so its log has to tell.
    assert len(re.findall(r"Request \S+ aborted\.", log)) == 1
    assert "Traceback" not in log
