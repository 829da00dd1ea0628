/**
 * The account of the selected stream: the picture of its path, the ladder of stages with bars, the law, the gaps as a
 * list, and what its socket counts.
 */
import { gapsAsText, lossRows, samples } from '../model/gaps';
import { ladderOf, percent, type Ladder, type Rung } from '../model/ladder';
import { hopsOf, hopWords, type Hop } from '../model/hops';
import { keyFact } from '../model/key-facts';
import { levelText } from '../model/level';
import { count, duration } from '../model/quantity';
import { SEPARATOR, socketFacts, socketLine } from '../model/socket';
import { stageKey, stageLabel, stageOfName } from '../model/stage';
import { clock, full, type Zone } from '../model/time';
import { unauthenticFacts, unauthenticLine, unconfirmedText } from '../model/unauthentic';
import type { Account, BrowserLoss, GapDetail, KeyState, SocketCounts, Stream } from '../wire/messages';
import { byId, el, icon, setAttribute, setText, unbroken } from './dom';
import { PathPicture } from './path-picture';

/** Receiver of the events. */
export interface AccountListener {
  onClose(): void;
  /** A gap of the list was chosen: show it in the plots. */
  onGap(gap: GapDetail): void;
}

/** Gaps listed; older ones are in the archive's map. */
export const LISTED_GAPS = 200;

interface RungParts {
  readonly element: HTMLElement;
  readonly count: HTMLElement;
  readonly bar: HTMLElement;
  readonly share: HTMLElement;
}

/** Input beyond the account itself. */
export interface AccountSurroundings {
  readonly browser: BrowserLoss | null;
  /** The monitor reads an archive. */
  readonly archive: boolean;
  /** The server's time. */
  readonly now: bigint;
}

/** The panel at the right. */
export class AccountPanel {
  readonly #panel = byId('account', HTMLElement);
  readonly #path = new PathPicture();
  readonly #title = byId('account-title', HTMLHeadingElement);
  readonly #facts = byId('account-facts', HTMLParagraphElement);
  readonly #keys = byId('account-keys', HTMLParagraphElement);
  readonly #ladder = byId('ladder', HTMLDivElement);
  readonly #spared = byId('spared-stages', HTMLButtonElement);
  readonly #law = byId('law', HTMLDivElement);
  readonly #unauthentic = byId('unauthentic', HTMLDivElement);
  readonly #unconfirmed = byId('unconfirmed', HTMLParagraphElement);
  readonly #list = byId('gap-list', HTMLUListElement);
  readonly #listHead = byId('gap-list-head', HTMLHeadingElement);
  readonly #copy = byId('copy-gaps', HTMLButtonElement);
  readonly #foot = byId('account-socket', HTMLElement);
  readonly #rungs = new Map<string, RungParts>();
  #gaps: readonly GapDetail[] = [];
  #socket: SocketCounts | null = null;
  #stream = '';
  /** The selected stream as the catalogue has it. */
  #known: Stream | null = null;
  #zone: Zone = 'local';

  constructor(readonly listener: AccountListener) {
    byId('close-account', HTMLButtonElement).addEventListener('click', () => listener.onClose());
    this.#spared.addEventListener('click', () => this.#toggleSpared());
    this.#copy.prepend(icon('copy'));
    this.#copy.addEventListener('click', () => void this.#copyGaps());
  }

  /** Shows a stream before its account is here. */
  showStream(stream: Stream | null): void {
    const name = stream?.name ?? '';
    if (name !== this.#stream) this.#clear(name);
    this.#known = stream;
    if (stream === null) return;
    const labels = stream.labels.map((pair) => pair.join('=')).join(' ');
    const facts = [stream.station, stream.dtype, `${stream.channels.length} ch`, labels].filter((part) => part !== '').join(' · ');
    this.#showFacts(facts, stream.level);
    setAttribute(this.#facts, 'title', `epoch ${stream.epoch}`);
    if (!this.#panel.hidden) this.#path.showFlow(stream);
  }

  #showFacts(facts: string, level: string): void {
    if (this.#facts.dataset['told'] === `${level} ${facts}`) return;
    this.#facts.dataset['told'] = `${level} ${facts}`;
    const sign = level === '' ? [] : [el('span', { class: 'level', 'data-level': level, title: levelText(level) }, icon(level === 'clear' ? 'unlock' : 'lock'), el('span', { text: level }))];
    this.#facts.replaceChildren(...sign, el('span', { text: facts }));
  }

  /** Shows the current account; a closed panel shows nothing. */
  showAccount(account: Account, { browser, archive, now }: AccountSurroundings): void {
    if (account.stream !== this.#stream || this.#panel.hidden) return;
    const ladder = ladderOf(account, browser);
    this.#path.show(ladder, { archive, hops: this.#hops(account), now });
    this.#end('sent', 'sent', ladder.sent, 'since joining');
    for (const rung of ladder.rungs) this.#rung(rung);
    this.#end('delivered', 'delivered', ladder.delivered, ladder.sent === 0 ? '' : `${percent(ladder.delivered, ladder.sent)} of sent`);
    this.#order(ladder, this.#hops(account));
    this.#tellSpared();
    this.#showLaw(ladder, account);
    this.#showSocket(account.socket);
    this.#showUnauthentic(account.unauthentic);
    this.#showUnconfirmed(account.unconfirmedEpochs);
    this.#showKeys(account.keys, now);
  }

  /** Shows the gaps, newest first. */
  showGaps(stream: string, gaps: readonly GapDetail[], zone: Zone): void {
    if (stream !== this.#stream) return;
    this.#gaps = gaps;
    this.#zone = zone;
    this.#path.showGaps(gaps, zone);
    this.#copy.hidden = gaps.length === 0;
    setText(this.#listHead, gaps.length === 0 ? 'No gaps in the last hour' : `${gaps.length}${gaps.length === LISTED_GAPS ? ' newest' : ''} ${gaps.length === 1 ? 'gap' : 'gaps'} in the last hour`);
    const advised = new Set<string>();
    this.#list.replaceChildren(...gaps.toReversed().map((gap) => this.#item(gap, advised)));
  }

  /** Closes the findings of the picture; returns whether any were open. */
  closeFindings(): boolean {
    return this.#path.close();
  }

  #clear(name: string): void {
    this.#stream = name;
    this.#gaps = [];
    setText(this.#title, name === '' ? 'Account' : name);
    this.#showFacts(name === '' ? 'Select a stream to see its account.' : '', '');
    this.#rungs.clear();
    this.#path.clear();
    for (const element of [this.#ladder, this.#law, this.#list]) element.replaceChildren();
    setText(this.#listHead, '');
    this.#copy.hidden = true;
    this.#spared.hidden = true;
    this.#showSocket(null);
    this.#showUnauthentic(new Map());
    this.#showUnconfirmed(0);
    this.#showKeys(null, 0n);
  }

  #end(key: 'sent' | 'delivered', words: string, elements: number, share: string): void {
    const parts = this.#parts(key, () => rungElement(words, null));
    setAttribute(parts.element, 'data-end', '');
    setText(parts.count, count(elements));
    setText(parts.share, share);
  }

  #hops(account: Account): readonly Hop[] {
    return this.#known === null ? [] : hopsOf(account, this.#known);
  }

  #rung({ stage, elements, share }: Rung): void {
    const parts = this.#parts(stageKey(stage), () => rungElement(stage.hop === undefined ? stage.words : stageOfName(stage.name).words, stage.place));
    setAttribute(parts.element, 'data-zero', elements === 0 ? '' : null);
    setAttribute(parts.element, 'title', `${stage.name}${stage.remedy === '' ? '' : `\n${stage.remedy}`}`);
    setText(parts.count, count(elements));
    setText(parts.share, elements === 0 ? '' : percent(share, 1));
    parts.bar.style.inlineSize = `${(share * 100).toFixed(1)}%`;
  }

  #parts(key: string, make: () => RungParts): RungParts {
    const parts = this.#rungs.get(key) ?? make();
    this.#rungs.set(key, parts);
    return parts;
  }

  /** The ladder in the order of the path; delivery comes before the stages behind this reader's account. */
  #order(ladder: Ladder, hops: readonly Hop[]): void {
    const keys = ladder.rungs.map((rung) => stageKey(rung.stage));
    const told = [...keys, ...hops.map(({ from, to }) => `${from} ${to}`)].join();
    // Earlier hops come in as they lose something.
    if (this.#ladder.childElementCount > 0 && this.#ladder.dataset['told'] === told) return;
    this.#ladder.dataset['told'] = told;
    const after = ['browser', 'archive_write'];
    const own = ladder.rungs.filter(({ stage }) => stage.hop === undefined).map(({ stage }) => stage.name);
    const groups = hops.flatMap((hop) => {
      const rungs = ladder.rungs.filter(({ stage }) => stage.hop === hop.number).map(({ stage }) => stageKey(stage));
      return rungs.length === 0 ? [] : [hopHead(`hop ${hop.number}, ${hopWords(hop)}`), ...rungs.map((key) => this.#rungs.get(key)?.element ?? '')];
    });
    const relay = hops.at(-1)?.to ?? '';
    const here = groups.length === 0 ? [] : [hopHead(`hop ${hops.length}, the bus from ${relay === '' ? 'the last relay' : relay} to this monitor`)];
    const way = [...own.filter((name) => !after.includes(name)), 'delivered', ...after];
    const head = el('div', { class: 'ladder-head' },
      el('span', { text: 'stage' }), el('span', { text: 'share of missing' }), el('span', { text: 'elements' }));
    const elementOf = (name: string): HTMLElement | string => this.#rungs.get(name)?.element ?? '';
    this.#ladder.replaceChildren(elementOf('sent'), head, ...groups, ...here, ...way.map(elementOf));
  }

  #toggleSpared(): void {
    this.#ladder.toggleAttribute('data-all');
    this.#tellSpared();
  }

  /** Stages that lost nothing are folded, so that the others and the delivery stand together. */
  #tellSpared(): void {
    const spared = this.#ladder.querySelectorAll('.rung[data-zero]').length;
    const open = this.#ladder.hasAttribute('data-all');
    this.#spared.hidden = spared === 0;
    setText(this.#spared, open ? 'Hide the stages that lost nothing' : `Show ${spared} stages that lost nothing`);
    setAttribute(this.#spared, 'aria-expanded', String(open));
  }

  #showLaw(ladder: Ladder, account: Account): void {
    const terms: readonly (readonly [string, number])[] = [
      ['delivered', ladder.delivered], ['lost', ladder.lost], ['unexplained', ladder.unexplained],
      ['unsettled', ladder.unsettled], ['in flight', ladder.inFlight],
    ];
    const rows = terms.map(([word, value], i) => el('div', { class: 'law-row', 'data-zero': value === 0 && i > 1 },
      el('span', { text: `${i === 0 ? '=' : '+'} ${word}` }), el('span', { class: 'figure', text: count(value) })));
    setAttribute(this.#law, 'data-balanced', String(ladder.balanced));
    this.#law.replaceChildren(
      el('div', { class: 'law-row law-sent' }, el('span', { text: 'sent since joining' }), el('span', { class: 'figure', text: count(ladder.sent) })),
      ...rows,
      el('p', { class: 'verdict', text: `${ladder.balanced ? '✓' : '✗'} ${ladder.verdict}` }),
      el('p', { class: 'law-unit', text: `elements${ladder.perSample === 1 ? '' : `, ${ladder.perSample} a sample`}${account.leg === '' ? '' : ` · ${account.leg}`}${datagramText(account)}${earlyText(account)}` }),
    );
  }

  /** An alarm beside the account: nothing of it is in a term of the law. */
  #showUnauthentic(unauthentic: ReadonlyMap<string, number>): void {
    const line = unauthenticLine(unauthentic);
    this.#unauthentic.hidden = line === '';
    const facts = unauthenticFacts(unauthentic);
    const told = [line, ...facts.map(({ datagrams }) => datagrams)].join();
    // Unchanged content is kept: the user may be reading or copying it.
    if (this.#unauthentic.dataset['told'] === told) return;
    this.#unauthentic.dataset['told'] = told;
    this.#unauthentic.replaceChildren(
      el('strong', { text: line }),
      el('p', { class: 'unauthentic-note', text: 'They changed nothing in this account: no sample was lost or altered by them.' }),
      el('dl', { class: 'unauthentic-reasons' }, ...facts.flatMap(({ words, datagrams, meaning, remedy }) => [
        el('dt', {}, el('span', { text: words }), el('span', { class: 'figure', text: datagrams })),
        el('dd', {}, el('span', { text: meaning }), el('span', { class: 'unauthentic-remedy', text: remedy })),
      ])),
    );
  }

  #showUnconfirmed(epochs: number): void {
    const text = unconfirmedText(epochs);
    this.#unconfirmed.hidden = text === '';
    setText(this.#unconfirmed, text);
  }

  #showKeys(keys: KeyState | null, now: bigint): void {
    this.#keys.hidden = keys === null;
    if (keys === null) return;
    const { mood, text, remedy } = keyFact(keys, now, this.#zone);
    setAttribute(this.#keys, 'data-mood', mood);
    if (this.#keys.dataset['told'] === `${text} ${remedy}`) return;
    this.#keys.dataset['told'] = `${text} ${remedy}`;
    this.#keys.replaceChildren(text, ...(remedy === '' ? [] : [el('span', { class: 'keys-remedy', text: remedy })]));
  }

  #showSocket(socket: SocketCounts | null): void {
    this.#socket = socket;
    this.#foot.hidden = socket === null;
    // Unchanged content is kept: the user may be reading a tooltip of it.
    if (socket === null || this.#foot.textContent === socketLine(socket)) return;
    const facts = socketFacts(socket).map(({ text, meaning, odd }) => el('span', { text, title: meaning, 'data-odd': odd }));
    this.#foot.replaceChildren(...facts.flatMap((fact, i) => (i === 0 ? [fact] : [SEPARATOR, fact])));
  }

  /** One gap; the remedy of a stage stands at its newest gap only. */
  #item(gap: GapDetail, advised: Set<string>): HTMLElement {
    const [leading] = lossRows(gap);
    const remedy = leading === undefined || advised.has(stageKey(leading[0])) ? '' : leading[0].remedy;
    if (leading !== undefined) advised.add(stageKey(leading[0]));
    const place = leading?.[0].place ?? 'unexplained';
    const button = el('button', { type: 'button', class: 'gap-item', title: full(gap.from, this.#zone), on: { click: () => this.listener.onGap(gap) } },
      el('span', { class: 'stage-chip', 'data-place': place, 'aria-hidden': 'true' }),
      el('span', { class: 'gap-time', text: clock(gap.from, this.#zone, 3) }),
      el('span', { class: 'gap-what', text: `${samples(gap.samples)} · ${duration(Number(gap.to - gap.from))}` }),
      el('span', { class: 'gap-stage', text: lossRows(gap).map(([stage]) => stageLabel(stage)).join(', ') }));
    const evidence = gap.evidence.map((line) => el('p', { class: 'gap-evidence', text: line }));
    return el('li', {}, button, ...evidence, ...(remedy === '' ? [] : [el('p', { class: 'gap-remedy' }, ...unbroken(remedy))]));
  }

  async #copyGaps(): Promise<void> {
    const text = gapsAsText(this.#stream, this.#gaps, this.#socket, this.#zone);
    const label = this.#copy.querySelector('span');
    try {
      await navigator.clipboard.writeText(text);
      if (label !== null) setText(label, 'Copied');
    } catch {
      if (label !== null) setText(label, 'The browser does not allow copying here');
    }
    setTimeout(() => label !== null && setText(label, 'Copy as text'), 2_000);
  }
}

/** Heads the stages of one hop of a relayed stream. */
const hopHead = (words: string): HTMLElement => el('div', { class: 'ladder-hop', text: words });

function rungElement(words: string, place: string | null): RungParts {
  const figure = el('span', { class: 'figure', text: '0' });
  const bar = el('span', { class: 'rung-bar', 'aria-hidden': 'true' });
  const share = el('span', { class: 'rung-share' });
  const element = el('div', { class: 'rung', ...(place === null ? {} : { 'data-place': place }) },
    el('span', { class: 'rung-name', text: words }), el('span', { class: 'rung-track' }, bar), share, figure);
  return { element, count: figure, bar, share };
}

function datagramText({ datagrams }: Account): string {
  return datagrams === null ? '' : ` · ${count(datagrams.received)} of ${count(datagrams.next - datagrams.first)} datagrams received`;
}

function earlyText({ settledEarly }: Account): string {
  return settledEarly === 0 ? '' : ` · gaps settled early, because too many waited for evidence: ${count(settledEarly)}`;
}
