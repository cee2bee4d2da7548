// Keeps the page's files, so that it works without a network: what the server gives is taken, else what was kept. The virtual Pico's are kept
// once it has started.
const KEPT = 'mica';
const base = new URL('./', self.location);

async function keep(list) {
  const site = await (await fetch(new URL('site.json', base))).json();
  await (await caches.open(KEPT)).addAll(site[list].map((name) => new URL(name, base)));
}

self.addEventListener('install', (event) => event.waitUntil(keep('files').then(() => self.skipWaiting())));
self.addEventListener('message', (event) => event.data === 'pico' && event.waitUntil(keep('later')));

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { method, url } = event.request;
  if (method !== 'GET' || !url.startsWith(base.href)) return;
  const answer = async () => {
    const kept = await caches.open(KEPT);
    try {
      const found = await fetch(event.request);
      if (found.ok) await kept.put(event.request, found.clone());
      return found;
    } catch (error) {
      const old = await kept.match(event.request, { ignoreSearch: true });
      if (old) return old;
      throw error;
    }
  };
  event.respondWith(answer());
});
