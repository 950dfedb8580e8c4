"""Prediction with SavedModels: in this process (`row_predictor`), or in a separate one (`model_server`)."""
