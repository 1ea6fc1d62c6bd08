"""Shapes, views, offsets and conversion of `hygon_backend.kv_layout`."""

import itertools

import pytest
import torch
from support.bits import bits, same_bits
from support.paging import in_layout

from hygon_backend.errors import InvalidArgumentError
from hygon_backend.kv_layout import (
    CacheGeometry,
    KVLayout,
    convert,
    element_offset,
    geometry,
    pack_width,
    parse_layout,
    token_major_view,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
LAYOUTS = list(KVLayout)
PARTS = ["key", "value"]

SIZES = CacheGeometry(num_blocks=5, block_size=4, num_kv_heads=3, head_size=16, head_size_v=32)


def filled(sizes: CacheGeometry, layout: KVLayout, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A cache pair of random bytes."""
    caches = sizes.empty(layout, dtype)
    for cache in caches:
        cache.view(torch.uint8).random_(0, 256)
    return caches


class TestParseLayout:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_accepts_members_and_their_names(self, layout: KVLayout) -> None:
        assert parse_layout(layout) is layout
        assert parse_layout(str(layout)) is layout

    @pytest.mark.parametrize(("code", "layout"), [(0, "bhsd"), (1, "bshd"), (2, "bshd")])
    def test_accepts_vendor_codes(self, code: int, layout: str) -> None:
        assert parse_layout(code) is KVLayout(layout)

    @pytest.mark.parametrize("bad", ["hnd", "BSHD", "", 3, -1, None, True, False, 1.5])
    def test_rejects_anything_else_in_one_sentence(self, bad: object) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            parse_layout(bad)
        assert str(caught.value) == (
            f"layout is {bad!r}, but must be one of 'bshd', 'bhsd', 'bhsd_vt', 'x_packed', "
            "or a vendor code 0, 1 or 2"
        )


class TestShapes:
    @pytest.mark.parametrize(
        ("layout", "key", "value"),
        [
            ("bshd", (5, 4, 3, 16), (5, 4, 3, 32)),
            ("bhsd", (5, 3, 4, 16), (5, 3, 4, 32)),
            ("bhsd_vt", (5, 3, 4, 16), (5, 3, 32, 4)),
            ("x_packed", (5, 3, 2, 4, 8), (5, 3, 32, 4)),
        ],
    )
    def test_empty_allocates_the_documented_shapes(
        self, layout: str, key: tuple[int, ...], value: tuple[int, ...]
    ) -> None:
        k_cache, v_cache = SIZES.empty(layout, torch.bfloat16)
        assert (tuple(k_cache.shape), tuple(v_cache.shape)) == (key, value)
        for cache in (k_cache, v_cache):
            assert cache.is_contiguous()
            assert cache.dtype is torch.bfloat16
        assert geometry(k_cache, v_cache, KVLayout(layout)) == SIZES

    @pytest.mark.parametrize(
        ("dtype", "width"),
        [(torch.float32, 4), (torch.float16, 8), (torch.bfloat16, 8), (torch.float8_e4m3fn, 16)],
    )
    def test_pack_width_is_sixteen_bytes(self, dtype: torch.dtype, width: int) -> None:
        assert pack_width(dtype) == width
        assert SIZES.shape(KVLayout.X_PACKED, "key", dtype) == (5, 3, 16 // width, 4, width)

    def test_packed_keys_need_a_whole_number_of_packs(self) -> None:
        odd = CacheGeometry(1, 4, 1, 24, 24)
        assert odd.shape(KVLayout.X_PACKED, "key", torch.float16) == (1, 1, 3, 4, 8)
        assert odd.shape(KVLayout.X_PACKED, "value", torch.float8_e5m2) == (1, 1, 24, 4)
        with pytest.raises(InvalidArgumentError) as caught:
            odd.empty("x_packed", torch.float8_e5m2)
        assert str(caught.value) == (
            "head_size is 24, but must be a multiple of 16 for layout 'x_packed' with torch.float8_e5m2"
        )


class TestElementOffset:
    # Source document, section 1.3, with B = 4, H = 3, D = 16 (keys) or 32 (values), at
    # block P = 2, offset in the block 3, head 1, dimension 9.
    @pytest.mark.parametrize(
        ("layout", "part", "dtype", "expected"),
        [
            # P*B*H*D + offset*H*D + h*D + d
            ("bshd", "key", torch.float16, 2 * 192 + 3 * 48 + 1 * 16 + 9),
            ("bshd", "value", torch.float16, 2 * 384 + 3 * 96 + 1 * 32 + 9),
            # P*H*B*D + h*B*D + offset*D + d
            ("bhsd", "key", torch.float16, 2 * 192 + 1 * 64 + 3 * 16 + 9),
            ("bhsd", "value", torch.float16, 2 * 384 + 1 * 128 + 3 * 32 + 9),
            ("bhsd_vt", "key", torch.float16, 2 * 192 + 1 * 64 + 3 * 16 + 9),
            # P*H*D*B + h*D*B + d*B + offset
            ("bhsd_vt", "value", torch.float16, 2 * 384 + 1 * 128 + 9 * 4 + 3),
            ("x_packed", "value", torch.float16, 2 * 384 + 1 * 128 + 9 * 4 + 3),
            # P*H*D*B + h*D*B + (d // x)*B*x + offset*x + d % x
            ("x_packed", "key", torch.float32, 2 * 192 + 1 * 64 + 2 * 16 + 3 * 4 + 1),
            ("x_packed", "key", torch.float16, 2 * 192 + 1 * 64 + 1 * 32 + 3 * 8 + 1),
            ("x_packed", "key", torch.float8_e4m3fn, 2 * 192 + 1 * 64 + 0 * 64 + 3 * 16 + 9),
        ],
    )
    def test_formulas_of_the_document(
        self, layout: str, part: str, dtype: torch.dtype, expected: int
    ) -> None:
        where = {"block": 2, "token": 3, "head": 1, "dim": 9}
        assert element_offset(layout, part, **where, sizes=SIZES, dtype=dtype) == expected

    def test_byte_offset_past_four_gigabytes(self) -> None:
        # Half-precision pool of pages of 16 tokens, 8 heads of 128: 16,384 elements a page.
        sizes = CacheGeometry(200_000, 16, 8, 128, 128)
        where = {"block": 131_072, "token": 15, "head": 7, "dim": 127, "sizes": sizes}
        elements = element_offset("bshd", "key", **where, dtype=torch.float16)
        assert elements == 2_147_483_648 + 15_360 + 896 + 127
        assert elements * torch.float16.itemsize == 4_294_967_296 + 32_766

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_agrees_with_the_strides_of_a_real_cache(
        self, layout: KVLayout, part: str, dtype: torch.dtype
    ) -> None:
        k_cache, v_cache = SIZES.empty(layout, dtype)
        cache = k_cache if part == "key" else v_cache
        view = token_major_view(cache, layout, part)
        head_size = 16 if part == "key" else 32
        for block, token, head, dim in itertools.product((0, 1, 4), (0, 3), (0, 2), range(head_size)):
            element = view[block, token, head]
            element = element[dim] if element.dim() == 1 else element[divmod(dim, element.shape[1])]
            offset = element_offset(
                layout, part, block=block, token=token, head=head, dim=dim, sizes=SIZES, dtype=dtype
            )
            assert element.data_ptr() - cache.data_ptr() == offset * dtype.itemsize


class TestTokenMajorView:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_orders_the_axes_by_token_and_shares_the_storage(
        self, layout: KVLayout, part: str, dtype: torch.dtype
    ) -> None:
        pages = torch.empty(5, 4, 3, 16, dtype=dtype)
        pages.view(torch.uint8).random_(0, 256)
        cache = in_layout(pages, layout, part).contiguous()
        view = token_major_view(cache, layout, part)
        assert view.shape[:3] == (5, 4, 3)
        assert same_bits(view.flatten(3), pages)
        assert view.untyped_storage().data_ptr() == cache.untyped_storage().data_ptr()
        bits(view).zero_()
        assert not bits(cache).any()

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_keeps_the_strides_of_a_sliced_pool(self, layout: KVLayout) -> None:
        shape = SIZES.shape(layout, "key", torch.float16)
        pool = torch.arange(2 * SIZES.num_blocks * 4 * 3 * 16).reshape(5, 2, *shape[1:]).half()
        view = token_major_view(pool[:, 1], layout, "key")
        view[4, 3, 2].fill_(-1)
        assert (pool == -1).sum() == 16
        assert (pool[4, 1] == -1).sum() == 16


class TestConvert:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize(("source", "target"), list(itertools.product(LAYOUTS, LAYOUTS)))
    def test_round_trip(self, source: KVLayout, target: KVLayout, dtype: torch.dtype) -> None:
        k_cache, v_cache = filled(SIZES, source, dtype)
        there = convert(k_cache, v_cache, source, target)
        assert [tuple(x.shape) for x in there] == [SIZES.shape(target, part, dtype) for part in PARTS]
        back = convert(*there, target, source)
        assert same_bits(back[0], k_cache)
        assert same_bits(back[1], v_cache)
        assert there[0].data_ptr() != k_cache.data_ptr()

    @pytest.mark.parametrize("target", LAYOUTS)
    def test_puts_every_token_where_the_layout_wants_it(self, target: KVLayout) -> None:
        k_cache, v_cache = filled(SIZES, KVLayout.BSHD, torch.float16)
        k_new, v_new = convert(k_cache, v_cache, "bshd", str(target))
        assert same_bits(k_new, in_layout(k_cache, target, "key"))
        assert same_bits(v_new, in_layout(v_cache, target, "value"))

    def test_reads_strided_caches(self) -> None:
        pool = torch.randn(5, 2, 4, 3, 16)
        k_new, v_new = convert(pool[:, 0], pool[:, 1], 1, 0)
        assert torch.equal(k_new, pool[:, 0].transpose(1, 2))
        assert torch.equal(v_new, pool[:, 1].transpose(1, 2))


class TestGeometryErrors:
    @pytest.mark.parametrize(
        ("layout", "key", "value", "message"),
        [
            ("bshd", (2, 4, 3), (2, 4, 3, 8), "k_cache is 3-dimensional, but must be 4-dimensional in "),
            (
                "bshd",
                (2, 4, 3, 8),
                (2, 4, 3, 8, 1),
                "v_cache is 5-dimensional, but must be 4-dimensional in ",
            ),
            (
                "x_packed",
                (2, 3, 4, 8),
                (2, 3, 8, 4),
                "k_cache is 4-dimensional, but must be 5-dimensional in ",
            ),
            ("bshd", (2, 4, 3, 8), (7, 4, 3, 8), "v_cache has num_blocks 7, but k_cache has 2 "),
            ("bshd", (2, 4, 3, 8), (2, 5, 3, 8), "v_cache has block_size 5, but k_cache has 4 "),
            ("bhsd", (2, 3, 4, 8), (2, 3, 5, 8), "v_cache has block_size 5, but k_cache has 4 "),
            ("bhsd", (2, 3, 4, 8), (2, 6, 4, 8), "v_cache has num_kv_heads 6, but k_cache has 3 "),
            ("bhsd_vt", (2, 3, 4, 8), (2, 3, 4, 8), "v_cache has block_size 8, but k_cache has 4 "),
            ("x_packed", (2, 3, 2, 4, 4), (2, 2, 8, 4), "v_cache has num_kv_heads 2, but k_cache has 3 "),
            ("x_packed", (2, 3, 1, 4, 8), (2, 3, 8, 4), "the last axis of k_cache is 8, but must be 4, "),
            ("bshd", (2, 0, 3, 8), (2, 0, 3, 8), "block_size is 0, but must be 1 to 256 tokens "),
            ("bshd", (2, 257, 3, 8), (2, 257, 3, 8), "block_size is 257, but must be 1 to 256 tokens "),
        ],
    )
    def test_messages(self, layout: str, key: tuple[int, ...], value: tuple[int, ...], message: str) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            geometry(torch.empty(key), torch.empty(value), KVLayout(layout))
        assert str(caught.value).startswith(message)
        assert f"layout '{layout}'" in str(caught.value)

    @pytest.mark.parametrize("block_size", [1, 256])
    def test_page_size_limits_are_inclusive(self, block_size: int) -> None:
        cache = torch.empty(2, block_size, 3, 8)
        assert geometry(cache, cache, KVLayout.BSHD).block_size == block_size
