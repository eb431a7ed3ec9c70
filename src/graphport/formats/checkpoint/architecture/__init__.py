"""Families of language models as data, and the vocabulary that they are assembled from."""
