"""Prediction with models: in any process (`model_store`), or in one of its own for all tasks of a
host (`model_server`).
"""
