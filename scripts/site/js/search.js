// Searches the sections of all pages. They come as a script, because a page that was opened as a file may not fetch JSON.
const query = document.getElementById("mkdocs-search-query"), results = document.getElementById("mkdocs-search-results");
const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
};
function show() {
    const words = query.value.toLowerCase().split(/\s+/).filter((word) => word);
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    const found = words.length ? sections.filter((s) => has(`${s.page} ${s.title} ${s.text}`)) : [];
    found.sort((a, b) => has(b.title) - has(a.title));
    results.replaceChildren(...found.slice(0, 40).map(({ location, page, title, text }) => {
        const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 80);
        const link = element("a", { href: `${base_url}/${location}` }, page === title ? page : `${page}: ${title}`);
        return element("article", {}, element("h5", {}, link), element("p", {}, text.slice(at, at + 240)));
    }));
    if (words.length && !found.length) {
        results.append(element("p", {}, "No section has all these words."));
    }
}
query.form.addEventListener("submit", (event) => event.preventDefault());
query.addEventListener("focus", () => {
    const script = element("script", { src: `${base_url}/search/search_index.js` });
    script.addEventListener("load", () => { query.addEventListener("input", show); show(); });
    document.head.append(script);
}, { once: true });
