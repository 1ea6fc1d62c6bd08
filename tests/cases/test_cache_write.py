"""`write_kv`, `copy_blocks` and `gather_kv`: every byte of the pool is accounted for."""

import copy

import pytest
import torch
from support.backends import Backend
from support.bits import bits, same_bits, storage_bytes
from support.paging import PoolStyle, make_pool, page
from support.problem import cu_seqlens, dequantise, make_problem

from hygon_backend import reference
from hygon_backend.kv_layout import KVLayout

LAYOUTS = list(KVLayout)
STYLES = {
    "dense": PoolStyle(),
    "interleaved": PoolStyle(interleaved=True),
    "layered": PoolStyle(interleaved=True, page_gap=80),
    "padded": PoolStyle(row_gap=3),
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]

styles = pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())


def slots_of(block_table: torch.Tensor, lengths: list[int], block_size: int) -> torch.Tensor:
    """Slot of every token of every sequence, packed."""
    slots = [
        int(block_table[row, t // block_size]) * block_size + t % block_size
        for row, length in enumerate(lengths)
        for t in range(length)
    ]
    return torch.tensor(slots, dtype=torch.int64)


@styles
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_written_tokens_land_in_their_slots_and_nowhere_else(
    backend: Backend, layout: KVLayout, style: PoolStyle, index_dtype: torch.dtype
) -> None:
    lengths = [13, 1, 0, 8]
    problem = make_problem([1] * 4, lengths, heads=(2, 2), head_size=16, head_size_v=8, dtype=torch.bfloat16)
    want = page(problem, layout, 4, style=style)
    num_blocks = want.k_cache.shape[0]
    caches = make_pool(num_blocks, 4, problem.k[0], problem.v[0], layout, style)
    k_cache, v_cache = backend.adopt_all(*caches)
    slots = slots_of(want.block_table, lengths, 4).to(index_dtype)
    # Tokens arrive in any order, as slices of a packed QKV row, with padding rows to skip.
    order = torch.randperm(len(slots), generator=torch.Generator().manual_seed(1))
    slots = torch.cat([slots[order], torch.tensor([-1, -5], dtype=index_dtype)])
    rows = torch.cat(
        [torch.cat([torch.cat(problem.k), torch.cat(problem.v)], 2)[order], torch.ones(2, 2, 24)]
    )
    packed = torch.cat([torch.full((len(rows), 7), 9.0), rows.flatten(1)], 1).bfloat16()
    k, v = packed[:, 7:].unflatten(1, (2, 24)).split([16, 8], dim=2)
    backend.ops.write_kv(
        backend.adopt(k),
        backend.adopt(v),
        k_cache,
        v_cache,
        backend.adopt(slots),
        layout=layout,
        validate=True,
    )
    for written, expected in ((k_cache, want.k_cache), (v_cache, want.v_cache)):
        assert torch.equal(storage_bytes(written), storage_bytes(expected))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16])
def test_stored_elements_are_those_of_the_reference(
    backend: Backend, layout: KVLayout, dtype: torch.dtype, source: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(5)
    k, v = ((torch.randn(9, 3, 16, generator=generator) * 100).to(source) for _ in range(2))
    scales = {"k_scale": 0.25, "v_scale": torch.tensor([0.5, 2.0, 1.0])} if dtype.itemsize == 1 else {}
    slots = torch.tensor([3, 0, 11, 7, -1, 8, 2, 5, 1])
    empty = make_pool(3, 4, k.to(dtype), v.to(dtype), layout, PoolStyle())
    want = [x.clone() for x in empty]
    reference.write_kv(k, v, *want, slots, layout=layout, **scales)
    got = [backend.adopt(x) for x in empty]
    backend.ops.write_kv(
        *(backend.adopt(x) for x in (k, v)),
        *got,
        backend.adopt(slots),
        layout=layout,
        **{name: backend.adopt_optional(scale) for name, scale in scales.items()},
    )
    assert same_bits(got[0].cpu(), want[0])
    assert same_bits(got[1].cpu(), want[1])


def test_nothing_to_write(backend: Backend) -> None:
    caches = [backend.adopt(torch.ones(2, 4, 1, 8)) for _ in range(2)]
    tokens = backend.adopt(torch.ones(2, 1, 8))
    for count, slot in ((0, 0), (2, -1)):
        slots = backend.adopt(torch.full((count,), slot))
        backend.ops.write_kv(tokens[:count], tokens[:count], *caches, slots)
    assert all(bool((cache == 1).all()) for cache in caches)


@styles
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copied_pages_are_bitwise_equal_and_the_others_untouched(
    backend: Backend, layout: KVLayout, dtype: torch.dtype, style: PoolStyle
) -> None:
    like = torch.empty(1, 2, 16, dtype=dtype)
    caches = [cache for _ in range(2) for cache in make_pool(7, 4, like, like, layout, style)]
    for index, cache in enumerate(caches):
        bits(cache).copy_(torch.arange(cache.numel()).reshape(cache.shape) * (index + 3))
    want = copy.deepcopy(caches)
    for cache in want:
        bits(cache).copy_(bits(cache)[torch.tensor([0, 6, 2, 6, 4, 2, 6])])
    # Page 6 is the source of two rows, as when a fork has two children.
    mapping = torch.tensor([[6, 1], [6, 3], [2, 5]], dtype=torch.int32)
    on_device = backend.adopt_all(*caches)
    backend.ops.copy_blocks(on_device, backend.adopt(mapping), validate=True)
    for copied, expected in zip(on_device, want, strict=True):
        assert torch.equal(storage_bytes(copied), storage_bytes(expected))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("step", [1, 2])
def test_copied_pages_may_have_any_type_and_stride(backend: Backend, dtype: torch.dtype, step: int) -> None:
    flat = torch.arange(5 * 3 * 6 * 10) % 251
    cache = flat.to(dtype).reshape(5, 3, 6, 10).transpose(1, 2)[:, ::step, :, 1:9:step]
    want = copy.deepcopy(cache)
    want[4] = cache[0]
    want[2] = cache[1]
    # A mapping cut from a wider table.
    mapping = torch.tensor([[0, 9, 4], [1, 9, 2]])[:, ::2]
    (copied,) = backend.adopt_all(cache)
    backend.ops.copy_blocks([copied], backend.adopt(mapping), validate=True)
    assert torch.equal(storage_bytes(copied), storage_bytes(want))


def test_more_than_65535_copied_pages(backend: Backend) -> None:
    cache = backend.adopt(torch.arange(2 * 66_000.0).reshape(-1, 1, 1, 1))
    page_id = torch.arange(66_000)
    backend.ops.copy_blocks([cache], backend.adopt(torch.stack([page_id, page_id + 66_000], 1)))
    assert torch.equal(cache.cpu().flatten(), torch.arange(66_000.0).repeat(2))


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_an_empty_copy_list_is_legal(backend: Backend, index_dtype: torch.dtype) -> None:
    cache = backend.adopt(torch.arange(24.0).reshape(3, 4, 1, 2))
    mapping = backend.adopt(torch.empty(0, 2, dtype=index_dtype))
    backend.ops.copy_blocks([cache], mapping, validate=True)
    assert cache.flatten().tolist() == list(range(24))


@styles
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gathered_tokens_are_the_written_ones(backend: Backend, layout: KVLayout, style: PoolStyle) -> None:
    lengths = [13, 0, 1, 8]
    problem = make_problem([1] * 4, lengths, heads=(2, 2), head_size=16, head_size_v=8, dtype=torch.bfloat16)
    paged = page(problem, layout, 4, style=style)
    arrays = (paged.k_cache, paged.v_cache, paged.block_table, paged.seq_lens)
    keys, values, cu = backend.ops.gather_kv(
        *(backend.adopt(x) for x in arrays), layout=layout, validate=True
    )
    assert same_bits(keys.cpu(), torch.cat(problem.k))
    assert same_bits(values.cpu(), torch.cat(problem.v))
    assert torch.equal(cu.cpu(), cu_seqlens(lengths))


def test_gathering_nothing_keeps_shapes_and_types(backend: Backend) -> None:
    problem = make_problem([1, 1], [0, 0], heads=(2, 2), head_size=16, head_size_v=8, dtype=torch.float16)
    for layout in LAYOUTS:
        paged = page(problem, layout, 4)
        arrays = (paged.k_cache, paged.v_cache, paged.block_table, paged.seq_lens)
        keys, values, cu = backend.ops.gather_kv(*(backend.adopt(x) for x in arrays), layout=layout)
        assert (keys.shape, values.shape) == ((0, 2, 16), (0, 2, 8))
        assert keys.dtype is values.dtype is torch.float16
        assert cu.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("asked", "given"), [(None, torch.float32), (torch.bfloat16, torch.bfloat16)])
def test_gathered_fp8_is_dequantised(backend: Backend, asked: torch.dtype | None, given: torch.dtype) -> None:
    scale = torch.tensor([0.25, 1.5])
    problem = make_problem(
        [1, 1], [5, 2], heads=(2, 2), cache_dtype=torch.float8_e4m3fn, k_scale=0.5, v_scale=scale
    )
    paged = page(problem, KVLayout.BHSD_VT, 4)
    arrays = (paged.k_cache, paged.v_cache, paged.block_table, paged.seq_lens)
    keys, values, _ = backend.ops.gather_kv(
        *(backend.adopt(x) for x in arrays),
        layout="bhsd_vt",
        k_scale=0.5,
        v_scale=backend.adopt(scale),
        dtype=asked,
    )
    assert torch.equal(keys.cpu(), dequantise(torch.cat(problem.k), 0.5, given))
    assert torch.equal(values.cpu(), dequantise(torch.cat(problem.v), scale, given))


def test_document_example_gathers_the_listed_slots(backend: Backend) -> None:
    """Source document, section 3.3: `kv_indices` and `kv_indptr` of three requests, page size 1."""
    kv_indices = [108, 109, 110, 111, 42, 43, 201, 202, 203, 80, 81, 82, 83, 84, 99]
    kv_indptr = [0, 6, 9, 15]
    cache = torch.arange(256.0).reshape(256, 1, 1, 1)
    table = torch.full((3, 6), -1, dtype=torch.int32)
    for row in range(3):
        slots = kv_indices[kv_indptr[row] : kv_indptr[row + 1]]
        table[row, : len(slots)] = torch.tensor(slots)
    arrays = (cache, cache + 0.5, table, torch.tensor([6, 3, 6]))
    keys, values, cu = backend.ops.gather_kv(*(backend.adopt(x) for x in arrays))
    assert keys.flatten().tolist() == kv_indices
    assert values.flatten().tolist() == [slot + 0.5 for slot in kv_indices]
    assert cu.tolist() == kv_indptr
