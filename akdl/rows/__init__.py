"""The rows that a script gets: files of chunks, batches of tensors, Examples."""
