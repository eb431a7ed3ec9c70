"""`graphport lsp`."""

from __future__ import annotations

import click

from graphport.cli.options import Verb, color_option, findings_end


@click.command(cls=Verb, name="lsp")
@color_option
@findings_end
def verb(color: str) -> None:
    """Serve an editor: findings, hovers, completion and more for NNEF texts, and for lists of layers.

    It speaks the Language Server Protocol over standard input and output; an editor starts it. Texts of NNEF have all
    of it, those of PNNX, ncnn and Caffe have findings, hovers and an outline.

    \b
    Examples:
      graphport lsp
    """
    del color
    from graphport.core.diagnostics import Diagnostic, DiagnosticError
    from graphport.core.packages import install, is_there

    if not is_there("pygls"):
        message = "the language server needs the package pygls"
        raise DiagnosticError(Diagnostic("USE0002", message, None, install("pygls")))
    from graphport.lsp.server import main

    main()
