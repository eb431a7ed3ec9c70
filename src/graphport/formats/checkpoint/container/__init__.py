"""Files of checkpoints: configuration, tensors and their storages."""
