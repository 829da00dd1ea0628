/**
 * The way of the selected stream as a drawing: every place a button with what was lost there, between them what flows.
 * A place that is pressed shows its findings below.
 */
import { flowOf, pathOf, stepTo, type Path, type PathPlace, type PlaceName, type Surroundings } from '../model/path';
import type { Ladder } from '../model/ladder';
import { samples } from '../model/gaps';
import { LossTimes } from '../model/loss-times';
import { count, short } from '../model/quantity';
import type { Zone } from '../model/time';
import type { GapDetail, Stream } from '../wire/messages';
import { byId, el, setAttribute, setText } from './dom';
import { Findings } from './findings';

interface Parts {
  readonly button: HTMLButtonElement;
  readonly count: HTMLElement;
  readonly mark: HTMLElement;
  /** One for each stage, where there are several. */
  readonly cells: readonly HTMLElement[];
}

/** Lines between places; their positions are in the style sheet. */
const LINES = ['publisher-sender', 'sender-network', 'network-receiver', 'receiver-reader', 'reader-browser', 'reader-archive', 'network-unexplained', 'unexplained-unsettled'];

/** The picture. There is one on the page. */
export class PathPicture {
  readonly #root = byId('path', HTMLDivElement);
  readonly #findings = new Findings(byId('findings', HTMLElement));
  readonly #stated = el('span', { class: 'path-flow', 'data-at': 'stated', title: 'Rate stated by the publisher; not measured' });
  readonly #arriving = el('span', { class: 'path-flow', 'data-at': 'arriving', title: 'Samples received by the monitor, over the last five seconds' });
  readonly #sum = el('p', { class: 'path-sum' }, el('b'), el('span'), el('span'));
  readonly #parts = new Map<PlaceName, Parts>();
  #times = new LossTimes();
  #path: Path | null = null;
  #gaps: readonly GapDetail[] = [];
  #zone: Zone = 'local';
  #open: PlaceName | null = null;

  constructor() {
    this.#root.addEventListener('keydown', (event) => this.#onKey(event));
  }

  /** Forgets the stream that was shown. */
  clear(): void {
    this.close();
    this.#times = new LossTimes();
    this.#path = null;
    this.#gaps = [];
    this.#parts.clear();
    this.#root.replaceChildren();
  }

  /** Shows what flows. */
  showFlow(stream: Stream): void {
    const { stated, arriving } = flowOf(stream);
    setText(this.#stated, stated);
    setText(this.#arriving, arriving);
  }

  /** Shows what was lost where. */
  show(ladder: Ladder, { archive, now }: Pick<Surroundings, 'archive'> & { readonly now: bigint }): void {
    this.#times.onRungs(ladder.rungs, now);
    this.#path = pathOf(ladder, { archive, isRecent: (rung) => this.#times.isRecent(rung, now) });
    const { places, missing } = this.#path;
    if (places.some(({ name }) => !this.#parts.has(name))) this.#build(places);
    for (const place of places) this.#showPlace(place);
    const words = missing === 0 ? ['Nothing is missing'] : missingWords(missing, ladder.perSample);
    [...this.#sum.children].forEach((line, i) => setText(line, words[i] ?? ''));
    this.#tell();
  }

  /** Takes the gaps, in the order of time, as evidence. */
  showGaps(gaps: readonly GapDetail[], zone: Zone): void {
    this.#times.onGaps(gaps);
    [this.#gaps, this.#zone] = [gaps, zone];
    this.#tell();
  }

  /** Closes the findings; returns whether any were open. */
  close(): boolean {
    if (this.#open === null) return false;
    const { button } = this.#parts.get(this.#open) ?? {};
    const within = this.#findings.hasFocus();
    this.#open = null;
    if (button !== undefined) setAttribute(button, 'aria-expanded', 'false');
    this.#findings.hide();
    // The keyboard focus returns to the place where the findings were opened.
    if (within) button?.focus();
    return true;
  }

  #build(places: readonly PathPlace[]): void {
    for (const place of places) if (!this.#parts.has(place.name)) this.#parts.set(place.name, this.#place(place));
    const archive = this.#parts.has('archive');
    setAttribute(this.#root, 'data-archive', archive ? '' : null);
    const lines = LINES.filter((line) => archive || line !== 'reader-archive').map((line) => el('span', { class: 'path-line', 'data-at': line, 'aria-hidden': 'true' }));
    this.#root.replaceChildren(...lines, ...places.map(({ name }) => this.#parts.get(name)?.button ?? ''), this.#stated, this.#arriving, this.#sum);
  }

  #place({ name, words, colour, rungs }: PathPlace): Parts {
    const amount = el('span', { class: 'path-count' });
    const mark = el('span', { class: 'path-mark', text: '▲ now' });
    const cells = rungs.length < 2 ? [] : rungs.map(({ stage }) => el('span', { class: 'path-cell', title: stage.words, 'data-place': stage.place }));
    const button = el('button', {
      type: 'button', class: 'path-place', 'data-at': name, 'data-place': colour, 'aria-expanded': 'false', 'aria-controls': 'findings',
      on: { click: () => this.#toggle(name) },
    }, el('span', { class: 'path-name', text: words }), el('span', { class: 'path-figures' }, amount, mark),
    ...(cells.length === 0 ? [] : [el('span', { class: 'path-cells' }, ...cells)]));
    return { button, count: amount, mark, cells };
  }

  #showPlace({ name, words, rungs, elements, counted, recent }: PathPlace): void {
    const parts = this.#parts.get(name);
    if (parts === undefined) return;
    setText(parts.count, counted ? short(elements) : '–');
    setAttribute(parts.button, 'data-zero', elements === 0 ? '' : null);
    setAttribute(parts.button, 'data-recent', recent ? '' : null);
    parts.mark.hidden = !recent;
    const lost = elements === 0 ? 'nothing lost' : `${count(elements)} elements lost${recent ? ', some of them now' : ''}`;
    setAttribute(parts.button, 'aria-label', `${words}: ${counted ? lost : 'counted by its recorder'}`);
    parts.cells.forEach((cell, i) => setAttribute(cell, 'data-zero', rungs[i]?.elements === 0 ? '' : null));
  }

  #toggle(name: PlaceName): void {
    const again = this.#open === name;
    this.close();
    if (again) return;
    this.#open = name;
    const parts = this.#parts.get(name);
    if (parts !== undefined) setAttribute(parts.button, 'aria-expanded', 'true');
    this.#tell();
  }

  #tell(): void {
    const place = this.#path?.places.find(({ name }) => name === this.#open);
    if (place !== undefined) this.#findings.show(place, this.#gaps, this.#zone);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const places = this.#path?.places ?? [];
    const at = places.findIndex(({ name }) => this.#parts.get(name)?.button === event.target);
    const to = at < 0 ? null : stepTo(event.key, at, places.length);
    const next = to === null ? undefined : places[to];
    if (next === undefined) return;
    // Elsewhere arrows move through time.
    event.preventDefault();
    event.stopPropagation();
    this.#parts.get(next.name)?.button.focus();
  }
}

/** The list of streams counts samples, the account elements: of several in a sample both are said. */
function missingWords(missing: number, perSample: number): readonly string[] {
  const words = missing === 1 ? 'element missing' : 'elements missing';
  return [count(missing), words, ...(perSample === 1 ? [] : [`= ${samples(Math.ceil(missing / perSample))}`])];
}
