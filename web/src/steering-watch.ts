/**
 * Asks for the changes of apps in the stretch of time that is shown: nothing is asked on a bus without a steered app.
 */
import { STEER_PREFIX, type Mark } from './model/steering-marks';
import type { Shown } from './model/window';
import { fetchChanges } from './steer-api';

/** More marks than these in one plot cannot be told apart. */
const MAX_MARKS = 200;
/** After a failure the server is left alone for so long. */
const REST_MS = 10_000;
/** Apps asked for at one time. */
const MAX_APPS = 8;

/** The changes in view. */
export class SteeringWatch {
  #asked = '';
  #busy = false;
  #restsUntil = 0;

  constructor(readonly onMarks: (marks: readonly Mark[]) => void) {}

  /** Looks at a stretch of time again; one that is held and was looked at is not asked for twice. */
  async look(streams: Iterable<string>, stretch: Shown | null): Promise<void> {
    const apps = [...streams].filter((name) => name.startsWith(STEER_PREFIX)).slice(0, MAX_APPS).map((name) => name.slice(STEER_PREFIX.length));
    if (this.#busy || performance.now() < this.#restsUntil || stretch === null || apps.length === 0) return;
    const { from, spanNs } = stretch;
    const key = `${from} ${spanNs} ${apps.join(' ')}`;
    if (key === this.#asked) return;
    this.#busy = true;
    try {
      const found = await Promise.all(apps.map((app) => fetchChanges(app, from, from + spanNs)));
      this.#asked = key;
      this.onMarks(found.flat().slice(-MAX_MARKS));
    } catch {
      // A lost connection is told by the socket; what was found before stays.
      this.#restsUntil = performance.now() + REST_MS;
    }
    this.#busy = false;
  }
}
