"""A Keras model whose layers are given as text: `keras_sequential_main` trains it, `layer_text` reads the text."""
