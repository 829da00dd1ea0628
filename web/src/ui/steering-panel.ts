/**
 * The panel that steers an app: below the list, folded until needed. It asks only while it is open.
 */
import { Refused } from '../api';
import { hindrance, totalsText, type SteeredApp } from '../model/steering';
import { act, fetchApp, fetchApps, type Action } from '../steer-api';
import { byId, el, setAttribute, setText } from './dom';
import { SteeredParameter } from './steered-parameter';

/** The app is asked for this often. */
const BEAT_MS = 1_000;
/** Leases are renewed this often; one holds for ten seconds. */
const RENEW_MS = 3_000;

/** The panel. */
export class SteeringPanel {
  readonly #apps = el('select', { 'aria-label': 'App', on: { change: () => this.#choose(this.#apps.value) } });
  readonly #note = el('p', { class: 'steer-note', role: 'status' });
  readonly #account = el('p', { class: 'steer-facts' });
  readonly #groups = el('div', { class: 'steering-groups' });
  readonly #parameters = el('div', { class: 'steering-groups' });
  readonly #stop = new StopSwitch((action) => this.#act(action));
  readonly #details: HTMLDetailsElement;
  #rows = new Map<string, SteeredParameter>();
  #leases = new Map<string, LeaseRow>();
  #app = '';
  /** Groups whose lease this page holds. */
  #held: ReadonlySet<string> = new Set();
  #timers: readonly ReturnType<typeof setInterval>[] = [];

  constructor() {
    const body = el('div', { class: 'steering-body' }, this.#apps, this.#note, this.#stop.element, this.#groups, this.#parameters, this.#account);
    this.#details = el('details', { id: 'steering' }, el('summary', { text: 'Steer an app' }), body);
    this.#details.addEventListener('toggle', () => (this.#details.open ? void this.#open() : this.#close()));
    byId('sources', HTMLDivElement).append(this.#details);
  }

  /** Hides it from visitors that may not read; an empty reason shows it. */
  bar(why: string): void {
    this.#details.hidden = why !== '';
    if (why !== '') this.#details.open = false;
  }

  async #open(): Promise<void> {
    this.#close();
    this.#timers = [
      setInterval(() => { if (!document.hidden) void this.#show(); }, BEAT_MS),
      setInterval(() => this.#renew(), RENEW_MS),
    ];
    await this.#show();
  }

  /** Ends asking; leases are given back. */
  #close(): void {
    this.#timers.forEach(clearInterval);
    this.#timers = [];
    this.#release();
  }

  #release(): void {
    const app = this.#app;
    for (const group of this.#held) act(app, { action: 'release', group }).catch(() => undefined);
    this.#held = new Set();
  }

  #renew(): void {
    const app = this.#app;
    // A lease that is lost meanwhile shows with the next look.
    for (const group of this.#held) act(app, { action: 'lease', group }).catch(() => undefined);
  }

  #choose(app: string): void {
    if (app === this.#app) return;
    this.#release();
    this.#app = app;
    this.#rows = new Map();
    this.#leases = new Map();
    this.#groups.replaceChildren();
    this.#parameters.replaceChildren();
    void this.#show();
  }

  async #show(): Promise<void> {
    try {
      const apps = await fetchApps();
      this.#list(apps);
      const asked = this.#app;
      if (asked === '') return setText(this.#note, 'No app on this bus can be steered.');
      const app = await fetchApp(asked);
      if (asked !== this.#app) return;
      setText(this.#note, '');
      this.#update(app);
    } catch (error) {
      setAttribute(this.#note, 'data-mood', 'bad');
      setText(this.#note, words(error));
    }
  }

  #list(apps: readonly string[]): void {
    const shown = [...this.#apps.options].map((option) => option.value);
    if (shown.join(' ') !== apps.join(' ')) this.#apps.replaceChildren(...apps.map((app) => el('option', { value: app, text: app })));
    this.#apps.hidden = apps.length === 0;
    if (!apps.includes(this.#app)) this.#choose(apps[0] ?? '');
    this.#apps.value = this.#app;
  }

  #update(app: SteeredApp): void {
    this.#held = new Set(app.parameters.flatMap(({ group, yours }) => (group !== null && yours ? [group] : [])));
    for (const parameter of app.parameters) {
      if (parameter.group !== null && !this.#leases.has(parameter.group)) {
        const row = new LeaseRow(parameter.group, (action) => this.#act(action));
        this.#leases.set(parameter.group, row);
        this.#groups.append(row.element);
      }
      let row = this.#rows.get(parameter.name);
      if (row === undefined) {
        row = new SteeredParameter(app.app, parameter, () => void this.#show());
        this.#rows.set(parameter.name, row);
        this.#parameters.append(row.element);
      }
      row.show(parameter, hindrance(app, parameter));
    }
    for (const [group, row] of this.#leases) {
      const member = app.parameters.find((parameter) => parameter.group === group);
      row.show(member?.holder ?? null, member?.yours ?? false, app);
    }
    this.#stop.show(app);
    setText(this.#account, totalsText(app.totals));
  }

  async #act(action: Action): Promise<string> {
    try {
      await act(this.#app, action);
      await this.#show();
      return '';
    } catch (error) {
      return words(error);
    }
  }
}

/** The lease of a group: who holds it, and the buttons that take it, take it over and release it. */
class LeaseRow {
  readonly #state = el('span', { class: 'steer-facts', role: 'status' });
  readonly #take: HTMLButtonElement;
  readonly #reason: HTMLInputElement;
  readonly #over: HTMLElement;
  readonly #note = el('p', { class: 'steer-note', 'data-mood': 'bad', role: 'status' });
  readonly element: HTMLElement;
  #yours = false;

  constructor(readonly group: string, readonly run: (action: Action) => Promise<string>) {
    this.#take = button('Take', () => void this.#run({ action: this.#yours ? 'release' : 'lease', group }));
    this.#reason = reasonField(`Reason to take over ${group}`);
    this.#over = el('div', { class: 'steer-row' }, this.#reason, button('Take over', () => void this.#run({ action: 'take_over', group, reason: this.#reason.value })));
    const head = el('div', { class: 'steer-head' }, el('span', { class: 'steer-name', text: `Lease of ${group}` }), this.#take);
    this.element = el('section', { class: 'steer-part', 'data-group': group }, head, this.#state, this.#over, this.#note);
  }

  show(holder: string | null, yours: boolean, app: SteeredApp): void {
    this.#yours = yours;
    setText(this.#state, yours ? 'You hold it.' : holder === null ? 'It is free.' : `${holder} holds it.`);
    setText(this.#take, yours ? 'Release' : 'Take');
    this.#take.disabled = holder !== null && !yours;
    this.#over.hidden = holder === null || yours || !app.may.administer;
  }

  async #run(action: Action): Promise<void> {
    setText(this.#note, await this.run(action));
    if (this.#note.textContent === '') this.#reason.value = '';
  }
}

/** The kill switch with its reason. */
class StopSwitch {
  readonly #reason = reasonField('Reason to stop or resume');
  readonly #button: HTMLButtonElement;
  readonly #state = el('p', { class: 'steer-note', role: 'status' });
  readonly #note = el('p', { class: 'steer-note', 'data-mood': 'bad', role: 'status' });
  readonly element: HTMLElement;
  #stopped = false;

  constructor(readonly run: (action: Action) => Promise<string>) {
    this.#button = button('Stop', () => void this.#turn());
    this.element = el('section', { class: 'steer-part steer-stop', 'aria-label': 'Kill switch' }, this.#state, el('div', { class: 'steer-row' }, this.#reason, this.#button), this.#note);
  }

  show(app: SteeredApp): void {
    this.#stopped = app.stopped.app;
    const words = app.stopped.all ? 'Steering of all apps is stopped.' : this.#stopped ? 'Steering is stopped: no command takes effect.' : 'Commands take effect.';
    setText(this.#state, words);
    setAttribute(this.#state, 'data-mood', this.#stopped || app.stopped.all ? 'bad' : null);
    setText(this.#button, this.#stopped ? 'Resume' : 'Stop');
    this.#button.disabled = this.#stopped ? !app.may.administer : !app.may.steer;
  }

  async #turn(): Promise<void> {
    const said = await this.run({ action: this.#stopped ? 'resume' : 'stop', reason: this.#reason.value });
    setText(this.#note, said);
    if (said === '') this.#reason.value = '';
  }
}

function reasonField(label: string): HTMLInputElement {
  return el('input', { placeholder: 'Reason', 'aria-label': label, autocomplete: 'off', maxlength: '200' });
}

const button = (text: string, click: () => void): HTMLButtonElement => el('button', { type: 'button', class: 'word-button submit-button', text, on: { click } });

/** Returns an error in words. */
export function words(error: unknown): string {
  if (error instanceof Refused) return error.help === '' ? error.message : `${error.message}. ${error.help}`;
  return 'The server did not answer.';
}
