"""The demo: stock vLLM answers three kinds of prompts through hygon_backend, on this machine's CPU.

Run by `make demo`, which makes the environment and the model first.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

KV_CACHE_BYTES = 1 << 30
MAX_MODEL_LEN = 8192
BLOCK_SIZE = 64

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
    """One chat turn in the form vLLM and the OpenAI API take."""

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


def run_job(llm: LLM, job: Job, sampling: type[SamplingParams]) -> list[RequestOutput]:
    """Runs one scene and prints its answers and rates."""
    start = time.perf_counter()
    outputs: list[RequestOutput] = llm.chat(
        job.chats, sampling(temperature=0, max_tokens=job.max_tokens), use_tqdm=False
    )
    seconds = time.perf_counter() - start
    prompt = sum(len(item.prompt_token_ids or []) for item in outputs)
    cached = sum(item.num_cached_tokens or 0 for item in outputs)
    new = sum(len(item.outputs[0].token_ids) for item in outputs)
    print(f"\n=== {job.title}", flush=True)
    for chat, item in list(zip(job.chats, outputs, strict=True))[:4]:
        question = chat[-1]["content"].splitlines()[-1]
        print(f"  Q: {question}\n  A: {item.outputs[0].text.strip()}")
    if len(outputs) > 4:
        print(f"  ... and {len(outputs) - 4} more")
    print(
        f"  {prompt} prompt tokens ({cached} from the prefix cache), {new} new tokens in {seconds:.1f} s: "
        f"{(prompt - cached + new) / seconds:.1f} computed tokens/s, {new / seconds:.1f} new tokens/s",
        flush=True,
    )
    return outputs


def report_backend(calls: dict[str, int]) -> bool:
    """Prints the call counters; returns whether they prove that our attention ran."""
    print("\n=== which attention ran\n  backend: HYGON_ATTN (hygon_backend)")
    for name, count in calls.items():
        print(f"  {count:6d} calls of {name}")
    return all(any(name.startswith(op) for name in calls) for op in ("paged_decode", "prefix_prefill"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; the exit code is 0 only if the answers and the counters are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of the model, as made by tools/make_model.py")
    options = parser.parse_args(arguments)

    # In this process: the counters can be read directly, and nothing is fetched from anywhere.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)  # torch's, at every look into its modules
    print("Starting stock vLLM (a few seconds, more on the first run) ...", flush=True)
    import vllm

    start = time.perf_counter()
    llm = vllm.LLM(
        model=options.model,
        dtype="float32",
        max_model_len=MAX_MODEL_LEN,
        block_size=BLOCK_SIZE,
        kv_cache_memory_bytes=KV_CACHE_BYTES,
        enforce_eager=True,
        attention_backend="HYGON_ATTN",
        seed=0,
    )
    print(f"vLLM {vllm.__version__} is ready after {time.perf_counter() - start:.1f} s", flush=True)
    answers = [run_job(llm, job, vllm.SamplingParams) for job in jobs()]

    if not report_backend(llm.collective_rpc("hygon_call_counters")[0]):
        print("FAILED: the call counters do not show our attention")
        return 1
    first, long, batch = ([item.outputs[0].text for item in outputs] for outputs in answers)
    if "Paris" not in first[0] or "Matilda" not in long[0] or not all(batch):
        print("FAILED: an answer is wrong")
        return 1
    if not sum(item.num_cached_tokens or 0 for item in answers[2]):
        print("FAILED: the shared system prompt gave no prefix-cache hit")
        return 1
    print("\nAll three scenes answered, attention by hygon_backend.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
