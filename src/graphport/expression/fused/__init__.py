"""Programs compiled to one loop: LLVM code for vectors of elements, cached on disk, run on one thread or several."""
