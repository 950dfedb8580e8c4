"""A Keras model whose layers are given as text.

`keras_sequential_main` trains it, and `layer_text` reads the text.
"""
