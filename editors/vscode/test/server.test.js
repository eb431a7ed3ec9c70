// The language server as VS Code's own protocol library sees it, and what the extension declares.
// `GRAPHPORT=/path/to/graphport npm test` selects the server.

const assert = require("node:assert");
const fs = require("node:fs");
const { spawn } = require("node:child_process");
const { after, before, test } = require("node:test");
const protocol = require("vscode-languageserver-protocol/node");

const uri = "file:///nowhere/graph.nnef";
const text = `version 1.0;

graph net(x) -> (y)
{
    x = external(shape = [1, 3, 8, 8]);
    h = relu(x);
    y = rellu(h);
}
`;
const at = (line, character) => ({ textDocument: { uri }, position: { line, character } });
let connection, server, capabilities, published;

before(async () => {
  server = spawn(process.env.GRAPHPORT ?? "graphport", ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
  connection = protocol.createProtocolConnection(
    new protocol.StreamMessageReader(server.stdout),
    new protocol.StreamMessageWriter(server.stdin),
  );
  published = new Promise((done) => connection.onNotification(protocol.PublishDiagnosticsNotification.type, done));
  connection.listen();
  const started = await connection.sendRequest(protocol.InitializeRequest.type, { processId: null, rootUri: null, capabilities: {} });
  capabilities = started.capabilities;
  await connection.sendNotification(protocol.InitializedNotification.type, {});
  const textDocument = { uri, languageId: "nnef", version: 1, text };
  await connection.sendNotification(protocol.DidOpenTextDocumentNotification.type, { textDocument });
});

after(async () => {
  await connection.sendRequest(protocol.ShutdownRequest.type);
  await connection.sendNotification(protocol.ExitNotification.type);
  connection.dispose();
});

test("a mistake is underlined, and values before it have shapes", async () => {
  const { diagnostics } = await published;
  assert.deepStrictEqual(diagnostics.map((each) => each.range.start), [{ line: 6, character: 8 }]);
  const range = { start: { line: 0, character: 0 }, end: { line: 8, character: 0 } };
  const hints = await connection.sendRequest(protocol.InlayHintRequest.type, { textDocument: { uri }, range });
  assert.deepStrictEqual(hints.map((hint) => hint.label), [": float32[1, 3, 8, 8]", ": float32[1, 3, 8, 8]"]);
});

test("a name that exists is an error of rename", async () => {
  const rename = (newName) => connection.sendRequest(protocol.RenameRequest.type, { ...at(5, 4), newName });
  await assert.rejects(rename("x"), { code: protocol.LSPErrorCodes.RequestFailed, message: "'x' is already a name, in line 5" });
  assert.strictEqual((await rename("hidden")).changes[uri].length, 2);
});

test("signature help, symbols and folds", async () => {
  const help = await connection.sendRequest(protocol.SignatureHelpRequest.type, at(5, 13));
  assert.match(help.signatures[0].label, /^fragment relu/);
  const symbols = await connection.sendRequest(protocol.DocumentSymbolRequest.type, { textDocument: { uri } });
  assert.deepStrictEqual(symbols.map((each) => [each.name, each.children.length]), [["net", 3]]);
  const folds = await connection.sendRequest(protocol.FoldingRangeRequest.type, { textDocument: { uri } });
  assert.deepStrictEqual(folds.map((each) => [each.startLine, each.endLine]), [[2, 6]]);
});

test("the extension declares languages with files that exist, and the server's requests", () => {
  const { contributes } = JSON.parse(fs.readFileSync("package.json", "utf8"));
  const files = [...contributes.languages.map((each) => each.configuration), ...contributes.grammars.map((each) => each.path)];
  for (const file of files.filter(Boolean)) JSON.parse(fs.readFileSync(file, "utf8"));
  const offered = ["hoverProvider", "definitionProvider", "renameProvider", "completionProvider", "signatureHelpProvider", "foldingRangeProvider",
    "documentSymbolProvider", "inlayHintProvider", "semanticTokensProvider", "codeActionProvider", "documentFormattingProvider"];
  assert.deepStrictEqual(offered.filter((name) => !capabilities[name]), []);
});
