/**
 * The way of the selected stream as a drawing: every place a button with what was lost there, between them what flows.
 * A place that is pressed shows its findings below. Above it stand the hops of a relayed stream, station by station.
 */
import { flowOf, pathOf, stepTo, type Path, type PathPlace, type PlaceName, type Surroundings } from '../model/path';
import type { Ladder, Rung } from '../model/ladder';
import { samples } from '../model/gaps';
import { LossTimes } from '../model/loss-times';
import { hopTitle, type Hop } from '../model/hops';
import { count, short } from '../model/quantity';
import type { Zone } from '../model/time';
import type { GapDetail, Stream } from '../wire/messages';
import { byId, el, setAttribute, setText } from './dom';
import { Findings } from './findings';

interface Parts {
  readonly button: HTMLButtonElement;
  readonly name: HTMLElement;
  readonly count: HTMLElement;
  readonly mark: HTMLElement;
  /** One for each stage, where there are several. */
  readonly cells: readonly HTMLElement[];
  /** Of an earlier hop: the stage that lost most there. */
  readonly why: HTMLElement | null;
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
  /** The stations of the picture, to be noticed when they change. */
  #way = '';

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
    this.#way = '';
    this.#root.replaceChildren();
  }

  /** Shows what flows. */
  showFlow(stream: Stream): void {
    const { stated, arriving } = flowOf(stream);
    setText(this.#stated, stated);
    setText(this.#arriving, arriving);
  }

  /** Shows what was lost where. */
  show(ladder: Ladder, { archive, hops, now }: Pick<Surroundings, 'archive'> & { readonly hops: readonly Hop[]; readonly now: bigint }): void {
    this.#times.onRungs(ladder.rungs, now);
    this.#path = pathOf(ladder, { archive, hops, isRecent: (rung) => this.#times.isRecent(rung, now) });
    const { places, missing } = this.#path;
    const way = hops.map(({ from, to }) => `${from} ${to}`).join();
    if (way !== this.#way || places.some(({ name }) => !this.#parts.has(name))) this.#build(places);
    this.#way = way;
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
    for (const place of places) if (!this.#parts.has(place.name)) this.#parts.set(place.name, place.hop === null ? this.#place(place) : this.#hop(place, place.hop));
    const before = places.flatMap(({ hop }) => (hop === null ? [] : [hop]));
    const buttonOf = (name: PlaceName): HTMLElement | string => this.#parts.get(name)?.button ?? '';
    const relay = this.#parts.get('publisher');
    if (relay !== undefined) setText(relay.name, before.length > 0 ? 'relay' : 'publisher');
    const archive = this.#parts.has('archive');
    setAttribute(this.#root, 'data-relayed', before.length > 0 ? '' : null);
    const lines = LINES.filter((line) => archive || line !== 'reader-archive').map((line) => el('span', { class: 'path-line', 'data-at': line, 'aria-hidden': 'true' }));
    const own = places.filter(({ hop }) => hop === null).map(({ name }) => buttonOf(name));
    const grid = el('div', { class: 'path-own' }, ...lines, ...own, this.#stated, this.#arriving, this.#sum);
    setAttribute(grid, 'data-archive', archive ? '' : null);
    this.#root.replaceChildren(...(before.length === 0 ? [] : [chain(before, (hop) => buttonOf(`hop-${hop.number}`))]), grid);
  }

  #hop({ name, words }: PathPlace, hop: Hop): Parts {
    const { number } = hop;
    const amount = el('span', { class: 'path-count' });
    const why = el('span', { class: 'path-why' });
    const mark = el('span', { class: 'path-mark', text: '▲ now' });
    const title = el('span', { class: 'path-name', text: hopTitle(hop) });
    const button = el('button', {
      type: 'button', class: 'path-place path-hop', 'data-at': name, 'aria-expanded': 'false', 'aria-controls': 'findings', title: `Hop ${number}: ${words}`,
      on: { click: () => this.#toggle(name) },
    }, title, el('span', { class: 'path-figures' }, amount, why, mark));
    button.style.gridRow = `${2 * number + 2} / span 2`;
    return { button, name: title, count: amount, mark, cells: [], why };
  }

  #place({ name, words, colour, rungs }: PathPlace): Parts {
    const amount = el('span', { class: 'path-count' });
    const mark = el('span', { class: 'path-mark', text: '▲ now' });
    const cells = rungs.length < 2 ? [] : rungs.map(({ stage }) => el('span', { class: 'path-cell', title: stage.words, 'data-place': stage.place }));
    const title = el('span', { class: 'path-name', text: words });
    const button = el('button', {
      type: 'button', class: 'path-place', 'data-at': name, 'data-place': colour, 'aria-expanded': 'false', 'aria-controls': 'findings',
      on: { click: () => this.#toggle(name) },
    }, title, el('span', { class: 'path-figures' }, amount, mark),
    ...(cells.length === 0 ? [] : [el('span', { class: 'path-cells', 'aria-hidden': 'true' }, ...cells)]));
    return { button, name: title, count: amount, mark, cells, why: null };
  }

  #showPlace({ name, words, colour, rungs, elements, counted, recent, hop }: PathPlace): void {
    const parts = this.#parts.get(name);
    if (parts === undefined) return;
    setText(parts.count, counted ? short(elements) : '–');
    setAttribute(parts.button, 'data-zero', elements === 0 ? '' : null);
    setAttribute(parts.button, 'data-recent', recent ? '' : null);
    parts.mark.hidden = !recent;
    const lost = elements === 0 ? 'nothing lost' : `${count(elements)} elements lost${recent ? ', some of them now' : ''}`;
    setAttribute(parts.button, 'data-place', colour);
    if (parts.why !== null) setText(parts.why, whyOf(rungs));
    if (hop !== null) setText(parts.name, hopTitle(hop));
    const said = hop === null ? words : `hop ${hop.number}, ${words}`;
    // Its name is what is seen: a name of its own would not be what a user says to press it.
    setAttribute(parts.button, 'aria-description', `${said}: ${counted ? lost : 'counted by its recorder'}`);
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
    // Below a long chain they would be out of sight.
    if (name.startsWith('hop-')) this.#findings.root.scrollIntoView({ block: 'nearest' });
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

/** Draws the hops before the last relay from station to station, downwards. */
function chain(hops: readonly Hop[], buttonOf: (hop: Hop) => HTMLElement | string): HTMLElement {
  const stations = [...hops.map(({ from }) => from), hops.at(-1)?.to ?? ''];
  const items = stations.flatMap((name, i): readonly (HTMLElement | string)[] => {
    const row = (element: HTMLElement, from: number, span: number): HTMLElement => {
      element.style.gridRow = `${from} / span ${span}`;
      return element;
    };
    const role = i === 0 ? 'publisher' : 'relay';
    const station = el('span', { class: 'path-station', 'data-role': role, title: `${role}${name === '' ? ', not named yet' : ` ${name}`}` }, el('span', { text: name === '' ? role : name }));
    const hop = hops[i];
    const rail = el('span', { class: 'path-rail', 'data-kind': hop?.kind ?? 'into', 'aria-hidden': 'true' });
    return [row(rail, 2 * i + 2, hop === undefined ? 1 : 2), row(station, 2 * i + 1, 2), hop === undefined ? '' : buttonOf(hop)];
  });
  return el('div', { class: 'path-chain' }, ...items);
}

/** The stage that lost most on a hop, and that there are others. */
function whyOf(rungs: readonly Rung[]): string {
  const [most, ...others] = rungs.toSorted((a, b) => b.elements - a.elements);
  if (most === undefined) return '';
  const words = most.stage.words.replace(/ on hop \d+$/, '');
  return others.length === 0 ? words : `${words} and others`;
}

/** The list of streams counts samples, the account elements: of several in a sample both are said. */
function missingWords(missing: number, perSample: number): readonly string[] {
  const words = missing === 1 ? 'element missing' : 'elements missing';
  return [count(missing), words, ...(perSample === 1 ? [] : [`= ${samples(Math.ceil(missing / perSample))}`])];
}
