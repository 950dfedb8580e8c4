"""SavedModels of Keras 2 give their numbers as functions too: by name, in the order of the model,
from strings.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.akdl.keras.keras_2_models import features, folder_of_models

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_saved_function_gives_the_numbers_of_keras_2(tmp_path: Path) -> None:
    from akdl.training.model_call import SavedFunction

    folder = folder_of_models(tmp_path)
    expected = np.load(folder / "numbers.npz")
    for name in expected.files:
        given = SavedFunction(str(folder / name), name)(features(name))
        np.testing.assert_allclose(given, expected[name], rtol=1e-6, err_msg=name)
    arrays = tuple(one.numpy() for one in features("tuple"))
    np.testing.assert_allclose(
        SavedFunction(str(folder / "tuple"), "tuple")(arrays), expected["tuple"], rtol=1e-6
    )


def test_features_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.training.model_call import FeaturesError, SavedFunction

    folder = folder_of_models(tmp_path)
    pair, strings = (SavedFunction(str(folder / name), name) for name in ("tuple", "strings"))
    one = tf.ones([3, 2])
    with pytest.raises(
        FeaturesError,
        match=r"tuple: the features do not fit .*; the dataset has \{'c': float32\[3, 2\]",
    ):
        pair({"c": one, "a": one})
    with pytest.raises(FeaturesError, match="the features do not fit the model's inputs"):
        pair((one, one, one))
    with pytest.raises(FeaturesError, match=r"'word': string\["):
        strings({"word": one, "number": one})


def test_a_signature_alone_takes_names_only(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.training.model_call import FeaturesError, SavedFunction

    module = tf.Module()
    function = tf.function(lambda b, a: {"out": 3 * b - a}).get_concrete_function(
        b=tf.TensorSpec([None], tf.float32, name="b"), a=tf.TensorSpec([None], tf.float32, name="a")
    )
    tf.saved_model.save(module, str(tmp_path / "plain"), signatures=function)
    loaded = SavedFunction(str(tmp_path / "plain"), "plain")
    b, a = tf.constant([1.0, 2.0]), tf.constant([10.0, 20.0])
    np.testing.assert_allclose(loaded({"a": a, "b": b}), [-7.0, -14.0])
    with pytest.raises(FeaturesError, match="by name only"):
        loaded((b, a))
