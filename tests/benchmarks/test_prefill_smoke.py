"""The prefill benchmark end to end on a CPU: two small cells, its record, its table and its plot."""

import json
from pathlib import Path

from PIL import Image

from benchmarks import prefix_prefill, render
from benchmarks.prefill_cases import FULL, PrefillCase, prefill_cells

PEERS = {"sdpa-flash", "sdpa-cudnn", "vllm-triton", "sglang-triton", "flashinfer-fa2", "ours-contiguous"}


def test_record_table_and_plot(tmp_path: Path) -> None:
    path = tmp_path / "prefill.json"
    cells = ["--cells", "heads=6/2", "lengths=33/100,40/40", "page=16", "--device", "cpu"]
    assert prefix_prefill.main([*cells, "--json", str(path)]) == 0
    record = json.loads(path.read_text())
    assert set(record) == {"command", "date", "device", "rows"}
    assert [row["case"] for row in record["rows"]] == [
        "heads=6/2 q=33 kv=100 page=16",
        "heads=6/2 q=40 kv=40 page=16",
    ]
    for row in record["rows"]:
        assert row["metric"] == "flops_per_second"
        assert row["ours"] > 0
        assert set(row["peers"]) == PEERS
        assert set(row["why"]) == PEERS
        assert set(row["why"].values()) == {"its kernels need a card"}
    assert render.main([str(path)]) == 0
    table = path.with_suffix(".md").read_text()
    assert "TFLOP/s" in table
    assert table.count("| heads=6/2 q=33 kv=100 page=16 |") == 2, "the values and the floors"
    with Image.open(path.with_suffix(".png")) as image:
        assert image.width > 300


def test_what_a_cell_has_to_do() -> None:
    assert len(prefill_cells(FULL)) == 4 * 5 * 2
    case = PrefillCase(2, 1, q_len=3, kv_len=5, page=16)
    assert PrefillCase.parse(str(case)) == case
    # The rows see 3, 4 and 5 keys; two products of 128 multiplications and additions for each of two heads.
    assert case.flops == (3 + 4 + 5) * 2 * 128 * 2 * 2
    assert case.least_bytes == 2 * 128 * 2 * (3 * 2 + 5)
