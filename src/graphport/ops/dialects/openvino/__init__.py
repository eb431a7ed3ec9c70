"""Operations of OpenVINO."""
