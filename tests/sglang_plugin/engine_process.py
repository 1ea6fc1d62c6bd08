"""Runs one SGLang engine in a process of its own: a job in JSON on stdin, answers in a JSON file.

An engine changes global state for good (platform, hooks, thread counts), so every configuration under
test gets a fresh interpreter. Within it, a job's steps run one after the other on the same engine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang import Engine


def generate(engine: Engine, step: dict[str, Any]) -> dict[str, Any]:
    """Generates greedily for `step["prompts"]` (token ids), all sent at once.

    Returns:
        the new tokens of each prompt, their log-probabilities, how many prompt tokens came from the
        prefix cache and how often the request was retracted.
    """
    sampling = {"temperature": 0, "max_new_tokens": step["max_tokens"]}
    outputs = engine.generate(input_ids=step["prompts"], sampling_params=sampling, return_logprob=True)
    info = [item["meta_info"] for item in outputs]
    return {
        "tokens": [item["output_ids"] for item in outputs],
        "logprobs": [[entry[0] for entry in item["output_token_logprobs"]] for item in info],
        "cached": [item["cached_tokens"] for item in info],
        "retractions": [item["num_retractions"] for item in info],
        "verifications": [item.get("spec_verify_ct") for item in info],
    }


def converse(engine: Engine, step: dict[str, Any]) -> list[dict[str, Any]]:
    """Holds a conversation: every turn's prompt is all that was said before and `turn`'s new tokens.

    Returns:
        per turn what `generate` does, the prompt and, under "cold", the same prompt's answer from an
        empty cache.
    """
    said: list[int] = []
    turns = []
    for turn in step["turns"]:
        said = said + turn
        answer = generate(engine, {"prompts": [said], "max_tokens": step["max_tokens"]})
        turns.append(answer | {"prompt": said})
        said = said + answer["tokens"][0]
    for turn in turns:
        assert engine.flush_cache().success
        turn["cold"] = generate(engine, {"prompts": [turn["prompt"]], "max_tokens": step["max_tokens"]})
    return turns


def state(engine: Engine, step: dict[str, Any]) -> dict[str, Any]:
    """What the scheduler says about itself."""
    inner = engine.get_server_info()["internal_states"][0]
    names = ("hygon_backend_calls", "page_size", "attention_backend", "kv_cache_dtype")
    return {name: inner[name] for name in names}


STEPS = {"generate": generate, "converse": converse, "state": state}


def run(job: dict[str, Any]) -> list[Any]:
    """Starts an engine, runs the steps and returns their answers."""
    import sglang

    engine = sglang.Engine(**job["engine"])
    answers = [STEPS[step["do"]](engine, step) for step in job["steps"]]
    engine.shutdown()
    return answers


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(run(json.load(sys.stdin))))
