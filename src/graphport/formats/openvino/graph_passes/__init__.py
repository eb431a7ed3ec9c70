"""Passes on whole graphs between the dialect of OpenVINO and canonical operators."""
