// Opens a page in Chromium, wide and as narrow as a phone, light and dark, and prints what was seen as JSON.
//   node look.mjs PAGE.html BROWSER [PICTURE.png]
import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";

const [page_file, browser_file, picture] = process.argv.slice(2);
const address = pathToFileURL(page_file).href;
const browser = await chromium.launch({ executablePath: browser_file, args: ["--no-sandbox"] });
const seen = [];
for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"]]) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
    const page = await context.newPage();
    const errors = [], requests = [];
    page.on("console", (message) => { if (message.type() !== "log") errors.push(message.text()); });
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("request", (request) => { if (request.url() !== address && !request.url().startsWith("data:")) requests.push(request.url()); });
    await page.goto(address);
    if (picture && width === 1280 && colorScheme === "light") {
        await page.screenshot({ path: picture });
    }
    const regions = [];
    for (const region of await page.locator("[role=region]").all()) {
        const hint = () => region.evaluate((e) => {
            const p = e.querySelector(".hint"), style = getComputedStyle(p), box = p.getBoundingClientRect();
            return style.display !== "none" && style.visibility === "visible" && box.left >= 0 && box.right <= innerWidth;
        });
        const before = await hint();
        const wide = await region.evaluate((e) => { const wide = e.scrollWidth - e.clientWidth; e.scrollLeft = wide; return wide > 1; });
        // The hint follows the scroll in the next picture.
        await region.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        regions.push({ name: await region.getAttribute("aria-label"), wide, hints: [before, await hint()] });
        await region.evaluate((e) => { e.scrollLeft = 0; });
    }
    const arena = (await page.locator("[aria-label=arena]").first().screenshot()).toString("base64");
    const focused = [];
    for (let k = 0; k < 12; ++k) {
        await page.keyboard.press("Tab");
        focused.push(await page.evaluate(() => document.activeElement.getAttribute("aria-label") || document.activeElement.textContent));
    }
    seen.push(await page.evaluate(([errors, requests, focused, width, colorScheme, regions, arena]) => {
        const style = getComputedStyle(document.body);
        const luminance = (color) => color.match(/\d+/g).slice(0, 3).reduce((sum, x) => sum + Number(x), 0) / 765;
        return {
            width, colorScheme, errors, requests, focused, regions, arena,
            title: document.title,
            back: luminance(style.backgroundColor), ink: luminance(style.color),
            overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            rows: document.querySelectorAll("#layers tbody tr").length,
            unnamed: [...document.querySelectorAll("[role=region], [role=img]")].filter((e) => !e.getAttribute("aria-label")).length,
            facts: JSON.parse(document.getElementById("facts").textContent),
        };
    }, [errors, requests, focused, width, colorScheme, regions, arena]));
    await context.close();
}
await browser.close();
console.log(JSON.stringify(seen));
