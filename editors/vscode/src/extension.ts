// Starts `graphport lsp` for the texts of NNEF, PNNX, ncnn and Caffe, and shows what it says.

import { commands, ExtensionContext, window, workspace } from "vscode";
import { LanguageClient, LanguageClientOptions, ServerOptions } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

async function start(): Promise<void> {
  const [command, ...args] = workspace.getConfiguration("graphport").get<string[]>("command") ?? ["graphport", "lsp"];
  const server: ServerOptions = { command, args };
  const options: LanguageClientOptions = {
    documentSelector: ["nnef", "graphport-param", "graphport-prototxt"].map((language) => ({ scheme: "file", language })),
  };
  client = new LanguageClient("graphport", "graphport", server, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    await window.showErrorMessage(
      `The language server does not start (${String(error)}). Install graphport and pygls, or set graphport.command.`,
    );
  }
}

export async function activate(context: ExtensionContext): Promise<void> {
  const restart = commands.registerCommand("graphport.restart", async () => {
    await client?.stop();
    await start();
  });
  context.subscriptions.push(restart);
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}
