"""A small DNN classifier.

`dnn_batch` writes its model as table rows, `dnn_train` to `saved_model_dir`.
"""
