/**
 * The panel that exports what is seen: pictures of a plot or of the page, and files of a plot's values in the stretch of
 * time that was seen when it opened.
 */
import { fetchFile, Refused } from '../api';
import { columnText, commandLine, exportPath, fileName, FORMS, isTooMuch, partsOf, sizeText, type ExportPart, type Form, type Stretch, type Values } from '../model/export';
import { full, type Zone } from '../model/time';
import type { Stream, TraceRequest } from '../wire/messages';
import { byId, el, iconButton, setText } from './dom';

/** What is to be exported. */
export interface Exportable {
  readonly title: string;
  readonly traces: readonly TraceRequest[];
  readonly stretch: Stretch;
}

/** Services that the panel needs from the page. */
export interface ExportContext {
  /** The active plot as it is seen, or null. */
  seen(): Exportable | null;
  /** Draws a plot or the whole page. */
  picture(what: 'plot' | 'page'): HTMLCanvasElement | null;
  catalogue(): ReadonlyMap<string, Stream>;
  zone(): Zone;
  say(text: string): void;
}

/** A file's address is given back once the browser has surely begun to write it. */
const KEEP_MS = 60_000;

/** The panel. */
export class ExportPanel {
  readonly #element = byId('export', HTMLElement);
  readonly #note = el('p', { class: 'export-note', role: 'status' });
  #before: Element | null = null;

  constructor(readonly context: ExportContext) {
    // Arrow keys and letters within it are its own.
    this.#element.addEventListener('keydown', (event) => { if (event.key !== 'Escape' && event.key !== 'e') event.stopPropagation(); });
  }

  /** Whether it shows. */
  get isOpen(): boolean {
    return !this.#element.hidden;
  }

  /** Shows or hides it. */
  toggle(on = !this.isOpen): void {
    const seen = on ? this.context.seen() : null;
    if (on && seen === null) return this.context.say('Plot a stream first: a plot is exported');
    if (seen === null) return this.#close();
    this.#before = document.activeElement;
    this.#fill(seen);
    this.#element.hidden = false;
    this.#element.querySelector('button')?.focus();
  }

  #close(): void {
    if (!this.isOpen) return;
    // What is hidden keeps the focus until the next picture, and with it the next key.
    if (document.activeElement instanceof HTMLElement && this.#element.contains(document.activeElement)) document.activeElement.blur();
    this.#element.hidden = true;
    if (this.#before instanceof HTMLElement) this.#before.focus();
  }

  #fill(seen: Exportable): void {
    const { stretch } = seen;
    const zone = this.context.zone();
    setText(this.#note, '');
    const pictures = el('div', { class: 'export-row' },
      el('span', { class: 'export-name', text: 'Picture' }),
      this.#button('PNG of this plot', () => this.#png('plot', seen)),
      this.#button('PNG of the page', () => this.#png('page', seen)));
    const parts = partsOf(seen.traces, stretch, this.context.catalogue());
    this.#element.replaceChildren(
      el('header', { class: 'export-head' }, el('h2', { text: `Export ${seen.title}` }), iconButton('close', 'Close (e)', () => this.#close())),
      el('p', { class: 'export-time', text: `${full(stretch.from, zone)} to ${full(stretch.to, zone)}` }),
      pictures, ...parts.map((part) => this.#part(part, stretch)), this.#note);
  }

  #part(part: ExportPart, stretch: Stretch): HTMLElement {
    const files = (values: Values, words: string, more: string): HTMLElement => el('div', { class: 'export-row' },
      el('span', { class: 'export-name', text: words }),
      ...FORMS.map((form) => this.#button(form === 'csv' ? 'CSV' : 'Parquet', () => void this.#file(part, stretch, form, values), `${part.stream}, ${words}`)),
      el('span', { class: 'export-size', text: more }));
    const whole = isTooMuch(part)
      ? el('div', { class: 'export-row' }, el('span', { class: 'export-name', text: 'every sample' }), el('span', { class: 'export-size', text: sizeText(part) }))
      : files('samples', 'every sample', sizeText(part));
    return el('section', { class: 'export-part', 'aria-label': part.stream },
      el('h3', { text: part.stream }), whole, files('columns', 'thinned', columnText(stretch)),
      ...(isTooMuch(part) ? [this.#command(part, stretch)] : []));
  }

  /** The way to more than one answer holds: from the archive of the settings. */
  #command(part: ExportPart, stretch: Stretch): HTMLElement {
    const line = commandLine(part, stretch, 'parquet');
    return el('div', { class: 'export-command' },
      el('code', { text: line }), this.#button('Copy', () => void this.#copy(line), 'the command for every sample'),
      el('p', { class: 'export-size', text: 'On a host with the archive, it writes every sample of all channels; name another archive than that of the settings before the stream.' }));
  }

  #button(text: string, act: () => void, of = ''): HTMLButtonElement {
    return el('button', { type: 'button', class: 'word-button', text, ...(of === '' ? {} : { 'aria-label': `${text}: ${of}` }), on: { click: act } });
  }

  #png(what: 'plot' | 'page', seen: Exportable): void {
    const canvas = this.context.picture(what);
    if (canvas === null) return;
    canvas.toBlob((blob) => {
      if (blob === null) return setText(this.#note, 'The browser cannot make a picture of this size: make its window smaller');
      this.#save(blob, fileName(what === 'page' ? 'page' : seen.title, seen.stretch.from, 'png'));
    }, 'image/png');
  }

  async #file(part: ExportPart, stretch: Stretch, form: Form, values: Values): Promise<void> {
    setText(this.#note, `Reading ${part.stream} …`);
    try {
      const blob = await fetchFile(exportPath(part, stretch, form, values));
      const name = values === 'columns' ? `${part.stream} thinned` : part.stream;
      this.#save(blob, fileName(name, stretch.from, form));
    } catch (error) {
      this.#refuse(error, part, stretch);
    }
  }

  /** Says why there is no file, and the other ways to one. */
  #refuse(error: unknown, part: ExportPart, stretch: Stretch): void {
    if (!(error instanceof Refused)) return setText(this.#note, 'The server did not answer: try again');
    setText(this.#note, error.text);
    const section = this.#element.querySelector(`section[aria-label=${CSS.escape(part.stream)}]`);
    const has = section?.querySelector('.export-command') !== null;
    if ((error.status === 409 || error.status === 413) && !has) section?.append(this.#command(part, stretch));
  }

  async #copy(line: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(line);
      setText(this.#note, 'Command copied');
    } catch {
      setText(this.#note, 'The browser does not allow copying here: select the command');
    }
  }

  #save(blob: Blob, name: string): void {
    const url = URL.createObjectURL(blob);
    const link = el('a', { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), KEEP_MS);
    setText(this.#note, `Saved as ${name}`);
  }
}
