/** Feeds catalogues into the page's real list of streams, and counts what each costs. */
import { StreamList } from '../../../src/ui/stream-list';
import { el } from '../../../src/ui/dom';
import { readPalette } from '../../../src/ui/theme';
import { readStream, type Stream } from '../../../src/wire/messages';
import { countWork } from './harness';

/** What is fed: `beats` catalogues of `streams` streams, of which `losing` lose a sample in each. */
export interface ListLoad {
  readonly streams: number;
  readonly beats: number;
  readonly losing: number;
}

/** What all catalogues but the first made the page do. */
export interface ListCounted {
  readonly rows: number;
  readonly rowsInView: number;
  readonly canvasCalls: number;
  readonly documentChanges: number;
}

declare global {
  interface Window {
    countList(load: ListLoad): ListCounted;
  }
}

const SECONDS = 60;

function streamsAt(beat: number, { streams, losing }: ListLoad): readonly Stream[] {
  const all = Array.from({ length: streams }, (_, i) => readStream({
    stream: `bench/${Math.floor(i / 50)}/${i}`, epoch: '1', state: 'open', dtype: 'f32', elements_per_sample: 1, station: 'a',
    rate: { numerator: 1000, denominator: 1 }, samples_per_s: 1000, channels: [{ name: 'value', unit: 'V', shape: [] }],
    // What a row does not show changes in all of them with each message.
    next_index: 1000 * beat, age_ns: 1_000_000 + 1_000 * beat + i,
    lost_elements: i < losing ? beat : 0, lost_last_hour_elements: i < losing ? beat : 0, health: 'ok',
    spark: Array.from({ length: SECONDS }, (__, s) => [Math.sin(s + beat), Math.sin(s + beat) + 1]),
  }));
  return all.filter((stream) => stream !== null);
}

window.countList = (load) => {
  const scroller = el('div', { id: 'row-scroller' }, el('canvas', { id: 'sparks' }), el('div', { id: 'rows', role: 'tree' }), el('p', { id: 'list-empty' }));
  document.body.append(el('aside', { id: 'list' }, el('input', { id: 'search' }), el('span', { id: 'list-count' }), scroller));
  const nothing = (): void => undefined;
  const list = new StreamList({ onPlot: nothing, onSelect: nothing, onRemark: nothing, onDrag: nothing }, readPalette);
  list.show(streamsAt(0, load));
  const beats = Array.from({ length: load.beats }, (_, beat) => streamsAt(beat + 1, load));
  const { calls, documentChanges } = countWork(() => beats.forEach((streams) => list.show(streams)));
  const rows = [...document.querySelectorAll<HTMLElement>('#rows .row')];
  const view = scroller.getBoundingClientRect();
  const rowsInView = rows.filter((row) => row.offsetTop < view.height).length;
  return { rows: rows.length, rowsInView, canvasCalls: [...calls.values()].reduce((sum, n) => sum + n, 0), documentChanges };
};
