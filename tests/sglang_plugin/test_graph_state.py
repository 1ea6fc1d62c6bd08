"""Captured batches: fixed addresses, nothing read back to the host, replays see new requests."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from torch.utils._python_dispatch import TorchDispatchMode

from hygon_backend.errors import InvalidArgumentError, UnsupportedError
from tests.sglang_plugin.scene import MAX_CONTEXT, Scene, error
from tests.sglang_plugin.test_verify import DRAFT, full_mask, trees, verify_input

MAX_BATCH = 6
TOLERANCE = 1e-5


class NoHostReads(TorchDispatchMode):
    """Fails on what a graph cannot record: a value read on the host, or a shape that depends on one."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "unique", "masked_select", "item", "_to_copy_cpu")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204 (torch's)
        name = str(func)
        assert not any(word in name for word in self.FORBIDDEN), f"{name} waits for the device"
        return func(*args, **(kwargs or {}))


def captured(scene: Scene, mode: ForwardMode, spec_info: object = None) -> SimpleNamespace:
    """SGLang's static batch of a capture: tensors that every replay overwrites."""
    batch = scene.batch(mode, spec_info=spec_info)
    backend = scene.backend
    backend.init_cuda_graph_state(MAX_BATCH, MAX_BATCH * DRAFT)
    backend.init_forward_metadata_out_graph(batch, in_capture=True)
    with NoHostReads():
        backend.init_forward_metadata_in_graph(batch)
    return batch


def addresses(scene: Scene) -> dict[str, int]:
    """Where the tensors of the active metadata lie."""
    meta = vars(scene.backend.forward_metadata)
    return {name: value.data_ptr() for name, value in meta.items() if isinstance(value, torch.Tensor)}


def test_the_guard_notices_a_host_read() -> None:
    with NoHostReads(), pytest.raises(AssertionError, match="waits for the device"):
        torch.ones(1).item()


@pytest.mark.parametrize("page_size", [1, 16])
def test_decode_replays_with_other_requests(page_size: int) -> None:
    scene = Scene(prefix=[30, 61, 7], extend=[1, 1, 1], page_size=page_size)
    static = captured(scene, ForwardMode.DECODE)
    assert error(scene.forward(static), scene.expected()) < TOLERANCE
    before = addresses(scene)

    other = Scene(prefix=[100, 3, 15], extend=[1, 1, 1], page_size=page_size, seed=1)
    for name in ("req_pool_indices", "seq_lens", "out_cache_loc"):
        getattr(static, name).copy_(getattr(other.batch(ForwardMode.DECODE), name))
    scene.runner.req_to_token_pool.req_to_token.copy_(other.runner.req_to_token_pool.req_to_token)
    for mine, theirs in zip(scene.pool.get_kv_buffer(0), other.pool.get_kv_buffer(0), strict=True):
        mine.copy_(theirs)
    scene.q, scene.k, scene.v = other.q, other.k, other.v
    scene.backend.init_forward_metadata_out_graph(copy.copy(static))
    assert addresses(scene) == before
    scene.backend.init_forward_metadata_in_graph(static)  # what the replayed graph does
    assert error(scene.forward(static), other_expected(other)) < TOLERANCE


def other_expected(scene: Scene) -> torch.Tensor:
    """The answer of a scene that runs eagerly."""
    scene.run(scene.batch(ForwardMode.DECODE))
    return scene.expected()


def test_padded_requests_read_one_dummy_key() -> None:
    scene = Scene(prefix=[30, 0], extend=[1, 1])
    static = captured(scene, ForwardMode.DECODE)
    for buffer in scene.pool.get_kv_buffer(0):
        buffer[:16] = 0  # SGLang's dummy page
    static.req_pool_indices[1] = 0
    static.seq_lens[1] = scene.backend.get_cuda_graph_seq_len_fill_value()
    static.out_cache_loc[1] = 0
    scene.runner.req_to_token_pool.req_to_token[0] = 0
    scene.backend.init_forward_metadata_out_graph(static)
    scene.backend.init_forward_metadata_in_graph(static)
    out = scene.forward(static)
    assert torch.isfinite(out).all()
    assert error(out[:1], scene.expected()[:1]) < TOLERANCE


@pytest.mark.parametrize("in_place", [True, False])
def test_verification_reads_the_mask_of_each_replay(in_place: bool) -> None:
    prefix = [33, 2, 17]
    masks = trees(3)
    scene = Scene(prefix=prefix, extend=[DRAFT] * 3, draft_tokens=DRAFT)
    chain = torch.ones_like(masks).tril()
    static = captured(scene, ForwardMode.TARGET_VERIFY, verify_input(full_mask(chain, prefix)))
    assert error(scene.forward(static), scene.expected(mask=chain)) < TOLERANCE
    before = addresses(scene)

    buffer = scene.backend.verify_mask
    assert buffer is not None
    assert buffer.fits(MAX_BATCH)
    assert not buffer.fits(MAX_BATCH + 1)
    assert buffer.buffer.numel() == MAX_BATCH * DRAFT * (MAX_CONTEXT + DRAFT)
    mask = full_mask(masks, prefix)
    if in_place:  # the draft stage's kernel has written it there
        buffer.buffer[: mask.shape[0]] = mask
        mask = buffer.buffer
    static.spec_info = verify_input(mask)
    scene.backend.init_forward_metadata_out_graph(static)
    assert addresses(scene) == before
    with NoHostReads():
        scene.backend.init_forward_metadata_in_graph(static)
    assert error(scene.forward(static), scene.expected(mask=masks)) < TOLERANCE
    scene.backend.update_verify_buffers_to_fill_after_draft(static.spec_info, None)


def test_draft_extend_replays() -> None:
    scene = Scene(prefix=[33, 12], extend=[DRAFT, DRAFT], draft_tokens=DRAFT)
    static = captured(scene, ForwardMode.DRAFT_EXTEND_V2, SimpleNamespace(num_tokens_per_req=DRAFT))
    assert error(scene.forward(static), scene.expected()) < TOLERANCE


def test_no_mask_buffer_without_draft_tokens() -> None:
    scene = Scene(prefix=[3], extend=[1])
    assert scene.backend.verify_mask is None
    captured(scene, ForwardMode.DECODE)
    assert scene.backend.verify_mask is None


def test_what_cannot_be_captured_is_named() -> None:
    scene = Scene(prefix=[3], extend=[4])
    batch = scene.batch(ForwardMode.EXTEND)
    with pytest.raises(UnsupportedError, match="init_cuda_graph_state was not called"):
        scene.backend.init_forward_metadata_out_graph(batch)
    scene.backend.init_cuda_graph_state(2, 2)
    with pytest.raises(UnsupportedError, match="forward mode EXTEND cannot run in a full graph"):
        scene.backend.init_forward_metadata_out_graph(batch, in_capture=True)
    many = Scene(prefix=[3] * 3, extend=[1] * 3)
    many.backend.init_cuda_graph_state(2, 2)
    with pytest.raises(InvalidArgumentError, match="the batch size is 3, but must be at most 2"):
        many.backend.init_forward_metadata_out_graph(many.batch(ForwardMode.DECODE))


def test_nothing_on_the_host_is_needed() -> None:
    scene = Scene(prefix=[3], extend=[1])
    assert scene.backend.needs_cpu_seq_lens is False
    assert scene.backend.support_triton() is False
