"""A candidate next to a model: which rows it gets, and its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from akdl.serving.live_model import LiveModel
from akdl.serving.model import ServedModel
from akdl.serving.output_cells import OutputColumn
from akdl.serving.shadowed_model import ShadowedModel, hashes
from akdl.wire import Serving
from tests.akdl.serving import models

Make = Callable[..., ShadowedModel]


def columns(rows: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=(rows, 3)).astype("f4"), "k": np.arange(rows) % 5}


def test_a_row_has_one_hash_in_all_forms_of_its_columns() -> None:
    x, text = np.array([0.5, -1.0, 3e9, 0.0]), [b"a", b"", None, "b"]
    vectors = np.arange(12.0).reshape(4, 3)
    whole = hashes({"x": x, "v": vectors, "s": text}, 4)
    lists = hashes({"s": text, "v": [*vectors], "x": x.tolist()}, 4)
    single = [hashes({"x": x[row : row + 1], "v": [vectors[row].tolist()], "s": [text[row]]}, 1)[0] for row in range(4)]
    assert whole.tolist() == lists.tolist() == single and len(set(single)) == 4
    with_null = hashes({"x": [0.5, None]}, 2)
    assert with_null[0] == hashes({"x": x[:1]}, 1)[0] != with_null[1]
    assert hashes({"x": np.arange(3)}, 3).tolist() == hashes({"x": np.arange(3.0)}, 3).tolist()


def test_hashes_are_spread_evenly() -> None:
    for cells in (np.arange(100_000), np.arange(100_000) / 7, [str(each) for each in range(100_000)]):
        parts = np.bincount((hashes({"x": cells}, 100_000) >> np.uint64(60)).astype(int), minlength=16)
        assert parts.min() > 5500 and parts.max() < 7000


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Make:
    def make(first: str, candidate: str, **rule: Any) -> ShadowedModel:
        def load(folder: str) -> ServedModel:
            return ServedModel(folder, inputs=["x", "k"], outputs=[OutputColumn("p", "DOUBLE")])

        values = {"candidate_share": 0.5, "model_column": "m", **rule}
        both = tuple(LiveModel(path, load, name, "m") for path, name in ((first, "old"), (candidate, "new")))
        for each in both:
            request.addfinalizer(each.close)
        return ShadowedModel(both, Serving(**values), ["p"])  # type: ignore[arg-type]

    return make


@pytest.mark.tf
def test_a_share_of_the_rows_is_predicted_by_both(made: Make) -> None:
    served, rows = made(models.scaled(2.0), models.scaled(3.0)), columns(1000)
    results, bad, _ = served.predict_collecting(rows, 1000)
    sums = rows["x"].sum(axis=1)
    assert not bad and np.allclose(results["p"], sums * 2) and results["m"] == ["old"] * 1000
    chosen = [row for row, cell in enumerate(results["shadow_p"]) if cell is not None]
    assert 400 < len(chosen) < 600
    assert np.allclose([results["shadow_p"][row] for row in chosen], sums[chosen] * 3, 1e-4)
    again, _, _ = served.predict_collecting({name: cells[::-1] for name, cells in rows.items()}, 1000)
    assert [999 - row for row, cell in enumerate(again["shadow_p"]) if cell is not None] == chosen[::-1]
    results, _, _ = made(models.scaled(2.0), models.scaled(3.0), candidate_share=0).predict_collecting(rows, 1000)
    assert results["shadow_p"] == [None] * 1000


@pytest.mark.tf
@pytest.mark.fault("jobs", "A candidate that refuses a row which the model predicts fails no row")
def test_row_that_the_candidate_refuses_is_null_in_its_columns_alone(made: Make) -> None:
    served = made(models.scaled(2.0), models.picky(3), candidate_share=1.0)
    rows = {**columns(40), "k": np.arange(40)}
    results, bad, _ = served.predict_collecting(rows, 40)
    assert not bad and np.allclose(results["p"], rows["x"].sum(axis=1) * 2) and results["m"] == ["old"] * 40
    assert [row for row, cell in enumerate(results["shadow_p"]) if cell is None] == [3]
