"""Parts of two models between matched values, compared by themselves on values that whole models rarely reach."""
