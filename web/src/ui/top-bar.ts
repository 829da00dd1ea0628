/**
 * The line at the top: the sentence about the bus, the pace of time, the clock and the tools.
 */
import type { Mood } from '../model/sentence';
import { duration } from '../model/quantity';
import { clock, day, type Zone } from '../model/time';
import { SPANS, type TimeWindow } from '../model/window';
import { byId, el, icon, iconButton, setAttribute, setText, type Icon } from './dom';

/** Receiver of the events. */
export interface TopBarListener {
  onSentence(): void;
  onFollow(): void;
  onSpan(spanNs: bigint): void;
  onZone(): void;
  onInject(on: boolean): void;
  onTool(tool: Tool): void;
  onList(): void;
}

/** Actions of the buttons at the right. */
export type Tool = 'account' | 'share' | 'theme' | 'wall' | 'keys';
const TOOLS: readonly (readonly [Tool, Icon, string])[] = [
  ['account', 'ladder', 'Account of the selected stream (a)'],
  ['share', 'share', 'Copy the address of this view (s)'],
  ['theme', 'theme', 'Dark or light (t)'],
  ['wall', 'wall', 'Large screen (w)'],
  ['keys', 'help', 'Keys (?)'],
];

/** The top bar. */
export class TopBar {
  readonly #sentence = byId('sentence', HTMLButtonElement);
  readonly #text = byId('sentence-text', HTMLSpanElement);
  readonly #pace = byId('pace', HTMLDivElement);
  readonly #paceText = byId('pace-text', HTMLSpanElement);
  readonly #paceWord = byId('pace-word', HTMLSpanElement);
  readonly #paceTime = byId('pace-time', HTMLSpanElement);
  readonly #span = byId('span', HTMLSelectElement);
  readonly #clock = byId('clock', HTMLButtonElement);
  readonly #inject = byId('inject', HTMLButtonElement);

  constructor(listener: TopBarListener) {
    this.#sentence.addEventListener('click', () => listener.onSentence());
    byId('follow', HTMLButtonElement).addEventListener('click', () => listener.onFollow());
    this.#span.addEventListener('change', () => {
      listener.onSpan(BigInt(this.#span.value));
      this.#span.blur();
    });
    this.#clock.addEventListener('click', () => listener.onZone());
    this.#inject.addEventListener('click', () => listener.onInject(this.#inject.getAttribute('aria-checked') !== 'true'));
    const list = byId('toggle-list', HTMLButtonElement);
    list.append(icon('list'));
    list.addEventListener('click', () => listener.onList());
    byId('tools', HTMLSpanElement).append(...TOOLS.map(([tool, name, words]) => iconButton(name, words, () => listener.onTool(tool))));
  }

  /** Shows the state of the bus, or of the connection to it. */
  say(mood: Mood, text: string): void {
    setAttribute(this.#sentence, 'data-mood', mood);
    setText(this.#text, text);
    const title = mood === 'warn' || mood === 'bad' ? `! ${text} – Tallycast` : 'Tallycast';
    if (document.title !== title) document.title = title;
  }

  /** Shows the window: live or held, and how wide. */
  showWindow(window: TimeWindow, zone: Zone): void {
    const live = window.endNs === null;
    setAttribute(this.#pace, 'data-live', String(live));
    setText(this.#paceWord, live ? 'Live' : 'Paused');
    setText(this.#paceTime, live ? '' : clock(window.endNs ?? 0n, zone, 1));
    setAttribute(this.#paceText, 'title', live ? null : day(window.endNs ?? 0n, zone));
    const spans = SPANS.includes(window.spanNs) ? SPANS : [...SPANS, window.spanNs].sort((a, b) => (a < b ? -1 : 1));
    const wanted = spans.map(String);
    if (wanted.join() !== [...this.#span.options].map((option) => option.value).join()) {
      this.#span.replaceChildren(...spans.map((span) => el('option', { value: String(span), text: duration(Number(span)) })));
    }
    this.#span.value = String(window.spanNs);
  }

  /** Shows the server's time. */
  showClock(now: bigint, zone: Zone): void {
    setText(this.#clock, zone === 'utc' ? `${clock(now, zone)} UTC` : clock(now, zone));
    setAttribute(this.#clock, 'title', `${day(now, zone)} · ${zone === 'utc' ? 'UTC' : 'local time'} (u changes)`);
  }

  /** Shows the "lose 1 %" switch where loss can be planted; `barred` says why this visitor may not. */
  showInjection(available: boolean, on: boolean, barred = ''): void {
    this.#inject.hidden = !available;
    this.#inject.disabled = barred !== '';
    if (barred !== '') setAttribute(this.#inject, 'title', barred);
    setAttribute(this.#inject, 'aria-checked', String(on));
  }
}
