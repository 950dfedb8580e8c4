"""Prediction with SavedModels: in this process (`akdl.serving.local`), or in one of its own (`akdl.serving.server`)."""
