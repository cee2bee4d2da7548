// Keeps the page's files, so that it works without a network: what the server gives is taken, else what was kept.
const KEPT = 'mica';
const base = new URL('./', self.location);

self.addEventListener('install', (event) => {
  const keep = async () => {
    const { files } = await (await fetch(new URL('site.json', base))).json();
    await (await caches.open(KEPT)).addAll(['./', ...files].map((name) => new URL(name, base)));
    await self.skipWaiting();
  };
  event.waitUntil(keep());
});

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
