"""The decode benchmark end to end on a CPU: two small cells, its record, its table and its plot."""

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from PIL import Image

from benchmarks import paged_decode, render
from benchmarks.cases import FULL, Case, cells, with_values
from benchmarks.peers.ours import Ours
from benchmarks.peers.torch_sdpa import TorchSdpa
from benchmarks.problem import Pool, Problem

PEERS = {"sdpa-flash", "sdpa-cudnn", "vllm-triton", "sglang-triton", "flashinfer", "flashinfer-tc"}
TWO_CELLS = ["--cells", "batch=1,3", "length=33", "heads=6/2", "page=16", "--device", "cpu"]


def run(path: Path, *arguments: str) -> dict[str, Any]:
    assert paged_decode.main([*TWO_CELLS, "--json", str(path), *arguments]) == 0
    record: dict[str, Any] = json.loads(path.read_text())
    return record


@pytest.fixture(scope="module")
def record_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "decode.json"
    run(path)
    return path


def test_record_has_the_agreed_schema(record_path: Path) -> None:
    record = json.loads(record_path.read_text())
    assert set(record) == {"command", "date", "device", "rows"}
    assert [row["case"] for row in record["rows"]] == [
        "batch=1 length=33 heads=6/2 page=16",
        "batch=3 length=33 heads=6/2 page=16",
    ]
    for row in record["rows"]:
        assert set(row) == {"case", "metric", "ours", "limit", "peers", "why"}
        assert row["metric"] == "kv_bytes_per_second"
        assert set(row["peers"]) == PEERS
        assert row["limit"] > 0
        values = {"ours": row["ours"], **row["peers"]}
        assert {name for name, value in values.items() if value is None} == set(row["why"])
        assert all(value is None or value > 0 for value in values.values())


def test_ours_and_torch_run_on_a_cpu(record_path: Path) -> None:
    for row in json.loads(record_path.read_text())["rows"]:
        assert row["ours"] is not None
        assert row["peers"]["sdpa-flash"] is not None
        assert row["why"]["flashinfer"] == "its kernels need a card"


def test_table_and_plot(record_path: Path) -> None:
    assert render.main([str(record_path)]) == 0
    table = record_path.with_suffix(".md").read_text()
    assert "| batch=3 length=33 heads=6/2 page=16 |" in table
    assert "- vllm-triton: its kernels need a card (all cells)" in table
    with Image.open(record_path.with_suffix(".png")) as image:
        assert image.width > 300
        assert len(image.getcolors(maxcolors=1 << 20)) > 10


def test_a_wrong_result_is_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Ours.prepare
    monkeypatch.setattr(Ours, "prepare", lambda self, problem: lambda: 1.1 * prepare(self, problem)())
    for row in run(tmp_path / "wrong.json")["rows"]:
        assert row["ours"] is None
        assert row["why"]["ours"].startswith("error: WrongMeasurementError: wrong result")


def test_a_failing_peer_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: TorchSdpa, problem: Problem) -> NoReturn:
        raise RuntimeError("out of luck\ndetails")

    monkeypatch.setattr(TorchSdpa, "prepare", fail)
    for row in run(tmp_path / "failed.json")["rows"]:
        assert row["why"]["sdpa-flash"] == "error: RuntimeError: out of luck"
        assert row["ours"] is not None


def test_peers_only_and_too_large_cells(tmp_path: Path) -> None:
    row = run(tmp_path / "peers.json", "--peers-only")["rows"][0]
    assert row["ours"] is None
    assert row["why"]["ours"] == "left out by --peers-only"
    row = run(tmp_path / "large.json", "--memory-gb", "1e-9")["rows"][1]
    assert set(row["peers"].values()) == {None}
    assert "more than --memory-gb" in row["why"]["sdpa-flash"]


def test_full_grid_and_its_restriction() -> None:
    grid = cells(FULL)
    assert len(grid) == len(set(grid)) == 4 * 3 * 5 * 2
    assert all(Case.parse(str(case)) == case for case in grid)
    assert cells(with_values(FULL, ["batch=64", "length=8192", "heads=28/4", "page=16"])) == [
        Case(64, 8192, 28, 4, 16)
    ]
    with pytest.raises(ValueError, match="AXIS"):
        with_values(FULL, ["pages=16"])


def test_cells_of_one_pool_share_its_memory() -> None:
    large, small = Case(4, 40, 8, 4, 16), Case(2, 20, 9, 3, 8)
    pool = Pool([large, small], torch.device("cpu"))
    assert pool.caches(large)[0].shape == (4 * 3, 16, 4, 128)
    assert pool.caches(small)[0].data_ptr() == pool.caches(large)[0].data_ptr()
    table = Problem(small, pool).block_table
    assert table.unique().numel() == table.numel() == 2 * 3
    assert table.max() < pool.caches(small)[0].shape[0]
