// A terminal as far as MicroPython's prompt needs one: text, \r \n \b, and the escapes that move left and right and clear a line's rest.
// It is plain text in a <pre>, so a screen reader has it, and a strict policy allows it. A phone shows its keyboard for the input above it.
import { $, make } from './dom.mjs';

const KEYS = { Enter: '\r', Backspace: '\x7f', Delete: '\x1b[3~', Tab: '\t', ArrowUp: '\x1b[A', ArrowDown: '\x1b[B', ArrowRight: '\x1b[C', ArrowLeft: '\x1b[D', Home: '\x1b[H', End: '\x1b[F' };
const MOST = 2000; // lines that are kept
export const COLUMNS = 1000; // longer lines go on in the next

export class Terminal {
  #lines = [''];
  #at = 0;
  #escape = null;
  #decoder = new TextDecoder();

  // send(text): what is typed.
  constructor(element, send) {
    this.element = element;
    element.tabIndex = 0;
    element.addEventListener('keydown', (event) => {
      const control = event.ctrlKey && !event.altKey && /^[a-z]$/.test(event.key) && !(event.key === 'c' && getSelection().toString()) && event.key !== 'v';
      const text = control ? String.fromCharCode(event.key.charCodeAt(0) - 96) : (KEYS[event.key] ?? (event.key.length === 1 && !event.ctrlKey && !event.metaKey ? event.key : null));
      if (text === null || (event.key === 'Tab' && event.shiftKey)) return; // shift and tab leave it
      event.preventDefault();
      send(text);
    });
    const line = make('input', { autocomplete: 'off', autocapitalize: 'none', spellcheck: false, enterKeyHint: 'send', placeholder: 'a line for the prompt' });
    line.setAttribute('aria-label', 'A line for the prompt');
    const stop = make('button', { type: 'button', onclick: () => send('\x03') }, 'Ctrl-C');
    const form = $(`${element.id}-line`);
    form.replaceChildren(line, make('button', {}, 'Send'), stop);
    form.onsubmit = (event) => {
      event.preventDefault();
      send(`${line.value}\r`);
      line.value = '';
    };
    let touched = false;
    element.addEventListener('pointerdown', (event) => (touched = event.pointerType === 'touch'));
    element.addEventListener('click', () => touched && getSelection().isCollapsed && line.focus());
    element.addEventListener('paste', (event) => send(event.clipboardData.getData('text').replace(/\r?\n/g, '\r')));
  }

  write(bytes) {
    for (const c of this.#decoder.decode(bytes, { stream: true })) this.#put(c);
    if (this.#lines.length > MOST) this.#lines.splice(0, this.#lines.length - MOST);
    this.element.textContent = this.#lines.join('\n');
    this.element.scrollTop = this.element.scrollHeight;
  }

  #put(c) {
    const last = this.#lines.length - 1;
    const line = this.#lines[last];
    if (this.#escape !== null) {
      this.#escape += c;
      const found = /^\[(\d*)([A-Za-z])$/.exec(this.#escape);
      if (found?.[2] === 'K') this.#lines[last] = line.slice(0, this.#at);
      if (found?.[2] === 'D') this.#at = Math.max(0, this.#at - Number(found[1] || 1));
      if (found?.[2] === 'C') this.#at = Math.min(COLUMNS, this.#at + Number(found[1] || 1));
      if (found || this.#escape.length > 8) this.#escape = null;
    } else if (c === '\x1b') {
      this.#escape = '';
    } else if (c === '\n') {
      this.#lines.push('');
      this.#at = 0;
    } else if (c === '\r') {
      this.#at = 0;
    } else if (c === '\b') {
      this.#at = Math.max(0, this.#at - 1);
    } else if (c >= ' ' && this.#at >= COLUMNS) {
      this.#lines.push('');
      this.#at = 0;
      this.#put(c);
    } else if (c >= ' ') {
      this.#lines[last] = line.slice(0, this.#at).padEnd(this.#at) + c + line.slice(this.#at + 1);
      ++this.#at;
    }
  }
}
