"""`graphport lsp`."""

from __future__ import annotations

import click

from graphport.cli.options import Verb, color_option, findings_end


@click.command(cls=Verb, name="lsp")
@color_option
@findings_end
def verb(color: str) -> None:
    """Run a language server for editors: findings, hovers, completion and more for NNEF and other text formats.

    It uses the Language Server Protocol over standard input and output and is started by an editor. NNEF files have all
    features; PNNX, ncnn and Caffe files have findings, hovers and an outline.

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
