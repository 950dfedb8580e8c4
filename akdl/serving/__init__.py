"""Prediction with SavedModels: in this process (`row_predictor`), or in one of its own (`model_server`)."""
