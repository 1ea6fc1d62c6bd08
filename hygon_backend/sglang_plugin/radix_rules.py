"""What the token-granular radix cache can serve, and the sentence that refuses what it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from sglang.srt.runtime_context import get_disagg, get_memory, get_parallel, get_spec

from hygon_backend.cache.radix_cache import Policy
from hygon_backend.sglang_plugin.registration import BACKEND_NAME
from hygon_backend.sglang_plugin.support import explain_pool

if TYPE_CHECKING:
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext

_NAME = f"--radix-cache-backend {BACKEND_NAME}"

_REMEDY = "leave --radix-cache-backend out to get SGLang's own cache"


def explain(context: TreeCacheBuildContext) -> str | None:
    """Returns the sentence that refuses an engine's configuration, or None when the cache can serve it."""
    reason = _unsupported_option(context)
    if reason is not None:
        return f"{_NAME} does not support {reason}: {_REMEDY}"
    policies = get_args(Policy)
    policy = context.params.eviction_policy.lower()
    if policy not in policies or context.params.eviction_policy_config:
        return (
            f"--radix-eviction-policy is {policy}, but {_NAME} supports {', '.join(policies)} without options"
        )
    allocator = context.params.token_to_kv_pool_allocator
    if allocator.page_size != context.params.page_size:
        return (
            f"the allocator's pages have {allocator.page_size} tokens and the cache's "
            f"{context.params.page_size}, but {_NAME} needs them to be the same"
        )
    return explain_pool(allocator.get_kvcache(), context.params.page_size)


def _unsupported_option(context: TreeCacheBuildContext) -> str | None:
    memory = get_memory()
    draft = get_spec().speculative_algorithm
    mode = get_disagg().disaggregation_mode
    unsupported = {
        "models with a sliding-window pool (--disable-hybrid-swa-memory gives them one pool)": (
            context.is_hybrid_swa
        ),
        "models with state-space layers": context.is_hybrid_ssm,
        "a hierarchical cache (--enable-hierarchical-cache)": context.enable_hierarchical_cache,
        "LMCache (--enable-lmcache)": memory.enable_lmcache,
        "FlexKV (--enable-flexkv)": memory.enable_flexkv,
        "an external cache linker": memory.enable_unified_cache_external_linker,
        "--enable-session-radix-cache": memory.enable_session_radix_cache,
        "KV cache events (--kv-events-config)": context.params.enable_kv_cache_events,
        f"speculative decoding ({draft})": context.params.is_eagle or draft is not None,
        f"disaggregation ({mode})": mode not in (None, "null"),
        "decode context parallelism": get_parallel().dcp_enabled,
        "attention context parallelism": context.params.attn_cp_size > 1,
    }
    return next((name for name, wanted in unsupported.items() if wanted), None)
