// node run_parts.mjs PAGE ENGINE CASES: answers of the page's modules that need no page, as JSON.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [page, engine, file] = process.argv.slice(2);
const module = (folder, name) => import(pathToFileURL(join(folder, name)));
const { halfImage, commitPage } = await module(page, 'romfs.mjs');
const { npz, uf2, wav, zip } = await module(page, 'bytes.mjs');
const { fit } = await module(page, 'fit.mjs');
const { load } = await module(engine, 'mica.mjs');
const cases = JSON.parse(readFileSync(file, 'utf8'));
const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64'));
const text = (data) => Buffer.from(data).toString('base64');

const images = cases.images.map(({ files, trial }) => {
  const { image, places } = halfImage(new Map(Object.entries(files).map(([name, data]) => [name, bytes(data)])));
  return { image: text(image), places: Object.fromEntries(places), page: text(commitPage(7, image.length, 123456789, [4096, 0xfedcba98], trial)) };
});
const flash = new Uint8Array(1 << 16).map((_, i) => (i * 7) & 255);
const fits = [];
for (const data of cases.models) {
  const model = await load(bytes(data));
  fits.push(cases.boards.map((board) => fit(model, board)));
}
console.log(JSON.stringify({
  images,
  fits,
  npz: text(npz(bytes(cases.samples), 6, 100)),
  wav: text(wav(bytes(cases.samples), 16000)),
  zip: text(zip(Object.fromEntries(cases.clips.map(([name, clip]) => [name, wav(bytes(clip), 16000)])))),
  uf2: text(uf2(flash, cases.uf2)),
}));
