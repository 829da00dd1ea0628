/**
 * The findings of one place of the picture: for each stage at which something was lost its count, the evidence of its
 * newest gaps, and the section of the guide: cause, remedy, undo.
 */
import { guideAddress, sectionOfStage } from '../guide/guide';
import type { Line } from '../guide/markdown';
import { samples } from '../model/gaps';
import type { PathPlace } from '../model/path';
import { stageKey } from '../model/stage';
import { count, duration } from '../model/quantity';
import { clock, full, type Zone } from '../model/time';
import { backfillWords } from '../model/backfill';
import { relayWords } from '../model/hops';
import type { Rung } from '../model/ladder';
import { findingsOf, spared, type Finding, type GapEvidence } from '../model/finding';
import type { GapDetail } from '../wire/messages';
import { el, setAttribute, setText } from './dom';

interface Parts {
  readonly element: HTMLElement;
  readonly count: HTMLElement;
  readonly evidence: HTMLElement;
}

/** Content below the picture while a place is open. */
export class Findings {
  readonly #parts = new Map<string, Parts>();
  readonly #spared = el('p', { class: 'finding-spared' });
  #shown = '';

  constructor(readonly root: HTMLElement) {}

  /** Shows a place's findings; unchanged ones are kept, because the user may be reading or copying them. */
  show(place: PathPlace, gaps: readonly GapDetail[], zone: Zone): void {
    const findings = findingsOf(place, gaps);
    const shown = `${place.name} ${findings.map(({ rung }) => stageKey(rung.stage)).join()}`;
    for (const finding of findings) this.#fill(finding, zone);
    setText(this.#spared, restOf(place));
    if (shown !== this.#shown) {
      this.#shown = shown;
      this.root.replaceChildren(...findings.map(({ rung }) => this.#partsOf(rung).element), this.#spared);
      setAttribute(this.root, 'aria-label', `Findings: ${place.words}`);
    }
    this.root.hidden = false;
  }

  /** Takes them away. */
  hide(): void {
    this.root.hidden = true;
    this.root.replaceChildren();
    this.#parts.clear();
    this.#shown = '';
  }

  /** Returns whether the keyboard focus is within them. */
  hasFocus(): boolean {
    return this.root.contains(document.activeElement);
  }

  #partsOf({ stage }: Rung): Parts {
    const parts = this.#parts.get(stageKey(stage)) ?? makeFinding(stage.name, stage.words, stage.place);
    this.#parts.set(stageKey(stage), parts);
    return parts;
  }

  #fill({ rung, gaps, furtherGaps }: Finding, zone: Zone): void {
    const parts = this.#partsOf(rung);
    setText(parts.count, `${count(rung.elements)} ${rung.elements === 1 ? 'element' : 'elements'}`);
    const key = `${zone} ${furtherGaps} ${gaps.map(({ gap, elements }) => `${gap.id} ${gap.from} ${elements} ${gap.evidence.length}`).join()}`;
    if (parts.evidence.dataset['key'] === key) return;
    parts.evidence.dataset['key'] = key;
    const further = furtherGaps === 0 ? [] : [el('li', { class: 'finding-further', text: `and ${count(furtherGaps)} more in the list below` })];
    parts.evidence.replaceChildren(...gaps.map((gap) => evidenceItem(gap, zone)), ...further);
  }
}

/** Text for stages without losses, or the reason why that is unknown. */
function restOf(place: PathPlace): string {
  if (place.hop !== null) {
    const told = relayWords(place.hop.relay);
    const said = place.elements === 0 ? `Nothing was lost on ${place.words}.` : `Lost on ${place.words}${told === '' ? '; its relays tell more: tallycast relay --list' : ''}.`;
    return `${said} ${told} ${backfillWords(place.hop.relay?.backfill ?? null)}`.trimEnd();
  }
  const rest = spared(place).map(({ stage }) => stage.words).join(', ');
  if (!place.counted) return 'Samples that could not be written are in the account of the recorder; a plot of the past shows them as holes.';
  return rest === '' ? '' : `${place.elements === 0 ? 'Nothing was lost here' : 'Nothing else here'}: ${rest}.`;
}

function makeFinding(name: string, words: string, place: string): Parts {
  const amount = el('span', { class: 'finding-count' });
  const evidence = el('ul', { class: 'finding-evidence' });
  const head = el('h3', { class: 'finding-head' }, el('span', { class: 'stage-chip', 'data-place': place, 'aria-hidden': 'true' }),
    el('span', { class: 'finding-words', text: words.charAt(0).toUpperCase() + words.slice(1) }), amount, el('code', { text: name }));
  const link = el('a', { class: 'finding-guide', href: guideAddress(name), target: '_blank', rel: 'noopener', text: `Guide: ${name}` });
  return { element: el('article', { class: 'stage-finding' }, head, evidence, ...advice(name), link), count: amount, evidence };
}

function advice(stage: string): readonly HTMLElement[] {
  const section = sectionOfStage(stage);
  if (section === null) return [];
  const why = section.why.map(({ item, line }) => el('p', { class: item ? 'finding-item' : 'finding-why' }, ...lineNodes(line)));
  const rows = section.advice.flatMap(({ mark, line }) => [el('dt', { text: mark }), el('dd', {}, ...lineNodes(line))]);
  return [...why, ...(rows.length === 0 ? [] : [el('dl', { class: 'finding-advice' }, ...rows)])];
}

function lineNodes(line: Line): readonly (Node | string)[] {
  return line.map(({ kind, text, to }) => {
    switch (kind) {
      case 'text': return text;
      case 'code': return el('code', { text });
      case 'stress': return el('em', { text });
      case 'link': return el('a', { href: guideAddress((to ?? '').slice(1)), target: '_blank', rel: 'noopener', text });
    }
  });
}

function evidenceItem({ gap, lines }: GapEvidence, zone: Zone): HTMLElement {
  const head = el('span', { class: 'finding-gap', title: full(gap.from, zone), text: `${clock(gap.from, zone, 3)} · ${samples(gap.samples)} · ${duration(Number(gap.to - gap.from))}` });
  return el('li', {}, head, ...lines.map((line) => el('span', { class: 'finding-line', text: line })));
}
