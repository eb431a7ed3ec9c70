"""Operations of NNEF, as Khronos' text has them."""
