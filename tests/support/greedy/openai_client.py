"""A client of the engines' OpenAI servers: starts one, asks it about capitals, leaves early."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

STREAMS = 32
MAX_TOKENS = 24
LONG_STORY_TOKENS = 1000
"""Length of the answer that is cancelled: far from done when the others are."""

START_TIMEOUT_S = 240
REQUEST_TIMEOUT_S = 300

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


@contextmanager
def running(command: list[str], environment: Mapping[str, str], url: str, log_path: Path) -> Iterator[Server]:
    """Starts a server, waits until it is healthy, and stops it in the end."""
    with log_path.open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True)
        server = Server(url, process, log_path)
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


def session() -> aiohttp.ClientSession:
    """A client with a deadline and no limit on connections."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))


def conversation(question: str) -> list[dict[str, str]]:
    """The messages of a request."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def shared_prefix(model_dir: Path, page_size: int) -> int:
    """Tokens in the whole pages that all conversations begin with."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    first, second = (
        tokenizer.apply_chat_template(conversation(text), add_generation_prompt=True, return_dict=False)
        for text in ("What is it?", "Tell me a story.")
    )
    alike = [a == b for a, b in zip(first, second, strict=False)]
    return alike.index(False) // page_size * page_size


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
