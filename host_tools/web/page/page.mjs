// The page: its parts as tabs, each begun when it is first shown, and the models that lie beside it (site.json).
import { $, bytesOf, guarded, make } from './dom.mjs';

const PARTS = { try: 'Try', prompt: 'Prompt', look: 'Look', board: 'Board' };
const begun = {};
const site = JSON.parse(new TextDecoder().decode(await bytesOf('site.json')));

const show = guarded(async (name) => {
  for (const part of Object.keys(PARTS)) {
    $(part).hidden = part !== name;
    $(`tab-${part}`).setAttribute('aria-selected', String(part === name));
    $(`tab-${part}`).tabIndex = part === name ? 0 : -1;
  }
  begun[name] ??= import(`./${name}.mjs`).then((part) => part.begin(site));
  await begun[name];
  document.body.dataset.ready = name;
});

// Not by location.hash: that would take the focus from the tab.
function go(part) {
  history.pushState(null, '', `#${part}`);
  show(part);
}

for (const [part, title] of Object.entries(PARTS)) {
  const tab = make('button', { id: `tab-${part}`, type: 'button', onclick: () => go(part) }, title);
  tab.setAttribute('role', 'tab');
  tab.setAttribute('aria-controls', part);
  $('parts').append(tab);
}
$('parts').addEventListener('keydown', (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const tabs = [...$('parts').children];
  if (!step || !tabs.includes(event.target)) return;
  const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
});
const chosen = () => (location.hash.slice(1) in PARTS ? location.hash.slice(1) : 'try');
addEventListener('popstate', () => show(chosen()));
await show(chosen());
$('state').textContent = `mica ${site.version}.`;
await navigator.serviceWorker?.register('offline.js').catch(() => {}); // only where the page is trusted: this computer, or https

