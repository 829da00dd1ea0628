/**
 * Alarms as the server has told them over the live connection: one board for the badge, the list and the panels of the grid.
 */
import { alarmKey, type Alarm, type AlarmNews } from './model/alarms';

/** The alarms. */
export class AlarmBoard {
  #alarms: ReadonlyMap<string, Alarm> = new Map();
  #byInput: ReadonlyMap<string, readonly Alarm[]> = new Map();
  readonly #listeners = new Set<() => void>();

  /** All alarms. */
  get all(): readonly Alarm[] {
    return [...this.#alarms.values()];
  }

  /** Returns the alarms that watch a channel, `stream:channel`. */
  of(input: string): readonly Alarm[] {
    return this.#byInput.get(input) ?? [];
  }

  /** Takes a message: all alarms, or those that have changed. */
  take({ whole, alarms, gone }: AlarmNews): void {
    const now = new Map(whole ? [] : this.#alarms);
    for (const key of gone) now.delete(key);
    for (const alarm of alarms) now.set(alarmKey(alarm), alarm);
    this.#alarms = now;
    const byInput = new Map<string, Alarm[]>();
    for (const alarm of now.values()) byInput.set(alarm.input, [...(byInput.get(alarm.input) ?? []), alarm]);
    this.#byInput = byInput;
    this.#listeners.forEach((listener) => listener());
  }

  /** Calls `listener` after each message, until the function returned is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
