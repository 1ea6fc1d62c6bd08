"""The demo's three scenes and what is printed about them, the same for every engine."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

MAX_MODEL_LEN = 8192
PAGE_SIZE = 64
KV_CACHE_TOKENS = 23_296
"""About 1 GiB of SmolLM2-135M's keys and values in float32."""

SYSTEM_PROMPT = (
    "You are a patient teacher in a small town school. You answer in one short sentence, you use plain "
    "words, you never make up facts, and when you are not sure you say so. Pupils are ten years old, they "
    "like animals, football and stories about the sea, and some of them read slowly. "
)

QUESTIONS = [
    "What is the capital of Italy?",
    "How many legs does a spider have?",
    "What do bees make?",
    "Which planet do we live on?",
    "What is the opposite of hot?",
    "How many days are in a week?",
    "What colour is a ripe banana?",
    "Which animal barks?",
    "What do we drink when we are thirsty?",
    "What is two plus two?",
    "Where do fish live?",
    "What falls from the sky when it rains?",
    "Which season comes after winter?",
    "What do cows give us to drink?",
    "How many wheels has a bicycle?",
    "What shines in the sky at night?",
]


class Message(TypedDict):
    """One chat turn in the form the engines and the OpenAI API take."""

    role: str
    content: str


Chat = list[Message]


@dataclass(frozen=True)
class Job:
    """One demo scene: a title and the conversations sent as one batch."""

    title: str
    chats: list[Chat]
    max_tokens: int


def long_document(sections: int) -> str:
    """A made-up log of well over 2,000 tokens whose middle holds the answer to the question asked."""
    lines = []
    for day in range(1, sections + 1):
        line = (
            f"Day {day}: the harbour master counted {day * 7 % 40 + 3} boats and the wind came from the west."
        )
        if day == sections // 2:
            line += " That evening the lighthouse keeper, whose name is Matilda, lit the lamp."
        lines.append(line)
    return "\n".join(lines)


def jobs() -> list[Job]:
    """The three scenes of the demo."""
    shared = [
        [Message(role="system", content=SYSTEM_PROMPT * 3), Message(role="user", content=question)]
        for question in QUESTIONS
    ]
    log = f"{long_document(110)}\n\nWhat is the name of the lighthouse keeper in this log?"
    return [
        Job("one chat", [[Message(role="user", content="What is the capital of France?")]], 32),
        Job("one long prompt", [[Message(role="user", content=log)]], 32),
        Job("16 chats with a shared system prompt", shared, 32),
    ]


@dataclass(frozen=True)
class Answer:
    """What an engine made of one conversation."""

    text: str
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int


Chatter = Callable[[list[Chat], int], list[Answer]]
"""Answers conversations, sent as one batch, with at most so many new tokens each."""


def read_model_folder(description: str | None, arguments: Sequence[str] | None) -> str:
    """Parses the command line of a demo: the model's folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", help="folder of the model, as made by tools/make_model.py")
    warnings.filterwarnings("ignore", category=FutureWarning)  # torch's, at every look into its modules
    return str(parser.parse_args(arguments).model)


def run_job(chat: Chatter, job: Job) -> list[Answer]:
    """Runs one scene and prints its answers and rates."""
    start = time.perf_counter()
    answers = chat(job.chats, job.max_tokens)
    seconds = time.perf_counter() - start
    prompt = sum(item.prompt_tokens for item in answers)
    cached = sum(item.cached_tokens for item in answers)
    new = sum(item.new_tokens for item in answers)
    print(f"\n=== {job.title}", flush=True)
    for messages, item in list(zip(job.chats, answers, strict=True))[:4]:
        question = messages[-1]["content"].splitlines()[-1]
        print(f"  Q: {question}\n  A: {item.text.strip()}")
    if len(answers) > 4:
        print(f"  ... and {len(answers) - 4} more")
    print(
        f"  {prompt} prompt tokens ({cached} from the prefix cache), {new} new tokens in {seconds:.1f} s: "
        f"{(prompt - cached + new) / seconds:.1f} computed tokens/s, {new / seconds:.1f} new tokens/s",
        flush=True,
    )
    return answers


def report_backend(backend: str, calls: Mapping[str, int]) -> bool:
    """Prints the call counters; returns whether they prove that our attention ran."""
    print(f"\n=== which attention ran\n  backend: {backend} (hygon_backend)")
    for name, count in calls.items():
        print(f"  {count:6d} calls of {name}")
    return all(any(name.startswith(op) for name in calls) for op in ("paged_decode", "prefix_prefill"))


def run_demo(chat: Chatter, backend: str, read_calls: Callable[[], Mapping[str, int]]) -> int:
    """Runs the scenes; the exit code is 0 only if the answers and the counters are right."""
    first, long, batch = (run_job(chat, job) for job in jobs())
    if not report_backend(backend, read_calls()):
        print("FAILED: the call counters do not show our attention")
        return 1
    if "Paris" not in first[0].text or "Matilda" not in long[0].text or not all(item.text for item in batch):
        print("FAILED: an answer is wrong")
        return 1
    if not sum(item.cached_tokens for item in batch):
        print("FAILED: the shared system prompt gave no prefix-cache hit")
        return 1
    print("\nAll three scenes answered, attention by hygon_backend.")
    return 0
