"""Which arguments an operation takes beyond their types."""
