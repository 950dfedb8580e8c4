"""Parts of all trainings: checkpoints, reports and requests to stop, and the cluster of
TF_CONFIG; and the datasets, steps and metrics of the Keras runner, without its files and reports.
"""
