// Opens pages of the site as files, wide and as narrow as a phone, light and dark, and prints what was seen as JSON.
//   node site.mjs SITE BROWSER WORD PAGE...    looks for WORD in the search of each page that has one
// With a folder in PICTURES it leaves pictures there.
import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";

const [site, browser_file, word, ...pages] = process.argv.slice(2);
const root = pathToFileURL(site).href + "/";
const browser = await chromium.launch({ executablePath: browser_file, args: ["--no-sandbox"] });
const seen = [];
const context = await browser.newContext({ reducedMotion: "reduce" });
for (const name of pages) {
    const page = await context.newPage();
    let errors = [], requests = [];
    page.on("console", (message) => { if (message.type() !== "log") errors.push(message.text()); });
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("request", (request) => { if (!request.url().startsWith(root) && !request.url().startsWith("data:")) requests.push(request.url()); });
    page.on("requestfailed", (request) => errors.push(request.url()));
    for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"]]) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        if (colorScheme === "light") {
            await page.goto(root + name);
        }
        // The site's pages are told of the other scheme by an event. The report has only a style sheet.
        await page.waitForFunction((scheme) => [scheme, undefined].includes(document.documentElement.dataset.bsTheme), colorScheme);
        const picture = async (what) => {
            if (process.env.PICTURES) {
                await page.screenshot({ path: `${process.env.PICTURES}/${name.replaceAll("/", "_")}-${width}-${colorScheme}${what}.png` });
            }
        };
        await picture("");
        const facts = await page.evaluate(() => {
            const rgb = (color) => color.match(/[\d.]+/g).map(Number);
            const luminance = (color) => color.slice(0, 3).map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
                .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
            // The color behind an element: its own over that of its parents, down to the white of the browser.
            const behind = (e) => {
                if (!e) {
                    return [255, 255, 255];
                }
                const [r, g, b, a = 1] = rgb(getComputedStyle(e).backgroundColor);
                const below = a < 1 ? behind(e.parentElement) : [0, 0, 0];
                return [r, g, b].map((x, i) => x * a + below[i] * (1 - a));
            };
            const texts = [...document.body.querySelectorAll("*:not(.disabled)")].filter((e) => e instanceof HTMLElement && e.checkVisibility()
                && [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()));
            const contrasts = texts.map((e) => {
                const [low, high] = [luminance(rgb(getComputedStyle(e).color)), luminance(behind(e))].sort((a, b) => a - b);
                return [(high + 0.05) / (low + 0.05), `${e.tagName} ${e.textContent.slice(0, 40)}`];
            });
            return {
                title: document.title, texts: texts.length, contrast: contrasts.sort((a, b) => a[0] - b[0])[0],
                back: luminance(behind(document.body)),
                overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
                broken: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src),
            };
        });
        if (colorScheme === "dark" && await page.locator("#mkdocs-search-query").count()) {
            if (width === 390) { // by the menu, and by the keyboard
                await page.locator(".navbar-toggler").first().click();
                await page.locator("#navbar-collapse.collapse.show").waitFor();
                await page.getByRole("link", { name: "Search" }).click();
            } else {
                await page.keyboard.press("s");
            }
            const query = page.locator("#mkdocs-search-query");
            await query.fill(word);
            await page.locator("#mkdocs-search-results article").first().waitFor();
            facts.found = await page.locator("#mkdocs-search-results a").evaluateAll((links) => links.map((a) => a.href));
            await picture("-search");
            await query.fill("nosuchwordanywhere");
            facts.none = await page.locator("#mkdocs-search-results").innerText();
            await query.fill(word);
            await page.locator("#mkdocs-search-results a").first().click();
            await page.waitForURL(facts.found[0]);
            facts.arrived = await page.locator("h1").innerText();
        }
        seen.push({ name, width, colorScheme, errors, requests, ...facts });
        [errors, requests] = [[], []];
    }
    await page.close();
}
await browser.close();
console.log(JSON.stringify(seen));
