"""Runs one vLLM engine in a process of its own: JSON in on stdin, JSON out on the last line of stdout.

An engine changes global state for good (platform, thread counts, registered operators), so every
configuration under test gets a fresh interpreter.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Generates greedily for `job["prompts"]` (token ids), `job["passes"]` times over.

    Returns:
        per pass the new tokens, their log-probabilities and the cached-token count of each prompt,
        plus the engine's preemption counter and our call counters.
    """
    import vllm

    options = {"dtype": "float32", "enforce_eager": True, "seed": 0, "disable_log_stats": False}
    llm = vllm.LLM(**options | job["engine"])
    sampling = vllm.SamplingParams(
        temperature=0, max_tokens=job["max_tokens"], ignore_eos=True, detokenize=False, logprobs=0
    )
    prompts = [{"prompt_token_ids": prompt} for prompt in job["prompts"]]
    passes = []
    for _ in range(job["passes"]):
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        passes.append(
            {
                "tokens": [list(item.outputs[0].token_ids) for item in outputs],
                "logprobs": [
                    [next(iter(token.values())).logprob for token in item.outputs[0].logprobs]
                    for item in outputs
                ],
                "cached": [item.num_cached_tokens or 0 for item in outputs],
            }
        )
    metrics = {metric.name: getattr(metric, "value", None) for metric in llm.get_metrics()}
    return {
        "passes": passes,
        "preemptions": metrics["vllm:num_preemptions"],
        "calls": llm.collective_rpc("hygon_call_counters")[0],
        "block_size": llm.llm_engine.vllm_config.cache_config.block_size,
    }


if __name__ == "__main__":
    print("\n" + json.dumps(run(json.load(sys.stdin))), flush=True)
