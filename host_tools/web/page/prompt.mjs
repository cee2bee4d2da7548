// Prompt: the virtual Pico's REPL, files for it, and examples.
import { $, bytesOf, guarded, make } from './dom.mjs';
import { pico } from './pico.mjs';
import { Terminal } from './terminal.mjs';

export async function begin(site) {
  if (!site.pico) {
    $('prompt-state').textContent = 'This page was made without the virtual Pico: leave --no-pico out of `mica web`.';
    return;
  }
  $('prompt-state').textContent = 'The virtual Pico starts ...';
  const board = await pico();
  const terminal = new Terminal($('terminal'), guarded((text) => board.type(text)));
  board.onText = (bytes) => terminal.write(bytes);
  await board.type('\r\x03\x02');
  $('prompt-state').textContent = 'A Raspberry Pi Pico with mica in its firmware; it runs here, and its files last as long as this page.';
  $('examples').append(...site.examples.map((name) => make('option', { value: name }, name)));
  $('examples').onchange = guarded(async () => {
    const name = $('examples').value;
    if (!name) return;
    await board.put(name, await bytesOf(`examples/${name}`));
    await board.type(`exec(open(${JSON.stringify(name)}).read())\r`);
    $('terminal').focus();
  });
  const take = guarded(async (files) => {
    for (const file of files) {
      await board.put(file.name, new Uint8Array(await file.arrayBuffer()), (part) => ($('prompt-state').textContent = `${file.name}: ${Math.round(100 * part)} %`));
    }
    $('prompt-state').textContent = `On the board: ${[...files].map((file) => file.name).join(', ')}`;
  });
  $('prompt-files').onchange = () => take($('prompt-files').files);
  $('prompt').addEventListener('dragover', (event) => event.preventDefault());
  $('prompt').addEventListener('drop', (event) => {
    event.preventDefault();
    take(event.dataTransfer.files);
  });
}
