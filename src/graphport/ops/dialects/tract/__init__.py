"""Words of tract's flavour of NNEF."""
