"""Which process of a group evaluates and exports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.tf, pytest.mark.estimator]
HOSTS = ["a:1", "b:2"]


@pytest.mark.parametrize(
    ("cluster", "chiefs"),
    [
        ({"worker": HOSTS}, [("worker", 0)]),
        ({"chief": ["c:1"], "worker": HOSTS}, [("chief", 0)]),
        ({"chief": ["c:1"], "worker": HOSTS, "ps": ["d:1"]}, [("chief", 0)]),
    ],
)
def test_one_process_is_the_chief(
    cluster: dict[str, Any], chiefs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    from akdl.engine.estimator_group import is_chief, is_group

    members = [(role, index) for role, hosts in cluster.items() for index in range(len(hosts))]
    found = []
    for role, index in [*members, ("evaluator", 0)]:
        monkeypatch.setenv(
            "TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        )
        config = SimpleNamespace(task_type=role, cluster_spec=tf.train.ClusterSpec(cluster))
        assert is_group(config)
        found += [(role, index)] * is_chief(config)
    assert found == chiefs


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("has_predict", [True, False])
def test_the_predict_signature_becomes_the_default_one(has_predict: bool) -> None:
    import tensorflow as tf

    from akdl.engine.estimator_group import served_by_default

    export = tf.estimator.export

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        outputs = {"serving_default": export.RegressionOutput(tf.constant([1.0]))}
        if has_predict:
            outputs["predict"] = export.PredictOutput({"y": tf.constant([2.0])})
        return tf.estimator.EstimatorSpec(
            mode, predictions={"y": tf.constant([2.0])}, export_outputs=outputs
        )

    made = served_by_default(
        SimpleNamespace(model_fn=model_fn, model_dir=None, config=tf.estimator.RunConfig("unused"))
    )
    with tf.Graph().as_default():
        outputs = made.model_fn({}, None, tf.estimator.ModeKeys.PREDICT, made.config).export_outputs
    kind = export.PredictOutput if has_predict else export.RegressionOutput
    assert isinstance(outputs["serving_default"], kind) and ("predict" in outputs) == has_predict
