"""Parts of all trainings: checkpoints, reports and requests to stop, and the cluster of
TF_CONFIG.
"""
