"""A small DNN classifier: `dnn_batch` writes its model as table rows, `dnn_train` leaves it in `saved_model_dir`."""
