// node check_types.mjs FILE: what TypeScript has to say about a program that imports the engine; nothing where it is right.
import ts from 'typescript';

const options = { noEmit: true, strict: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'], types: [] };
const program = ts.createProgram([process.argv[2]], options);
for (const { file, start, messageText } of ts.getPreEmitDiagnostics(program)) {
  const line = file ? 1 + file.getLineAndCharacterOfPosition(start).line : 0;
  console.log(`${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
}
