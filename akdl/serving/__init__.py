"""Prediction with SavedModels: in this process (`akdl.serving.row_predictor`), or in one of its own (`akdl.serving.server`)."""
