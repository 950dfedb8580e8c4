"""Tags, signatures and tensors of a model, and errors that list the existing ones."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.serving.model import ServedModel
from akdl.serving.output_cells import OutputColumn
from akdl.serving.prediction_errors import SignatureError
from akdl.storage.model_archive import ModelError
from tests.akdl.serving import models

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tag": "gpu"}, r"no graph with the tag 'gpu' .* it has: 'serve'"),
        ({"signature": "predict"}, r"it has: 'look_up' \(inputs: 'k' int64 \[-1\]; .*'serving_default'"),
        ({"inputs": ["x"]}, r"one column for each input .* columns for 'x'; .* 'x' float32 \[-1, 3\]"),
        ({"inputs": ["x", "k", "z"]}, r"no input 'z'"),
        ({"outputs": ["y"]}, r"no output 'y'; .*outputs: 'logits' float32 \[-1, 2\], 'p' float32 \[-1\]"),
        ({"outputs": []}, "expected output columns"),
        ({"outputs": [OutputColumn("logits", "DOUBLE")]}, "holds one value, but .* has 2 in each row"),
        ({"outputs": [OutputColumn("p", "BIGINT")]}, "cannot hold the output 'p' float32"),
        ({"outputs": [OutputColumn("p", "TIMESTAMP(3)")]}, "supported types are BIGINT, BOOLEAN"),
    ],
)
def test_what_the_model_has_not_is_named_beside_what_it_has(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        ServedModel(models.module(), **arguments)


def test_no_model(tmp_path: Any) -> None:
    with pytest.raises(ModelError, match="found nothing"):
        ServedModel(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"no proto")
    with pytest.raises(ModelError, match="is damaged"):
        ServedModel(str(tmp_path))
