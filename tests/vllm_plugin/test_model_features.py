"""Models whose attention is not plain: tiny random ones, stock vLLM against transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.greedy.prompts import CHATS
from support.greedy.transformers_reference import TransformersReference
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from tests.vllm_plugin.engines import run_engine

NEW_TOKENS = 24
LOGPROB_ERROR = 1e-3
VOCABULARY = 256
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def gemma2() -> PreTrainedModel:
    """Alternating sliding windows of 32 and full attention, logit softcap."""
    config = Gemma2Config(
        **COMMON, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, sliding_window=32, attn_logit_softcapping=5.0,
        query_pre_attn_scalar=32, max_position_embeddings=512,
    )  # fmt: skip
    return Gemma2ForCausalLM(config)


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


MODELS = [gemma2, mistral, bloom, llama_wide]


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


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_greedy_tokens_equal_transformers(make: Callable[[], PreTrainedModel], tmp_path: Path) -> None:
    reference = make_model(make, tmp_path)
    generator = torch.Generator().manual_seed(5)
    prompts = [
        torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()
        for length in (1, 7, 33, 64, 150)
    ]
    result = run_engine(
        tmp_path,
        prompts,
        max_tokens=NEW_TOKENS,
        skip_tokenizer_init=True,
        max_model_len=256,
        max_num_batched_tokens=64,
        max_num_seqs=8,
        block_size=16,
        kv_cache_memory_bytes=1 << 27,
    )
    run = result["passes"][0]
    for prompt, tokens, logprobs in zip(prompts, run["tokens"], run["logprobs"], strict=True):
        name = f"prompt of {len(prompt)} tokens"
        reference.check_greedy(name, prompt, reference.generate(prompt, NEW_TOKENS), tokens)
        # Random models fall into repetition, where a small fault changes no token; it shows here.
        errors = reference.logprobs(prompt, tokens) - torch.tensor(logprobs)
        assert errors.abs().max() < LOGPROB_ERROR, name


@pytest.mark.parametrize(
    ("dtype", "kv_cache_dtype", "allowed"),
    [
        ("bfloat16", "bfloat16", 0.1),
        pytest.param("float16", "auto", 0.01, marks=pytest.mark.full),
        ("float32", "fp8_e4m3", 0.2),
        pytest.param("float32", "fp8_e5m2", 0.4, marks=pytest.mark.full),
    ],
)
def test_narrow_types_are_nearly_as_sure_as_float32(
    dtype: str, kv_cache_dtype: str, allowed: float, model_dir: Path
) -> None:
    """Rounding may change an answer, but by and large not how probable the model finds its tokens.

    `allowed` bounds the mean change of the log-probability: about twice of what was seen, for bfloat16
    three times the change in transformers' own bfloat16.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in CHATS[:4]
    ]
    result = run_engine(
        model_dir, prompts, max_tokens=NEW_TOKENS, max_model_len=256, block_size=16, dtype=dtype,
        kv_cache_dtype=kv_cache_dtype,
    )  # fmt: skip
    run = result["passes"][0]
    exact = TransformersReference(model_dir)
    for prompt, tokens, logprobs in zip(prompts, run["tokens"], run["logprobs"], strict=True):
        errors = (exact.logprobs(prompt, tokens) - torch.tensor(logprobs)).abs()
        assert errors.mean() < allowed, (tokenizer.decode(tokens), errors)
