"""The demo: stock SGLang answers three kinds of prompts through hygon_backend, on this machine's CPU.

Run by `make demo-sglang`, which makes the environment and the model first.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence

from demo_scenes import (
    KV_CACHE_TOKENS,
    MAX_MODEL_LEN,
    PAGE_SIZE,
    Answer,
    Chat,
    read_model_folder,
    run_demo,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; the exit code is 0 only if the answers and the counters are right."""
    model = read_model_folder(__doc__, arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # SGLang warns about kernels that need a card, in each of its processes.
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    warnings.simplefilter("ignore")
    print("Starting stock SGLang (about 20 seconds, more on the first run) ...", flush=True)
    import sglang

    start = time.perf_counter()
    engine = sglang.Engine(
        model_path=model,
        dtype="float32",
        context_length=MAX_MODEL_LEN,
        page_size=PAGE_SIZE,
        max_total_tokens=KV_CACHE_TOKENS,
        attention_backend="hygon",
        random_seed=0,
        log_level="error",
    )
    print(f"SGLang {sglang.__version__} is ready after {time.perf_counter() - start:.1f} s", flush=True)
    tokenizer = engine.tokenizer_manager.tokenizer

    def chat(chats: list[Chat], max_tokens: int) -> list[Answer]:
        # SGLang computes all prompts that arrive together before it caches any: one goes ahead, and the
        # others find its prefix.
        return [*answer(chats[:1], max_tokens), *(answer(chats[1:], max_tokens) if chats[1:] else [])]

    def answer(chats: list[Chat], max_tokens: int) -> list[Answer]:
        prompts = [
            tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            for messages in chats
        ]
        sampling = {"temperature": 0, "max_new_tokens": max_tokens}
        return [
            Answer(
                text=item["text"],
                prompt_tokens=item["meta_info"]["prompt_tokens"],
                cached_tokens=item["meta_info"]["cached_tokens"],
                new_tokens=item["meta_info"]["completion_tokens"],
            )
            for item in engine.generate(input_ids=prompts, sampling_params=sampling)
        ]

    def read_calls() -> dict[str, int]:
        calls: dict[str, int] = engine.get_server_info()["internal_states"][0]["hygon_backend_calls"]
        return calls

    try:
        return run_demo(chat, "hygon", read_calls)
    finally:
        engine.shutdown()


# SGLang starts its processes by importing this file again.
if __name__ == "__main__":
    raise SystemExit(main())
