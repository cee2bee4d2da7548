// In the place of the theme's file of this name, which needs highlight.js: light or dark, as the reader's system is.
const dark = matchMedia("(prefers-color-scheme: dark)");
const set_scheme = () => { document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", set_scheme);
set_scheme();
