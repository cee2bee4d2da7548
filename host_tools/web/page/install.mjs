// mica onto a board that has none: the native module beside its firmware, or the name of the firmware file to copy.
import { bytesOf, make } from './dom.mjs';
import { uf2 } from './bytes.mjs';
import { flash } from './pico.mjs';
import { quoted } from './serial_board.mjs';

// The architecture whose engine this firmware loads, as firmware/mica/install.py finds it; "" where it loads none.
export async function architecture(board, programs) {
  return (await board.session((run) => run(`_g={'__name__':'install'}\nexec(${quoted(programs.install)},_g)\nprint(_g['arch']())\n_g=None`))).trim();
}

export function howToInstall(site, arch) {
  if (!arch) return 'This firmware loads no native modules, so it takes a firmware with mica in it.';
  if (site.native.includes(arch)) return "It goes into the folder lib of the board's files.";
  return `\`mica natmod --arch ${arch} --package DIR\` makes a module for it.`;
}

// Writes the engine and the runtime into /lib, as `mpremote mip install` does, and starts Python again.
export async function install(board, arch, progress) {
  const { urls } = JSON.parse(new TextDecoder().decode(await bytesOf(`native/${arch}.json`)));
  for (const [i, [path, url]] of urls.entries()) {
    await board.put(`/lib/${path}`, await bytesOf(`native/${url}`), (part) => progress((i + part) / urls.length, path));
  }
  await board.session(() => board.restart());
}

// How a firmware with mica comes onto the board whose name MicroPython says, where mica has one.
export function firmware(site, build) {
  const known = Object.hasOwn(site.firmware, build) && site.firmware[build];
  if (!known) return ['No firmware with mica is known for this board: ', make('code', {}, 'mica boards'), ' lists those that there are.'];
  const file = make('code', {}, known.file);
  if (known.offset !== null) {
    const commands = [`esptool write_flash ${known.offset} ${known.file}`, `mica flash --board ${build} --on auto`].map((line) => make('code', {}, line));
    return ['The firmware with mica is ', file, ' of the release: ', commands[0], ', or ', commands[1], '. It replaces the firmware, not the files.'];
  }
  const copied = ' Hold BOOTSEL while you plug the board in, and copy the file onto the drive that appears. It replaces the firmware, not the files.';
  if (build !== 'RPI_PICO' || !site.pico) return ['The firmware with mica is ', file, ' of the release.', copied];
  const save = make('button', { type: 'button', id: 'save-firmware' }, `Save ${known.file}`);
  save.onclick = async () => {
    const { content, places } = await flash();
    const url = URL.createObjectURL(new Blob([uf2(content, places)]));
    make('a', { href: url, download: known.file }).click();
    URL.revokeObjectURL(url);
  };
  return [save, copied];
}
