"""Models whose attention is not plain: tiny random ones, stock vLLM against transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
)

from tests.vllm_plugin.engines import run_engine
from tests.vllm_plugin.transformers_reference import TransformersReference

# Not settled yet (docs/verification.md): kept out of the default run until every model agrees.
pytestmark = pytest.mark.full

NEW_TOKENS = 24
VOCABULARY = 256
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def gemma2() -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    """Alternating sliding windows of 32 and full attention, logit softcap."""
    config = Gemma2Config(
        **COMMON, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, sliding_window=32, attn_logit_softcapping=5.0,
        query_pre_attn_scalar=32, max_position_embeddings=512,
    )  # fmt: skip
    return config, Gemma2ForCausalLM


def mistral() -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    """A sliding window of 48 in every layer, 7 query heads on one KV head."""
    config = MistralConfig(
        **COMMON, hidden_size=224, intermediate_size=256, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, head_dim=32, sliding_window=48, max_position_embeddings=512,
    )  # fmt: skip
    return config, MistralForCausalLM


def bloom() -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    """ALiBi instead of position embeddings."""
    return BloomConfig(**COMMON, hidden_size=128, n_layer=2, n_head=4), BloomForCausalLM


def llama_wide() -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    """Head size 256 and five query heads a KV head."""
    config = LlamaConfig(
        **COMMON, hidden_size=160, intermediate_size=256, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=256, max_position_embeddings=512,
    )  # fmt: skip
    return config, LlamaForCausalLM


MODELS = [gemma2, mistral, bloom, llama_wide]


def make_model(
    make: Callable[[], tuple[PretrainedConfig, type[PreTrainedModel]]], folder: Path
) -> TransformersReference:
    """Saves a random model whose logits are spread enough to have clear winners."""
    torch.manual_seed(11)
    config, model_class = make()
    model = model_class(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.15)
    model.save_pretrained(folder)
    return TransformersReference(folder)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_greedy_tokens_equal_transformers(
    make: Callable[[], tuple[PretrainedConfig, type[PreTrainedModel]]], tmp_path: Path
) -> None:
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
    for index, (prompt, tokens) in enumerate(zip(prompts, result["passes"][0]["tokens"], strict=True)):
        expected = reference.generate(prompt, NEW_TOKENS)
        assert len(set(expected)) > 4, "a model that repeats itself proves little"
        reference.check_greedy(f"prompt {index}", prompt, expected, tokens)


@pytest.mark.parametrize("kv_cache_dtype", ["fp8_e4m3", "fp8_e5m2", "bfloat16"])
def test_narrow_caches_answer_nearly_like_the_full_one(kv_cache_dtype: str, model_dir: Path) -> None:
    """A rounded cache may change an answer, but not the one to an easy question."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    result = run_engine(
        model_dir, [prompt], max_tokens=8, max_model_len=256, kv_cache_dtype=kv_cache_dtype, block_size=16
    )
    assert "Paris" in tokenizer.decode(result["passes"][0]["tokens"][0])
