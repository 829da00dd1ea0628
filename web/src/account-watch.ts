/**
 * The account on this page: which stream it is of, what the server told of it last, and the list of its gaps.
 *
 * The list is asked for again only when the account has changed. What the panel shows is in `ui/account-panel.ts`.
 */
import { fetchGaps } from './api';
import { gapOfDetail, type PlotGap } from './model/gaps';
import type { Zone } from './model/time';
import { AccountPanel, LISTED_GAPS } from './ui/account-panel';
import { byId } from './ui/dom';
import type { Account, BrowserLoss, Stream } from './wire/messages';

/** Services that the account needs from the page. */
export interface AccountContext {
  catalogue(): ReadonlyMap<string, Stream>;
  /** The server's time. */
  now(): bigint;
  zone(): Zone;
  /** Whether the server has an archive. */
  hasArchive(): boolean;
  /** The stream to begin with, if none was chosen. */
  first(): string | undefined;
  /** The account of this stream is wanted, or of none. */
  watch(stream: string | null): void;
  /** A stream was chosen here: the list is to show it. */
  onSelect(stream: string): void;
  /** A gap is to be shown in the plots. */
  onGap(gap: PlotGap): void;
}

const HOUR_NS = 3_600_000_000_000n;

/** The account. */
export class AccountWatch {
  readonly #element = byId('account', HTMLElement);
  readonly #panel: AccountPanel;
  #selected: string | null = null;
  #seen: Account | null = null;
  #gapsSeen = '';
  #browserLoss: BrowserLoss | null = null;

  constructor(readonly context: AccountContext) {
    this.#panel = new AccountPanel({
      onClose: () => this.toggle(false),
      onGap: (gap) => { if (this.#selected !== null) context.onGap(gapOfDetail(this.#selected, gap)); },
    });
  }

  /** Whether it shows. */
  get isOpen(): boolean {
    return !this.#element.hidden;
  }

  /** What this page did not show, from the server. */
  takeLoss(loss: BrowserLoss): void {
    this.#browserLoss = loss;
  }

  /** The catalogue changed. */
  onCatalogue(): void {
    if (this.#selected !== null) this.#panel.showStream(this.context.catalogue().get(this.#selected) ?? null);
  }

  /** Takes an account from the server. */
  take(account: Account): void {
    this.#seen = account;
    this.#show();
    const key = `${account.stream} ${[...account.lost].join()} ${account.unexplained} ${account.unsettled}`;
    if (key === this.#gapsSeen) return;
    this.#gapsSeen = key;
    void this.#fetchGaps(account.stream);
  }

  /** Chooses the stream whose account it is. */
  select(stream: string): void {
    this.#selected = stream;
    this.#panel.showStream(this.context.catalogue().get(stream) ?? null);
    this.#gapsSeen = '';
    if (this.isOpen) this.context.watch(stream);
  }

  /** Shows or hides it. */
  toggle(on = !this.isOpen): void {
    const first = this.context.first();
    if (on && this.#selected === null && first !== undefined) {
      this.select(first);
      this.context.onSelect(first);
    }
    this.#element.hidden = !on;
    if (on) this.#show();
    this.context.watch(on ? this.#selected : null);
  }

  /** Closes the findings of a hop; returns whether there were any. */
  closeFindings(): boolean {
    return this.#panel.closeFindings();
  }

  #show(): void {
    if (this.#seen === null) return;
    this.#panel.showAccount(this.#seen, { browser: this.#browserLoss, archive: this.context.hasArchive(), now: this.context.now() });
  }

  async #fetchGaps(stream: string): Promise<void> {
    const now = this.context.now();
    try {
      this.#panel.showGaps(stream, await fetchGaps(stream, now - HOUR_NS, now, LISTED_GAPS), this.context.zone());
    } catch {
      this.#gapsSeen = '';
    }
  }
}
