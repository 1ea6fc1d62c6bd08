"""The demo: stock vLLM answers three kinds of prompts through hygon_backend, on this machine's CPU.

Run by `make demo`, which makes the environment and the model first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from demo_scenes import MAX_MODEL_LEN, PAGE_SIZE, Answer, Chat, read_model_folder, run_demo

KV_CACHE_BYTES = 1 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; the exit code is 0 only if the answers and the counters are right."""
    model = read_model_folder(__doc__, arguments)
    # In this process: the counters can be read directly, and nothing is fetched from anywhere.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print("Starting stock vLLM (a few seconds, more on the first run) ...", flush=True)
    import vllm

    start = time.perf_counter()
    llm = vllm.LLM(
        model=model,
        dtype="float32",
        max_model_len=MAX_MODEL_LEN,
        block_size=PAGE_SIZE,
        kv_cache_memory_bytes=KV_CACHE_BYTES,
        enforce_eager=True,
        attention_backend="HYGON_ATTN",
        seed=0,
    )
    print(f"vLLM {vllm.__version__} is ready after {time.perf_counter() - start:.1f} s", flush=True)

    def chat(chats: list[Chat], max_tokens: int) -> list[Answer]:
        sampling = vllm.SamplingParams(temperature=0, max_tokens=max_tokens)
        return [
            Answer(
                text=item.outputs[0].text,
                prompt_tokens=len(item.prompt_token_ids or []),
                cached_tokens=item.num_cached_tokens or 0,
                new_tokens=len(item.outputs[0].token_ids),
            )
            for item in llm.chat(chats, sampling, use_tqdm=False)
        ]

    return run_demo(chat, "HYGON_ATTN", lambda: llm.collective_rpc("hygon_call_counters")[0])


if __name__ == "__main__":
    raise SystemExit(main())
