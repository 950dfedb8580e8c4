"""Input rows of a script: files of chunks, batches of tensors, Examples."""
