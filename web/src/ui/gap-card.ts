/**
 * The card beside a gap: stage, samples, times, and the evidence, which is fetched on first use.
 */
import { hopWords, type Hop } from '../model/hops';
import { detailOf, gapKey, lossRows, samples, type PlotGap } from '../model/gaps';
import { count, duration } from '../model/quantity';
import type { Stage } from '../model/stage';
import { clock, full, type Zone } from '../model/time';
import type { GapDetail } from '../wire/messages';
import { byId, el, setAttribute, unbroken } from './dom';

/** Looks the details of gaps up. */
export type FetchGaps = (stream: string, from: bigint, to: bigint, limit: number) => Promise<readonly GapDetail[]>;

/** Returns an earlier hop of a relayed stream, as far as the catalogue knows it. */
export type HopOf = (stream: string, hop: number) => Hop | null;

/** Details kept; a page left open for a week keeps no more. */
const KEPT = 128;
/** Gaps fetched around the one looked at. */
const LIMIT = 16;

/** The card. There is one on the page. */
export class GapCard {
  readonly #element = byId('gap-card', HTMLDivElement);
  readonly #known = new Map<string, GapDetail>();
  #shown: string | null = null;
  /** Set by the keyboard: then leaving with the pointer does not close the card. */
  #pinned = false;

  constructor(readonly fetchGaps: FetchGaps, readonly hopOf: HopOf) {}

  /** Shows the card for a gap at a place on the page. */
  show(gap: PlotGap, at: { readonly x: number; readonly y: number }, zone: Zone, pinned = false): void {
    // A gap that settles is another text: the stage belongs to the key.
    const key = `${gapKey(gap)} ${gap.code}`;
    this.#pinned = pinned;
    if (this.#shown !== key || this.#element.hidden) {
      this.#shown = key;
      this.#fill(gap, zone);
      if (!this.#known.has(key)) void this.#lookUp(key, gap, zone);
    }
    this.#element.hidden = false;
    setAttribute(this.#element, 'data-pinned', pinned ? '' : null);
    this.#place(at);
  }

  /** Removes the card; a pinned one only on request. */
  hide(pinnedToo = false): void {
    if (this.#pinned && !pinnedToo) return;
    this.#pinned = false;
    this.#shown = null;
    this.#element.hidden = true;
  }

  async #lookUp(key: string, gap: PlotGap, zone: Zone): Promise<void> {
    try {
      const details = await this.fetchGaps(gap.stream, gap.from, gap.to + 1n, LIMIT);
      const found = detailOf(details, gap);
      if (found !== null) this.#keep(key, found);
      if (this.#shown === key) this.#fill(gap, zone, found === null ? 'The server keeps no evidence for this gap.' : '');
    } catch {
      if (this.#shown === key) this.#fill(gap, zone, 'The evidence could not be fetched.');
    }
  }

  #keep(key: string, detail: GapDetail): void {
    this.#known.set(key, detail);
    const [oldest] = this.#known.keys();
    if (this.#known.size > KEPT && oldest !== undefined) this.#known.delete(oldest);
  }

  #fill(gap: PlotGap, zone: Zone, note = 'Looking the evidence up …'): void {
    const detail = this.#known.get(`${gapKey(gap)} ${gap.code}`);
    const hop = gap.stage.hop === undefined ? null : this.hopOf(gap.stream, gap.stage.hop);
    setAttribute(this.#element, 'data-place', gap.stage.place);
    this.#element.replaceChildren(
      heading(gap.stage, gap.severalStages),
      ...(hop === null ? [] : [el('p', { class: 'card-facts', text: `Lost before it came here: on ${hopWords(hop)}` })]),
      el('p', { class: 'card-count', text: `${samples(gap.samples)} missing · ${duration(Number(gap.to - gap.from))}` }),
      el('p', { class: 'card-facts', text: `${gap.stream} from index ${count(Number(gap.firstIndex))}` }),
      el('p', { class: 'card-facts', title: `${full(gap.from, zone)} to ${full(gap.to, zone)}`, text: `${clock(gap.from, zone, 6)} – ${clock(gap.to, zone, 6)}` }),
      ...(detail === undefined ? [el('p', { class: 'card-note', text: note })] : detailLines(detail)),
      ...(gap.stage.remedy === '' ? [] : [el('p', { class: 'card-remedy' }, ...unbroken(gap.stage.remedy))]),
    );
  }

  #place(at: { readonly x: number; readonly y: number }): void {
    const { offsetWidth: width, offsetHeight: height } = this.#element;
    const right = at.x + 16 + width > innerWidth;
    const x = Math.max(8, right ? at.x - 16 - width : at.x + 16);
    const y = Math.max(8, Math.min(innerHeight - height - 8, at.y - height / 3));
    this.#element.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  }
}

function heading(stage: Stage, several: boolean): HTMLElement {
  const words = capital(stage.words);
  return el('h3', { class: 'card-stage' }, el('span', { class: 'stage-chip', 'data-place': stage.place, 'aria-hidden': 'true' }),
    several ? `${words} and others` : words, el('code', { text: stage.name }));
}

function detailLines(detail: GapDetail): readonly HTMLElement[] {
  const rows = lossRows(detail);
  const split = rows.length > 1 ? rows.map(([stage, lost]) => el('p', { class: 'card-facts', text: `${count(lost)} elements: ${stage.words}` })) : [];
  const evidence = detail.evidence.map((line) => el('p', { class: 'card-evidence', text: line }));
  return [...split, ...evidence];
}

const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
