/**
 * Completes frames: a following view moves by whole columns, so a frame brings only the columns that the page does not
 * have yet (`kept_columns` in `docs/protocol/page.md`).
 *
 * Complete columns are doubles, whichever form they came in: the painting then has one kind of array to read.
 */
import { MEAN_UNKNOWN, type Columns, type TraceFrame, type ViewFrame } from './frame';
import { MalformedFrame } from './reader';

/** The columns of one trace as last completed. */
interface Held {
  readonly from: bigint;
  readonly column: bigint;
  readonly body: Columns;
}

/** The columns of all traces of all views. */
export class KeptColumns {
  readonly #views = new Map<number, Map<number, Held>>();

  /**
   * Returns the frame with all of its columns, and keeps these for the next one.
   *
   * @throws MalformedFrame when it builds on columns that are not there.
   */
  complete(frame: ViewFrame): ViewFrame {
    const before = this.#views.get(frame.view);
    const now = new Map<number, Held>();
    const traces = frame.traces.map((trace): TraceFrame => {
      if (trace.body.kind !== 'columns') return trace;
      const body = whole(frame, trace.body, before?.get(trace.index));
      now.set(trace.index, { from: frame.from, column: frame.column, body });
      return { ...trace, body };
    });
    this.#views.set(frame.view, now);
    return { ...frame, traces };
  }

  /** Forgets a view. */
  forget(view: number): void {
    this.#views.delete(view);
  }

  /** Forgets all: a frame that could not be read leaves the next one without its predecessor. */
  clear(): void {
    this.#views.clear();
  }
}

function whole(frame: ViewFrame, body: Columns, held: Held | undefined): Columns {
  const { kept, first, count } = body;
  const pairs = new Float64Array(2 * (kept + count));
  const means = body.means === null ? null : new Uint16Array(kept + count);
  if (kept > 0) {
    const { start, body: { pairs: before, means: meansBefore } } = keptFrom(frame, body, held);
    pairs.set(before.subarray(2 * start, 2 * (start + kept)));
    means?.set(meansBefore?.subarray(start, start + kept) ?? new Uint16Array(kept).fill(MEAN_UNKNOWN));
  }
  pairs.set(body.pairs, 2 * kept);
  if (body.means !== null) means?.set(body.means, kept);
  return { kind: 'columns', pairs, means, first: first - kept, count: kept + count, kept: 0 };
}

/** The columns held, and the place in them of the first one kept. */
function keptFrom(frame: ViewFrame, { kept, first }: Columns, held: Held | undefined): { readonly start: number; readonly body: Columns } {
  const moved = held === undefined ? 0n : frame.from - held.from;
  if (held === undefined || held.column !== frame.column || moved % held.column !== 0n) throw new MalformedFrame('kept columns', 0);
  const start = first - kept + Number(moved / held.column) - held.body.first;
  if (start < 0 || start + kept > held.body.count) throw new MalformedFrame('kept columns', 0);
  return { start, body: held.body };
}
