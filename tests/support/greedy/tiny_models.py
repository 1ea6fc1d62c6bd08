"""Tiny random models whose attention is not plain, saved for an engine to load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from support.greedy.transformers_reference import TransformersReference

LOGPROB_ERROR = 1e-3
VOCABULARY = 256
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def gemma2() -> PreTrainedModel:
    """Alternating sliding windows of 32 and full attention, logit softcap.

    Its final logits go uncapped: SGLang has no form of that cap for the CPU.
    """
    config = Gemma2Config(
        **COMMON, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, sliding_window=32, attn_logit_softcapping=5.0,
        final_logit_softcapping=None,
        query_pre_attn_scalar=32, max_position_embeddings=512,
    )  # fmt: skip
    return Gemma2ForCausalLM(config)


def gemma3() -> PreTrainedModel:
    """Two layers with a sliding window of 32, one with full attention; one KV head."""
    config = Gemma3TextConfig(
        **COMMON, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=1, head_dim=32, sliding_window=32, query_pre_attn_scalar=32,
        max_position_embeddings=512,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )  # fmt: skip
    return Gemma3ForCausalLM(config)


def mistral() -> PreTrainedModel:
    """A sliding window of 48 in every layer, 7 query heads on one KV head."""
    config = MistralConfig(
        **COMMON, hidden_size=224, intermediate_size=256, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, head_dim=32, sliding_window=48, max_position_embeddings=512,
    )  # fmt: skip
    return MistralForCausalLM(config)


def bloom() -> PreTrainedModel:
    """ALiBi instead of position embeddings."""
    model = BloomForCausalLM(BloomConfig(**COMMON, hidden_size=128, n_layer=2, n_head=4))
    # Or else the output, tied to the input, is little but the last token itself.
    model.transformer.word_embeddings_layernorm.weight.data.fill_(0.1)
    return model


def llama_wide() -> PreTrainedModel:
    """Head size 256 and five query heads a KV head."""
    config = LlamaConfig(
        **COMMON, hidden_size=160, intermediate_size=256, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=256, max_position_embeddings=512,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def make_model(make: Callable[[], PreTrainedModel], folder: Path) -> TransformersReference:
    """Saves a random model whose logits are spread enough to have clear winners."""
    torch.manual_seed(11)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.15)
        # Tied to the output layer: were it as large, every token would predict itself.
        model.get_input_embeddings().weight.normal_(0, 0.02)
    model.save_pretrained(folder)
    # Its "sdpa" attention would leave Gemma2's softcap out, without a word.
    return TransformersReference(folder, attention="eager")


def draw_prompts() -> list[list[int]]:
    """Random prompts, shorter and longer than the models' windows."""
    generator = torch.Generator().manual_seed(5)
    return [
        torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()
        for length in (1, 7, 33, 64, 150)
    ]


def check_run(
    reference: TransformersReference,
    prompts: list[list[int]],
    tokens: list[list[int]],
    logprobs: list[list[float]],
) -> None:
    """Asserts that an engine's greedy tokens and their log-probabilities are transformers'."""
    for prompt, new, found in zip(prompts, tokens, logprobs, strict=True):
        name = f"prompt of {len(prompt)} tokens"
        reference.check_greedy(name, prompt, reference.generate(prompt, len(new)), new)
        # Random models fall into repetition, where a small fault changes no token; it shows here.
        errors = reference.logprobs(prompt, new) - torch.tensor(found)
        assert errors.abs().max() < LOGPROB_ERROR, name


def check_narrow(
    model_dir: Path,
    prompts: list[list[int]],
    tokens: list[list[int]],
    logprobs: list[list[float]],
    allowed: float,
) -> None:
    """Asserts that a run in narrow types is by and large as sure of its tokens as float32 is."""
    exact = TransformersReference(model_dir)
    for prompt, new, found in zip(prompts, tokens, logprobs, strict=True):
        errors = (exact.logprobs(prompt, new) - torch.tensor(found)).abs()
        assert errors.mean() < allowed, (new, errors)
