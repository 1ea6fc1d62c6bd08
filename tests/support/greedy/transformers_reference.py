"""What transformers generates for the same weights: the independent truth for engine outputs."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

TIE_GAP = 1e-4
"""Two tokens whose float32 logits are closer than this are a tie: either is a right greedy choice."""


class TransformersReference:
    """Greedy generation and tie analysis with a model loaded once, in float32."""

    def __init__(self, model_dir: Path, *, attention: str = "sdpa") -> None:
        self.model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            model_dir, dtype=torch.float32, attn_implementation=attention
        )
        self.model.eval()

    @torch.inference_mode()
    def generate(self, prompt: list[int], max_tokens: int) -> list[int]:
        """The `max_tokens` greedy tokens after `prompt`, end-of-text not special."""
        output = self.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=max_tokens,
            min_new_tokens=max_tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return output[0, len(prompt) :].tolist()

    def logit_gaps(self, prompt: list[int], tokens: list[int]) -> torch.Tensor:
        """How far each of `tokens` lies below the best token of its position: `[len(tokens)]`, >= 0."""
        logits = self._logits(prompt, tokens)
        return logits.max(1).values - logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]

    def logprobs(self, prompt: list[int], tokens: list[int]) -> torch.Tensor:
        """Natural-log probability of each of `tokens` after the ones before it: `[len(tokens)]`."""
        logits = self._logits(prompt, tokens)
        return logits.log_softmax(1).gather(1, torch.tensor(tokens)[:, None])[:, 0]

    @torch.inference_mode()
    def _logits(self, prompt: list[int], tokens: list[int]) -> torch.Tensor:
        """Logits of the positions at which `tokens` were chosen: `[len(tokens), vocabulary]`."""
        ids = torch.tensor([prompt + tokens[:-1]])
        return self.model(ids, logits_to_keep=len(tokens)).logits[0].float()

    def check_greedy(self, name: str, prompt: list[int], expected: list[int], actual: list[int]) -> None:
        """Asserts that `actual` is `expected`, or differs only where the choice was a tie.

        Once a tie broke the other way the texts part, so from there on each token is judged by the
        logits after the tokens before it.
        """
        if actual == expected:
            return
        assert len(actual) == len(expected), f"{name}: {len(actual)} tokens instead of {len(expected)}"
        gaps = self.logit_gaps(prompt, actual)
        worst = int(gaps.argmax())
        assert gaps[worst] < TIE_GAP, (
            f"{name}: token {worst} is {actual[worst]}, {gaps[worst]:.2e} below the best logit; "
            f"expected {expected[: worst + 1]}, got {actual[: worst + 1]}"
        )
