"""Synthetic clicks: users and items with keywords, and a click where the two match.

A row has `user_keyword`, `item_keyword` (words of the keywords file), `user_gender` ("f", "m" or
""), `user_age`, `item_price` and `item_published` (days since 1970-01-01), and the label: 1 for a
click. Each keyword has a vector of 4 numbers. The more similar the vectors, the more likely is a
click. Age has little influence, gender and price have no influence.
"""

import os

import numpy as np

KEYWORDS = [
    "sports",
    "films",
    "books",
    "music",
    "travel",
    "food",
    "games",
    "fashion",
    "garden",
    "news",
    "cars",
    "art",
]
TODAY = 20000  # in days since 1970-01-01


def vectors():
    """Return the keywords' vectors, float32 [12, 4]."""
    return np.random.RandomState(7).normal(size=[len(KEYWORDS), 4]).astype(np.float32)


def make(count, seed):
    """Return a dict from column name to an array with one value per row."""
    random, of = np.random.RandomState(seed), vectors()
    user, item = random.randint(len(KEYWORDS), size=[2, count])
    age, published = random.uniform(15, 75, size=count), TODAY - random.randint(400, size=count)
    suits = (
        np.sum(of[user] * of[item], axis=1)
        / np.linalg.norm(of[user], axis=1)
        / np.linalg.norm(of[item], axis=1)
    )
    score = 5 * suits + 0.01 * (45 - age) - 0.002 * (TODAY - published - 200)
    return {
        "user_keyword": np.array(KEYWORDS)[user],
        "user_gender": random.choice(["f", "m", ""], size=count),
        "user_age": age.astype(np.float32),
        "item_keyword": np.array(KEYWORDS)[item],
        "item_price": random.lognormal(size=count).astype(np.float32),
        "item_published": published.astype(np.float32),
        "label": (random.uniform(size=count) < 1 / (1 + np.exp(-score))).astype(np.int64),
    }


def write_keywords(folder):
    """Write keywords.txt, and keywords.npy with their vectors, to a folder."""
    with open(os.path.join(folder, "keywords.txt"), "w") as file:
        file.write("\n".join(KEYWORDS) + "\n")
    np.save(os.path.join(folder, "keywords.npy"), vectors())


def write(folder, train=4000, test=1000):
    """Write the keywords and the files train-0, train-1, eval and predict.tfrecord to a folder."""
    import tensorflow as tf  # imported late: the Flink job uses this module without TensorFlow

    os.makedirs(folder, exist_ok=True)
    write_keywords(folder)
    for seed, (name, count) in enumerate(
        [("train-0", train // 2), ("train-1", train // 2), ("eval", test), ("predict", 101)]
    ):
        with tf.io.TFRecordWriter(os.path.join(folder, name + ".tfrecord")) as writer:
            columns = make(count, seed)
            for row in zip(*columns.values()):
                writer.write(_fill(tf.train.Example(), dict(zip(columns, row))).SerializeToString())


def _fill(example, row):
    for name, value in row.items():
        feature = example.features.feature[name]
        if isinstance(value, str):
            feature.bytes_list.value.append(value.encode())
        elif isinstance(value, np.integer):
            feature.int64_list.value.append(int(value))
        else:
            feature.float_list.value.append(float(value))
    return example
