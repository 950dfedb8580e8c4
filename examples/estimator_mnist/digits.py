"""Replacement for MNIST without a download: digits of a 5 x 7 font, shifted, shaded and with noise.

`write(path)` creates a file like `mnist.npz`, with fewer images: `x_train` uint8 [n, 28, 28],
`y_train` uint8 [n], and the same for `test`.
"""

import numpy as np

# A digit is seven rows of five dots. Each number is a row, and its bits are the dots.
FONT = [
    [14, 17, 19, 21, 25, 17, 14],
    [4, 12, 4, 4, 4, 4, 14],
    [14, 17, 1, 2, 4, 8, 31],
    [31, 2, 4, 2, 1, 17, 14],
    [2, 6, 10, 18, 31, 2, 2],
    [31, 16, 30, 1, 1, 17, 14],
    [6, 8, 16, 30, 17, 17, 14],
    [31, 1, 2, 4, 8, 8, 8],
    [14, 17, 17, 14, 17, 17, 14],
    [14, 17, 17, 15, 1, 2, 12],
]


def make(count, seed):
    """Return images, uint8 [count, 28, 28], and their labels, uint8 [count]."""
    random = np.random.RandomState(seed)
    dots = np.array(
        [[[row >> bit & 1 for bit in range(4, -1, -1)] for row in digit] for digit in FONT],
        np.float32,
    )
    large = dots.repeat(3, axis=1).repeat(3, axis=2)  # 21 x 15
    labels = random.randint(10, size=count)
    images = np.zeros([count, 28, 28], np.float32)
    for image, label in zip(images, labels):
        top, left = random.randint(2, 6), random.randint(4, 10)
        image[top : top + 21, left : left + 15] = large[label] * random.uniform(120, 255)
    images += random.normal(scale=20, size=images.shape)
    return images.clip(0, 255).astype(np.uint8), labels.astype(np.uint8)


def write(path, train=3000, test=500):
    """Write the file."""
    (x_train, y_train), (x_test, y_test) = make(train, 0), make(test, 1)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
